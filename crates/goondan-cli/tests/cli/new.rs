//! `gdn new`.

use std::path::Path;
use std::process::Command;

use crate::projects::{ECHO, scripted};
use crate::sandbox::Sandbox;

/// The commands that are printed behind `Next:`, without `gdn`.
fn next(printed: &str) -> Vec<Vec<String>> {
    let (_, commands) = printed.split_once("Next:\n").unwrap();
    let words = |line: &str| {
        line.trim()
            .strip_prefix("gdn ")
            .unwrap()
            .split(' ')
            .map(str::to_owned)
            .collect()
    };
    commands.lines().map(words).collect()
}

/// Does what the scaffold says, and checks that it works.
fn follow(sandbox: &Sandbox, printed: &str) {
    let [build, test, run] = next(printed).try_into().unwrap();
    let gdn = |words: &[String]| {
        sandbox.gdn_building(&words.iter().map(String::as_str).collect::<Vec<_>>())
    };
    assert!(gdn(&build).ok().starts_with("Built Tool/"));
    assert!(gdn(&test).ok().ends_with("1 passed, 0 failed\n"));
    assert_eq!(gdn(&run).ok(), "desserts\n");
}

/// A tool in a language that a runtime reads needs no build.
fn follow_module(lang: &str) {
    let sandbox = Sandbox::new();
    let printed = sandbox
        .gdn(&["new", "tool", "word-play", "--lang", lang])
        .ok()
        .to_owned();
    sandbox
        .settings()
        .bind(|| insta::assert_snapshot!(format!("new tool in {lang}"), printed));
    let [test, run] = next(&printed).try_into().unwrap();
    let gdn = |words: &[String]| {
        sandbox.gdn_building(&words.iter().map(String::as_str).collect::<Vec<_>>())
    };
    assert!(gdn(&test).ok().ends_with("1 passed, 0 failed\n"));
    assert_eq!(gdn(&run).ok(), "desserts\n");
}

/// An extension in a library is built first.
fn follow_library(lang: &str) {
    let sandbox = Sandbox::new();
    let printed = sandbox
        .gdn(&["new", "extension", "turn-count", "--lang", lang])
        .ok()
        .to_owned();
    sandbox
        .settings()
        .bind(|| insta::assert_snapshot!(format!("new extension in {lang}"), printed));
    if lang == "rust" {
        lock(&sandbox.dir().join("extensions/turn-count"));
    }
    let [build, test, run] = next(&printed).try_into().unwrap();
    let gdn = |words: &[String]| {
        sandbox.gdn_building(&words.iter().map(String::as_str).collect::<Vec<_>>())
    };
    assert!(gdn(&build).ok().starts_with("Built Extension/turn-count"));
    assert!(gdn(&test).ok().ends_with("1 passed, 0 failed\n"));
    assert_eq!(gdn(&run).ok(), "Hello.\n");
}

#[test]
fn an_extension_in_rust_builds_and_runs_as_it_is() {
    follow_library("rust");
}

#[test]
fn an_extension_in_c_builds_and_runs_as_it_is() {
    if has("cc", &[]) {
        follow_library("c");
    }
}

/// The same of an extension; and in a project, which gets a resource of it.
fn follow_extension(lang: &str) {
    let sandbox = Sandbox::new();
    let printed = sandbox
        .gdn(&["new", "extension", "turn-count", "--lang", lang])
        .ok()
        .to_owned();
    sandbox
        .settings()
        .bind(|| insta::assert_snapshot!(format!("new extension in {lang}"), printed));
    let [test, run] = next(&printed).try_into().unwrap();
    let gdn = |words: &[String]| {
        sandbox.gdn_building(&words.iter().map(String::as_str).collect::<Vec<_>>())
    };
    assert!(gdn(&test).ok().ends_with("1 passed, 0 failed\n"));
    assert_eq!(gdn(&run).ok(), "Hello.\n");
    let around = scripted(ECHO);
    let project = std::fs::read_to_string(around.dir().join("p/goondan.yaml")).unwrap();
    around.write("goondan.yaml", &project);
    around.write("script.yaml", ECHO);
    std::fs::remove_dir_all(around.dir().join("p")).unwrap();
    around
        .gdn(&["new", "extension", "turn-count", "--lang", lang])
        .ok();
    assert!(around.dir().join("extensions/turn-count.yaml").is_file());
    around.gdn(&["validate"]).ok();
}

/// Whether `program` says a version, and one of `versions` where some are given.
#[allow(clippy::print_stderr, reason = "it says why a test is skipped")]
fn has(program: &str, versions: &[&str]) -> bool {
    let said = Command::new(program)
        .arg("--version")
        .output()
        .map(|said| String::from_utf8_lossy(&said.stdout).into_owned());
    let is_there = said.is_ok_and(|said| {
        versions.is_empty() || versions.iter().any(|version| said.starts_with(version))
    });
    if !is_there {
        eprintln!("skipped: there is no {program} {}", versions.join(" or "));
    }
    is_there
}

