#![cfg(unix)]

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use serde_json::{Value, json};

use crate::bench::{Bench, exists, with_unknown};

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
pub(crate) fn project_file(bench: &Bench, path: &str, content: &str) {
    let path = bench.dir.path().join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, content).unwrap();
    if content.starts_with("#!") {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
}

/// Creates a project with the tool `greet`, and an empty user directory.
fn project() -> Bench {
    let bench = Bench::new().config(json!({"dir": "shelf"}));
    project_file(&bench, "tools/greet/tool.yaml", GREET);
    project_file(
        &bench,
        "tools/greet/greet.sh",
        "#!/bin/sh\nfor a in \"$@\"; do echo \"[$a]\"; done\npwd\nexit 3\n",
    );
    bench
}

async fn run(bench: &Bench, name: &str, arguments: Value) -> Value {
    bench
        .ok(
            "custom-tools__run",
            json!({"tool_name": name, "arguments": arguments}),
        )
        .await
}

async fn list(bench: &Bench) -> Vec<Value> {
    bench.ok("custom-tools__list", json!({})).await["tools"]
        .as_array()
        .unwrap()
        .clone()
}

#[tokio::test]
async fn arguments_become_flags_in_the_declared_order() {
    let bench = project();
    let output = run(
        &bench,
        "greet",
        json!({"loud": true, "times": 2.0, "who": "O'Neil; ls $HOME"}),
    )
    .await;
    let work = bench.work();
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
async fn arguments_are_checked_first() {
    let bench = project();
    for (arguments, words) in [
        (json!({"times": "many"}), "who"),
        (json!({"who": "x", "times": "many"}), "times"),
        (json!({"who": "x", "extra": 1}), "extra"),
        (json!({"who": ["x"]}), "who"),
    ] {
        let args = json!({"tool_name": "greet", "arguments": arguments});
        let error = bench.call("custom-tools__run", args).await.unwrap_err();
        assert_eq!(error.code.as_deref(), Some("E_TOOL_INVALID_ARGS"));
        assert!(error.message.contains(words), "{}", error.message);
        assert!(error.suggestion.unwrap().contains("who"));
    }
}

#[tokio::test]
async fn programs_see_the_workspace_and_no_keys() {
    let bench = Bench::new().config(json!({"dir": "shelf", "env": ["CARGO_PKG_NAME"]}));
    let yaml = "name: show\ndescription: d\nentrypoint: show\n";
    project_file(&bench, "tools/show/tool.yaml", yaml);
    project_file(&bench, "tools/show/show", "#!/bin/sh\nenv\n");
    let output = run(&bench, "show", json!({})).await;
    let stdout = output["stdout"].as_str().unwrap();
    for name in ["GOONDAN_WORKSPACE", "FORGE_WORKSPACE"] {
        assert!(
            stdout.contains(&format!("{name}={}\n", bench.work().display())),
            "{stdout}"
        );
    }
    assert!(
        stdout.contains("CARGO_PKG_NAME=goondan-tools") && !stdout.contains("CARGO_MANIFEST_DIR"),
        "{stdout}"
    );
}

#[tokio::test]
async fn a_run_ends_in_time_or_when_it_is_cancelled() {
    let bench = project();
    project_file(
        &bench,
        "tools/slow/tool.yaml",
        "name: slow\ndescription: d\nentrypoint: slow\n",
    );
    project_file(
        &bench,
        "tools/slow/slow",
        "#!/bin/sh\ntouch started\nsleep 60\n",
    );
    let output = bench
        .ok(
            "custom-tools__run",
            json!({"tool_name": "slow", "timeout": 1}),
        )
        .await;
    assert_eq!(
        (&output["timedOut"], &output["exitCode"]),
        (&json!(true), &json!(-1))
    );
    std::fs::remove_file(bench.work().join("started")).unwrap();
    let call = bench.err("custom-tools__run", json!({"tool_name": "slow"}));
    let cancel = async {
        crate::bench::until("the start", || exists(bench.work().join("started"))).await;
        bench.cancellation.cancel();
    };
    assert_eq!(tokio::join!(call, cancel).0.0, "E_TOOL_CANCELLED");
}

#[tokio::test]
async fn a_broken_tool_is_listed_with_its_reason_and_hides_no_other() {
    let bench = project();
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
        project_file(&bench, &format!("tools/{name}/tool.yaml"), yaml);
    }
    project_file(&bench, "tools/other-name/x.sh", "#!/bin/sh\n");
    project_file(&bench, "tools/asleep/x.txt", "");
    symlink("/bin/sh", bench.dir.path().join("tools/linked/out")).unwrap();
    project_file(&bench, "tools/just-a-folder/readme", "");
    // An agent can create a link to a place that it may not read.
    project_file(&bench, "elsewhere/tool.yaml", GREET);
    symlink("../elsewhere", bench.dir.path().join("tools/link")).unwrap();
    let tools = list(&bench).await;
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
        let (code, message) = bench
            .err("custom-tools__run", json!({"tool_name": name}))
            .await;
        assert_eq!(code, "E_TOOL_CUSTOM_TOOL_BROKEN");
        assert!(message.contains(words), "{message}");
    }
}

