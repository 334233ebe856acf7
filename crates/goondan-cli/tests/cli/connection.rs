//! `gdn connection`, and connections in `gdn run`.

use serde_json::Value;

use crate::projects::{ECHO, manifest};
use crate::sandbox::Sandbox;

const CONNECTIONS: &str = "\
---
apiVersion: goondan.ai/v1
kind: Connection
metadata: {name: hook}
spec:
  connectorRef: Connector/webhook
  secrets: {signingSecret: {value: 0123456789abcdef}}
  ingress:
    rules:
      - match: {properties: {team: x}}
        route: {agentRef: Agent/a, instanceKeyProperty: team, instanceKeyPrefix: 'team:'}
---
apiVersion: goondan.ai/v1
kind: Connection
metadata: {name: bot}
spec:
  connectorRef: Connector/telegram
  config: {apiBaseUrl: {value: 'http://127.0.0.1:9'}}
  secrets: {botToken: {value: '123:abcdef'}}
";

fn project(connections: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    let swarm = manifest(
        "{provider: scripted, model: any, options: {script: script.yaml}}",
        "",
    );
    sandbox.write("p/goondan.yaml", &format!("{swarm}{connections}"));
    sandbox.write("p/script.yaml", ECHO);
    sandbox
}

#[test]
fn connection_test_shows_the_route_without_starting_connections() {
    let sandbox = project(CONNECTIONS);
    let shown = sandbox.gdn(&[
        "connection",
        "test",
        "hook",
        "-p",
        "p",
        "--event",
        r#"{"properties": {"team": "x"}}"#,
    ]);
    assert_eq!(
        shown.ok(),
        "event     webhook_message\n          team = x\nmatches   rule 0 (spec.ingress.rules[0])\ngoes to   a:team:x\n"
    );
    let json = sandbox.gdn(&["connection", "test", "bot", "-p", "p", "--json"]);
    let route: Value = serde_json::from_str(json.ok()).unwrap();
    assert_eq!(
        (&route["agent"], &route["instanceKey"]),
        (&"a".into(), &"telegram:1001".into())
    );
    assert_eq!(route["rule"], Value::Null);
    let unknown_field = sandbox.gdn(&[
        "connection",
        "test",
        "hook",
        "-p",
        "p",
        "--event",
        r#"{"sendr": "x"}"#,
    ]);
    assert!(
        unknown_field.code == 2
            && unknown_field
                .stderr
                .contains("An event has no field `sendr`."),
        "{}",
        unknown_field.report()
    );
    let unknown_event = sandbox.gdn(&[
        "connection",
        "test",
        "hook",
        "-p",
        "p",
        "--event",
        r#"{"name": "nope"}"#,
    ]);
    assert!(
        unknown_event.code == 2
            && unknown_event
                .stderr
                .contains("has no event `nope`. Use one of: webhook_message."),
        "{}",
        unknown_event.report()
    );
    let unknown_connection = sandbox.gdn(&["connection", "test", "hok", "-p", "p"]);
    assert!(
        unknown_connection.code == 2 && unknown_connection.stderr.contains("CONNECTION_NOT_FOUND"),
        "{}",
        unknown_connection.report()
    );
    assert!(
        unknown_connection.stderr.contains("Use one of: hook, bot."),
        "{}",
        unknown_connection.report()
    );
}

#[test]
fn connections_are_listed_and_senders_approved() {
    let sandbox = project(CONNECTIONS);
    let listed = sandbox.gdn(&["connection", "list", "-p", "p"]);
    assert!(
        listed.ok().contains("hook        webhook    never ran"),
        "{}",
        listed.report()
    );
    let approved = sandbox.gdn(&["connection", "approve", "bot", "77", "-p", "p"]);
    assert_eq!((approved.code, &*approved.stderr), (0, "77 is approved.\n"));
    let again = sandbox.gdn(&["connection", "approve", "bot", "77", "-p", "p", "--json"]);
    let answer: Value = serde_json::from_str(again.ok()).unwrap();
    assert_eq!(answer["isNew"], false);
    let listed = sandbox.gdn(&["connection", "list", "-p", "p", "--json"]);
    let rows: Value = serde_json::from_str(listed.ok()).unwrap();
    assert_eq!(rows[1]["approved"], serde_json::json!(["77"]));
    let open = sandbox.gdn(&["connection", "approve", "hook", "1", "-p", "p"]);
    assert!(
        open.code == 2 && open.stderr.contains("have no sender"),
        "{}",
        open.report()
    );
    let none = project("").gdn(&["connection", "list", "-p", "p"]);
    assert!(
        none.stderr.contains("The swarm has no connections."),
        "{}",
        none.report()
    );
}

#[test]
fn a_webhook_connection_without_a_server_is_reported() {
    let sandbox = project(CONNECTIONS);
    let run = sandbox.gdn_with_stdin(
        &["run", "p", "--input-format", "stream-json"],
        "{\"input\": \"hi\"}\n",
    );
    assert!(
        run.stderr
            .contains("Connection/hook is not running: The connection needs `gdn serve`"),
        "{}",
        run.report()
    );
    assert!(run.stdout.contains("heard hi"), "{}", run.report());
    let listed = sandbox.gdn(&["connection", "list", "-p", "p", "--json"]);
    let rows: Value = serde_json::from_str(listed.ok()).unwrap();
    assert_eq!(
        (&rows[0]["state"], &rows[1]["state"]),
        (&"unusable".into(), &"stopped".into())
    );
    let run = sandbox.gdn(&["run", "p", "--input", "hi"]);
    assert_eq!(
        (run.ok(), &*run.stderr),
        ("heard hi\n", ""),
        "one input starts no connection"
    );
}

#[test]
fn missing_or_short_secrets_and_unknown_settings_are_errors() {
    let open = CONNECTIONS.replace(
        "  secrets: {signingSecret: {value: 0123456789abcdef}}\n",
        "",
    );
    let report = project(&open).gdn(&["validate", "p"]);
    assert!(
        report.code == 4
            && report
                .stdout
                .contains("`spec.secrets.signingSecret` is missing"),
        "{}",
        report.report()
    );
    let short = CONNECTIONS.replace("0123456789abcdef", "short");
    let report = project(&short).gdn(&["validate", "p"]);
    assert!(
        report.code == 4 && report.stdout.contains("at least 16 characters"),
        "{}",
        report.report()
    );
    assert!(!report.stdout.contains("short"), "{}", report.report());
    let unknown_field = CONNECTIONS.replace("apiBaseUrl", "apiBaseUri");
    let report = project(&unknown_field).gdn(&["validate", "p"]);
    assert!(
        report.code == 4 && report.stdout.contains("did you mean `apiBaseUrl`?"),
        "{}",
        report.report()
    );
}