#[test]
fn an_extension_in_javascript_runs_as_it_is() {
    if has("node", &[]) {
        follow_extension("js");
    }
}

#[test]
fn a_tool_in_javascript_runs_as_it_is() {
    if has("node", &[]) {
        follow_module("js");
    }
}

#[test]
fn an_extension_in_typescript_runs_as_it_is() {
    if has("bun", &[]) || has("node", &["v23.", "v24.", "v25."]) {
        follow_extension("ts");
    }
}

#[test]
fn a_tool_in_typescript_runs_as_it_is() {
    if has("bun", &[]) || has("node", &["v23.", "v24.", "v25."]) {
        follow_module("ts");
    }
}

#[test]
fn an_extension_in_python_runs_as_it_is() {
    if has("python3", &[]) {
        follow_extension("python");
    }
}

#[test]
fn a_tool_in_python_runs_as_it_is() {
    if has("python3", &[]) {
        follow_module("python");
    }
}

/// What a new crate would look up in the registry is what this workspace is locked to.
fn lock(folder: &Path) {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::fs::copy(workspace.join("Cargo.lock"), folder.join("Cargo.lock")).unwrap();
}

#[test]
fn a_tool_in_rust_builds_and_runs_as_it_is() {
    let sandbox = scripted(ECHO);
    let printed = sandbox
        .gdn(&["new", "tool", "word-play", "--lang", "rust"])
        .ok()
        .to_owned();
    sandbox
        .settings()
        .bind(|| insta::assert_snapshot!("new tool in rust", printed));
    lock(&sandbox.dir().join("tools/word-play"));
    follow(&sandbox, &printed);
}

#[test]
fn a_tool_in_c_builds_and_runs_as_it_is() {
    if Command::new("cc").arg("--version").output().is_err() {
        eprintln!("skipped: there is no C compiler `cc`");
        return;
    }
    let sandbox = Sandbox::new();
    let printed = sandbox
        .gdn(&[
            "new",
            "tool",
            "word-play",
            "--lang",
            "c",
            "--path",
            "my tools/wp",
        ])
        .ok()
        .to_owned();
    sandbox
        .settings()
        .bind(|| insta::assert_snapshot!("new tool in c", printed));
    let plain = sandbox
        .gdn(&["new", "tool", "word-play", "--lang", "c", "--path", "wp"])
        .ok()
        .to_owned();
    follow(&sandbox, &plain);
}

#[test]
fn the_project_around_gets_a_resource() {
    let sandbox = scripted(ECHO);
    let project = std::fs::read_to_string(sandbox.dir().join("p/goondan.yaml")).unwrap();
    sandbox.write(
        "goondan.yaml",
        &project.replace("Tool/bash", "Tool/word-play"),
    );
    sandbox.write("script.yaml", ECHO);
    std::fs::remove_dir_all(sandbox.dir().join("p")).unwrap();
    let told = sandbox
        .gdn(&["new", "tool", "word-play", "--lang", "rust"])
        .ok()
        .to_owned();
    assert!(
        told.ends_with("To use it, add `- ref: Tool/word-play` to an agent's `tools`.\n"),
        "{told}"
    );
    let resource = std::fs::read_to_string(sandbox.dir().join("tools/word-play.yaml")).unwrap();
    insta::assert_snapshot!("resource of a new tool", resource);
    let outcome = sandbox.gdn(&["validate", "--format", "short"]);
    assert_eq!(
        outcome.stdout.lines().count(),
        1,
        "its library alone is missing: {outcome:#?}"
    );
    assert!(
        outcome
            .stdout
            .starts_with("tools/word-play.yaml:7:10: error[E_CONFIG_ENTRY_NOT_FOUND]"),
        "{outcome:#?}"
    );
}

/// A connector of a runtime: its case, and typed lines that are answered.
fn follow_connector(lang: &str) {
    let sandbox = Sandbox::new();
    let printed = sandbox
        .gdn(&["new", "connector", "kitchen", "--lang", lang])
        .ok()
        .to_owned();
    sandbox
        .settings()
        .bind(|| insta::assert_snapshot!(format!("new connector in {lang}"), printed));
    let [test, serve] = next(&printed).try_into().unwrap();
    let test: Vec<&str> = test.iter().map(String::as_str).collect();
    assert!(
        sandbox
            .gdn_building(&test)
            .ok()
            .ends_with("1 passed, 0 failed\n")
    );
    assert_eq!(serve, ["serve", "-vv", "connectors/kitchen"]);
    let around = scripted(ECHO);
    let project = std::fs::read_to_string(around.dir().join("p/goondan.yaml")).unwrap();
    around.write("goondan.yaml", &project);
    around.write("script.yaml", ECHO);
    std::fs::remove_dir_all(around.dir().join("p")).unwrap();
    around
        .gdn(&["new", "connector", "kitchen", "--lang", lang])
        .ok();
    around.gdn(&["validate"]).ok();
    let route = around.gdn(&["connection", "test", "kitchen"]);
    assert!(
        route.ok().contains("goes to   a:kitchen"),
        "{}",
        route.report()
    );
}

