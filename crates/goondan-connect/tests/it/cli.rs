//! `cli`: console input lines and answers.

use std::sync::Arc;

use goondan_connect::{ConnectionOptions, LineConsole};
use tokio::sync::mpsc;

use crate::support::{TestRuntime, with_timeout};

/// Returns a console with input lines, and a receiver of the shown answers.
pub(crate) fn console(
    lines: &'static [&'static str],
) -> (Arc<LineConsole>, mpsc::UnboundedReceiver<String>) {
    let (shown, seen) = mpsc::unbounded_channel();
    let open = move |sender: mpsc::Sender<String>| {
        for line in lines {
            sender.try_send((*line).to_owned()).unwrap();
        }
    };
    (
        Arc::new(LineConsole::new(open, move |text| {
            drop(shown.send(text.to_owned()))
        })),
        seen,
    )
}

#[tokio::test]
async fn each_line_is_an_event_and_answers_are_shown_in_order() {
    let state = tempfile::tempdir().unwrap();
    let (console, mut seen) = console(&[
        "one",
        "",
        "{\"text\": \"two\", \"properties\": {\"who\": \"ada\"}}",
        "three",
    ]);
    let connection = "apiVersion: goondan.ai/v1\nkind: Connection\nmetadata: {name: desk}\nspec:\n  connectorRef: \
                      {kind: Connector, name: cli, package: \"@goondan/base\"}\n  ingress:\n    rules:\n      - {match: \
                      {event: stdin_message, properties: {who: ada}}, route: {instanceKey: ada}}\n      - {route: \
                      {instanceKey: typed}}\n";
    let options = ConnectionOptions {
        console: Some(console),
        ..ConnectionOptions::default()
    };
    let runtime = TestRuntime::start_with(state.path(), connection, &[], options).await;
    let mut shown = Vec::new();
    for _ in 0..3 {
        shown.push(with_timeout(seen.recv()).await.unwrap());
    }
    let typed: Vec<&String> = shown.iter().filter(|text| !text.contains("two")).collect();
    assert_eq!(typed, ["heard one", "heard three"]);
    assert_eq!(runtime.user_messages("ada").await, ["two"]);
    runtime
        .wait_until("desk", |snapshot| {
            snapshot
                .status
                .as_ref()
                .is_some_and(|status| status.why.is_some())
        })
        .await;
}

#[tokio::test]
async fn a_cli_connection_fails_without_a_console() {
    let state = tempfile::tempdir().unwrap();
    let runtime =
        TestRuntime::start_with(state.path(), "", &[], ConnectionOptions::default()).await;
    let text = "apiVersion: goondan.ai/v1\nkind: Connection\nmetadata: {name: desk}\nspec: {connectorRef: Connector/cli}\n";
    runtime.reload(text).await;
    with_timeout(async {
        while runtime.connections.problems().is_empty() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert!(
        runtime.connections.problems()[0]
            .problem
            .contains("`gdn run`")
    );
}
