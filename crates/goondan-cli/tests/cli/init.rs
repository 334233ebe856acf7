//! `gdn init`: its projects are valid and run.

use crate::sandbox::Sandbox;

#[test]
fn every_template_validates_and_runs_without_a_key() {
    let answers = [
        ("default", "HELLO THERE\n"),
        ("multi-agent", "The worker says: HELLO THERE\n"),
        ("minimal", "You said: Hello there\n"),
    ];
    for (template, answer) in answers {
        let sandbox = Sandbox::new();
        let created = sandbox.gdn(&["init", "My Swarm", "--template", template]);
        sandbox
            .settings()
            .bind(|| insta::assert_snapshot!(format!("init {template}"), created.ok()));
        let checked = sandbox.gdn(&["validate", "My Swarm", "--strict"]);
        assert_eq!(checked.code, 0, "{template}: {checked:#?}");
        let ran = sandbox.gdn(&["run", "My Swarm", "--input", "Hello there"]);
        assert_eq!(ran.ok(), answer);
        assert_eq!(ran.stderr, "");
    }
}

#[test]
fn templates_with_a_test_case_pass_it_and_have_a_short_readme() {
    let answers = [
        (
            "coding",
            "The coder found 3 names in the repository, has 1 task left, and changed nothing, because it is scripted.\n",
        ),
        (
            "research",
            "The researcher says: 1 passage of the notes fits. Sources: memory/tides.md\n",
        ),
        (
            "service",
            "{\"answer\": \"A parcel takes two working days. Returns are free for thirty days.\", \"needsPerson\": false}\n",
        ),
    ];
    for (template, answer) in answers {
        let sandbox = repository();
        let created = sandbox.gdn(&["init", "swarm", "--template", template]);
        sandbox
            .settings()
            .bind(|| insta::assert_snapshot!(format!("init {template}"), created.ok()));
        sandbox.gdn(&["validate", "swarm", "--strict"]).ok();
        let ran = sandbox.run_command(sandbox.command_without_trust(&[
            "run",
            "swarm",
            "--input",
            "How high are the tides?",
        ]));
        assert_eq!(ran.ok(), answer, "{template}");
        sandbox
            .gdn_in("swarm", &["test", &format!("{template}.case.yaml")])
            .ok();
        let readme = std::fs::read_to_string(sandbox.dir().join("swarm/README.md")).unwrap();
        assert!(
            readme.starts_with("# swarm\n") && readme.lines().count() <= 12,
            "{readme}"
        );
    }
}

#[test]
fn init_keeps_an_existing_project_unless_forced() {
    let sandbox = Sandbox::new();
    sandbox.write("p/goondan.yaml", "mine\n");
    let refused = sandbox.gdn(&["init", "p"]);
    sandbox
        .settings()
        .bind(|| insta::assert_snapshot!("init over a project", refused.report()));
    assert_eq!(
        std::fs::read_to_string(sandbox.dir().join("p/goondan.yaml")).unwrap(),
        "mine\n"
    );
    sandbox.gdn(&["init", "p", "--force"]).ok();
    assert!(
        std::fs::read_to_string(sandbox.dir().join("p/goondan.yaml"))
            .unwrap()
            .contains("kind: Package")
    );
}

/// Creates a git repository with a file in the directory of the test.
fn repository() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("src/main.rs", "fn main() {}\n");
    let made = std::process::Command::new("git")
        .args(["init", "--quiet"])
        .current_dir(sandbox.dir())
        .status()
        .unwrap();
    assert!(made.success());
    sandbox
}

#[test]
fn the_repository_template_runs_in_a_repository_without_a_key() {
    let sandbox = repository();
    let created = sandbox.gdn(&["init", "swarm", "--template", "repository"]);
    sandbox
        .settings()
        .bind(|| insta::assert_snapshot!("init repository", created.ok()));
    let checked = sandbox.gdn(&["validate", "swarm", "--strict"]);
    assert_eq!(checked.code, 0, "{checked:#?}");
    // A project in a new directory is trusted. The coder sees the whole repository.
    let mut command = sandbox.command_without_trust(&["run", "--input", "Look around"]);
    command.current_dir(sandbox.dir().join("swarm/prompts"));
    let ran = sandbox.run_command(command);
    let answer = "The coder found 3 names in the repository, and changed nothing, because it is scripted.\n\
                  The reviewer saw no changes.\n";
    assert_eq!(ran.ok(), answer);
    // Allowed commands need no approval, including when the coordinator calls the coder.
    for (command, action) in [("git diff --stat", "allow"), ("rm -r src", "ask")] {
        let arguments = serde_json::json!({ "command": command }).to_string();
        let explain = [
            "policy",
            "explain",
            "-p",
            "swarm",
            "--agent",
            "coder",
            "--caller",
            "coordinator",
            "--tool",
            "bash__exec",
        ];
        let explained = sandbox.gdn(&[&explain[..], &["--args", &arguments]].concat());
        assert!(
            explained
                .ok()
                .starts_with(&format!("bash__exec: {action}\n")),
            "{explained:?}"
        );
    }
}

#[test]
fn the_repository_template_requires_a_repository() {
    let sandbox = Sandbox::new();
    let refused = sandbox.gdn(&["init", "swarm", "--template", "repository"]);
    sandbox
        .settings()
        .bind(|| insta::assert_snapshot!("init outside of a repository", refused.report()));
    assert!(!sandbox.dir().join("swarm").exists());
    sandbox
        .gdn(&["init", "swarm", "--template", "repository", "--git"])
        .ok();
    sandbox.gdn(&["validate", "swarm", "--strict"]).ok();
}

