#![cfg(unix)]

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use serde_json::{Value, json};

use crate::mock_engine::{MockEngine, exists, with_unknown};

const GREET: &str = "\
name: greet
description: Greets somebody
version: 1.0.0
entrypoint: greet.sh
usage: greet somebody
parameters:
  - {name: who, type: string, required: true, description: whom}
  - {name: times, type: number, description: how often}
  - {name: loud, type: boolean}
";

/// Writes a project file, which is executable if it begins with `#!`.
pub(crate) fn project_file(engine: &MockEngine, path: &str, content: &str) {
    let path = engine.dir.path().join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, content).unwrap();
    if content.starts_with("#!") {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
}

/// Creates a project with the tool `greet`, and an empty user directory.
fn project() -> MockEngine {
    let engine = MockEngine::new().config(json!({"dir": "shelf"}));
    project_file(&engine, "tools/greet/tool.yaml", GREET);
    project_file(
        &engine,
        "tools/greet/greet.sh",
        "#!/bin/sh\nfor a in \"$@\"; do echo \"[$a]\"; done\npwd\nexit 3\n",
    );
    engine
}

async fn run(engine: &MockEngine, name: &str, arguments: Value) -> Value {
    engine
        .ok(
            "custom-tools__run",
            json!({"tool_name": name, "arguments": arguments}),
        )
        .await
}

async fn list(engine: &MockEngine) -> Vec<Value> {
    engine.ok("custom-tools__list", json!({})).await["tools"]
        .as_array()
        .unwrap()
        .clone()
}

#[tokio::test]
async fn arguments_become_flags_in_the_declared_order() {
    let engine = project();
    let output = run(
        &engine,
        "greet",
        json!({"loud": true, "times": 2.0, "who": "O'Neil; ls $HOME"}),
    )
    .await;
    let work = engine.work();
    assert_eq!(
        output["stdout"],
        format!(
            "[--who=O'Neil; ls $HOME]\n[--times=2]\n[--loud=true]\n{}\n",
            work.display()
        )
    );
    assert_eq!(
        (&output["exitCode"], &output["stderr"], &output["timedOut"]),
        (&json!(3), &json!(""), &json!(false))
    );
}

#[tokio::test]
async fn custom_tool_arguments_are_validated_before_the_run() {
    let engine = project();
    for (arguments, words) in [
        (json!({"times": "many"}), "who"),
        (json!({"who": "x", "times": "many"}), "times"),
        (json!({"who": "x", "extra": 1}), "extra"),
        (json!({"who": ["x"]}), "who"),
    ] {
        let args = json!({"tool_name": "greet", "arguments": arguments});
        let error = engine.call("custom-tools__run", args).await.unwrap_err();
        assert_eq!(error.code.as_deref(), Some("E_TOOL_INVALID_ARGS"));
        assert!(error.message.contains(words), "{}", error.message);
        assert!(error.suggestion.unwrap().contains("who"));
    }
}

#[tokio::test]
async fn custom_tools_receive_the_workspace_and_only_listed_variables() {
    let engine = MockEngine::new().config(json!({"dir": "shelf", "env": ["CARGO_PKG_NAME"]}));
    let yaml = "name: show\ndescription: d\nentrypoint: show\n";
    project_file(&engine, "tools/show/tool.yaml", yaml);
    project_file(&engine, "tools/show/show", "#!/bin/sh\nenv\n");
    let output = run(&engine, "show", json!({})).await;
    let stdout = output["stdout"].as_str().unwrap();
    for name in ["GOONDAN_WORKSPACE", "FORGE_WORKSPACE"] {
        assert!(
            stdout.contains(&format!("{name}={}\n", engine.work().display())),
            "{stdout}"
        );
    }
    assert!(
        stdout.contains("CARGO_PKG_NAME=goondan-tools") && !stdout.contains("CARGO_MANIFEST_DIR"),
        "{stdout}"
    );
}

#[tokio::test]
async fn a_custom_tool_run_ends_on_timeout_or_cancellation() {
    let engine = project();
    project_file(
        &engine,
        "tools/slow/tool.yaml",
        "name: slow\ndescription: d\nentrypoint: slow\n",
    );
    project_file(
        &engine,
        "tools/slow/slow",
        "#!/bin/sh\ntouch started\nsleep 60\n",
    );
    let output = engine
        .ok(
            "custom-tools__run",
            json!({"tool_name": "slow", "timeout": 1}),
        )
        .await;
    assert_eq!(
        (&output["timedOut"], &output["exitCode"]),
        (&json!(true), &json!(-1))
    );
    std::fs::remove_file(engine.work().join("started")).unwrap();
    let call = engine.err("custom-tools__run", json!({"tool_name": "slow"}));
    let cancel = async {
        crate::mock_engine::until("the program to start", || {
            exists(engine.work().join("started"))
        })
        .await;
        engine.cancellation.cancel();
    };
    assert_eq!(tokio::join!(call, cancel).0.0, "E_TOOL_CANCELLED");
}

