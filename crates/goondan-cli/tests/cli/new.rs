//! `gdn new`.

use std::path::Path;
use std::process::Command;

use crate::projects::{ECHO, scripted};
use crate::sandbox::Sandbox;

/// Returns the commands that are printed after `Next:`, without `gdn`.
fn next_commands(printed: &str) -> Vec<Vec<String>> {
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

/// Runs the build, test and run commands that `gdn new tool` printed, and checks their output.
fn assert_tool_builds_and_runs(sandbox: &Sandbox, printed: &str) {
    let [build, test, run] = next_commands(printed).try_into().unwrap();
    let gdn = |words: &[String]| {
        sandbox.gdn_with_toolchain(&words.iter().map(String::as_str).collect::<Vec<_>>())
    };
    assert!(gdn(&build).ok().starts_with("Built Tool/"));
    assert!(gdn(&test).ok().ends_with("1 passed, 0 failed\n"));
    assert_eq!(gdn(&run).ok(), "desserts\n");
}

/// Creates a tool in a script language, which needs no build, and runs the printed commands.
fn assert_tool_runs(lang: &str) {
    let sandbox = Sandbox::new();
    let printed = sandbox
        .gdn(&["new", "tool", "word-play", "--lang", lang])
        .ok()
        .to_owned();
    sandbox
        .settings()
        .bind(|| insta::assert_snapshot!(format!("new tool in {lang}"), printed));
    let [test, run] = next_commands(&printed).try_into().unwrap();
    let gdn = |words: &[String]| {
        sandbox.gdn_with_toolchain(&words.iter().map(String::as_str).collect::<Vec<_>>())
    };
    assert!(gdn(&test).ok().ends_with("1 passed, 0 failed\n"));
    assert_eq!(gdn(&run).ok(), "desserts\n");
}

/// Creates an extension in a library, builds it, and runs the printed commands.
fn assert_library_extension_runs(lang: &str) {
    let sandbox = Sandbox::new();
    let printed = sandbox
        .gdn(&["new", "extension", "turn-count", "--lang", lang])
        .ok()
        .to_owned();
    sandbox
        .settings()
        .bind(|| insta::assert_snapshot!(format!("new extension in {lang}"), printed));
    if lang == "rust" {
        copy_lockfile(&sandbox.dir().join("extensions/turn-count"));
    }
    let [build, test, run] = next_commands(&printed).try_into().unwrap();
    let gdn = |words: &[String]| {
        sandbox.gdn_with_toolchain(&words.iter().map(String::as_str).collect::<Vec<_>>())
    };
    assert!(gdn(&build).ok().starts_with("Built Extension/turn-count"));
    assert!(gdn(&test).ok().ends_with("1 passed, 0 failed\n"));
    assert_eq!(gdn(&run).ok(), "Hello.\n");
}

#[test]
fn a_new_rust_extension_builds_and_runs_unchanged() {
    assert_library_extension_runs("rust");
}

#[test]
fn a_new_c_extension_builds_and_runs_unchanged() {
    if is_installed("cc", &[]) {
        assert_library_extension_runs("c");
    }
}

/// Creates an extension in a script language, and runs the printed commands. In a project, the
/// extension is added as a resource.
fn assert_extension_runs(lang: &str) {
    let sandbox = Sandbox::new();
    let printed = sandbox
        .gdn(&["new", "extension", "turn-count", "--lang", lang])
        .ok()
        .to_owned();
    sandbox
        .settings()
        .bind(|| insta::assert_snapshot!(format!("new extension in {lang}"), printed));
    let [test, run] = next_commands(&printed).try_into().unwrap();
    let gdn = |words: &[String]| {
        sandbox.gdn_with_toolchain(&words.iter().map(String::as_str).collect::<Vec<_>>())
    };
    assert!(gdn(&test).ok().ends_with("1 passed, 0 failed\n"));
    assert_eq!(gdn(&run).ok(), "Hello.\n");
    let project_sandbox = scripted(ECHO);
    let project = std::fs::read_to_string(project_sandbox.dir().join("p/goondan.yaml")).unwrap();
    project_sandbox.write("goondan.yaml", &project);
    project_sandbox.write("script.yaml", ECHO);
    std::fs::remove_dir_all(project_sandbox.dir().join("p")).unwrap();
    project_sandbox
        .gdn(&["new", "extension", "turn-count", "--lang", lang])
        .ok();
    assert!(
        project_sandbox
            .dir()
            .join("extensions/turn-count.yaml")
            .is_file()
    );
    project_sandbox.gdn(&["validate"]).ok();
}

/// Returns true if `program --version` works, and prints one of `versions` unless they are empty.
#[allow(clippy::print_stderr, reason = "reports why a test is skipped")]
fn is_installed(program: &str, versions: &[&str]) -> bool {
    let version_output = Command::new(program)
        .arg("--version")
        .output()
        .map(|version_output| String::from_utf8_lossy(&version_output.stdout).into_owned());
    let has_version = version_output.is_ok_and(|version_output| {
        versions.is_empty()
            || versions
                .iter()
                .any(|version| version_output.starts_with(version))
    });
    if !has_version {
        eprintln!("skipped: there is no {program} {}", versions.join(" or "));
    }
    has_version
}

#[test]
fn a_new_javascript_extension_runs_unchanged() {
    if is_installed("node", &[]) {
        assert_extension_runs("js");
    }
}

#[test]
fn a_new_javascript_tool_runs_unchanged() {
    if is_installed("node", &[]) {
        assert_tool_runs("js");
    }
}

#[test]
fn a_new_typescript_extension_runs_unchanged() {
    if is_installed("bun", &[]) || is_installed("node", &["v23.", "v24.", "v25."]) {
        assert_extension_runs("ts");
    }
}

#[test]
fn a_new_typescript_tool_runs_unchanged() {
    if is_installed("bun", &[]) || is_installed("node", &["v23.", "v24.", "v25."]) {
        assert_tool_runs("ts");
    }
}

#[test]
fn a_new_python_extension_runs_unchanged() {
    if is_installed("python3", &[]) {
        assert_extension_runs("python");
    }
}

#[test]
fn a_new_python_tool_runs_unchanged() {
    if is_installed("python3", &[]) {
        assert_tool_runs("python");
    }
}

/// Copies the lockfile of this workspace to a new crate, so that it needs no registry.
fn copy_lockfile(folder: &Path) {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::fs::copy(workspace.join("Cargo.lock"), folder.join("Cargo.lock")).unwrap();
}

#[test]
fn a_new_rust_tool_builds_and_runs_unchanged() {
    let sandbox = scripted(ECHO);
    let printed = sandbox
        .gdn(&["new", "tool", "word-play", "--lang", "rust"])
        .ok()
        .to_owned();
    sandbox
        .settings()
        .bind(|| insta::assert_snapshot!("new tool in rust", printed));
    copy_lockfile(&sandbox.dir().join("tools/word-play"));
    assert_tool_builds_and_runs(&sandbox, &printed);
}

#[test]
fn a_new_c_tool_builds_and_runs_unchanged() {
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
    assert_tool_builds_and_runs(&sandbox, &plain);
}

#[test]
fn new_tool_adds_a_resource_to_the_enclosing_project() {
    let sandbox = scripted(ECHO);
    let project = std::fs::read_to_string(sandbox.dir().join("p/goondan.yaml")).unwrap();
    sandbox.write(
        "goondan.yaml",
        &project.replace("Tool/bash", "Tool/word-play"),
    );
    sandbox.write("script.yaml", ECHO);
    std::fs::remove_dir_all(sandbox.dir().join("p")).unwrap();
    let printed = sandbox
        .gdn(&["new", "tool", "word-play", "--lang", "rust"])
        .ok()
        .to_owned();
    assert!(
        printed.ends_with("To use it, add `- ref: Tool/word-play` to an agent's `tools`.\n"),
        "{printed}"
    );
    let resource = std::fs::read_to_string(sandbox.dir().join("tools/word-play.yaml")).unwrap();
    insta::assert_snapshot!("resource of a new tool", resource);
    let outcome = sandbox.gdn(&["validate", "--format", "short"]);
    assert_eq!(
        outcome.stdout.lines().count(),
        1,
        "only the library is missing: {outcome:#?}"
    );
    assert!(
        outcome
            .stdout
            .starts_with("tools/word-play.yaml:7:10: error[E_CONFIG_ENTRY_NOT_FOUND]"),
        "{outcome:#?}"
    );
}

/// Creates a connector in a script language, and runs its test case. In a project, its connection
/// has a route.
fn assert_connector_runs(lang: &str) {
    let sandbox = Sandbox::new();
    let printed = sandbox
        .gdn(&["new", "connector", "kitchen", "--lang", lang])
        .ok()
        .to_owned();
    sandbox
        .settings()
        .bind(|| insta::assert_snapshot!(format!("new connector in {lang}"), printed));
    let [test, serve] = next_commands(&printed).try_into().unwrap();
    let test: Vec<&str> = test.iter().map(String::as_str).collect();
    assert!(
        sandbox
            .gdn_with_toolchain(&test)
            .ok()
            .ends_with("1 passed, 0 failed\n")
    );
    assert_eq!(serve, ["serve", "-vv", "connectors/kitchen"]);
    let project_sandbox = scripted(ECHO);
    let project = std::fs::read_to_string(project_sandbox.dir().join("p/goondan.yaml")).unwrap();
    project_sandbox.write("goondan.yaml", &project);
    project_sandbox.write("script.yaml", ECHO);
    std::fs::remove_dir_all(project_sandbox.dir().join("p")).unwrap();
    project_sandbox
        .gdn(&["new", "connector", "kitchen", "--lang", lang])
        .ok();
    project_sandbox.gdn(&["validate"]).ok();
    let route = project_sandbox.gdn(&["connection", "test", "kitchen"]);
    assert!(
        route.ok().contains("goes to   a:kitchen"),
        "{}",
        route.report()
    );
}

#[test]
fn a_new_rust_connector_builds_and_passes_its_test_unchanged() {
    let sandbox = Sandbox::new();
    let printed = sandbox
        .gdn(&["new", "connector", "kitchen", "--lang", "rust"])
        .ok()
        .to_owned();
    sandbox
        .settings()
        .bind(|| insta::assert_snapshot!("new connector in rust", printed));
    copy_lockfile(&sandbox.dir().join("connectors/kitchen"));
    let [build, test, serve] = next_commands(&printed).try_into().unwrap();
    let gdn = |words: &[String]| {
        sandbox.gdn_with_toolchain(&words.iter().map(String::as_str).collect::<Vec<_>>())
    };
    assert!(gdn(&build).ok().starts_with("Built Connector/kitchen"));
    assert!(gdn(&test).ok().ends_with("1 passed, 0 failed\n"));
    assert_eq!(serve, ["serve", "-vv", "connectors/kitchen"]);
    sandbox.gdn(&["validate", "connectors/kitchen"]).ok();
}

#[test]
fn a_new_javascript_connector_passes_its_test_unchanged() {
    if is_installed("node", &[]) {
        assert_connector_runs("js");
    }
}

#[test]
fn a_new_typescript_connector_passes_its_test_unchanged() {
    if is_installed("bun", &[]) || is_installed("node", &["v23.", "v24.", "v25."]) {
        assert_connector_runs("ts");
    }
}

#[test]
fn a_new_python_connector_passes_its_test_unchanged() {
    if is_installed("python3", &[]) {
        assert_connector_runs("python");
    }
}

#[test]
fn new_rejects_invalid_names_and_existing_directories() {
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

#[test]
fn a_library_that_differs_from_the_yaml_is_reported_at_its_line() {
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
