//! A load with cached files gives the same bundle, diagnostics and snapshot as a load without a
//! cache.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use super::support::base;
use goondan_spec::{
    Bundle, BundleSnapshot, Environment, Fingerprint, Fingerprints, KnownFiles, LoadInput,
    LoadResult, MemoryFiles, ResourceId, SnapshotBasis, diff, load, load_again,
};
use proptest::prelude::*;

/// Contents of a tool file. Some are equal after decoding, or differ only in the order of keys,
/// which is visible to models.
const TOOLS: &[&str] = &[
    "",
    "# nothing yet\n",
    "{HEAD}spec: {entry: 'builtin:bash', exports: [{name: exec, parameters: {type: object, properties: {a: {}, b: {}}}}]}\n",
    "{HEAD}spec: {entry: 'builtin:bash', exports: [{name: exec, parameters: {type: object, properties: {b: {}, a: {}}}}]}\n",
    "# a comment\n{HEAD}spec: {entry: 'builtin:bash', exports: [{name: exec, parameters: {type: object, properties: {b: {}, a: {}}}}]}\n",
    "{HEAD}spec: {entry: 'builtin:bash', config: {token: {valueFrom: {env: TOKEN}}}}\n",
    "{HEAD}spec: {entry: 'builtin:bash', timeoutMs: 5000}\n",
    "{HEAD}spec: {entry: lib/t.so}\n",
    "{HEAD}spec: {entry: 'builtin:none'}\n",
    "{HEAD}spec: [\n",
    "{HEAD}spec: {entry: 'builtin:bash'}\n---\n{HEAD}spec: {entry: 'builtin:bash'}\n",
];
const PROMPTS: &[&str] = &["Be brief.", "Be long.", ""];
/// The first document of the project. Its package name is part of the resource IDs.
const PACKAGES: &[&str] = &[
    "",
    "apiVersion: goondan.ai/v1\nkind: Package\nmetadata: {name: '@a/b'}\n---\n",
    "apiVersion: goondan.ai/v1\nkind: Package\nmetadata: {name: '@a/c'}\n---\n",
];
/// Contents of the library file; `None` if the file is missing.
const LIBRARIES: &[Option<&str>] = &[Some("a library"), Some("another library"), None];
const AGENTS: &[&str] = &[
    "[]",
    "[{ref: Tool/t0}]",
    "[{ref: Tool/t0}, {ref: Tool/t1}, {ref: Tool/bash}]",
];

/// Indexes of the contents of each file.
#[derive(Debug, Clone)]
struct Edit {
    tools: [usize; 3],
    prompt: usize,
    agent: usize,
    package: usize,
    library: usize,
    token: u8,
}

fn edits() -> impl Strategy<Value = Vec<Edit>> {
    let texts = (
        prop::array::uniform3(0..TOOLS.len()),
        0..PROMPTS.len(),
        0..AGENTS.len(),
        0..PACKAGES.len(),
    );
    let edit = (texts, 0..LIBRARIES.len(), 0..2u8).prop_map(
        |((tools, prompt, agent, package), library, token)| Edit {
            tools,
            prompt,
            agent,
            package,
            library,
            token,
        },
    );
    prop::collection::vec(edit, 2..6)
}

fn files(edit: &Edit) -> MemoryFiles {
    let project = format!(
        "{}apiVersion: goondan.ai/v1\nkind: Model\nmetadata: {{name: m}}\nspec: {{provider: scripted, model: script}}\n---\n\
         apiVersion: goondan.ai/v1\nkind: Agent\nmetadata: {{name: a}}\n\
         spec: {{modelConfig: {{modelRef: Model/m}}, prompt: {{systemRef: prompt.md}}, tools: {}}}\n---\n\
         apiVersion: goondan.ai/v1\nkind: Swarm\nmetadata: {{name: default}}\n\
         spec: {{entryAgent: Agent/a, agents: [{{ref: Agent/a}}]}}\n",
        PACKAGES[edit.package], AGENTS[edit.agent]
    );
    let mut files = MemoryFiles::new()
        .file("/p/goondan.yaml", project)
        .file("/p/prompt.md", PROMPTS[edit.prompt]);
    if let Some(library) = LIBRARIES[edit.library] {
        files = files.file("/p/lib/t.so", library);
    }
    for (number, text) in edit.tools.iter().enumerate() {
        let head =
            format!("apiVersion: goondan.ai/v1\nkind: Tool\nmetadata: {{name: t{number}}}\n");
        let text = TOOLS[*text].replace("{HEAD}", &head);
        if !text.is_empty() {
            files = files.file(format!("/p/tools/{number}.yaml"), text);
        }
    }
    files
}

