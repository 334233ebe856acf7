//! `cli`: what is typed, and the answers there.

use std::sync::Arc;

use goondan_connect::{ConnectionOptions, LineConsole};
use tokio::sync::mpsc;

use crate::support::{Running, within};

/// A console with what is typed there, and what is shown.
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
    let running = Running::start_with(state.path(), connection, &[], options).await;
    let mut shown = Vec::new();
    for _ in 0..3 {
        shown.push(within(seen.recv()).await.unwrap());
    }
    let typed: Vec<&String> = shown.iter().filter(|text| !text.contains("two")).collect();
    assert_eq!(typed, ["heard one", "heard three"]);
    assert_eq!(running.heard("ada").await, ["two"]);
    running
        .until("desk", |look| {
            look.status
                .as_ref()
                .is_some_and(|status| status.why.is_some())
        })
        .await;
}

#[tokio::test]
async fn without_anybody_who_types_it_does_not_run() {
    let state = tempfile::tempdir().unwrap();
    let none = Running::start_with(state.path(), "", &[], ConnectionOptions::default()).await;
    let text = "apiVersion: goondan.ai/v1\nkind: Connection\nmetadata: {name: desk}\nspec: {connectorRef: Connector/cli}\n";
    none.reload(text).await;
    within(async {
        while none.connections.problems().is_empty() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert!(none.connections.problems()[0].problem.contains("`gdn run`"));
}
