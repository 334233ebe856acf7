//! Commands without a project argument use the project that encloses their directory.

use crate::projects::{ECHO, SHOUT, scripted};

#[test]
fn a_command_in_a_subdirectory_uses_the_enclosing_project() {
    let sandbox = scripted(ECHO);
    sandbox.write("p/src/deep/x.txt", "x");
    let project = sandbox.dir().join("p").display().to_string();
    let notice = format!("Using the project in {project}.\n");
    let run = sandbox.gdn_in("p/src/deep", &["run", "--input", "hi"]);
    assert_eq!(
        (run.ok(), run.stderr.as_str()),
        ("heard hi\n", notice.as_str())
    );
    for arguments in [
        &["validate"][..],
        &["build"],
        &["mcp", "list"],
        &["tool", "list"],
        &["policy", "explain", "--agent", "a", "--tool", "bash__exec"],
        &["instance", "list"],
        &["logs"],
        &["doctor"],
        &["trust"],
    ] {
        let outcome = sandbox.gdn_in("p/src/deep", arguments);
        outcome.ok();
        assert!(
            outcome.stderr.starts_with(&notice),
            "{arguments:?}: {outcome:#?}"
        );
    }
    // The trusted directory is the project, not its subdirectory.
    assert!(
        sandbox
            .gdn(&["trust", "--list"])
            .ok()
            .lines()
            .any(|line| line.starts_with(&format!("{project} ")))
    );
}

#[test]
fn the_project_is_not_announced_in_its_root_or_with_a_path() {
    let sandbox = scripted(ECHO);
    assert_eq!(sandbox.gdn_in("p", &["run", "--input", "hi"]).stderr, "");
    assert_eq!(sandbox.gdn(&["run", "p", "--input", "hi"]).stderr, "");
    // A run in a subdirectory continues the same conversation.
    sandbox.write("p/src/x.txt", "x");
    sandbox.gdn_in("p/src", &["run", "--input", "hi"]).ok();
    let listed = sandbox.gdn(&["instance", "list", "--json"]);
    let rows: Vec<serde_json::Value> = serde_json::from_str(listed.ok()).unwrap();
    assert_eq!(
        (rows.len(), &rows[0]["messages"]),
        (1, &serde_json::json!(6))
    );
}

#[test]
fn the_nearest_project_is_used_and_a_path_is_not_searched_upward() {
    let sandbox = scripted(ECHO);
    for file in ["goondan.yaml", "script.yaml"] {
        sandbox.write(
            &format!("p/inner/{file}"),
            &std::fs::read_to_string(sandbox.dir().join("p").join(file)).unwrap(),
        );
    }
    sandbox.write("p/inner/script.yaml", SHOUT);
    sandbox.write("p/inner/src/x.txt", "x");
    assert_eq!(
        sandbox
            .gdn_in("p/inner/src", &["run", "--input", "hi"])
            .ok(),
        "HI\n"
    );
    let named = sandbox.gdn_in("p/inner", &["validate", "src"]);
    assert_eq!(named.code, 3);
    assert!(
        named.stderr.contains("There is no goondan.yaml in `src`"),
        "{named:?}"
    );
}

#[test]
fn test_without_a_path_runs_the_cases_of_the_enclosing_project() {
    let sandbox = scripted(ECHO);
    sandbox.write("p/src/x.txt", "x");
    let nothing = sandbox.gdn_in("p/src", &["test"]);
    assert_eq!(nothing.code, 1, "{nothing:?}");
    assert!(
        nothing
            .stdout
            .contains("there is no *.case.yaml file in this directory or below it"),
        "{nothing:?}"
    );
    let case =
        "case: it-answers\nabout: The agent answers.\nproject: ..\nsteps:\n  - send: {input: hi}\n";
    sandbox.write("p/cases/answers.case.yaml", case);
    let run = sandbox.gdn_in("p/src", &["test"]);
    assert!(run.ok().contains("ok    it-answers"), "{run:?}");
}

#[test]
fn new_tool_adds_the_tool_to_the_enclosing_project() {
    let sandbox = scripted(ECHO);
    sandbox.write("p/src/x.txt", "x");
    sandbox
        .gdn_in("p/src", &["new", "tool", "dice", "--lang", "c"])
        .ok();
    let resource = std::fs::read_to_string(sandbox.dir().join("p/tools/dice.yaml")).unwrap();
    assert!(resource.contains("./tools/dice/dice"), "{resource}");
    assert!(sandbox.dir().join("p/tools/dice/tool.c").is_file());
}
