//! Modules in every runtime that is installed: handlers that do what none should, what people see of a result, and what is told
//! where a runtime is missing.

use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::projects::manifest;
use crate::sandbox::Sandbox;

const RUNTIMES: [&str; 4] = ["node", "bun", "deno", "python"];

fn fixture(file: &str) -> String {
    let folder =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/hostile-handlers");
    std::fs::read_to_string(folder.join(file)).unwrap()
}

/// The runtimes that are there; says which are not.
#[allow(clippy::print_stderr, reason = "it says why a runtime is skipped")]
fn runtimes() -> impl Iterator<Item = &'static str> {
    RUNTIMES.into_iter().filter(|runtime| {
        let program = if *runtime == "python" {
            "python3"
        } else {
            runtime
        };
        let is_there = Command::new(program).arg("--version").output().is_ok();
        if !is_there {
            eprintln!("skipped: there is no {program}");
        }
        is_there
    })
}

/// A tool in a file of the runtime's language.
fn entry(runtime: &str) -> &'static str {
    if runtime == "python" {
        "handlers.py"
    } else {
        "handlers.mjs"
    }
}

#[test]
fn a_handler_that_does_what_none_should_ends_its_call_and_nothing_else() {
    for runtime in runtimes() {
        let sandbox = Sandbox::new();
        let bundle =
            fixture("goondan.yaml").replace("runtime: node", &format!("runtime: {runtime}"));
        sandbox.write(
            "p/goondan.yaml",
            &bundle.replace("handlers.mjs", entry(runtime)),
        );
        sandbox.write(&format!("p/{}", entry(runtime)), &fixture(entry(runtime)));
        let mut cases = String::new();
        for line in fixture("steps.yaml")
            .lines()
            .filter_map(|line| line.strip_prefix("- ["))
        {
            let (tool, line) = line.strip_suffix(']').unwrap().split_once(", ").unwrap();
            let (how, expected) = line.split_once(", ").unwrap();
            write!(
                cases,
                "---\ncase: {how}\nabout: A handler that {how}.\nrules: [T6]\nproject: p\nmodels: {{a: []}}\nsteps:\n  - call: \
                 {{tool: {tool}__act, args: {{how: {how}}}}}\n    expect: {expected}\n  - call: {{tool: t__greet, args: {{}}}}\n    \
                 expect: {{status: ok, output: hello}}\n"
            )
            .unwrap();
        }
        sandbox.write("hostile.case.yaml", &cases);
        let outcome = sandbox.gdn(&["test", "hostile.case.yaml"]);
        let passed = format!(
            "{} passed, 0 failed\n",
            fixture("steps.yaml").matches("\n- [").count()
        );
        assert!(
            outcome.stdout.ends_with(&passed),
            "{runtime}: {}\n{}",
            outcome.stdout,
            outcome.stderr
        );
    }
}

