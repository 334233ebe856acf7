//! Extensions behave equally in each language: all pass the test cases of `layers.case.yaml`.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use crate::nested_cargo::nested_cargo;
use crate::projects::{ECHO, manifest};
use crate::sandbox::Sandbox;
use crate::watch::WatchedSwarm;

/// A language, and the parts of the test cases that do not apply to it.
struct Binding {
    name: &'static str,
    /// `entry` of the Extension, without `./`.
    entry: &'static str,
    /// Writes the entry file into the project.
    write_entry: fn(&Path),
    /// Name prefix of the unused agents in the fixtures. All languages except Python use the agents
    /// of JavaScript.
    other: &'static str,
    /// Required programs.
    programs: &'static [&'static str],
    /// Test cases about runtime processes, or about features that the example lacks.
    excluded: &'static [&'static str],
    /// Number of remaining test cases.
    cases: usize,
}

/// A library has no runtime process, and is not edited as text.
const RUST: &[&str] = &[
    "layers-that-do-not-register",
    "layers-whose-host-ends",
    "layers-are-reloaded",
];
/// In addition, the example in C has no events between extensions, no clock and no cancellation.
const C: &[&str] = &[
    "layers-that-do-not-register",
    "layers-whose-host-ends",
    "layers-are-reloaded",
    "layers-hear-each-other",
    "layers-hear-the-runtime",
    "layers-remember-the-conversation",
    "layers-know-their-turn",
    "layers-that-hang",
];

const BINDINGS: &[Binding] = &[
    Binding {
        name: "rust",
        entry: "layers",
        write_entry: place_rust,
        other: "py",
        programs: &["node"],
        excluded: RUST,
        cases: 16,
    },
    Binding {
        name: "c",
        entry: "clayers",
        write_entry: place_c,
        other: "py",
        programs: &["node", "cc"],
        excluded: C,
        cases: 11,
    },
    Binding {
        name: "typescript",
        entry: "probe.ts",
        write_entry: place_typescript,
        other: "py",
        programs: &["node", "bun"],
        excluded: &[],
        cases: 19,
    },
    Binding {
        name: "python",
        entry: "probe.py",
        write_entry: |_| {},
        other: "js",
        programs: &["node", "python3"],
        excluded: &[],
        cases: 19,
    },
];

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn library(name: &str) -> String {
    format!(
        "{}{name}{}",
        std::env::consts::DLL_PREFIX,
        std::env::consts::DLL_SUFFIX
    )
}

fn place_rust(project: &Path) {
    let mut cargo = nested_cargo();
    // With `goondan-cli` in the command, dependencies are built with the same features as the
    // tests.
    cargo
        .current_dir(repository())
        .args(["build", "--quiet", "-p", "layers", "-p", "goondan-cli"]);
    assert!(cargo.status().unwrap().success());
    let built = Path::new(env!("CARGO_BIN_EXE_gdn")).with_file_name(library("layers"));
    std::fs::copy(built, project.join(library("layers"))).unwrap();
}

fn place_c(project: &Path) {
    let mut compiler = Command::new("cc");
    compiler.args([
        "-shared",
        "-fPIC",
        "-std=c11",
        "-Wall",
        "-Wextra",
        "-Wno-unused-function",
        "-Werror",
        "-I",
    ]);
    compiler
        .arg(repository().join("include"))
        .arg(repository().join("examples/plugins/c-layers/layers.c"));
    assert!(
        compiler
            .arg("-o")
            .arg(project.join(library("clayers")))
            .status()
            .unwrap()
            .success()
    );
}

/// Valid JavaScript is valid TypeScript. The types are tested together with `packages/types`.
fn place_typescript(project: &Path) {
    let text = std::fs::read_to_string(project.join("probe.mjs")).unwrap();
    let (before, after) = text
        .split_once("export function register(api, config)")
        .unwrap();
    let typed = "export function register(api: any, config: Record<string, string>)";
    std::fs::write(project.join("probe.ts"), format!("{before}{typed}{after}")).unwrap();
}

