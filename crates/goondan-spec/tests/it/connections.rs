//! Validation of a Connection to a built-in connector: a field without effect is an error.

use crate::support::{VALID_PROJECT, load_texts};

/// Returns the messages about a Connection to the pager with the given lines in its spec.
fn messages(spec: &str) -> Vec<String> {
    let connection = format!(
        "{VALID_PROJECT}---\napiVersion: goondan.ai/v1\nkind: Connection\nmetadata: {{name: c}}\nspec:\n  \
         connectorRef: Connector/pager\n{spec}"
    );
    let loaded = load_texts(&[("goondan.yaml", &connection)]);
    loaded
        .diagnostics
        .into_iter()
        .map(|diagnostic| diagnostic.message)
        .collect()
}

const SECRETS: &str = "  secrets: {signingSecret: {value: s}, botToken: {valueFrom: {env: T}}}\n";

#[test]
fn missing_connector_secrets_are_errors() {
    assert_eq!(messages(SECRETS), [""; 0]);
    assert_eq!(
        messages(""),
        [
            "`spec.secrets.signingSecret` is missing, and the connector needs it.",
            "`spec.secrets.botToken` is missing, and the connector needs it.",
        ]
    );
    assert_eq!(
        messages("  reply: none\n  secrets: {signingSecret: {value: s}}\n"),
        [""; 0]
    );
}

#[test]
fn connection_fields_without_effect_are_errors() {
    let unknown = messages(&format!("{SECRETS}  config: {{volum: {{value: \"3\"}}}}\n"));
    assert_eq!(
        unknown,
        ["The connector does not support `spec.config.volum`."]
    );
    let wrong = messages(&format!("{SECRETS}  config: {{volume: {{value: loud}}}}\n"));
    assert_eq!(wrong, ["`spec.config.volume` must be an integer."]);
    assert_eq!(
        messages(&format!("{SECRETS}  allow: {{}}\n")),
        ["`spec.allow` names no senders, channels or approvers."]
    );
    assert_eq!(
        messages(&format!(
            "{SECRETS}  allow: {{senders: [\"*\"], channels: [c]}}\n"
        )),
        [""; 0]
    );
    let event = messages(&format!(
        "{SECRETS}  ingress: {{rules: [{{match: {{event: pag}}, route: {{}}}}]}}\n"
    ));
    assert_eq!(event, ["The connector has no event `pag`."]);
}

#[test]
fn approvers_need_user_ids_and_replies() {
    assert_eq!(
        messages(&format!(
            "{SECRETS}  reply: stream\n  allow: {{approvers: [ada]}}\n"
        )),
        [""; 0]
    );
    assert_eq!(
        messages(&format!("{SECRETS}  allow: {{approvers: [ada, \"*\"]}}\n")),
        [
            "`spec.allow.approvers` must list user ids: with `*`, users could approve their own \
             requests."
        ]
    );
    assert_eq!(
        messages(
            "  secrets: {signingSecret: {value: s}}\n  reply: none\n  allow: {approvers: [ada]}\n"
        ),
        [
            "`approvers` needs replies: approval requests go to the reply channel, and \
             `reply: none` turns it off."
        ]
    );
}

/// Tests a connector file with and without `answers`.
#[test]
fn replies_need_a_connector_that_supports_them() {
    let with = |answers: &str, spec: &str| {
        let text = format!(
            "{VALID_PROJECT}---\napiVersion: goondan.ai/v1\nkind: Connector\nmetadata: {{name: f}}\nspec: {{entry: in.mjs, events: \
             [{{name: e}}]{answers}}}\n---\napiVersion: goondan.ai/v1\nkind: Connection\nmetadata: {{name: c}}\nspec:\n  \
             connectorRef: Connector/f\n{spec}"
        );
        let loaded = load_texts(&[
            ("goondan.yaml", &text),
            ("in.mjs", "export default () => {};"),
        ]);
        loaded
            .diagnostics
            .into_iter()
            .map(|diagnostic| diagnostic.message)
            .collect::<Vec<_>>()
    };
    assert_eq!(with(", answers: true", "  reply: auto\n"), [""; 0]);
    assert_eq!(
        with("", "  reply: auto\n"),
        ["The connector has no way to send answers back."]
    );
    assert_eq!(
        with(", answers: true", "  reply: stream\n"),
        ["The connector cannot edit a message after sending it."]
    );
}

#[test]
fn a_connector_with_a_builtin_entry_has_only_its_events() {
    let connector = |events: &str| {
        let text = format!(
            "{VALID_PROJECT}---\napiVersion: goondan.ai/v1\nkind: Connector\nmetadata: {{name: p}}\nspec: {{entry: \
             \"builtin:pager\", events: {events}}}\n---\napiVersion: goondan.ai/v1\nkind: Connection\nmetadata: {{name: \
             c}}\nspec:\n  connectorRef: Connector/p\n{SECRETS}"
        );
        let loaded = load_texts(&[("goondan.yaml", &text)]);
        loaded
            .diagnostics
            .into_iter()
            .map(|diagnostic| diagnostic.message)
            .collect::<Vec<_>>()
    };
    assert_eq!(connector("[{name: page}]"), [""; 0]);
    assert_eq!(
        connector("[{name: page}, {name: ring}]"),
        ["`builtin:pager` has no event `ring`."]
    );
}
