//! `gdn connection`, and connections beside `gdn serve` and `gdn run`.

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
fn the_route_of_an_event_is_shown_and_nothing_is_started() {
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
    let odd = sandbox.gdn(&[
        "connection",
        "test",
        "hook",
        "-p",
        "p",
        "--event",
        r#"{"sendr": "x"}"#,
    ]);
    assert!(
        odd.code == 2 && odd.stderr.contains("An event has no field `sendr`."),
        "{}",
        odd.report()
    );
    let nope = sandbox.gdn(&[
        "connection",
        "test",
        "hook",
        "-p",
        "p",
        "--event",
        r#"{"name": "nope"}"#,
    ]);
    assert!(
        nope.code == 2
            && nope
                .stderr
                .contains("has no event `nope`. Use one of: webhook_message."),
        "{}",
        nope.report()
    );
    let absent = sandbox.gdn(&["connection", "test", "hok", "-p", "p"]);
    assert!(
        absent.code == 2 && absent.stderr.contains("CONNECTION_NOT_FOUND"),
        "{}",
        absent.report()
    );
    assert!(
        absent.stderr.contains("Use one of: hook, bot."),
        "{}",
        absent.report()
    );
}

#[test]
fn connections_are_listed_and_senders_let_in() {
    let sandbox = project(CONNECTIONS);
    let listed = sandbox.gdn(&["connection", "list", "-p", "p"]);
    assert!(
        listed.ok().contains("hook        webhook    never ran"),
        "{}",
        listed.report()
    );
    let let_in = sandbox.gdn(&["connection", "approve", "bot", "77", "-p", "p"]);
    assert_eq!((let_in.code, &*let_in.stderr), (0, "77 is approved.\n"));
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
fn what_needs_a_server_says_so_where_there_is_none() {
    let sandbox = project(CONNECTIONS);
    let run = sandbox.gdn_reading(
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
    let asked = sandbox.gdn(&["run", "p", "--input", "hi"]);
    assert_eq!(
        (asked.ok(), &*asked.stderr),
        ("heard hi\n", ""),
        "one input starts no connection"
    );
}

#[test]
fn a_missing_secret_and_an_unknown_setting_are_errors() {
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
    let odd = CONNECTIONS.replace("apiBaseUrl", "apiBaseUri");
    let report = project(&odd).gdn(&["validate", "p"]);
    assert!(
        report.code == 4 && report.stdout.contains("did you mean `apiBaseUrl`?"),
        "{}",
        report.report()
    );
}