#[tokio::test]
async fn a_broken_tool_is_listed_with_a_reason_next_to_valid_tools() {
    let engine = project();
    let broken = [
        (
            "no-program",
            "name: no-program\ndescription: d\nentrypoint: x\n",
            "does not exist",
        ),
        (
            "escape",
            "name: escape\ndescription: d\nentrypoint: ../greet/greet.sh\n",
            "entrypoint",
        ),
        ("unfinished", "name: unfinished\n", "line 1"),
        ("no-yaml", "name: [", "tool.yaml"),
        (
            "other-name",
            "name: renamed\ndescription: d\nentrypoint: x.sh\n",
            "renamed",
        ),
        (
            "linked",
            "name: linked\ndescription: d\nentrypoint: out\n",
            "leads out",
        ),
        (
            "asleep",
            "name: asleep\ndescription: d\nentrypoint: x.txt\n",
            "chmod +x",
        ),
    ];
    for (name, yaml, _) in broken {
        project_file(&engine, &format!("tools/{name}/tool.yaml"), yaml);
    }
    project_file(&engine, "tools/other-name/x.sh", "#!/bin/sh\n");
    project_file(&engine, "tools/asleep/x.txt", "");
    symlink("/bin/sh", engine.dir.path().join("tools/linked/out")).unwrap();
    project_file(&engine, "tools/just-a-folder/readme", "");
    // An agent can create a link to a directory that the agent may not read.
    project_file(&engine, "elsewhere/tool.yaml", GREET);
    symlink("../elsewhere", engine.dir.path().join("tools/link")).unwrap();
    let tools = list(&engine).await;
    assert_eq!(tools.len(), broken.len() + 1);
    let tool = |name: &str| tools.iter().find(|tool| tool["name"] == name).unwrap();
    assert_eq!(
        (&tool("greet")["available"], &tool("greet")["version"]),
        (&json!(true), &json!("1.0.0"))
    );
    assert_eq!(
        tool("greet")["parameters"][0],
        json!({"name": "who", "type": "string", "required": true, "description": "whom"})
    );
    for (name, _, words) in broken {
        assert_eq!(tool(name)["available"], false);
        assert!(
            tool(name)["reason"].as_str().unwrap().contains(words),
            "{}",
            tool(name)
        );
        let (code, message) = engine
            .err("custom-tools__run", json!({"tool_name": name}))
            .await;
        assert_eq!(code, "E_TOOL_CUSTOM_TOOL_BROKEN");
        assert!(message.contains(words), "{message}");
    }
}