/// Returns `text` without the lines about agents with the prefix `other`, and without the lines
/// indented below them.
fn without_agents(text: &str, other: &str) -> String {
    let marks = [
        format!("{other}-"),
        format!("\"{other}-"),
        format!("\"state:instances/*{other}-"),
    ];
    let sends = [
        format!("- send: {{agent: {other}-"),
        format!("- replace: {{path: probe.{}", &other.replace("js", "mjs")),
    ];
    let mut dropped_at = None;
    let mut kept = String::new();
    for line in text.lines() {
        let trimmed = line.trim_start();
        let indent = line.len() - trimmed.len();
        if dropped_at.is_some_and(|at| indent > at) {
            continue;
        }
        dropped_at = marks
            .iter()
            .chain(&sends)
            .any(|mark| trimmed.starts_with(mark.as_str()))
            .then_some(indent);
        if dropped_at.is_none() {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    kept
}

/// Returns the test cases for one language.
fn cases(binding: &Binding) -> String {
    let all =
        std::fs::read_to_string(repository().join("tests/conformance/layers.case.yaml")).unwrap();
    let missing_tool = "{toolCallId: c, error: {code: E_TOOL_NOT_IN_CATALOG}}";
    let mut cases = Vec::new();
    for case in all.split("\n---\n") {
        let name = case.split_once("case: ").unwrap().1.lines().next().unwrap();
        // `layers-of-several-extensions` is about several languages at once.
        if name == "layers-of-several-extensions" || binding.excluded.contains(&name) {
            continue;
        }
        let mut case = without_agents(case, binding.other).replace("[node, python3]", "[node]");
        case = case.replace("../fixtures/layers", "project");
        case = case.replace(
            &format!("[{missing_tool}, {missing_tool}]"),
            &format!("[{missing_tool}]"),
        );
        if name == "layers-survive-the-end-of-gdn" {
            case = case
                .replace("count: 2", "count: 1")
                .replace("count: 4", "count: 2");
        }
        cases.push(case.replace("path: probe.mjs", &format!("path: {}", binding.entry)));
    }
    assert_eq!(cases.len(), binding.cases, "{}", binding.name);
    cases.join("---\n")
}

#[test]
#[allow(clippy::print_stderr, reason = "reports why a language is skipped")]
fn extension_test_cases_pass_in_each_language() {
    for binding in BINDINGS {
        let is_installed = |program: &&str| Command::new(program).arg("--version").output().is_ok();
        if let Some(missing) = binding
            .programs
            .iter()
            .find(|program| !is_installed(program))
        {
            eprintln!("skipped: {} needs {missing}", binding.name);
            continue;
        }
        let sandbox = Sandbox::new();
        let project = sandbox.dir().join("project");
        std::fs::create_dir(&project).unwrap();
        for file in std::fs::read_dir(repository().join("tests/fixtures/layers")).unwrap() {
            let file = file.unwrap();
            std::fs::copy(file.path(), project.join(file.file_name())).unwrap();
        }
        (binding.write_entry)(&project);
        let bundle = std::fs::read_to_string(project.join("goondan.yaml")).unwrap();
        let bundle = bundle.replace("./probe.mjs", &format!("./{}", binding.entry));
        let bundle = if binding.name == "typescript" {
            bundle.replace(".ts, ", ".ts, runtime: bun, ")
        } else {
            bundle
        };
        std::fs::write(project.join("goondan.yaml"), bundle).unwrap();
        sandbox.write("layers.case.yaml", &cases(binding));
        let outcome = sandbox.gdn(&["test", "layers.case.yaml"]);
        let passed = format!("{} passed, 0 failed\n", binding.cases);
        assert!(
            outcome.stdout.ends_with(&passed),
            "{}: {}\n{}",
            binding.name,
            outcome.stdout,
            outcome.stderr
        );
    }
}

/// Compiles the example in C with a turn layer that answers with `word`.
fn compile(word: &str, to: &Path) {
    let example =
        std::fs::read_to_string(repository().join("examples/plugins/c-layers/layers.c")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("layers.c");
    std::fs::write(&source, example.replace("an answer of mine", word)).unwrap();
    let mut compiler = Command::new("cc");
    compiler
        .args(["-shared", "-fPIC", "-I"])
        .arg(repository().join("include"))
        .arg("-I");
    compiler
        .arg(repository().join("examples/plugins/c-layers"))
        .arg(source)
        .arg("-o")
        .arg(to);
    assert!(compiler.status().unwrap().success());
}

#[test]
fn a_reloaded_library_applies_to_the_next_turn_only() {
    let sandbox = Sandbox::new();
    let model = "{provider: scripted, model: any, options: {script: script.yaml}}";
    let text = manifest(
        model,
        "extensions: [{ref: Extension/say}]\n  permissions: {default: allow}",
    );
    let extension = "---\napiVersion: goondan.ai/v1\nkind: Extension\nmetadata: {name: say}\nspec:\n  \
                     entry: ./lib/say\n  config: {does: edits}\n";
    sandbox.write("p/goondan.yaml", &format!("{text}{extension}"));
    let go = sandbox.dir().join("go");
    let script = format!(
        "rules:\n  - when: {{role: user, contains: hold}}\n    reply: {{calls: [{{id: c, tool: bash__exec, args: \
         {{command: 'until [ -e {} ]; do sleep 0.05; done'}}}}]}}\ndefault: {{text: unheard}}\n",
        go.display()
    );
    sandbox.write("p/script.yaml", &script);
    std::fs::create_dir_all(sandbox.dir().join("p/lib")).unwrap();
    let file = sandbox.dir().join("p/lib").join(library("say"));
    compile("the old words", &file);
    let mut running = WatchedSwarm::start(&sandbox, &["--watch"]);
    assert_eq!(running.ask("now?"), "the old words");
    running.send("hold on");
    running.until("tool.called");
    compile("the new words", &file);
    let reload = running.reload();
    assert_eq!(reload["changed"], json!(["Extension/say"]), "{reload}");
    std::fs::write(go, "").unwrap();
    assert_eq!(running.until("result")["response"], "the old words");
    assert_eq!(running.ask("and now?"), "the new words");
    running.end();
}

#[test]
fn a_panic_in_a_layer_fails_only_its_turn() {
    let sandbox = Sandbox::new();
    let model = "{provider: scripted, model: any, options: {script: script.yaml}}";
    let text = manifest(model, "extensions: [{ref: Extension/layers}]");
    let extension = "---\napiVersion: goondan.ai/v1\nkind: Extension\nmetadata: {name: layers}\nspec:\n  \
                     entry: ./layers\n  config: {does: panics}\n";
    sandbox.write("p/goondan.yaml", &format!("{text}{extension}"));
    sandbox.write("p/script.yaml", ECHO);
    place_rust(&sandbox.dir().join("p"));
    let mut running = WatchedSwarm::start(&sandbox, &[]);
    running.send("panic");
    let result = running.until("result");
    assert_eq!(result["error"]["code"], "E_EXT_FAILED", "{result}");
    assert!(
        result["error"]["message"]
            .as_str()
            .unwrap()
            .contains("no panic today"),
        "{result}"
    );
    assert_eq!(running.ask("still there?"), "heard still there?");
    running.end();
}

#[test]
fn a_library_without_an_extension_is_rejected_at_start() {
    let sandbox = Sandbox::new();
    let model = "{provider: scripted, model: any, options: {script: script.yaml}}";
    let text = manifest(model, "extensions: [{ref: Extension/reverse}]");
    let extension = "---\napiVersion: goondan.ai/v1\nkind: Extension\nmetadata: {name: reverse}\nspec: {entry: ./reverse}\n";
    sandbox.write("p/goondan.yaml", &format!("{text}{extension}"));
    sandbox.write("p/script.yaml", ECHO);
    let missing = sandbox.gdn(&["validate", "p", "--format", "short"]);
    assert!(
        missing.stdout.contains("E_CONFIG_ENTRY_NOT_FOUND"),
        "{missing:#?}"
    );
    // This library has only tools, as in version 1.0 of the ABI. `validate` does not load it.
    let mut compiler = Command::new("cc");
    compiler
        .args(["-shared", "-fPIC", "-I"])
        .arg(repository().join("include"));
    compiler.arg(repository().join("examples/plugins/c-reverse/reverse.c"));
    assert!(
        compiler
            .arg("-o")
            .arg(sandbox.dir().join("p").join(library("reverse")))
            .status()
            .unwrap()
            .success()
    );
    sandbox.gdn(&["validate", "p"]).ok();
    let refused = sandbox.gdn(&["run", "p", "--input", "hello"]);
    assert_ne!(refused.code, 0);
    assert!(
        refused.stderr.contains("has no extension") && refused.stderr.contains("export_extension!"),
        "{refused:#?}"
    );
}
