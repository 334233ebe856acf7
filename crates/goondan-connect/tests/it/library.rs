//! Connectors that are libraries. `examples/plugins/listener` does what its config says.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use goondan::HostCommand;
use goondan_connect::{ConnectionOptions, ConnectionState};
use serde_json::Value;

use crate::cli::console;
use crate::nested_cargo::nested_cargo;
use crate::support::{Running, within};

/// Built once for all tests: file name of the library or program → path.
static BUILT: LazyLock<BTreeMap<String, PathBuf>> = LazyLock::new(|| {
    let mut cargo = nested_cargo();
    cargo
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
        .args(["build", "--quiet"]);
    cargo.args([
        "--message-format=json-render-diagnostics",
        "-p",
        "listener",
        "-p",
        "text-utils",
    ]);
    // The command is named so that what lies below is built with the features that it has there, and not a second time.
    cargo.args([
        "-p",
        "goondan-dylib",
        "-p",
        "goondan-cli",
        "--lib",
        "--example",
        "tool-host",
    ]);
    let output = cargo.stderr(Stdio::inherit()).output().unwrap();
    assert!(output.status.success(), "the library does not build");
    let mut built = BTreeMap::new();
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        let message: Value = serde_json::from_str(line).unwrap();
        let files = message["filenames"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str);
        for file in files.filter(|file| {
            file.ends_with(std::env::consts::DLL_SUFFIX) || message["executable"] == **file
        }) {
            built.insert(
                message["target"]["name"].as_str().unwrap().to_owned(),
                PathBuf::from(file),
            );
        }
    }
    built
});

/// A Connector in the library of that name, and a Connection to it.
fn connection(name: &str, library: &str, does: &str) -> String {
    format!(
        "apiVersion: goondan.ai/v1\nkind: Connector\nmetadata: {{name: {name}}}\nspec: {{entry: ./{library}, answers: true, \
         events: [{{name: order}}]}}\n---\napiVersion: goondan.ai/v1\nkind: Connection\nmetadata: {{name: {name}}}\nspec:\n  \
         connectorRef: Connector/{name}\n  config: {{does: {{value: {does}}}, greeting: {{value: hello}}}}\n  secrets: {{key: \
         {{value: s3cr3t}}}}\n  ingress: {{rules: [{{match: {{event: order}}, route: {{instanceKeyProperty: table, \
         instanceKeyPrefix: \"{name}:\"}}}}]}}\n"
    )
}

/// The connector does all of that, each in a connection of its own that is called after it.
fn all(does: &[&str]) -> String {
    does.iter()
        .map(|does| connection(&does.to_lowercase(), "listener", does))
        .collect::<Vec<_>>()
        .join("---\n")
}

/// The library as another one with the same code, which says so.
fn put_library(folder: &Path, marker: &[u8; 16]) {
    let mut bytes = std::fs::read(&BUILT["listener"]).unwrap();
    let at = bytes
        .windows(11)
        .position(|text| text == b"GENERATION-")
        .unwrap();
    bytes[at..at + marker.len()].copy_from_slice(marker);
    std::fs::write(folder.join("liblistener.so"), bytes).unwrap();
}

async fn start(state: &Path, connections: &str, options: ConnectionOptions) -> Running {
    let host = HostCommand {
        program: BUILT["tool-host"].clone(),
        args: Vec::new(),
    };
    let put = |folder: &Path| {
        put_library(folder, b"GENERATION-00000");
        std::fs::copy(&BUILT["text_utils"], folder.join("libtext_utils.so")).unwrap();
    };
    Running::start_hosting(state, connections, put, options, Some(host)).await
}

/// Waits until a connection has failed, and says why.
async fn why(running: &Running, connection: &str) -> String {
    running
        .until(connection, |look| {
            look.status
                .as_ref()
                .is_some_and(|status| status.state == ConnectionState::Failing)
        })
        .await;
    running.look(connection).status.unwrap().why.unwrap()
}

#[tokio::test]
async fn a_library_hands_events_in_once_each_and_in_order() {
    let state = tempfile::tempdir().unwrap();
    let running = start(
        state.path(),
        &all(&["orders"]),
        ConnectionOptions::default(),
    )
    .await;
    let heard = running.answered("orders:4", 6).await;
    assert_eq!(
        heard,
        [
            "tea",
            "a",
            "b",
            "c",
            "hello s3cr3t false",
            "refused E_CONNECTOR_EVENT"
        ]
    );
    assert_eq!(
        running.look("orders").status.unwrap().state,
        ConnectionState::Running
    );
}