#[tokio::test]
async fn a_new_or_changed_tool_is_there_at_the_next_call() {
    let bench = project();
    let output = bench
        .ok(
            "custom-tools__create",
            json!({"name": "shout", "description": "Shouts: \"hey\"", "template": "sh"}),
        )
        .await;
    assert_eq!(
        output["folder"],
        json!(bench.dir.path().canonicalize().unwrap().join("tools/shout"))
    );
    assert_eq!(output["files"], json!(["tool.yaml", "shout.sh"]));
    let shout = run(&bench, "shout", json!({})).await;
    assert_eq!(
        (&shout["exitCode"], &shout["stdout"]),
        (&json!(0), &json!("shout does nothing yet\n"))
    );
    project_file(&bench, "tools/shout/shout.sh", "#!/bin/sh\necho HEY\n");
    assert_eq!(run(&bench, "shout", json!({})).await["stdout"], "HEY\n");
    let deleted = bench
        .ok("custom-tools__delete", json!({"tool_name": "shout"}))
        .await;
    assert_eq!(deleted["deleted"], true);
    assert!(!exists(bench.dir.path().join("tools/shout")));
    assert_eq!(list(&bench).await.len(), 1);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_tool_can_be_created_in_a_directory_that_is_not_utf8() {
    use std::os::unix::ffi::OsStrExt as _;
    let home = tempfile::tempdir().unwrap();
    let name = std::ffi::OsStr::from_bytes(b"bad\xff");
    std::fs::create_dir(home.path().join(name)).unwrap();
    std::os::unix::fs::symlink(name, home.path().join("tools")).unwrap();
    let bench = Bench::new().config(json!({"dir": home.path().join("tools")}));
    let create =
        json!({"name": "shout", "description": "Shouts", "template": "sh", "scope": "user"});
    let created = bench.ok("custom-tools__create", create).await;
    let folder = created["folder"].as_str().unwrap();
    assert!(folder.ends_with("bad\u{FFFD}/shout"), "{folder}");
}

#[tokio::test]
async fn every_template_makes_a_tool_that_is_understood() {
    let bench = Bench::new().config(json!({"dir": "shelf"}));
    for template in ["go", "rust", "sh", "python"] {
        let name = format!("my-{template}");
        let args =
            json!({"name": name, "description": "Does: # odd \"things\"\n", "template": template});
        let created = bench.ok("custom-tools__create", args).await;
        assert!(created["next"].as_array().unwrap().len() >= 3);
    }
    for tool in list(&bench).await {
        let built = ["my-sh", "my-python"].contains(&tool["name"].as_str().unwrap());
        assert_eq!(tool["available"], built, "{tool}");
        assert!(
            built || tool["reason"].as_str().unwrap().contains("build it first"),
            "{tool}"
        );
    }
}

#[tokio::test]
async fn the_project_comes_before_the_other_folder() {
    let bench = project();
    for name in ["greet", "extra"] {
        let yaml = format!("name: {name}\ndescription: of the shelf\nentrypoint: x\n");
        project_file(&bench, &format!("shelf/{name}/tool.yaml"), &yaml);
        project_file(&bench, &format!("shelf/{name}/x"), "#!/bin/sh\n");
    }
    let tools = list(&bench).await;
    let told: Vec<_> = tools
        .iter()
        .map(|tool| {
            (
                tool["name"].as_str().unwrap(),
                tool["description"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        told,
        [("extra", "of the shelf"), ("greet", "Greets somebody")]
    );
}

#[tokio::test]
async fn names_never_become_paths() {
    let bench = project();
    project_file(&bench, "outside/tool.yaml", GREET);
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
            let (code, message) = bench
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
            bench.err("custom-tools__create", args).await.0,
            "E_TOOL_INVALID_ARGS",
            "{name}"
        );
    }
    assert!(exists(bench.dir.path().join("outside/tool.yaml")));
}

#[tokio::test]
async fn what_exists_is_not_overwritten_and_links_are_not_followed() {
    let bench = project();
    project_file(&bench, "tools/notes/readme", "mine");
    for name in ["greet", "notes"] {
        let (code, _) = bench
            .err(
                "custom-tools__create",
                json!({"name": name, "description": "d"}),
            )
            .await;
        assert_eq!(code, "E_TOOL_CUSTOM_TOOL_EXISTS");
    }
    project_file(
        &bench,
        "elsewhere/tool.yaml",
        "name: linked\ndescription: d\nentrypoint: x\n",
    );
    symlink("../elsewhere", bench.dir.path().join("tools/linked")).unwrap();
    let (_, message) = bench
        .err("custom-tools__delete", json!({"tool_name": "linked"}))
        .await;
    assert!(message.contains("link"), "{message}");
    assert!(exists(bench.dir.path().join("elsewhere/tool.yaml")));
}

#[tokio::test]
async fn arguments_that_make_no_sense_are_refused() {
    let bench = project();
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
        let (code, _) = bench
            .err(&format!("custom-tools__{export}"), args.clone())
            .await;
        assert_eq!(code, "E_TOOL_INVALID_ARGS", "{export} {args}");
    }
}

/// The directory of a Forge installation works unchanged.
#[tokio::test]
async fn the_other_folder_may_be_anywhere() {
    let bench = project();
    let forge = bench.dir.path().join("home/.forge/tools");
    project_file(
        &bench,
        "home/.forge/tools/git-summarize/tool.yaml",
        "name: git-summarize\ndescription: d\nversion: 1.0.0\nentrypoint: git-summarize\nusage: |\n  u\nparameters: []\n",
    );
    project_file(
        &bench,
        "home/.forge/tools/git-summarize/git-summarize",
        "#!/bin/sh\necho done\n",
    );
    let bench = bench.config(json!({"dir": Path::new(&forge)}));
    assert_eq!(
        run(&bench, "git-summarize", json!({})).await["stdout"],
        "done\n"
    );
}
