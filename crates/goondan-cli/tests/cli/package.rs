//! `gdn package`: from a folder with tools to a project that uses them, and what is asked on the way.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::sandbox::{Outcome, Sandbox};

const PACKAGE: &str = r#"apiVersion: goondan.ai/v1
kind: Package
metadata: {name: "@acme/tools"}
spec: {version: 1.2.0, description: Greets people}
---
apiVersion: goondan.ai/v1
kind: Tool
metadata: {name: greeter}
spec:
  entry: ./greeter
---
apiVersion: goondan.ai/v1
kind: Model
metadata: {name: m}
spec: {provider: scripted, model: any}
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: helper}
spec: {modelConfig: {modelRef: Model/m}, tools: [{ref: Tool/greeter}]}
---
apiVersion: goondan.ai/v1
kind: Swarm
metadata: {name: default}
spec: {entryAgent: Agent/helper, agents: [{ref: Agent/helper}]}
"#;

const PROJECT: &str = r#"# My project.
apiVersion: goondan.ai/v1
kind: Model
metadata: {name: m}
spec: {provider: scripted, model: any}
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: a}
spec: {modelConfig: {modelRef: Model/m}, tools: [{ref: Tool/greeter}], permissions: {default: allow}}
---
apiVersion: goondan.ai/v1
kind: Swarm
metadata: {name: default}
spec: {entryAgent: Agent/a, agents: [{ref: Agent/a}]}
"#;

/// A folder `tools` with a package, and a project `app` that uses what is in it.
fn folders() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("tools/goondan.yaml", PACKAGE);
    sandbox.write(
        "tools/greeter/tool.yaml",
        "name: hello\ndescription: Greets somebody\nversion: 1.0.0\nentrypoint: hello.sh\n",
    );
    program(&sandbox, "Hello");
    sandbox.write("app/goondan.yaml", PROJECT);
    sandbox
}

