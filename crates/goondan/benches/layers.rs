//! What one layer of an extension costs: in a library of this process, and in JavaScript (Node.js, and Bun where it is there) and
//! Python. Each is measured in the same run as the difference that a hundred layers around a turn make, which do nothing but
//! call `next`; the ratios are to the library.
//!
//! `cargo bench -p goondan --bench layers`

#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs, reason = "a benchmark prints, and may panic")]

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use goondan::spec::Environment;
use goondan::{Input, Swarm};

/// Layers around each turn.
const LAYERS: u32 = 100;
/// Turns of each agent, of which the median counts.
const TURNS: usize = 51;

const JAVASCRIPT: &str = "export function register(api, config) {\n  for (let at = 0; at < config.layers; at++) api.pipeline.register('turn', (ctx) => ctx.next());\n}\n";
const PYTHON: &str = "def register(api, config):\n    async def layer(ctx):\n        return await ctx.next()\n    \
                      for at in range(config[\"layers\"]):\n        api.pipeline.register(\"turn\", layer)\n";

/// A language, what its Extension is, and the program that it takes.
const PLACES: [(&str, &str, &str); 4] = [
    ("library", "entry: ./layers", "cargo"),
    ("node", "entry: ./layers.mjs, runtime: node", "node"),
    ("bun", "entry: ./layers.mjs, runtime: bun", "bun"),
    ("python", "entry: ./layers.py", "python3"),
];

fn project(places: &[(&str, &str, &str)]) -> String {
    let agent = |name: &str, extensions: &str| {
        format!(
            "---\napiVersion: goondan.ai/v1\nkind: Agent\nmetadata: {{name: {name}}}\nspec:\n  modelConfig: {{modelRef: \
             Model/m}}\n  extensions: [{extensions}]\n"
        )
    };
    let mut text =
        "apiVersion: goondan.ai/v1\nkind: Model\nmetadata: {name: m}\nspec: {provider: scripted, model: any, \
                    options: {default: {text: hi}}}\n"
            .to_owned();
    let mut agents = "{ref: Agent/none}".to_owned();
    text.push_str(&agent("none", ""));
    for (name, spec, _) in places {
        text.push_str(&format!(
            "---\napiVersion: goondan.ai/v1\nkind: Extension\nmetadata: {{name: {name}}}\nspec: {{{spec}, config: {{does: \
             passes, layers: {LAYERS}}}}}\n"
        ));
        text.push_str(&agent(name, &format!("{{ref: Extension/{name}}}")));
        agents.push_str(&format!(", {{ref: Agent/{name}}}"));
    }
    text.push_str(&format!(
        "---\napiVersion: goondan.ai/v1\nkind: Swarm\nmetadata: {{name: s}}\nspec: {{entryAgent: Agent/none, agents: [{agents}]}}\n"
    ));
    text
}

fn place_library(project: &Path) {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "-p", "layers"]);
    if !cfg!(debug_assertions) {
        cargo.arg("--release");
    }
    assert!(cargo.status().unwrap().success(), "the library is not built");
    let name = format!("{}layers{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    // This program lies in `deps`, and what others use one folder above.
    let built = std::env::current_exe().unwrap().parent().unwrap().parent().unwrap().join(&name);
    std::fs::copy(built, project.join(name)).unwrap();
}

async fn turn(swarm: &Swarm, agent: &str) -> Duration {
    let input = Input { agent: Some(agent.to_owned()), ..Input::text("hello") };
    let began = Instant::now();
    let result = swarm.send(input).await.unwrap().result().await.unwrap();
    assert_eq!(result.response_text(), "hi", "{agent}");
    began.elapsed()
}

async fn median(swarm: &Swarm, agent: &str) -> Duration {
    // The first one starts what is not started yet.
    turn(swarm, agent).await;
    let mut took = Vec::new();
    for _ in 0..TURNS {
        took.push(turn(swarm, agent).await);
    }
    took.sort();
    took[TURNS / 2]
}

fn main() {
    let is_there = |program: &&str| Command::new(program).arg("--version").output().is_ok();
    let places: Vec<_> = PLACES.into_iter().filter(|(_, _, program)| is_there(program)).collect();
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("project");
    std::fs::create_dir(&root).unwrap();
    std::fs::write(root.join("goondan.yaml"), project(&places)).unwrap();
    std::fs::write(root.join("layers.mjs"), JAVASCRIPT).unwrap();
    std::fs::write(root.join("layers.py"), PYTHON).unwrap();
    place_library(&root);
    let loaded = goondan::load(&root);
    let bundle = loaded.bundle.unwrap_or_else(|| panic!("{:#?}", loaded.diagnostics));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let builder =
            Swarm::builder(bundle).environment(Environment::default()).state_root(folder.path().join("state"));
        let swarm = builder.start().await.unwrap();
        let without = median(&swarm, "none").await;
        println!("a turn without layers: {without:?}");
        let mut library = None;
        for (name, ..) in &places {
            let layer = median(&swarm, name).await.saturating_sub(without) / LAYERS;
            let library = *library.get_or_insert(layer);
            println!(
                "{name:<8} {layer:>10.1?} a layer, {:.1} times the library",
                layer.as_secs_f64() / library.as_secs_f64()
            );
        }
        swarm.shutdown().await;
    });
}