#[tokio::test]
async fn a_new_or_changed_tool_is_available_at_the_next_call() {
    let engine = project();
    let output = engine
        .ok(
            "custom-tools__create",
            json!({"name": "shout", "description": "Shouts: \"hey\"", "template": "sh"}),
        )
        .await;
    assert_eq!(
        output["folder"],
        json!(
            engine
                .dir
                .path()
                .canonicalize()
                .unwrap()
                .join("tools/shout")
        )
    );
    assert_eq!(output["files"], json!(["tool.yaml", "shout.sh"]));
    let shout = run(&engine, "shout", json!({})).await;
    assert_eq!(
        (&shout["exitCode"], &shout["stdout"]),
        (&json!(0), &json!("shout does nothing yet\n"))
    );
    project_file(&engine, "tools/shout/shout.sh", "#!/bin/sh\necho HEY\n");
    assert_eq!(run(&engine, "shout", json!({})).await["stdout"], "HEY\n");
    let deleted = engine
        .ok("custom-tools__delete", json!({"tool_name": "shout"}))
        .await;
    assert_eq!(deleted["deleted"], true);
    assert!(!exists(engine.dir.path().join("tools/shout")));
    assert_eq!(list(&engine).await.len(), 1);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_tool_can_be_created_in_a_directory_that_is_not_utf8() {
    use std::os::unix::ffi::OsStrExt as _;
    let home = tempfile::tempdir().unwrap();
    let name = std::ffi::OsStr::from_bytes(b"bad\xff");
    std::fs::create_dir(home.path().join(name)).unwrap();
    std::os::unix::fs::symlink(name, home.path().join("tools")).unwrap();
    let engine = MockEngine::new().config(json!({"dir": home.path().join("tools")}));
    let create =
        json!({"name": "shout", "description": "Shouts", "template": "sh", "scope": "user"});
    let created = engine.ok("custom-tools__create", create).await;
    let folder = created["folder"].as_str().unwrap();
    assert!(folder.ends_with("bad\u{FFFD}/shout"), "{folder}");
}

#[tokio::test]
async fn every_template_creates_a_valid_tool() {
    let engine = MockEngine::new().config(json!({"dir": "shelf"}));
    for template in ["go", "rust", "sh", "python"] {
        let name = format!("my-{template}");
        let args =
            json!({"name": name, "description": "Does: # odd \"things\"\n", "template": template});
        let created = engine.ok("custom-tools__create", args).await;
        assert!(created["next"].as_array().unwrap().len() >= 3);
    }
    for tool in list(&engine).await {
        let built = ["my-sh", "my-python"].contains(&tool["name"].as_str().unwrap());
        assert_eq!(tool["available"], built, "{tool}");
        assert!(
            built || tool["reason"].as_str().unwrap().contains("build it first"),
            "{tool}"
        );
    }
}

#[tokio::test]
async fn project_tools_take_precedence_over_user_tools() {
    let engine = project();
    for name in ["greet", "extra"] {
        let yaml = format!("name: {name}\ndescription: of the shelf\nentrypoint: x\n");
        project_file(&engine, &format!("shelf/{name}/tool.yaml"), &yaml);
        project_file(&engine, &format!("shelf/{name}/x"), "#!/bin/sh\n");
    }
    let tools = list(&engine).await;
    let listed: Vec<_> = tools
        .iter()
        .map(|tool| {
            (
                tool["name"].as_str().unwrap(),
                tool["description"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        listed,
        [("extra", "of the shelf"), ("greet", "Greets somebody")]
    );
}

#[tokio::test]
async fn custom_tool_names_cannot_be_paths() {
    let engine = project();
    project_file(&engine, "outside/tool.yaml", GREET);
    for name in [
        "../greet",
        "../outside",
        "greet/../greet",
        "/bin/sh",
        ".",
        "..",
        "GREET",
    ] {
        for export in ["run", "delete"] {
            let (code, message) = engine
                .err(
                    &format!("custom-tools__{export}"),
                    json!({"tool_name": name}),
                )
                .await;
            assert_eq!(
                code, "E_TOOL_CUSTOM_TOOL_NOT_FOUND",
                "{export} {name}: {message}"
            );
        }
        let args = json!({"name": name, "description": "d"});
        assert_eq!(
            engine.err("custom-tools__create", args).await.0,
            "E_TOOL_INVALID_ARGS",
            "{name}"
        );
    }
    assert!(exists(engine.dir.path().join("outside/tool.yaml")));
}

#[tokio::test]
async fn create_keeps_existing_directories_and_delete_does_not_follow_links() {
    let engine = project();
    project_file(&engine, "tools/notes/readme", "mine");
    for name in ["greet", "notes"] {
        let (code, _) = engine
            .err(
                "custom-tools__create",
                json!({"name": name, "description": "d"}),
            )
            .await;
        assert_eq!(code, "E_TOOL_CUSTOM_TOOL_EXISTS");
    }
    project_file(
        &engine,
        "elsewhere/tool.yaml",
        "name: linked\ndescription: d\nentrypoint: x\n",
    );
    symlink("../elsewhere", engine.dir.path().join("tools/linked")).unwrap();
    let (_, message) = engine
        .err("custom-tools__delete", json!({"tool_name": "linked"}))
        .await;
    assert!(message.contains("link"), "{message}");
    assert!(exists(engine.dir.path().join("elsewhere/tool.yaml")));
}

#[tokio::test]
async fn custom_tools_exports_reject_invalid_arguments() {
    let engine = project();
    let bad = [
        ("create", json!({"name": "x"})),
        ("create", json!({"name": "X y", "description": "d"})),
        (
            "create",
            json!({"name": "x", "description": "d", "template": "perl"}),
        ),
        ("run", json!({})),
        ("run", json!({"tool_name": "greet", "arguments": "--who=x"})),
        ("run", json!({"tool_name": "greet", "timeout": 0})),
        ("list", with_unknown(json!({}))),
        ("delete", json!({})),
        ("delete", with_unknown(json!({"tool_name": "greet"}))),
    ];
    for (export, args) in bad {
        let (code, _) = engine
            .err(&format!("custom-tools__{export}"), args.clone())
            .await;
        assert_eq!(code, "E_TOOL_INVALID_ARGS", "{export} {args}");
    }
}

/// The directory of a Forge installation works unchanged.
#[tokio::test]
async fn the_user_tools_directory_can_be_anywhere() {
    let engine = project();
    let forge = engine.dir.path().join("home/.forge/tools");
    project_file(
        &engine,
        "home/.forge/tools/git-summarize/tool.yaml",
        "name: git-summarize\ndescription: d\nversion: 1.0.0\nentrypoint: git-summarize\nusage: |\n  u\nparameters: []\n",
    );
    project_file(
        &engine,
        "home/.forge/tools/git-summarize/git-summarize",
        "#!/bin/sh\necho done\n",
    );
    let engine = engine.config(json!({"dir": Path::new(&forge)}));
    assert_eq!(
        run(&engine, "git-summarize", json!({})).await["stdout"],
        "done\n"
    );
}