#[tokio::test]
async fn a_library_reads_what_is_typed_and_ends() {
    let state = tempfile::tempdir().unwrap();
    let (console, _seen) = console(&["tea", "cake"]);
    let options = ConnectionOptions {
        console: Some(console),
        ..ConnectionOptions::default()
    };
    let running = start(state.path(), &all(&["lines"]), options).await;
    assert_eq!(running.answered("lines:desk", 2).await, ["tea", "cake"]);
    running
        .until("lines", |look| {
            look.status
                .as_ref()
                .is_some_and(|status| status.state == ConnectionState::Stopped)
        })
        .await;
}

#[tokio::test]
async fn what_goes_wrong_in_a_library_disturbs_nobody() {
    let state = tempfile::tempdir().unwrap();
    let does = [
        "fails",
        "panics",
        "aborts",
        "exits",
        "returns",
        "prints",
        "panicsInThread",
        "floods",
        "orders",
    ];
    let tools = connection("tools", "text-utils", "lines");
    let running = start(
        state.path(),
        &format!("{}---\n{tools}", all(&does)),
        ConnectionOptions::default(),
    )
    .await;
    for (connection, told) in [
        ("fails", "out of luck (E_CONNECTOR_FAILED)"),
        ("panics", "it panicked: not today (E_CONNECTOR_FAILED)"),
        ("aborts", "(E_HOST_DIED)"),
        ("exits", "(E_HOST_DIED)"),
        ("tools", "has no connector (E_HOST_MODULE)"),
    ] {
        let why = why(&running, connection).await;
        assert!(why.ends_with(told), "{connection}: {why}");
    }
    running
        .until("returns", |look| {
            look.status
                .as_ref()
                .is_some_and(|status| status.state == ConnectionState::Stopped)
        })
        .await;
    assert_eq!(running.answered("prints:4", 1).await, ["printed"]);
    assert_eq!(
        running.answered("panicsinthread:4", 1).await,
        ["panicked: true"]
    );
    assert_eq!(
        running.answered("floods:4", 2).await,
        ["again", "5000 taken, 5000 refused"]
    );
    assert_eq!(running.answered("orders:4", 6).await.len(), 6);
    for connection in ["prints", "panicsinthread", "floods", "orders"] {
        assert_eq!(
            running.look(connection).status.unwrap().state,
            ConnectionState::Running,
            "{connection}"
        );
    }
}

#[tokio::test]
async fn a_new_library_takes_the_place_of_the_old_one() {
    let state = tempfile::tempdir().unwrap();
    let text = all(&["generation"]);
    let running = start(state.path(), &text, ConnectionOptions::default()).await;
    assert_eq!(
        running.answered("generation:4", 1).await,
        ["GENERATION-00000"]
    );
    put_library(
        running.file("goondan.yaml").parent().unwrap(),
        b"GENERATION-00001",
    );
    running.reload(&text).await;
    let heard = within(running.answered("generation:4", 2)).await;
    assert_eq!(heard, ["GENERATION-00000", "GENERATION-00001"]);
}

#[tokio::test]
async fn one_that_does_not_end_is_killed() {
    let state = tempfile::tempdir().unwrap();
    let file = state.path().join("pid");
    let text = all(&["never"]).replace(
        "{value: hello}",
        &format!("{{value: {:?}}}", file.display().to_string()),
    );
    let running = start(state.path(), &text, ConnectionOptions::default()).await;
    running.answered("never:4", 1).await;
    let pid = std::fs::read_to_string(&file).unwrap();
    let lives = || {
        Command::new("kill")
            .args(["-0", &pid])
            .stderr(Stdio::null())
            .status()
            .unwrap()
            .success()
    };
    assert!(lives());
    running.reload(&all(&["orders"])).await;
    running.answered("orders:4", 6).await;
    within(async {
        while lives() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_library_sends_answers() {
    let state = tempfile::tempdir().unwrap();
    let seen = state.path().join("seen");
    let text = all(&["answers"]).replace(
        "{value: hello}",
        &format!("{{value: {:?}}}", seen.display().to_string()),
    );
    for _ in 0..2 {
        // At the second start, the same events come again: they have been answered.
        let running = start(state.path(), &text, ConnectionOptions::default()).await;
        running.answered("answers:2", 1).await;
        running
            .until("answers", |look| look.owed == 0 && look.failed.len() == 1)
            .await;
        assert_eq!(std::fs::read_to_string(&seen).unwrap(), "1 4: heard tea\n");
        let why = running.look("answers").failed[0].why.clone().unwrap();
        assert!(why.contains("table 3 is gone"), "{why}");
        running.kill().await;
    }
}

#[tokio::test]
async fn a_program_that_hosts_no_libraries_says_so() {
    let state = tempfile::tempdir().unwrap();
    let put = |folder: &Path| put_library(folder, b"GENERATION-00000");
    let running = Running::start_hosting(
        state.path(),
        &all(&["lines"]),
        put,
        ConnectionOptions::default(),
        None,
    )
    .await;
    let why = why(&running, "lines").await;
    assert!(
        why.contains("E_HOST_START") && why.contains("library host process"),
        "{why}"
    );
}
