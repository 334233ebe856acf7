//! Connectors in libraries. The `does` config of `examples/plugins/listener` selects its behavior.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use goondan::HostCommand;
use goondan_connect::{ConnectionOptions, ConnectionState};
use serde_json::Value;

use crate::cli::console;
use crate::nested_cargo::nested_cargo;
use crate::support::{TestRuntime, with_timeout};

/// Paths of the built libraries and programs by target name. Built once for all tests.
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
    // Includes the packages of the usual build, so that dependencies are not built again with other
    // features.
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
    assert!(output.status.success(), "the build of the libraries failed");
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

/// Returns a Connector in a library and a Connection to it, both with the name `name`.
fn connection(name: &str, library: &str, behavior: &str) -> String {
    format!(
        "apiVersion: goondan.ai/v1\nkind: Connector\nmetadata: {{name: {name}}}\nspec: {{entry: ./{library}, answers: true, \
         events: [{{name: order}}]}}\n---\napiVersion: goondan.ai/v1\nkind: Connection\nmetadata: {{name: {name}}}\nspec:\n  \
         connectorRef: Connector/{name}\n  config: {{does: {{value: {behavior}}}, greeting: {{value: hello}}}}\n  secrets: {{key: \
         {{value: s3cr3t}}}}\n  ingress: {{rules: [{{match: {{event: order}}, route: {{instanceKeyProperty: table, \
         instanceKeyPrefix: \"{name}:\"}}}}]}}\n"
    )
}

/// Returns one connection per behavior, named after the behavior.
fn connections_for(behaviors: &[&str]) -> String {
    behaviors
        .iter()
        .map(|behavior| connection(&behavior.to_lowercase(), "listener", behavior))
        .collect::<Vec<_>>()
        .join("---\n")
}

/// Writes the library with another generation marker, so that it is a different library.
fn write_library(directory: &Path, marker: &[u8; 16]) {
    let mut bytes = std::fs::read(&BUILT["listener"]).unwrap();
    let at = bytes
        .windows(11)
        .position(|text| text == b"GENERATION-")
        .unwrap();
    bytes[at..at + marker.len()].copy_from_slice(marker);
    std::fs::write(directory.join("liblistener.so"), bytes).unwrap();
}

async fn start(state: &Path, connections: &str, options: ConnectionOptions) -> TestRuntime {
    let host = HostCommand {
        program: BUILT["tool-host"].clone(),
        args: Vec::new(),
    };
    let add_files = |directory: &Path| {
        write_library(directory, b"GENERATION-00000");
        std::fs::copy(&BUILT["text_utils"], directory.join("libtext_utils.so")).unwrap();
    };
    TestRuntime::start_with_host(state, connections, add_files, options, Some(host)).await
}

/// Waits until a connection fails, and returns the reason.
async fn failure_reason(runtime: &TestRuntime, connection: &str) -> String {
    runtime
        .wait_until(connection, |snapshot| {
            snapshot
                .status
                .as_ref()
                .is_some_and(|status| status.state == ConnectionState::Failing)
        })
        .await;
    runtime.snapshot(connection).status.unwrap().why.unwrap()
}

#[tokio::test]
async fn a_library_submits_events_once_and_in_order() {
    let state = tempfile::tempdir().unwrap();
    let runtime = start(
        state.path(),
        &connections_for(&["orders"]),
        ConnectionOptions::default(),
    )
    .await;
    let messages = runtime.wait_for_answers("orders:4", 6).await;
    assert_eq!(
        messages,
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
        runtime.snapshot("orders").status.unwrap().state,
        ConnectionState::Running
    );
}

#[tokio::test]
async fn a_library_reads_console_lines_and_stops() {
    let state = tempfile::tempdir().unwrap();
    let (console, _seen) = console(&["tea", "cake"]);
    let options = ConnectionOptions {
        console: Some(console),
        ..ConnectionOptions::default()
    };
    let runtime = start(state.path(), &connections_for(&["lines"]), options).await;
    assert_eq!(
        runtime.wait_for_answers("lines:desk", 2).await,
        ["tea", "cake"]
    );
    runtime
        .wait_until("lines", |snapshot| {
            snapshot
                .status
                .as_ref()
                .is_some_and(|status| status.state == ConnectionState::Stopped)
        })
        .await;
}

