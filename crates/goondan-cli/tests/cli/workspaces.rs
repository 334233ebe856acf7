//! Each project has its own workspace. State of a project in another workspace is reported.

use std::path::PathBuf;

use serde_json::Value;

use crate::projects::{ECHO, scripted};
use crate::sandbox::Sandbox;

/// Creates two equal projects, and a conversation in the first one.
fn two_equal_projects() -> Sandbox {
    let sandbox = scripted(ECHO);
    for file in ["goondan.yaml", "script.yaml"] {
        sandbox.write(
            &format!("q/{file}"),
            &std::fs::read_to_string(sandbox.dir().join("p").join(file)).unwrap(),
        );
    }
    sandbox.gdn(&["run", "p", "--input", "a secret"]).ok();
    sandbox
}

fn rows(sandbox: &Sandbox, arguments: &[&str]) -> Vec<Value> {
    let listed = sandbox.gdn(&[&["instance", "list", "--json"], arguments].concat());
    serde_json::from_str::<Vec<Value>>(listed.ok()).unwrap()
}

/// Returns the directory of the only workspace.
fn workspace(sandbox: &Sandbox) -> PathBuf {
    let mut found: Vec<PathBuf> = std::fs::read_dir(sandbox.state().join("workspaces"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

/// Moves the state of the project to the path that an earlier version used.
fn move_state_to_legacy_path(sandbox: &Sandbox) {
    let own = workspace(sandbox);
    std::fs::remove_file(own.join("project.json")).unwrap();
    std::fs::rename(&own, own.with_file_name("s")).unwrap();
}

#[test]
fn projects_with_the_same_names_have_separate_workspaces() {
    let sandbox = two_equal_projects();
    sandbox.gdn(&["run", "q", "--input", "hi"]).ok();
    let all = rows(&sandbox, &[]);
    assert_eq!(all.len(), 2);
    assert!(all.iter().all(|row| row["messages"] == 2), "{all:?}");
    assert_ne!(all[0]["workspace"], all[1]["workspace"]);
    let path = sandbox.dir().join("q").canonicalize().unwrap();
    assert_eq!(
        all[0]["project"].as_str(),
        path.to_str(),
        "each row names its project"
    );
}

#[test]
fn a_project_with_an_instance_key_uses_the_workspace_of_that_name() {
    let sandbox = two_equal_projects();
    for project in ["p", "q"] {
        let path = sandbox.dir().join(project).join("goondan.yaml");
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(
            &path,
            text.replace(
                "spec: {entryAgent",
                "spec: {instanceKey: Our Team, entryAgent",
            ),
        )
        .unwrap();
        sandbox.gdn(&["run", project, "--input", "hi"]).ok();
    }
    let shared: Vec<Value> = rows(&sandbox, &[])
        .into_iter()
        .filter(|row| row["workspace"] == "our-team")
        .collect();
    assert_eq!((shared.len(), &shared[0]["messages"]), (1, &Value::from(4)));
}

#[test]
fn commands_inside_a_project_use_its_conversations() {
    let sandbox = two_equal_projects();
    std::fs::create_dir(sandbox.dir().join("q/deep")).unwrap();
    sandbox
        .gdn(&["run", "q", "--input", "hi", "-k", "other"])
        .ok();
    let keys = |folder: &str, arguments: &[&str]| -> Vec<String> {
        let listed = sandbox.gdn_in(
            folder,
            &[&["instance", "list", "--json"], arguments].concat(),
        );
        let rows: Vec<Value> = serde_json::from_str(listed.ok()).unwrap();
        rows.iter()
            .map(|row| row["instanceKey"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(
        (keys("p", &[]), keys("q", &[])),
        (vec!["main".to_owned()], vec!["other".to_owned()])
    );
    assert_eq!(
        keys("q/deep", &[]),
        ["other"],
        "parent directories are searched"
    );
    assert_eq!(keys("p", &["--all"]), ["other", "main"]);
    assert_eq!(keys(".", &["--project", "q"]), ["other"]);
    assert_eq!(
        keys(".", &[]),
        ["other", "main"],
        "outside of a project, all conversations are listed"
    );
    let logs = sandbox.gdn_in("q", &["logs"]);
    assert!(
        logs.ok().contains("a:other") && !logs.stdout.contains("a:main"),
        "{logs:?}"
    );
    assert!(
        sandbox
            .gdn_in("q", &["logs", "--all"])
            .ok()
            .contains("a:main")
    );
    let unknown = sandbox.gdn_in("q", &["instance", "show", "a:main"]);
    sandbox
        .settings()
        .bind(|| insta::assert_snapshot!("an instance of another project", unknown.report()));
    assert_eq!(
        sandbox
            .gdn_in("q", &["instance", "show", "a:main", "--all"])
            .code,
        0
    );
    std::fs::remove_dir_all(sandbox.dir().join("q/deep")).unwrap();
    std::fs::remove_dir_all(sandbox.state()).unwrap();
    let nothing = sandbox.gdn_in("q", &["instance", "list"]);
    assert!(
        nothing
            .stderr
            .contains("List the conversations of all projects with `--all`."),
        "{nothing:?}"
    );
}

#[test]
fn state_of_an_earlier_version_is_reported_and_can_be_adopted() {
    let sandbox = two_equal_projects();
    move_state_to_legacy_path(&sandbox);
    let doctor = sandbox.gdn(&["doctor", "p"]);
    assert!(
        doctor
            .stdout
            .contains("gdn conversation adopt s --project p --swarm s"),
        "{doctor:?}"
    );
    let first = sandbox.gdn(&["run", "p", "--input", "hi"]);
    sandbox
        .settings()
        .bind(|| insta::assert_snapshot!("state of an earlier version", first.report()));
    let second = sandbox.gdn(&["run", "p", "--input", "hi"]);
    assert!(
        !second.stderr.contains("warning"),
        "only the first run warns: {second:?}"
    );
    let adopted = sandbox.gdn(&["instance", "adopt", "s", "--project", "p"]);
    sandbox
        .settings()
        .bind(|| insta::assert_snapshot!("adopted", adopted.report()));
    sandbox.gdn(&["run", "p", "--input", "again"]).ok();
    let counts: Vec<(bool, u64)> = rows(&sandbox, &[])
        .iter()
        .map(|row| {
            (
                row["workspace"].as_str().unwrap().contains("-aside-"),
                row["messages"].as_u64().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        counts,
        [(false, 4), (true, 4)],
        "the old conversation continues, the new one is moved aside"
    );
}

#[test]
fn the_state_of_a_moved_project_is_reported() {
    let sandbox = two_equal_projects();
    let manifest = |project: &str| sandbox.dir().join(project).join("goondan.yaml");
    let package = "apiVersion: goondan.ai/v1\nkind: Package\nmetadata: {name: '@acme/twin'}\n---\n";
    for project in ["p", "q"] {
        let text = std::fs::read_to_string(manifest(project)).unwrap();
        std::fs::write(manifest(project), format!("{package}{text}")).unwrap();
    }
    sandbox.gdn(&["run", "p", "--input", "of p"]).ok();
    let unmoved = sandbox.gdn(&["run", "q", "--input", "hi"]);
    assert!(
        !unmoved.stderr.contains("warning"),
        "project p was not moved: {unmoved:?}"
    );
    let own = rows(&sandbox, &["--project", "p"])[0]["workspace"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(own.starts_with("acme-twin-"), "{own}");
    let refused = sandbox.gdn(&["instance", "adopt", &own, "--project", "q"]);
    assert!(
        refused.code == 1 && refused.stderr.contains("belongs to the project in"),
        "{refused:?}"
    );
    std::fs::rename(sandbox.dir().join("p"), sandbox.dir().join("moved")).unwrap();
    let outcome = sandbox.gdn(&["run", "moved", "--input", "hi"]);
    assert!(
        outcome.stderr.contains("from its former path"),
        "{outcome:?}"
    );
    let command = outcome
        .stderr
        .lines()
        .find_map(|line| line.split_once("run: gdn "))
        .unwrap()
        .1
        .to_owned();
    sandbox.gdn(&command.split(' ').collect::<Vec<_>>()).ok();
    assert_eq!(rows(&sandbox, &["--project", "moved"])[0]["messages"], 2);
    let shown = sandbox.gdn(&["instance", "show", "a:main", "--project", "moved"]);
    assert!(shown.ok().contains("of p"), "{shown:?}");
}

#[test]
fn a_project_cannot_prepare_the_workspace_of_another_project() {
    let sandbox = two_equal_projects();
    let victim = rows(&sandbox, &[])[0]["workspace"]
        .as_str()
        .unwrap()
        .to_owned();
    std::fs::remove_dir_all(sandbox.state()).unwrap();
    let path = sandbox.dir().join("q/goondan.yaml");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(
        &path,
        text.replace(
            "spec: {entryAgent",
            &format!("spec: {{instanceKey: {victim}, entryAgent"),
        ),
    )
    .unwrap();
    sandbox.gdn(&["run", "q", "--input", "do evil later"]).ok();
    let refused = sandbox.gdn(&["run", "p", "--input", "hi"]);
    assert_eq!(refused.code, 1);
    assert!(
        refused.stderr.contains("belongs to the project in"),
        "{refused:?}"
    );
}

#[test]
fn the_state_of_a_renamed_project_is_reported() {
    let sandbox = two_equal_projects();
    let path = sandbox.dir().join("p/goondan.yaml");
    let text = std::fs::read_to_string(&path).unwrap();
    let package = "apiVersion: goondan.ai/v1\nkind: Package\nmetadata: {name: twin}\n---\n";
    for renamed in [
        format!("{package}{text}"),
        text.replace("metadata: {name: s}", "metadata: {name: other}"),
    ] {
        std::fs::write(&path, renamed).unwrap();
        let outcome = sandbox.gdn(&["doctor", "p"]);
        assert!(
            outcome.stdout.contains("under its former name"),
            "{outcome:?}"
        );
    }
    std::fs::write(&path, text).unwrap();
    assert!(
        !sandbox.gdn(&["doctor", "p"]).stdout.contains("before"),
        "the workspace in use is not reported"
    );
}

#[cfg(unix)]
#[test]
fn the_state_of_a_renamed_project_directory_is_reported() {
    let sandbox = Sandbox::new();
    let manifest = "apiVersion: goondan.ai/v1\nkind: Model\nmetadata: {name: m}\n\
        spec: {provider: scripted, model: any, options: {script: script.yaml}}\n---\n\
        apiVersion: goondan.ai/v1\nkind: Agent\nmetadata: {name: a}\n\
        spec: {modelConfig: {modelRef: Model/m}}\n---\n\
        apiVersion: goondan.ai/v1\nkind: Swarm\nmetadata: {name: default}\n\
        spec: {entryAgent: Agent/a, agents: [{ref: Agent/a}]}\n";
    sandbox.write("shop/goondan.yaml", manifest);
    sandbox.write("shop/script.yaml", ECHO);
    sandbox.gdn(&["run", "shop", "--input", "one"]).ok();
    let old = workspace(&sandbox);
    std::fs::rename(sandbox.dir().join("shop"), sandbox.dir().join("shop2")).unwrap();
    let outcome = sandbox.gdn(&["doctor", "--project", "shop2"]);
    let name = old.file_name().unwrap().to_str().unwrap();
    assert!(outcome.ok().contains(name), "{}", outcome.ok());
}
