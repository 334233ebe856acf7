//! Commands about running swarms: `ps`, `stop`, `cancel` and `conversation fork`.

use serde_json::{Value, json};

use crate::projects::{SHOUT, manifest, scripted};
use crate::sandbox::Sandbox;
use crate::serve::ServeProcess;

/// Maximum attempts to cancel a turn that has not started yet.
const MAX_ATTEMPTS: usize = 100;

/// Creates a swarm whose agent waits for an approval of its first call.
fn asking() -> Sandbox {
    let sandbox = scripted(SHOUT);
    let all = manifest(
        "{provider: scripted, model: any, options: {script: script.yaml}}",
        "permissions: {default: ask}",
    );
    sandbox.write("p/goondan.yaml", &all);
    sandbox
}

fn running(sandbox: &Sandbox) -> Value {
    serde_json::from_str(sandbox.gdn(&["ps", "--json"]).ok()).unwrap()
}

#[test]
fn running_swarms_are_listed_and_stopped() {
    let sandbox = asking();
    assert_eq!(running(&sandbox), json!([]));
    let none = sandbox.gdn(&["stop", "--project", "p"]);
    assert!(
        none.stderr.contains("No process is running"),
        "{}",
        none.stderr
    );
    let serving = ServeProcess::start(&sandbox, &[]);
    let listed = running(&sandbox);
    assert_eq!(listed[0]["swarm"], "s");
    assert_eq!(listed[0]["agents"], json!(["a"]));
    assert!(sandbox.gdn(&["ps"]).ok().contains("GENERATION"));
    let stopped = sandbox.gdn(&["stop", "--project", "p", "--json"]);
    let stopped: Value = serde_json::from_str(stopped.ok()).unwrap();
    assert_eq!(stopped["process"], listed[0]["process"]);
    serving.end();
    assert_eq!(running(&sandbox), json!([]));
    assert_eq!(sandbox.gdn(&["stop", "--all"]).code, 0);
}

#[test]
fn a_turn_waiting_for_approval_is_cancelled_and_its_conversation_forked() {
    let sandbox = asking();
    let serving = ServeProcess::start(&sandbox, &[]);
    sandbox.gdn(&["send", "hi", "-p", "p"]).ok();
    // The input is accepted before its turn begins.
    let cancelled = (0..MAX_ATTEMPTS)
        .map(|_| sandbox.gdn(&["cancel", "a:main", "-p", "p"]))
        .find(|outcome| outcome.code == 0);
    let cancelled = cancelled.expect("the turn did not start");
    assert_eq!(cancelled.ok(), "Cancelled the turn of a:main.\n");
    let unknown = sandbox.gdn(&["cancel", "a:other", "-p", "p"]);
    assert!(unknown.stderr.contains("a:other"), "{}", unknown.stderr);
    let forked = sandbox.gdn(&["conversation", "fork", "main", "-p", "p", "--json"]);
    let forked: Value = serde_json::from_str(forked.ok()).unwrap();
    assert_eq!(forked["agentName"], "a");
    assert_ne!(forked["instanceKey"], "main");
    serving.signal("TERM");
    serving.end();
}
