//! What a Connection may say to a built-in connector: nothing that would have no effect.

use crate::support::{SOUND, load_texts};

/// The messages about a Connection to the pager with these lines in its spec.
fn messages(spec: &str) -> Vec<String> {
    let connection = format!(
        "{SOUND}---\napiVersion: goondan.ai/v1\nkind: Connection\nmetadata: {{name: c}}\nspec:\n  \
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
fn what_a_connector_needs_must_be_there() {
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
fn what_has_no_effect_is_an_error() {
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
fn approvers_are_named_where_they_can_be_asked() {
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

/// A file that answers, or does not.
#[test]
fn a_file_answers_where_its_connector_says_so() {
    let with = |answers: &str, spec: &str| {
        let text = format!(
            "{SOUND}---\napiVersion: goondan.ai/v1\nkind: Connector\nmetadata: {{name: f}}\nspec: {{entry: in.mjs, events: \
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
fn a_connector_of_ones_own_has_the_events_of_the_built_in_one() {
    let connector = |events: &str| {
        let text = format!(
            "{SOUND}---\napiVersion: goondan.ai/v1\nkind: Connector\nmetadata: {{name: p}}\nspec: {{entry: \
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