#[tokio::test]
async fn a_failing_library_does_not_affect_other_connections() {
    let state = tempfile::tempdir().unwrap();
    let behaviors = [
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
    let runtime = start(
        state.path(),
        &format!("{}---\n{tools}", connections_for(&behaviors)),
        ConnectionOptions::default(),
    )
    .await;
    for (connection, expected) in [
        ("fails", "out of luck (E_CONNECTOR_FAILED)"),
        ("panics", "it panicked: not today (E_CONNECTOR_FAILED)"),
        ("aborts", "(E_HOST_DIED)"),
        ("exits", "(E_HOST_DIED)"),
        ("tools", "has no connector (E_HOST_MODULE)"),
    ] {
        let reason = failure_reason(&runtime, connection).await;
        assert!(reason.ends_with(expected), "{connection}: {reason}");
    }
    runtime
        .wait_until("returns", |snapshot| {
            snapshot
                .status
                .as_ref()
                .is_some_and(|status| status.state == ConnectionState::Stopped)
        })
        .await;
    assert_eq!(runtime.wait_for_answers("prints:4", 1).await, ["printed"]);
    assert_eq!(
        runtime.wait_for_answers("panicsinthread:4", 1).await,
        ["panicked: true"]
    );
    assert_eq!(
        runtime.wait_for_answers("floods:4", 2).await,
        ["again", "5000 taken, 5000 refused"]
    );
    assert_eq!(runtime.wait_for_answers("orders:4", 6).await.len(), 6);
    for connection in ["prints", "panicsinthread", "floods", "orders"] {
        assert_eq!(
            runtime.snapshot(connection).status.unwrap().state,
            ConnectionState::Running,
            "{connection}"
        );
    }
}

#[tokio::test]
async fn a_reload_replaces_a_changed_library() {
    let state = tempfile::tempdir().unwrap();
    let text = connections_for(&["generation"]);
    let runtime = start(state.path(), &text, ConnectionOptions::default()).await;
    assert_eq!(
        runtime.wait_for_answers("generation:4", 1).await,
        ["GENERATION-00000"]
    );
    write_library(
        runtime.file("goondan.yaml").parent().unwrap(),
        b"GENERATION-00001",
    );
    runtime.reload(&text).await;
    let messages = with_timeout(runtime.wait_for_answers("generation:4", 2)).await;
    assert_eq!(messages, ["GENERATION-00000", "GENERATION-00001"]);
}

#[tokio::test]
async fn a_library_that_does_not_stop_is_killed() {
    let state = tempfile::tempdir().unwrap();
    let file = state.path().join("pid");
    let text = connections_for(&["never"]).replace(
        "{value: hello}",
        &format!("{{value: {:?}}}", file.display().to_string()),
    );
    let runtime = start(state.path(), &text, ConnectionOptions::default()).await;
    runtime.wait_for_answers("never:4", 1).await;
    let pid = std::fs::read_to_string(&file).unwrap();
    let is_alive = || {
        Command::new("kill")
            .args(["-0", &pid])
            .stderr(Stdio::null())
            .status()
            .unwrap()
            .success()
    };
    assert!(is_alive());
    runtime.reload(&connections_for(&["orders"])).await;
    runtime.wait_for_answers("orders:4", 6).await;
    with_timeout(async {
        while is_alive() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_library_sends_answers() {
    let state = tempfile::tempdir().unwrap();
    let seen = state.path().join("seen");
    let text = connections_for(&["answers"]).replace(
        "{value: hello}",
        &format!("{{value: {:?}}}", seen.display().to_string()),
    );
    for _ in 0..2 {
        // The second start submits the same events again, which were already answered.
        let runtime = start(state.path(), &text, ConnectionOptions::default()).await;
        runtime.wait_for_answers("answers:2", 1).await;
        runtime
            .wait_until("answers", |snapshot| {
                snapshot.owed == 0 && snapshot.failed.len() == 1
            })
            .await;
        assert_eq!(std::fs::read_to_string(&seen).unwrap(), "1 4: heard tea\n");
        let why = runtime.snapshot("answers").failed[0].why.clone().unwrap();
        assert!(why.contains("table 3 is gone"), "{why}");
        runtime.kill().await;
    }
}

#[tokio::test]
async fn a_program_without_library_support_reports_an_error() {
    let state = tempfile::tempdir().unwrap();
    let add_files = |directory: &Path| write_library(directory, b"GENERATION-00000");
    let runtime = TestRuntime::start_with_host(
        state.path(),
        &connections_for(&["lines"]),
        add_files,
        ConnectionOptions::default(),
        None,
    )
    .await;
    let reason = failure_reason(&runtime, "lines").await;
    assert!(
        reason.contains("E_HOST_START") && reason.contains("library host process"),
        "{reason}"
    );
}