fn program(sandbox: &Sandbox, word: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    sandbox.write(
        "tools/greeter/hello.sh",
        &format!("#!/bin/sh\necho {word}\n"),
    );
    let path = sandbox.dir().join("tools/greeter/hello.sh");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// `gdn` in the project, on a machine that trusts nothing of itself.
fn gdn(sandbox: &Sandbox, arguments: &[&str]) -> Outcome {
    let mut command = sandbox.stranger(arguments);
    command.current_dir(sandbox.dir().join("app"));
    sandbox.finished(command)
}

fn greets(sandbox: &Sandbox) -> Outcome {
    gdn(sandbox, &["tool", "call", "greeter__hello"])
}

fn read(sandbox: &Sandbox, path: &str) -> String {
    std::fs::read_to_string(sandbox.dir().join(path)).unwrap()
}

#[test]
fn a_package_is_added_trusted_and_removed() {
    let sandbox = folders();
    assert!(
        gdn(&sandbox, &["validate", "--format", "short"])
            .stdout
            .contains("E_CONFIG_REF_NOT_FOUND")
    );
    gdn(&sandbox, &["package", "add", "../tools"]).ok();
    let manifest = read(&sandbox, "app/goondan.yaml");
    assert!(
        manifest.contains("source: \"file:../tools\"") && manifest.contains("version: \"^1.2.0\""),
        "{manifest}"
    );
    assert!(manifest.ends_with(PROJECT));
    gdn(&sandbox, &["validate", "--strict"]).ok();
    // Nothing of it has run, and nothing runs.
    let refused = greets(&sandbox);
    assert!(
        refused.code == 7 && refused.stderr.contains("greeter/tool.yaml"),
        "{refused:?}"
    );
    gdn(&sandbox, &["trust"]).ok();
    assert!(greets(&sandbox).ok().contains("Hello"));
    gdn(&sandbox, &["package", "remove", "@acme/tools"]).ok();
    assert!(!read(&sandbox, "app/goondan.yaml").contains("@acme/tools"));
    assert!(!sandbox.dir().join("app/.goondan/installed/@acme").exists());
    assert_eq!(gdn(&sandbox, &["package", "remove", "@acme/tools"]).code, 3);
}

#[test]
fn another_content_is_trusted_anew() {
    let sandbox = folders();
    gdn(&sandbox, &["package", "add", "../tools"]).ok();
    gdn(&sandbox, &["trust"]).ok();
    program(&sandbox, "Changed");
    gdn(&sandbox, &["package", "install"]).ok();
    let refused = greets(&sandbox);
    assert_eq!(refused.code, 7, "{refused:?}");
    let error: Value =
        serde_json::from_str(&gdn(&sandbox, &["--json", "tool", "call", "greeter__hello"]).stderr)
            .unwrap();
    assert_eq!(error["wants"][0]["package"]["name"], "@acme/tools");
    gdn(&sandbox, &["trust"]).ok();
    assert!(greets(&sandbox).ok().contains("Changed"));
    // What was trusted once is trusted again: its content is the same.
    program(&sandbox, "Hello");
    gdn(&sandbox, &["package", "install"]).ok();
    assert!(greets(&sandbox).ok().contains("Hello"));
}

#[test]
fn a_project_that_is_trusted_does_not_speak_for_a_new_package() {
    let sandbox = folders();
    gdn(&sandbox, &["trust"]).ok();
    gdn(&sandbox, &["package", "add", "../tools"]).ok();
    assert_eq!(greets(&sandbox).code, 7);
}

#[test]
fn a_checkout_is_installed_without_its_sources() {
    let sandbox = folders();
    gdn(&sandbox, &["package", "add", "../tools"]).ok();
    std::fs::remove_dir_all(sandbox.dir().join("app/.goondan")).unwrap();
    std::fs::remove_dir_all(sandbox.dir().join("tools")).unwrap();
    let missing = gdn(&sandbox, &["validate", "--format", "short"]);
    assert!(
        missing.code == 4 && missing.stdout.contains("E_PACKAGE_NOT_INSTALLED"),
        "{missing:?}"
    );
    assert!(missing.stdout.contains("run `gdn package install`"));
    gdn(&sandbox, &["package", "install", "--frozen", "--offline"]).ok();
    gdn(&sandbox, &["validate", "--strict"]).ok();
    let list: Value =
        serde_json::from_str(gdn(&sandbox, &["--json", "package", "list"]).ok()).unwrap();
    assert_eq!(
        (&list[0]["name"], &list[0]["state"]),
        (&"@acme/tools".into(), &"installed".into())
    );
    sandbox.write("app/.goondan/installed/@acme/tools/new.txt", "");
    let changed = gdn(&sandbox, &["run", "--input", "hi"]);
    assert!(
        changed.code == 4 && changed.stderr.contains("E_PACKAGE_INTEGRITY"),
        "{changed:?}"
    );
}

#[test]
fn what_cannot_be_added_changes_nothing() {
    let sandbox = folders();
    for (package, code) in [
        ("../nothing", 3),
        ("../tools/greeter", 1),
        ("Not A Name", 2),
        ("git+file:///nowhere", 5),
    ] {
        let refused = gdn(&sandbox, &["package", "add", package]);
        assert_eq!(refused.code, code, "{refused:?}");
        assert!(
            refused.stderr.contains("suggestion") || code == 3,
            "{refused:?}"
        );
        assert_eq!(read(&sandbox, "app/goondan.yaml"), PROJECT);
    }
}

#[test]
fn an_archive_is_the_same_each_time_and_can_be_installed() {
    let sandbox = folders();
    let pack = |name: &str| {
        sandbox
            .gdn(&["package", "pack", "tools", "--output", name])
            .ok()
            .to_owned()
    };
    pack("one.tgz");
    pack("two.tgz");
    let bytes = |name: &str| std::fs::read(sandbox.dir().join(name)).unwrap();
    assert_eq!(bytes("one.tgz"), bytes("two.tgz"));
    gdn(&sandbox, &["package", "add", "../one.tgz"]).ok();
    gdn(&sandbox, &["validate"]).ok();
    let lock = read(&sandbox, "app/goondan.lock.yaml");
    assert!(lock.contains("integrity: \"sha512-"), "{lock}");
    let dry = sandbox.gdn(&[
        "--json",
        "package",
        "publish",
        "oci://localhost:1/a/b",
        "--project",
        "tools",
        "--dry-run",
    ]);
    let report: Value = serde_json::from_str(dry.ok()).unwrap();
    assert!(lock.contains(report["integrity"].as_str().unwrap()));
    assert_eq!(report["files"].as_array().unwrap().len(), 3);
}

#[test]
fn what_nothing_will_install_is_told_when_it_is_packed() {
    let sandbox = folders();
    let pack = || sandbox.gdn(&["package", "pack", "tools", "--output", "one.tgz"]);
    sandbox.write(
        "tools/package.json",
        r#"{"devDependencies": {"esbuild": "1"}, "scripts": {"postinstall": "false"}}"#,
    );
    let quiet = pack();
    assert!(
        quiet.code == 0 && !quiet.stderr.contains("warning"),
        "{quiet:#?}"
    );
    sandbox.write(
        "tools/package.json",
        r#"{"dependencies": {"zod": "^3", "x\u001b[2J": "1"}}"#,
    );
    sandbox.write("tools/node_modules/zod/index.js", "");
    let told = pack();
    assert!(
        told.code == 0
            && told
                .stderr
                .contains("package.json depends on zod, x\\u{1b}[2J, which is not installed"),
        "{told:#?}"
    );
    assert!(!told.stderr.contains("node_modules"), "{told:#?}");
}

#[test]
fn a_package_with_mistakes_is_not_packed() {
    let sandbox = folders();
    sandbox.write(
        "tools/agents.yaml",
        "apiVersion: goondan.ai/v1\nkind: Agent\nmetadata: {name: b}\nspec: {}\n",
    );
    assert_eq!(sandbox.gdn(&["package", "pack", "tools"]).code, 4);
    sandbox.write("tools/agents.yaml", "");
    sandbox.write(
        "tools/goondan.yaml",
        &PACKAGE.replace("version: 1.2.0, ", ""),
    );
    let refused = sandbox.gdn(&["package", "pack", "tools"]);
    assert!(refused.stderr.contains("spec.version"), "{refused:?}");
}

#[test]
fn files_that_never_end_are_not_read() {
    let sandbox = folders();
    let folder = sandbox.dir().join("tools");
    for name in [".gitignore", ".goondanignore", "goondan.lock.yaml"] {
        std::os::unix::fs::symlink("/dev/zero", folder.join(name)).unwrap();
    }
    let listed = sandbox.gdn(&["package", "list", "tools"]);
    assert!(
        listed.code != 0 && listed.stderr.contains("goondan.lock.yaml"),
        "{listed:?}"
    );
    // The links themselves are no part of a package.
    let packed = sandbox.gdn(&["package", "pack", "tools"]);
    assert!(!packed.stderr.contains("panicked"), "{packed:?}");
}

fn git(folder: &Path, arguments: &[&str]) {
    let mut command = Command::new("git");
    command.args([
        "-c",
        "user.name=a",
        "-c",
        "user.email=a@example.com",
        "-c",
        "init.defaultBranch=main",
    ]);
    assert!(
        command
            .args(arguments)
            .current_dir(folder)
            .output()
            .unwrap()
            .status
            .success(),
        "{arguments:?}"
    );
}

#[test]
fn a_published_swarm_is_asked_about_before_it_runs() {
    let sandbox = folders();
    let folder = sandbox.dir().join("tools");
    for arguments in [
        &["init", "-q"][..],
        &["add", "-A"],
        &["commit", "-qm", "one"],
        &["tag", "v1.2.0"],
    ] {
        git(&folder, arguments);
    }
    let address = format!("git+file://{}", folder.display());
    let refused = sandbox.finished(sandbox.stranger(&["run", &address, "--input", "hi"]));
    assert_eq!(refused.code, 7, "{refused:?}");
    for told in [
        "comes from git+file://",
        "the agent helper with the tools greeter",
        "greeter/tool.yaml",
    ] {
        assert!(refused.stderr.contains(told), "{refused:?}");
    }
    let answered =
        sandbox.finished(sandbox.stranger(&["run", &address, "--input", "hi", "--trust"]));
    assert!(answered.ok().contains("You said: hi"), "{answered:?}");
    // Trust is in that content, and in no other.
    let said = refused
        .stderr
        .lines()
        .find_map(|line| line.split("run `gdn trust ").nth(1))
        .unwrap();
    let unpacked = said.split('`').next().unwrap().trim_matches('\'');
    sandbox.gdn(&["trust", unpacked]).ok();
    sandbox
        .finished(sandbox.stranger(&["run", &address, "--input", "hi"]))
        .ok();
    program(&sandbox, "Changed");
    git(&folder, &["commit", "-qam", "two"]);
    git(&folder, &["tag", "-f", "v1.2.0"]);
    assert_eq!(
        sandbox
            .finished(sandbox.stranger(&["run", &address, "--input", "hi"]))
            .code,
        7
    );
}

#[test]
fn a_project_becomes_a_package() {
    let sandbox = folders();
    gdn(&sandbox, &["package", "init", "--name", "@me/app"]).ok();
    let manifest = read(&sandbox, "app/goondan.yaml");
    assert!(
        manifest.starts_with("apiVersion: goondan.ai/v1\nkind: Package\n")
            && manifest.ends_with(PROJECT)
    );
    assert!(gdn(&sandbox, &["package", "init"]).ok().contains("@me/app"));
    assert!(
        gdn(&sandbox, &["package", "init", "--name", "@me/app"])
            .ok()
            .contains("already")
    );
    // Another name is not passed over in silence.
    let other = gdn(&sandbox, &["package", "init", "--name", "@me/other"]);
    assert!(
        other.code == 2 && other.stderr.contains("is already the package @me/app"),
        "{other:#?}"
    );
    assert_eq!(read(&sandbox, "app/goondan.yaml"), manifest);
    assert_eq!(gdn(&sandbox, &["package", "install"]).code, 0);
}

/// A filter is a program of whoever installs. A repository must not choose which files it is given.
#[test]
fn installing_from_a_repository_runs_no_filter_of_its_reader() {
    let sandbox = folders();
    sandbox.write("tools/.gitattributes", "* filter=lfs\n");
    let folder = sandbox.dir().join("tools");
    for arguments in [
        &["init", "-q"][..],
        &["add", "-A"],
        &["commit", "-qm", "one"],
        &["tag", "v1.2.0"],
    ] {
        git(&folder, arguments);
    }
    let mark = sandbox.dir().join("filtered");
    sandbox.write(
        "../.gitconfig",
        &format!(
            "[filter \"lfs\"]\n\tsmudge = \"touch '{}'; cat\"\n",
            mark.display()
        ),
    );
    gdn(
        &sandbox,
        &[
            "package",
            "add",
            &format!("git+file://{}#v1.2.0", folder.display()),
        ],
    )
    .ok();
    assert!(!mark.exists(), "the filter has run");
    assert!(read(&sandbox, "app/goondan.yaml").contains("@acme/tools"));
}

/// What a project says to git may name programs. Installing does nothing that it says.
#[test]
fn installing_from_a_repository_obeys_no_git_of_the_project() {
    let sandbox = folders();
    let folder = sandbox.dir().join("tools");
    for arguments in [
        &["init", "-q"][..],
        &["add", "-A"],
        &["commit", "-qm", "one"],
        &["tag", "v1.2.0"],
    ] {
        git(&folder, arguments);
    }
    git(&sandbox.dir().join("app"), &["init", "-q"]);
    // Whoever obeys this finds no repository.
    git(
        &sandbox.dir().join("app"),
        &["config", "url.file:///nowhere.insteadOf", "file:///"],
    );
    gdn(
        &sandbox,
        &[
            "package",
            "add",
            &format!("git+file://{}", folder.display()),
        ],
    )
    .ok();
    assert!(read(&sandbox, "app/goondan.yaml").contains("@acme/tools"));
}
