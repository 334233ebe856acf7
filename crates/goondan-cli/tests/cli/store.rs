//! `--store`: conversations in PostgreSQL. Most tests are skipped without a database (see
//! tests/postgres.sh).

use serde_json::Value;

use crate::projects::{SHOUT, scripted};
use crate::sandbox::{Outcome, Sandbox};

/// Creates a project for this test in the test database. Prints a message and returns `None`
/// without a database.
#[allow(clippy::print_stderr, reason = "reports that the test is skipped")]
fn in_database() -> Option<(Sandbox, String)> {
    let Ok(address) = std::env::var("GOONDAN_TEST_POSTGRES") else {
        eprintln!("skipped: GOONDAN_TEST_POSTGRES names no database; see tests/postgres.sh");
        return None;
    };
    Some((scripted(SHOUT), address))
}

fn json(outcome: &Outcome) -> Value {
    serde_json::from_str(outcome.ok()).unwrap()
}

#[test]
fn an_invalid_database_url_is_refused_without_showing_its_password() {
    let sandbox = scripted(SHOUT);
    for address in [
        "mysql://me:hunter2@h/d",
        "postgres://me:hunter2@/d?port=hunter2",
        "hunter2",
    ] {
        for command in [
            &["nodes"][..],
            &["run", "p", "--input", "hi"],
            &["send", "hi", "--project", "p"],
            &["logs"],
        ] {
            let outcome = sandbox.gdn(&[command, &["--store", address]].concat());
            assert!(outcome.stderr.contains("DATABASE_ERROR"), "{outcome:?}");
            assert!(!outcome.stderr.contains("hunter2"), "{outcome:?}");
        }
    }
    assert!(sandbox.gdn(&["nodes"]).stderr.contains("GOONDAN_STORE"));
}

#[test]
fn an_unreachable_database_is_reported_without_the_password() {
    let sandbox = scripted(SHOUT);
    let outcome = sandbox.gdn(&[
        "run",
        "p",
        "--input",
        "hi",
        "--store",
        "postgres://me:hunter2@127.0.0.1:1/d",
    ]);
    assert!(
        outcome.stderr.contains("DATABASE_ERROR")
            && outcome.stderr.contains("postgres://me@127.0.0.1:1/d")
    );
    assert!(!outcome.stderr.contains("hunter2"), "{outcome:?}");
}

#[test]
fn a_conversation_continues_in_the_database() {
    let Some((sandbox, address)) = in_database() else {
        return;
    };
    let store = ["--store", &address];
    let with = |command: &[&str]| sandbox.gdn(&[command, &store].concat());
    let first = with(&["run", "p", "--input", "good morning"]);
    with(&["run", "p", "--input", "good morning"]).ok();
    assert!(first.ok().contains("GOOD MORNING"), "{first:?}");
    let listed = json(&with(&["instance", "list", "--project", "p", "--json"]));
    assert_eq!(
        (listed.as_array().unwrap().len(), &listed[0]["messages"]),
        (1, &Value::from(8))
    );
    let name = format!("{}:main", listed[0]["agent"].as_str().unwrap());
    let shown = json(&with(&[
        "instance",
        "show",
        &name,
        "--project",
        "p",
        "--json",
    ]));
    assert_eq!(shown["messages"].as_array().unwrap().len(), 8);
    assert!(
        with(&["logs", "--project", "p"])
            .ok()
            .contains("turn.completed")
    );
    assert_eq!(
        sandbox
            .gdn(&["instance", "list", "--project", "p", "--json"])
            .ok(),
        "[]\n",
        "no conversation is stored in files"
    );
}

#[test]
fn an_input_without_a_running_node_is_kept_for_the_next_node() {
    let Some((sandbox, address)) = in_database() else {
        return;
    };
    let store = ["--store", &address];
    let with = |command: &[&str]| sandbox.gdn(&[command, &store].concat());
    let sent = json(&with(&[
        "send",
        "good evening",
        "--project",
        "p",
        "-k",
        "later",
        "--id",
        "evt-1",
        "--json",
    ]));
    assert_eq!(sent, serde_json::json!({"id": "evt-1", "state": "kept"}));
    // One of the next nodes processes the input, even if each node runs only briefly.
    let is_delivered = || {
        with(&["run", "p", "--input", "good morning"]).ok();
        with(&["instance", "list", "--project", "p"])
            .ok()
            .contains(":later")
    };
    assert!(
        (0..20).any(|_| is_delivered()),
        "no node processed the input"
    );
}

#[test]
fn a_conversation_is_exported_from_and_imported_into_the_database() {
    let Some((sandbox, address)) = in_database() else {
        return;
    };
    let store = ["--store", &address];
    let with = |command: &[&str]| sandbox.gdn(&[command, &store].concat());
    with(&["run", "p", "--input", "good morning"]).ok();
    let listed = json(&with(&["instance", "list", "--project", "p", "--json"]));
    let name = format!("{}:main", listed[0]["agent"].as_str().unwrap());
    with(&[
        "instance",
        "export",
        &name,
        "--project",
        "p",
        "-o",
        "kept.jsonl",
    ])
    .ok();
    let workspace = listed[0]["workspace"].as_str().unwrap();
    let import = |more: &[&str]| {
        with(
            &[
                &["instance", "import", "kept.jsonl", "--workspace", workspace],
                more,
            ]
            .concat(),
        )
    };
    assert!(import(&[]).stderr.contains("INSTANCE_EXISTS"));
    with(&["instance", "delete", &name, "--project", "p", "--force"]).ok();
    assert_eq!(
        json(&with(&["instance", "list", "--project", "p", "--json"])),
        Value::Array(Vec::new())
    );
    import(&[]).ok();
    import(&["--as", "copy:main"]).ok();
    let listed = json(&with(&["instance", "list", "--project", "p", "--json"]));
    let messages: Vec<_> = listed
        .as_array()
        .unwrap()
        .iter()
        .map(|row| &row["messages"])
        .collect();
    assert_eq!(messages, [4, 4]);
    assert_eq!(
        sandbox
            .gdn(&["instance", "list", "--project", "p", "--json"])
            .ok(),
        "[]\n",
        "no conversation is stored in files"
    );
}

#[test]
fn a_renamed_project_adopts_its_former_conversations() {
    let Some((sandbox, address)) = in_database() else {
        return;
    };
    let store = ["--store", &address];
    let with = |command: &[&str]| sandbox.gdn(&[command, &store].concat());
    let listed = |project: &str| json(&with(&["instance", "list", "--project", project, "--json"]));
    with(&["run", "p", "--input", "good morning"]).ok();
    let former = listed("p")[0]["workspace"].as_str().unwrap().to_owned();
    std::fs::rename(sandbox.dir().join("p"), sandbox.dir().join("moved")).unwrap();
    with(&["run", "moved", "--input", "good evening"]).ok();
    let adopt = |id: &str| with(&["instance", "adopt", id, "--project", "moved", "--json"]);
    let unknown = adopt("nobody");
    assert!(
        unknown.code == 1
            && unknown
                .stderr
                .contains("The database has no workspace nobody, or the workspace is empty."),
        "{unknown:?}"
    );
    let adopted = json(&adopt(&former));
    assert_eq!(
        (adopted["adopted"].as_str(), adopted["aside"].is_string()),
        (Some(&*former), true),
        "{adopted}"
    );
    with(&["run", "moved", "--input", "good night"]).ok();
    assert_eq!(
        listed("moved")[0]["messages"],
        8,
        "the old conversation continues"
    );
    assert_eq!(adopt(&former).code, 1, "the former workspace is empty");
}