/// Returns a text with everything that is visible in a load result.
fn visible_result(loaded: &LoadResult) -> String {
    let of_bundle = |bundle: &Bundle| {
        let tools = bundle.tools();
        let (swarms, files, builds) = (bundle.swarms(), bundle.files(), bundle.builds());
        let fields = [
            "spec.entry",
            "spec.exports[0].name",
            "spec.exports[0].parameters",
        ];
        let places: Vec<_> = tools
            .keys()
            .flat_map(|id| fields.map(|field| bundle.place(id, field)))
            .collect();
        format!(
            "{:?} {:?} {tools:?} {swarms:?} {files:?} {builds:?} {places:?}",
            bundle.models(),
            bundle.agents()
        )
    };
    let texts: Vec<_> = loaded
        .sources
        .files()
        .map(|file| (file, loaded.sources.get(file)))
        .collect();
    format!(
        "{:?} {:?} {texts:?}",
        loaded.diagnostics,
        loaded.bundle.as_ref().map(of_bundle)
    )
}

fn contents(bundle: &Bundle, edit: &Edit) -> Fingerprints {
    let library = |id: &ResourceId| (id.clone(), Fingerprint::of_bytes(&[edit.library as u8]));
    let tools = bundle
        .tools()
        .values()
        .filter(|tool| format!("{:?}", tool.spec.entry).contains("Library"));
    tools
        .map(|tool| library(&tool.id))
        .collect::<HashMap<_, _>>()
}

fn swarm_of(bundle: &Bundle) -> ResourceId {
    bundle
        .choose_swarm(None)
        .expect("each edit has one swarm")
        .id
        .clone()
}

fn basis(bundle: &Arc<Bundle>, edit: &Edit, before: Option<&SnapshotBasis>) -> SnapshotBasis {
    let environment: Environment = [("TOKEN".to_owned(), edit.token.to_string())]
        .into_iter()
        .collect();
    SnapshotBasis::new(
        Arc::clone(bundle),
        &swarm_of(bundle),
        contents(bundle, edit),
        &environment,
        before,
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]
    #[test]
    fn a_cached_load_equals_a_fresh_load(edits in edits()) {
        let (base, known) = (base(), KnownFiles::default());
        let mut before: Option<(SnapshotBasis, Arc<Bundle>)> = None;
        for edit in &edits {
            let files = files(edit);
            let input = LoadInput { root: Path::new("/p"), files: &files, base: &base };
            let cached = load_again(input, &known);
            prop_assert_eq!(visible_result(&cached), visible_result(&load(input)));
            let Some(bundle) = cached.bundle.map(Arc::new) else { continue };
            let fresh = basis(&bundle, edit, None);
            let next = basis(&bundle, edit, before.as_ref().map(|(before, _)| before));
            prop_assert_eq!(next.snapshot(), fresh.snapshot());
            let swarm = swarm_of(&bundle);
            prop_assert_eq!(next.without_values(&swarm), BundleSnapshot::of(&bundle, &swarm, &contents(&bundle, edit), None));
            if let Some((old, old_bundle)) = &before {
                let changed = diff(old.snapshot(), next.snapshot()).changed;
                for id in next.unchanged_tools(old) {
                    prop_assert_eq!(
                        format!("{:?}", bundle.tools()[&id].spec),
                        format!("{:?}", old_bundle.tools()[&id].spec)
                    );
                    let is_changed = changed.contains(&format!("Tool/{}", id.name));
                    prop_assert!(id.is_base() || !is_changed, "{id} is among {changed:?}");
                }
            }
            before = Some((next, bundle));
        }
    }
}