/// Programs work elsewhere, so a path from where `gdn` runs means nothing to them.
#[test]
fn programs_are_told_where_the_project_is_by_whole_paths() {
    let sandbox = Sandbox::new();
    let more = "
---
apiVersion: goondan.ai/v1
kind: Tool
metadata: {name: custom-tools}
spec: {entry: \"builtin:custom-tools\"}
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: a}
spec: {modelConfig: {modelRef: Model/m}, permissions: {default: allow}, workdir: project, tools: [{ref: Tool/custom-tools}]}
---
apiVersion: goondan.ai/v1
kind: Swarm
metadata: {name: default}
spec: {entryAgent: Agent/a, agents: [{ref: Agent/a}]}
";
    let model = "apiVersion: goondan.ai/v1\nkind: Model\nmetadata: {name: m}\nspec: {provider: scripted, model: any}\n";
    sandbox.write("p/goondan.yaml", &format!("{model}{}", more.trim_start()));
    let manifest = "name: where\ndescription: Says where it is.\nversion: 1.0.0\nentrypoint: where\nparameters: []\n";
    sandbox.write("p/tools/where/tool.yaml", manifest);
    sandbox.write(
        "p/tools/where/where",
        "#!/bin/sh\nprintf '%s %s' \"$GOONDAN_PROJECT\" \"$GOONDAN_WORKSPACE\"\n",
    );
    let program = sandbox.dir().join("p/tools/where/where");
    std::fs::set_permissions(program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let arguments = [
        "tool",
        "call",
        "custom-tools__run",
        "-p",
        "p",
        "--args",
        r#"{"tool_name": "where"}"#,
    ];
    let outcome = sandbox.gdn(&arguments);
    let told: Value = serde_json::from_str(outcome.ok()).unwrap();
    let folder = sandbox.dir().join("p").display().to_string();
    assert_eq!(told["stdout"], format!("{folder} {folder}"), "{outcome:?}");
}

const TELLING_JS: &str = "
export const handlers = {
  tell(ctx) {
    ctx.logger.info('a line of the log', { number: 7 });
    ctx.progress({ title: 'half of it', metadata: { done: 0.5 } });
    ctx.progress({ title: 'more of it', metadata: null });
    return ctx.output('told', { title: 'Told all of it', metadata: { count: 3 } });
  },
};
";

const TELLING_PYTHON: &str = "
def tell(ctx, input):
    ctx.logger.info('a line of the log', number=7)
    ctx.progress({'title': 'half of it', 'metadata': {'done': 0.5}})
    ctx.progress({'title': 'more of it', 'metadata': None})
    return ctx.output('told', title='Told all of it', metadata={'count': 3})


handlers = {'tell': tell}
";

const TELLING: &str = "\
rules:
  - when: {role: user}
    reply: {calls: [{id: c, tool: t__tell, args: {}}]}
  - when: {role: tool}
    reply: {text: done}
";

/// A project whose only tool is in a module.
fn telling(runtime: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    let model = "{provider: scripted, model: any, options: {script: script.yaml}}";
    let project = manifest(model, "permissions: {default: allow}")
        .replace("{ref: Tool/bash}", "{ref: Tool/t}");
    let tool = format!(
        "---\napiVersion: goondan.ai/v1\nkind: Tool\nmetadata: {{name: t}}\nspec:\n  entry: ./{}\n  runtime: {runtime}\n  \
         exports: [{{name: tell, description: Tells., parameters: {{type: object}}}}]\n",
        entry(runtime)
    );
    sandbox.write("p/goondan.yaml", &(project + &tool));
    sandbox.write("p/script.yaml", TELLING);
    sandbox.write("p/handlers.mjs", TELLING_JS);
    sandbox.write("p/handlers.py", TELLING_PYTHON);
    sandbox
}

#[test]
fn what_people_see_of_a_result_is_the_same_from_every_runtime() {
    for runtime in runtimes() {
        let sandbox = telling(runtime);
        let run = sandbox.gdn(&[
            "run",
            "p",
            "--input",
            "go",
            "--output-format",
            "stream-json",
        ]);
        let events: Vec<Value> = run
            .stdout
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let of = |kind: &str| {
            let found = events.iter().find(|event| event["type"] == kind);
            found.unwrap_or_else(|| panic!("{runtime}: no {kind}: {run:#?}"))
        };
        let progress = of("tool.progress");
        assert!(
            progress["title"] == "half of it" && progress["metadata"]["done"] == 0.5,
            "{runtime}: {progress}"
        );
        let completed = of("tool.completed");
        assert!(
            completed["title"] == "Told all of it"
                && completed["metadata"]["count"] == 3
                && completed["output"] == "told",
            "{runtime}: {completed}"
        );
        // What a person sees while it runs, what the log has, and what is looked up later. Studio gets the events above.
        let shown = sandbox.gdn(&["run", "p", "--input", "go", "-v"]);
        assert!(
            shown.stderr.contains("Told all of it"),
            "{runtime}: {shown:#?}"
        );
        let logged = sandbox.gdn(&["run", "p", "--input", "go", "-vv"]);
        assert!(
            logged.stderr.contains("a line of the log") && logged.stderr.contains("\"number\":7"),
            "{runtime}: {logged:#?}"
        );
        let logs = sandbox.gdn(&["logs", "--project", "p"]);
        assert!(
            logs.stdout.contains("Told all of it"),
            "{runtime}: {logs:#?}"
        );
    }
}

/// A program that leaves a trace where it is started.
fn place_trap(folder: &Path, name: &str) {
    let program = folder.join(name);
    std::fs::write(
        &program,
        format!("#!/bin/sh\necho started > '{}/trace'\n", folder.display()),
    )
    .unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn validating_starts_nothing_and_says_which_runtime_is_missing() {
    for (runtime, called) in RUNTIMES
        .into_iter()
        .zip(["Node.js", "Bun", "Deno", "Python 3"])
    {
        let sandbox = telling(runtime);
        let extension = format!(
            "---\napiVersion: goondan.ai/v1\nkind: Extension\nmetadata: {{name: e}}\nspec: {{entry: ./{}, runtime: {runtime}}}\n",
            entry(runtime)
        );
        let bundle = std::fs::read_to_string(sandbox.dir().join("p/goondan.yaml")).unwrap();
        sandbox.write(
            "p/goondan.yaml",
            &(bundle.replace(
                "permissions:",
                "extensions: [{ref: Extension/e}]\n  permissions:",
            ) + &extension),
        );
        let bin = sandbox.dir().join("bin");
        std::fs::create_dir(&bin).unwrap();
        let validate = || {
            let mut command = sandbox.command(&["validate", "p"]);
            command.env("PATH", &bin);
            sandbox.finished(command)
        };
        let missing = validate();
        let told = format!("{missing:?}");
        assert!(
            told.matches(&format!("needs {called}, which is not installed"))
                .count()
                >= 2,
            "{missing:#?}"
        );
        for name in ["node", "bun", "deno", "python3", "python", "sh"] {
            place_trap(&bin, name);
        }
        validate().ok();
        assert!(
            !bin.join("trace").exists(),
            "validating has started a program"
        );
    }
}
