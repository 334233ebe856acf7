//! `gdn instance` and `gdn logs`.

use serde_json::Value;

use crate::projects::{SHOUT, scripted};
use crate::sandbox::Sandbox;

/// Two conversations of one agent.
fn talked() -> Sandbox {
    let sandbox = scripted(SHOUT);
    for key in ["main", "ticket-42"] {
        sandbox.gdn(&["run", "p", "--input", "good morning", "-k", key]).ok();
    }
    sandbox
}

#[test]
fn without_state_there_is_nothing_to_show() {
    let sandbox = Sandbox::new();
    let listed = sandbox.gdn(&["instance", "list"]);
    assert_eq!((listed.ok(), listed.stderr.as_str()), ("", "No instances found.\n"));
    assert_eq!(sandbox.gdn(&["instance", "list", "--json"]).ok(), "[]\n");
    let logs = sandbox.gdn(&["logs"]);
    assert_eq!((logs.ok(), logs.stderr.as_str()), ("", "No events found.\n"));
    let shown = sandbox.gdn(&["instance", "show", "a:main"]);
    sandbox.settings().bind(|| insta::assert_snapshot!("no such instance", shown.report()));
}

#[test]
fn conversations_are_listed_and_shown() {
    let sandbox = talked();
    let listed = sandbox.gdn(&["instance", "list"]);
    sandbox.settings().bind(|| insta::assert_snapshot!("instance list", listed.ok()));
    let rows: Value = serde_json::from_str(sandbox.gdn(&["instance", "list", "--json", "-n", "1"]).ok()).unwrap();
    assert_eq!(rows.as_array().unwrap().len(), 1);
    assert_eq!(rows[0]["instanceKey"], "ticket-42");
    let shown = sandbox.gdn(&["instance", "show", "a:main"]);
    sandbox.settings().bind(|| insta::assert_snapshot!("instance show", shown.ok()));
    let json: Value = serde_json::from_str(sandbox.gdn(&["instance", "show", "ticket-42", "--json"]).ok()).unwrap();
    assert_eq!(json["messages"].as_array().unwrap().len(), 4);
    let ambiguous = sandbox.gdn(&["instance", "show", "a"]);
    sandbox.settings().bind(|| insta::assert_snapshot!("ambiguous instance", ambiguous.report()));
}

#[test]
fn deleting_needs_a_yes_and_forgets_everything() {
    let sandbox = talked();
    let unsure = sandbox.gdn(&["instance", "delete", "a:main"]);
    sandbox.settings().bind(|| insta::assert_snapshot!("delete without a terminal", unsure.report()));
    sandbox.gdn(&["instance", "delete", "a:main", "--force"]).ok();
    assert!(!sandbox.gdn(&["instance", "list"]).ok().contains("a:main"));
    sandbox.gdn(&["instance", "delete", "a:main", "--force"]).ok();
    let again = sandbox.gdn(&["run", "p", "--input", "anew", "--output-format", "json"]);
    assert!(again.ok().contains("ANEW"));
    let messages: Value = serde_json::from_str(sandbox.gdn(&["instance", "show", "a:main", "--json"]).ok()).unwrap();
    assert_eq!(messages["messages"].as_array().unwrap().len(), 4, "the new conversation knows nothing of the old one");
}

#[test]
fn logs_can_be_narrowed_to_a_trace() {
    let sandbox = talked();
    let all = sandbox.gdn(&["logs", "--json"]);
    let events: Vec<Value> = all.ok().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let trace = events[0]["traceId"].as_str().unwrap();
    let one = sandbox.gdn(&["logs", "--json", "--trace", trace]);
    assert_eq!(one.ok().lines().count() * 2, events.len());
    let last = sandbox.gdn(&["logs", "-n", "1", "-k", "main"]);
    assert_eq!(last.ok().lines().count(), 1);
    assert!(last.stdout.contains("a:main turn.completed"), "{last:#?}");
    assert_eq!(sandbox.gdn(&["logs", "--agent", "nobody"]).stderr, "No events found.\n");
}
