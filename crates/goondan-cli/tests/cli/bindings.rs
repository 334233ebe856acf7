//! An extension behaves the same in whatever language it is written: the cases of `layers.case.yaml` hold for each.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use crate::nested_cargo::nested_cargo;
use crate::projects::{ECHO, manifest};
use crate::sandbox::Sandbox;
use crate::watch::Watching;

/// A language, and what of the cases is not about it.
struct Binding {
    name: &'static str,
    /// The file that the Extension names.
    entry: &'static str,
    /// Puts that file into the project.
    place: fn(&Path),
    /// The agents of the fixtures that are not used: those of JavaScript stand for all others but Python.
    other: &'static str,
    /// What has to be there.
    needs: &'static [&'static str],
    /// Cases that are about the processes of files, or about what the example does not do.
    without: &'static [&'static str],
    /// So many are left.
    cases: usize,
}

/// No process ends with a library, and a library is not edited as a text.
const RUST: &[&str] = &[
    "layers-that-do-not-register",
    "layers-whose-host-ends",
    "layers-are-reloaded",
];
/// And the example in C has no events between extensions, no clock, and no cancels.
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
        place: place_rust,
        other: "py",
        needs: &["node"],
        without: RUST,
        cases: 16,
    },
    Binding {
        name: "c",
        entry: "clayers",
        place: place_c,
        other: "py",
        needs: &["node", "cc"],
        without: C,
        cases: 11,
    },
    Binding {
        name: "typescript",
        entry: "probe.ts",
        place: place_typescript,
        other: "py",
        needs: &["node", "bun"],
        without: &[],
        cases: 19,
    },
    Binding {
        name: "python",
        entry: "probe.py",
        place: |_| {},
        other: "js",
        needs: &["node", "python3"],
        without: &[],
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
    // The command is named so that what lies below is built with the features that it has there.
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

/// What is valid in JavaScript is valid in TypeScript; the types are what `packages/types` is checked with.
fn place_typescript(project: &Path) {
    let text = std::fs::read_to_string(project.join("probe.mjs")).unwrap();
    let (before, after) = text
        .split_once("export function register(api, config)")
        .unwrap();
    let typed = "export function register(api: any, config: Record<string, string>)";
    std::fs::write(project.join("probe.ts"), format!("{before}{typed}{after}")).unwrap();
}

/// `text` without the lines about `other`, and what is indented below them.
fn without(text: &str, other: &str) -> String {
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
        let said = line.trim_start();
        let indent = line.len() - said.len();
        if dropped_at.is_some_and(|at| indent > at) {
            continue;
        }
        dropped_at = marks
            .iter()
            .chain(&sends)
            .any(|mark| said.starts_with(mark.as_str()))
            .then_some(indent);
        if dropped_at.is_none() {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    kept
}

/// The cases, for one language.
fn cases(binding: &Binding) -> String {
    let all =
        std::fs::read_to_string(repository().join("tests/conformance/layers.case.yaml")).unwrap();
    let narrowed = "{toolCallId: c, error: {code: E_TOOL_NOT_IN_CATALOG}}";
    let mut cases = Vec::new();
    for case in all.split("\n---\n") {
        let name = case.split_once("case: ").unwrap().1.lines().next().unwrap();
        // That one is about several languages at once.
        if name == "layers-of-several-extensions" || binding.without.contains(&name) {
            continue;
        }
        let mut case = without(case, binding.other).replace("[node, python3]", "[node]");
        case = case.replace("../fixtures/layers", "project");
        case = case.replace(
            &format!("[{narrowed}, {narrowed}]"),
            &format!("[{narrowed}]"),
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
#[allow(clippy::print_stderr, reason = "it says why a language is skipped")]
fn the_same_cases_hold_in_each_language() {
    for binding in BINDINGS {
        let is_there = |program: &&str| Command::new(program).arg("--version").output().is_ok();
        if let Some(missing) = binding.needs.iter().find(|program| !is_there(program)) {
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
        (binding.place)(&project);
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

/// The example in C, whose layer around a turn answers with `word`.
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
fn a_new_library_is_for_the_next_turn_and_the_old_one_ends_its_own() {
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
    let mut running = Watching::start(&sandbox, &["--watch"]);
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
fn a_panic_in_a_layer_ends_its_turn_and_nothing_else() {
    let sandbox = Sandbox::new();
    let model = "{provider: scripted, model: any, options: {script: script.yaml}}";
    let text = manifest(model, "extensions: [{ref: Extension/layers}]");
    let extension = "---\napiVersion: goondan.ai/v1\nkind: Extension\nmetadata: {name: layers}\nspec:\n  \
                     entry: ./layers\n  config: {does: panics}\n";
    sandbox.write("p/goondan.yaml", &format!("{text}{extension}"));
    sandbox.write("p/script.yaml", ECHO);
    place_rust(&sandbox.dir().join("p"));
    let mut running = Watching::start(&sandbox, &[]);
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
fn what_is_no_library_with_an_extension_is_told() {
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
    // One with tools alone, as version 1.0 of the contract knew them. Checking it loads no code.
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