#[test]
fn init_in_a_repository_keeps_existing_files() {
    let sandbox = repository();
    sandbox.write(".gitignore", "/target");
    sandbox.write("README.md", "mine\n");
    let created = sandbox.gdn(&["init"]);
    sandbox
        .settings()
        .bind(|| insta::assert_snapshot!("init in a repository", created.ok()));
    let text = |path: &str| std::fs::read_to_string(sandbox.dir().join(path)).unwrap();
    assert_eq!(text(".gitignore"), "/target\n.env\n.env.local\n");
    assert_eq!(
        (text("README.md").as_str(), text("src/main.rs").as_str()),
        ("mine\n", "fn main() {}\n")
    );
    assert_eq!(sandbox.gdn(&["run", "--input", "hi"]).ok(), "HI\n");
    // A second `init` adds no line twice.
    sandbox.gdn(&["init", "--force"]).ok();
    assert_eq!(text(".gitignore"), "/target\n.env\n.env.local\n");
}

#[test]
fn init_warns_about_existing_files_that_join_the_project() {
    let sandbox = repository();
    sandbox.write("models/train.yaml", "epochs: 3\n");
    let created = sandbox.gdn(&["init"]);
    created.ok();
    assert!(
        created
            .stderr
            .contains("`models/train.yaml` already existed"),
        "{created:?}"
    );
    let several = repository();
    for (file, text) in [
        ("models/train.yaml", "epochs: 3\n"),
        ("agents/deploy.yaml", "on: push\n"),
        ("tools/ci.yaml", "jobs: {}\n"),
    ] {
        several.write(file, text);
    }
    let created = several.gdn(&["init"]);
    created.ok();
    assert!(
        created
            .stderr
            .contains("`agents/deploy.yaml`, `models/train.yaml`, `tools/ci.yaml` already existed"),
        "{created:?}"
    );
    // A directory that was not empty is not trusted.
    let team = repository();
    team.write("team/notes.txt", "x");
    let created =
        team.run_command(team.command_without_trust(&["init", "team", "--template", "repository"]));
    assert!(created.stdout.contains("gdn trust team"), "{created:?}");
    assert_eq!(
        team.run_command(team.command_without_trust(&["run", "team", "--input", "hi"]))
            .code,
        7
    );
}

#[test]
fn the_name_option_sets_the_package_name() {
    let sandbox = Sandbox::new();
    sandbox
        .gdn(&["init", "p", "--name", "support-desk", "-t", "minimal"])
        .ok();
    let text = std::fs::read_to_string(sandbox.dir().join("p/goondan.yaml")).unwrap();
    assert!(text.contains("name: support-desk\n") && !text.contains("__NAME__"));
    let refused = sandbox.gdn(&["init", "q", "--name", "Support Desk"]);
    assert_eq!(refused.code, 2);
    assert!(
        !sandbox.dir().join("q").exists(),
        "a refused command writes no files"
    );
}

#[test]
fn the_git_option_creates_a_repository_that_ignores_secrets() {
    let sandbox = Sandbox::new();
    sandbox.gdn(&["init", "p", "--git"]).ok();
    assert!(sandbox.dir().join("p/.git").is_dir());
    assert!(
        std::fs::read_to_string(sandbox.dir().join("p/.gitignore"))
            .unwrap()
            .contains(".env\n")
    );
}

/// An untrusted repository can contain links to any file of the user.
#[test]
#[cfg(unix)]
fn commands_do_not_write_through_links_out_of_the_project() {
    let sandbox = Sandbox::new();
    let link = |to: &str, from: &str| {
        std::os::unix::fs::symlink(sandbox.dir().join(to), sandbox.dir().join(from)).unwrap();
    };
    sandbox.write("victim/rc", "mine\n");
    sandbox.write("init/x", "");
    link("victim/rc", "init/.gitignore");
    sandbox.write("init2/x", "");
    link("victim/new.yaml", "init2/goondan.yaml");
    sandbox.write(
        "tools/goondan.yaml",
        crate::projects::manifest("{provider: scripted, model: m}", "").as_str(),
    );
    link("victim", "tools/tools");
    sandbox.write(
        "tools/.mcp.json",
        r#"{"mcpServers": {"x": {"command": "true"}}}"#,
    );
    sandbox.write("rc.yaml", "mine: true\n");
    sandbox.write("pack/x", "");
    link("rc.yaml", "pack/goondan.yaml");
    let files = || {
        let names = std::fs::read_dir(sandbox.dir().join("victim")).unwrap();
        (
            names.count(),
            std::fs::read_to_string(sandbox.dir().join("victim/rc")).unwrap(),
            std::fs::read_to_string(sandbox.dir().join("rc.yaml")).unwrap(),
        )
    };
    let before = files();
    for (folder, arguments) in [
        ("init", &["init", ".", "--force"][..]),
        ("init2", &["init", ".", "--force"]),
        ("tools", &["new", "tool", "evil"]),
        ("tools", &["mcp", "import", ".mcp.json", "--write"]),
        ("pack", &["package", "init"]),
    ] {
        let outcome = sandbox.gdn_in(folder, arguments);
        assert_ne!(outcome.code, 0, "{arguments:?}: {outcome:?}");
        assert_eq!(files(), before, "{arguments:?}: {outcome:?}");
    }
}
