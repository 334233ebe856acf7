//! `gdn package`: packages that projects use, and the trust that they need.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

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

/// Creates a package in `tools`, and a project `app` that uses its tool.
fn package_and_project() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("tools/goondan.yaml", PACKAGE);
    sandbox.write(
        "tools/greeter/tool.yaml",
        "name: hello\ndescription: Greets somebody\nversion: 1.0.0\nentrypoint: hello.sh\n",
    );
    write_program(&sandbox, "Hello");
    sandbox.write("app/goondan.yaml", PROJECT);
    sandbox
}

fn write_program(sandbox: &Sandbox, word: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    sandbox.write(
        "tools/greeter/hello.sh",
        &format!("#!/bin/sh\necho {word}\n"),
    );
    let path = sandbox.dir().join("tools/greeter/hello.sh");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// Runs `gdn` in the project, without trust in any project.
fn gdn(sandbox: &Sandbox, arguments: &[&str]) -> Outcome {
    let mut command = sandbox.command_without_trust(arguments);
    command.current_dir(sandbox.dir().join("app"));
    sandbox.run_command(command)
}

fn call_greeter(sandbox: &Sandbox) -> Outcome {
    gdn(sandbox, &["tool", "call", "greeter__hello"])
}

fn read(sandbox: &Sandbox, path: &str) -> String {
    std::fs::read_to_string(sandbox.dir().join(path)).unwrap()
}

#[test]
fn a_package_is_added_trusted_and_removed() {
    let sandbox = package_and_project();
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
    // The package is not trusted yet.
    let refused = call_greeter(&sandbox);
    assert!(
        refused.code == 7 && refused.stderr.contains("greeter/tool.yaml"),
        "{refused:?}"
    );
    gdn(&sandbox, &["trust"]).ok();
    assert!(call_greeter(&sandbox).ok().contains("Hello"));
    gdn(&sandbox, &["package", "remove", "@acme/tools"]).ok();
    assert!(!read(&sandbox, "app/goondan.yaml").contains("@acme/tools"));
    assert!(!sandbox.dir().join("app/.goondan/installed/@acme").exists());
    assert_eq!(gdn(&sandbox, &["package", "remove", "@acme/tools"]).code, 3);
}

/// The code of a package runs from a copy that agents can't change.
#[test]
fn a_package_file_that_is_changed_during_a_run_is_not_used() {
    let sandbox = package_and_project();
    let module =
        "{entry: ./late/t.mjs, exports: [{name: go, description: d, parameters: {type: object}}]}";
    let package = format!(
        "{PACKAGE}---\napiVersion: goondan.ai/v1\nkind: Tool\nmetadata: {{name: late}}\nspec: {module}\n"
    );
    sandbox.write("tools/goondan.yaml", &package);
    sandbox.write(
        "tools/late/t.mjs",
        "export const handlers = { async go() { return (await import('./' + 'part.mjs')).text } };\n",
    );
    sandbox.write("tools/late/part.mjs", "export const text = 'Good';\n");
    sandbox.write("app/evil.sh", "#!/bin/sh\necho Evil\n");
    sandbox.write("app/evil.mjs", "export const text = 'Evil';\n");
    let tools = "{ref: Tool/greeter}, {ref: Tool/late}, {ref: Tool/bash}";
    let project = PROJECT
        .replace("{ref: Tool/greeter}", tools)
        .replace("tools: [", "workdir: project, tools: [")
        .replace("model: any", "model: any, options: {script: script.yaml}");
    sandbox.write("app/goondan.yaml", &project);
    let installed = ".goondan/installed/@acme/tools";
    let line = format!(
        "cp evil.sh {installed}/greeter/hello.sh && cp evil.mjs {installed}/late/part.mjs && cp evil.mjs {installed}/late/t.mjs"
    );
    let calls = [
        ("w", "bash__exec", json!({"command": line})),
        ("g", "greeter__hello", json!({})),
        ("l", "late__go", json!({})),
    ];
    let calls =
        calls.map(|(id, tool, args)| json!({"calls": [{"id": id, "tool": tool, "args": args}]}));
    let [write, greet, load] = calls;
    let text = json!({"text": "{{ results.w.output.exitCode }} {{ results.g.output.stdout }} {{ results.l.output }}"});
    let script = json!({"agents": {"a": [write, greet, load, text]}});
    sandbox.write("app/script.yaml", &script.to_string());
    gdn(&sandbox, &["package", "add", "../tools"]).ok();
    let outcome = gdn(&sandbox, &["run", "--trust", "--yes", "--input", "go"]);
    let answer = outcome.ok();
    assert!(
        answer.starts_with('0') && answer.contains("Hello") && !answer.contains("Evil"),
        "{answer}"
    );
    if Command::new("node").arg("--version").output().is_ok() {
        assert!(answer.contains("Good"), "{answer}");
    }
    let changed = gdn(&sandbox, &["run", "--trust", "--yes", "--input", "go"]);
    assert!(
        changed.stderr.contains("E_PACKAGE_INTEGRITY"),
        "{changed:?}"
    );
}

#[test]
fn changed_package_content_requires_trust_again() {
    let sandbox = package_and_project();
    gdn(&sandbox, &["package", "add", "../tools"]).ok();
    gdn(&sandbox, &["trust"]).ok();
    write_program(&sandbox, "Changed");
    gdn(&sandbox, &["package", "install"]).ok();
    let refused = call_greeter(&sandbox);
    assert_eq!(refused.code, 7, "{refused:?}");
    let error: Value =
        serde_json::from_str(&gdn(&sandbox, &["--json", "tool", "call", "greeter__hello"]).stderr)
            .unwrap();
    assert_eq!(error["wants"][0]["package"]["name"], "@acme/tools");
    gdn(&sandbox, &["trust"]).ok();
    assert!(call_greeter(&sandbox).ok().contains("Changed"));
    // Trust is for the content, so the earlier content is still trusted.
    write_program(&sandbox, "Hello");
    gdn(&sandbox, &["package", "install"]).ok();
    assert!(call_greeter(&sandbox).ok().contains("Hello"));
}

#[test]
fn trust_in_a_project_does_not_cover_a_new_package() {
    let sandbox = package_and_project();
    gdn(&sandbox, &["trust"]).ok();
    gdn(&sandbox, &["package", "add", "../tools"]).ok();
    assert_eq!(call_greeter(&sandbox).code, 7);
}

#[test]
fn packages_are_restored_from_the_lockfile_without_their_sources() {
    let sandbox = package_and_project();
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
fn a_failed_package_add_leaves_the_manifest_unchanged() {
    let sandbox = package_and_project();
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
fn a_package_archive_is_reproducible_and_installable() {
    let sandbox = package_and_project();
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
fn packing_warns_about_dependencies_that_are_not_installed() {
    let sandbox = package_and_project();
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
    let warned = pack();
    assert!(
        warned.code == 0
            && warned
                .stderr
                .contains("package.json depends on zod, x\\u{1b}[2J, which is not installed"),
        "{warned:#?}"
    );
    assert!(!warned.stderr.contains("node_modules"), "{warned:#?}");
}

#[test]
fn an_invalid_package_is_not_packed() {
    let sandbox = package_and_project();
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
fn links_to_endless_files_are_not_read() {
    let sandbox = package_and_project();
    let folder = sandbox.dir().join("tools");
    for name in [".gitignore", ".goondanignore", "goondan.lock.yaml"] {
        std::os::unix::fs::symlink("/dev/zero", folder.join(name)).unwrap();
    }
    let listed = sandbox.gdn(&["package", "list", "tools"]);
    assert!(
        listed.code != 0 && listed.stderr.contains("goondan.lock.yaml"),
        "{listed:?}"
    );
    // Links are not part of a package.
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
fn a_published_swarm_requires_trust_before_it_runs() {
    let sandbox = package_and_project();
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
    let refused =
        sandbox.run_command(sandbox.command_without_trust(&["run", &address, "--input", "hi"]));
    assert_eq!(refused.code, 7, "{refused:?}");
    for text in [
        "comes from git+file://",
        "the agent helper with the tools greeter",
        "greeter/tool.yaml",
    ] {
        assert!(refused.stderr.contains(text), "{refused:?}");
    }
    let answered = sandbox
        .run_command(sandbox.command_without_trust(&["run", &address, "--input", "hi", "--trust"]));
    assert!(answered.ok().contains("You said: hi"), "{answered:?}");
    // Trust applies only to this content.
    let command = refused
        .stderr
        .lines()
        .find_map(|line| line.split("run `gdn trust ").nth(1))
        .unwrap();
    let unpacked = command.split('`').next().unwrap().trim_matches('\'');
    sandbox.gdn(&["trust", unpacked]).ok();
    sandbox
        .run_command(sandbox.command_without_trust(&["run", &address, "--input", "hi"]))
        .ok();
    write_program(&sandbox, "Changed");
    git(&folder, &["commit", "-qam", "two"]);
    git(&folder, &["tag", "-f", "v1.2.0"]);
    assert_eq!(
        sandbox
            .run_command(sandbox.command_without_trust(&["run", &address, "--input", "hi"]))
            .code,
        7
    );
}

#[test]
fn package_init_turns_a_project_into_a_package() {
    let sandbox = package_and_project();
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
    // Another name is an error.
    let other = gdn(&sandbox, &["package", "init", "--name", "@me/other"]);
    assert!(
        other.code == 2 && other.stderr.contains("is already the package @me/app"),
        "{other:#?}"
    );
    assert_eq!(read(&sandbox, "app/goondan.yaml"), manifest);
    assert_eq!(gdn(&sandbox, &["package", "install"]).code, 0);
}

/// A git filter is a program of the user. A repository must not choose the files that it receives.
#[test]
fn installing_from_a_repository_runs_no_git_filters_of_the_user() {
    let sandbox = package_and_project();
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
    assert!(!mark.exists(), "the filter ran");
    assert!(read(&sandbox, "app/goondan.yaml").contains("@acme/tools"));
}

/// The git config of a project can name programs, so it is ignored during an installation.
#[test]
fn installing_from_a_repository_ignores_the_git_config_of_the_project() {
    let sandbox = package_and_project();
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
    // With this config, git would not find the repository.
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