#[test]
fn a_connector_in_rust_builds_and_runs_as_it_is() {
    let sandbox = Sandbox::new();
    let printed = sandbox
        .gdn(&["new", "connector", "kitchen", "--lang", "rust"])
        .ok()
        .to_owned();
    sandbox
        .settings()
        .bind(|| insta::assert_snapshot!("new connector in rust", printed));
    lock(&sandbox.dir().join("connectors/kitchen"));
    let [build, test, serve] = next(&printed).try_into().unwrap();
    let gdn = |words: &[String]| {
        sandbox.gdn_building(&words.iter().map(String::as_str).collect::<Vec<_>>())
    };
    assert!(gdn(&build).ok().starts_with("Built Connector/kitchen"));
    assert!(gdn(&test).ok().ends_with("1 passed, 0 failed\n"));
    assert_eq!(serve, ["serve", "-vv", "connectors/kitchen"]);
    sandbox.gdn(&["validate", "connectors/kitchen"]).ok();
}

#[test]
fn a_connector_in_javascript_runs_as_it_is() {
    if has("node", &[]) {
        follow_connector("js");
    }
}

#[test]
fn a_connector_in_typescript_runs_as_it_is() {
    if has("bun", &[]) || has("node", &["v23.", "v24.", "v25."]) {
        follow_connector("ts");
    }
}

#[test]
fn a_connector_in_python_runs_as_it_is() {
    if has("python3", &[]) {
        follow_connector("python");
    }
}

#[test]
fn nothing_is_overwritten_and_names_are_checked() {
    let cases: [(&str, &[&str]); 8] = [
        (
            "new connector with a bad name",
            &["new", "connector", "Kitchen"],
        ),
        (
            "new extension with a bad name",
            &["new", "extension", "Turn_Count"],
        ),
        ("new tool with a bad name", &["new", "tool", "Word_Play"]),
        (
            "new tool with a keyword for a name",
            &["new", "tool", "match", "--lang", "rust"],
        ),
        ("new tool that is there", &["new", "tool", "there"]),
        (
            "new tool without the sdk",
            &["new", "tool", "x", "--lang", "rust", "--sdk", "nowhere"],
        ),
        (
            "new tool in c with an sdk",
            &["new", "tool", "x", "--lang", "c", "--sdk", "."],
        ),
        ("new tool without a name", &["new", "tool"]),
    ];
    let sandbox = Sandbox::new();
    sandbox.write("tools/there/notes.txt", "mine");
    for (name, arguments) in cases {
        let outcome = sandbox.gdn(arguments);
        assert_ne!(outcome.code, 0);
        sandbox
            .settings()
            .bind(|| insta::assert_snapshot!(name, outcome.report()));
    }
    assert_eq!(
        std::fs::read_dir(sandbox.dir().join("tools/there"))
            .unwrap()
            .count(),
        1
    );
}

/// What only opening a library shows is told at the line of the YAML that it is about.
#[test]
fn a_library_that_is_not_what_the_yaml_says_is_told_at_its_line() {
    if Command::new("cc").arg("--version").output().is_err() {
        eprintln!("skipped: there is no C compiler `cc`");
        return;
    }
    let sandbox = Sandbox::new();
    sandbox
        .gdn(&["new", "tool", "word-play", "--lang", "c", "--path", "wp"])
        .ok();
    sandbox.gdn(&["build", "wp"]).ok();
    let project = std::fs::read_to_string(sandbox.dir().join("wp/goondan.yaml")).unwrap();
    let other = "  exports:\n    - name: reverse\n      parameters: {type: object, properties: {txt: {type: string}}}\n";
    let cases = [
        ("schema that differs", format!("{other}  build:")),
        (
            "export that is missing",
            "  exports: [{name: reverse}, {name: shout}]\n  build:".to_owned(),
        ),
    ];
    for (name, exports) in cases {
        sandbox.write(
            "wp/goondan.yaml",
            &project.replacen("  build:", &exports, 1),
        );
        let outcome = sandbox.gdn(&["tool", "list", "--project", "wp"]);
        sandbox
            .settings()
            .bind(|| insta::assert_snapshot!(name, outcome.report()));
    }
    sandbox.write("wp/goondan.yaml", &project);
    sandbox.write("wp/libword-play.so", "not a library");
    let outcome = sandbox.gdn(&["tool", "list", "--project", "wp"]);
    assert_eq!(outcome.code, 4);
    assert!(
        outcome
            .stderr
            .contains("is not a dynamic library (goondan.yaml:12:10)"),
        "{outcome:#?}"
    );
}
