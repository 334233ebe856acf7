//! Updates that `ci/platform-updates` generates from the published types of the platforms.

use std::collections::{BTreeMap, HashSet};
use std::io::{self, BufRead as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::http::StatusCode;
use goondan::event::SwarmEvent;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::mock_platform::{MockPlatform, ok_response};
use crate::robustness::{SIGNED_CONNECTIONS, headers};
use crate::support::TestRuntime;
use crate::{discord, robustness, slack};

/// Phrases of the log lines for updates that start no turn.
const IGNORED: [&str; 3] = [
    "ignored an update: ",
    "ignored a message: ",
    "could not accept an event: ",
];

/// API methods that answer a button press.
const PRESS_ANSWERS: [&str; 2] = ["answerCallbackQuery", "chat.postEphemeral"];

#[derive(Deserialize)]
struct PublishedUpdate {
    body: String,
    /// Value of the GitHub event header.
    #[serde(default)]
    event: String,
    /// Names of the update kind. A log line must contain at least one of them.
    names: Vec<String>,
}

/// Captured log lines of the connections.
#[derive(Clone, Default)]
struct ConnectionLog(Arc<Mutex<Vec<u8>>>);

/// Stops the capture when it is dropped. With a single subscriber, the first thread that reaches a
/// log line decides for all threads whether the line is enabled; the second subscriber prevents
/// this.
struct LogGuard {
    _log: tracing::subscriber::DefaultGuard,
    _second: tracing::Dispatch,
}

impl io::Write for ConnectionLog {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl ConnectionLog {
    /// Captures the log of this thread, which runs all tasks of the swarm.
    fn start() -> (ConnectionLog, LogGuard) {
        let log = ConnectionLog::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_env_filter("goondan_connect=debug")
            .with_ansi(false)
            .without_time()
            .with_writer(move || writer.clone())
            .finish();
        let guard = LogGuard {
            _second: tracing::Dispatch::new(tracing::subscriber::NoSubscriber::default()),
            _log: tracing::subscriber::set_default(subscriber),
        };
        (log, guard)
    }

    /// Returns and removes all lines.
    fn take(&self) -> Vec<String> {
        let bytes = std::mem::take(&mut *self.0.lock().unwrap());
        let lines = String::from_utf8_lossy(&bytes);
        lines.lines().map(str::to_owned).collect()
    }

    /// Removes all lines. Returns the lines about ignored updates.
    fn take_ignored(&self) -> Vec<String> {
        let is_ignored = |line: &String| IGNORED.iter().any(|phrase| line.contains(phrase));
        self.take().into_iter().filter(is_ignored).collect()
    }
}

#[derive(Default)]
struct UpdateCounts {
    updates: usize,
    /// Updates that the HTTP response answers.
    answers: usize,
    /// Ignored updates per log line.
    ignored: BTreeMap<String, usize>,
    failures: Vec<String>,
}

impl UpdateCounts {
    /// Checks the outcome of one update.
    fn record(
        &mut self,
        connection: &str,
        update: &PublishedUpdate,
        (status, response): (StatusCode, String),
        lines: &[String],
    ) {
        self.updates += 1;
        let names_kind = |line: &String| {
            line.contains(" event=\"") || update.names.iter().any(|name| line.contains(name))
        };
        match lines {
            [] if !status.is_success() => {
                self.record_failure(format!("{status} {response}"), update)
            }
            [] => self.answers += usize::from(is_answer(connection, &response)),
            [line] if names_kind(line) => *self.ignored.entry(line.clone()).or_default() += 1,
            lines => self.record_failure(format!("{lines:?}"), update),
        }
    }

    fn record_failure(&mut self, outcome: String, update: &PublishedUpdate) {
        let body: String = update.body.chars().take(1_000).collect();
        self.failures
            .push(format!("{outcome}: {} {body}", update.event));
    }
}

/// Returns true if the response answers the update, so that it is not an event.
fn is_answer(connection: &str, response: &str) -> bool {
    let response: Value = serde_json::from_str(response).unwrap_or_default();
    match connection {
        "guild" => response.pointer("/data/content") != Some(&Value::from("Accepted.")),
        _ => response.get("response_type").is_some(),
    }
}

/// Returns the connections of [`SIGNED_CONNECTIONS`] and of Telegram and Discord, for all senders.
fn connections(base: &str) -> String {
    let all = SIGNED_CONNECTIONS.replace(
        "reply: none",
        &format!("reply: none\n  config: {{apiBaseUrl: {{value: \"{base}\"}}}}"),
    );
    let guild = discord::guild(base).replace("[\"7\"]", "[\"*\"]");
    let telegram = robustness::telegram(base);
    format!(
        "{all}{telegram}  reply: none\n  allow: {{senders: [\"*\"]}}\n---\n{guild}  reply: none\n"
    )
}

fn updates(file: &Path) -> impl Iterator<Item = PublishedUpdate> + use<> {
    let file = std::fs::File::open(file).unwrap();
    let lines = io::BufReader::new(file).lines();
    lines.map(|line| serde_json::from_str(&line.unwrap()).unwrap())
}

/// Delivers the updates one after another, and counts their outcomes.
async fn deliver(
    runtime: &TestRuntime,
    connection: &str,
    updates: impl Iterator<Item = PublishedUpdate>,
) -> UpdateCounts {
    let (log, _guard) = ConnectionLog::start();
    let mut counts = UpdateCounts::default();
    for update in updates {
        let body = update.body.as_bytes();
        let headers = headers(connection, &update.event, body);
        let response = runtime.deliver(connection, &headers, body).await;
        counts.record(connection, &update, response, &log.take_ignored());
    }
    counts
}

/// Delivers the updates of a platform, and counts the turns that they start.
#[allow(
    clippy::print_stdout,
    reason = "`ci/platform-updates` shows the counts"
)]
async fn deliver_all(connection: &str, file: &str) {
    let folder = PathBuf::from(std::env::var_os("GOONDAN_PLATFORM_UPDATES").unwrap());
    let state = tempfile::tempdir().unwrap();
    let platform = MockPlatform::start(|_| Some(ok_response())).await;
    let runtime = TestRuntime::start(state.path(), &connections(&platform.base)).await;
    let mut events = runtime.swarm.subscribe();
    let counts = deliver(&runtime, connection, updates(&folder.join(file))).await;
    let presses = || -> usize {
        PRESS_ANSWERS
            .iter()
            .map(|end| platform.calls(end).len())
            .sum()
    };
    let ignored: usize = counts.ignored.values().sum();
    let missing = |turns: usize| {
        let accounted_for = turns + presses() + counts.answers + ignored + counts.failures.len();
        counts.updates.saturating_sub(accounted_for)
    };
    let mut turns = HashSet::new();
    while missing(turns.len()) > 0
        && let Ok(Some(event)) = tokio::time::timeout(Duration::from_secs(20), events.recv()).await
    {
        if let SwarmEvent::TurnEnded { event_id, .. } = event {
            turns.insert(event_id);
        }
    }
    let lost = missing(turns.len()) + counts.failures.len();
    println!(
        "{file}: {} updates, {} events, {} answers, {ignored} ignored with one of {} log lines, {lost} lost",
        counts.updates,
        turns.len(),
        counts.answers + presses(),
        counts.ignored.len(),
    );
    let shown = counts.failures.iter().take(10).cloned().collect::<Vec<_>>();
    assert_eq!(lost, 0, "{}", shown.join("\n"));
    runtime.swarm.kill();
}

#[tokio::test]
async fn each_rejected_update_has_a_log_line() {
    let state = tempfile::tempdir().unwrap();
    let platform = MockPlatform::start(|_| Some(ok_response())).await;
    let project = connections(&platform.base).replacen(
        "reply: none",
        "reply: none\n  allow: {channels: [C1, \"CCCC\"]}",
        1,
    );
    let project = project.replace("CCCC", &"C".repeat(2_000));
    let runtime = TestRuntime::start(state.path(), &project).await;
    let (log, _guard) = ConnectionLog::start();
    let message = |fields: Value| {
        let mut body: Value = serde_json::from_str(&slack::message("1.2", "hi")).unwrap();
        let event = body["event"].as_object_mut().unwrap();
        event.extend(fields.as_object().unwrap().clone());
        body.to_string()
    };
    for (body, line) in [
        (message(json!({})), ""),
        (
            message(json!({"channel": "C2"})),
            "ignored a message: its sender or channel is not allowed",
        ),
        (
            message(json!({"subtype": "channel_topic"})),
            "ignored an update: message: channel_topic",
        ),
        (
            message(json!({"channel": "C".repeat(2_000)})),
            "event=\"message_im\"",
        ),
        (
            "{".to_owned(),
            "refused a request connection=\"slack\" status=400",
        ),
    ] {
        let headers = headers("slack", "", body.as_bytes());
        runtime.deliver("slack", &headers, body.as_bytes()).await;
        let lines = log.take().join("\n");
        assert!(
            lines.contains(line) && lines.is_empty() == line.is_empty(),
            "{line}: {lines}"
        );
    }
    runtime.deliver("slack", &[], b"{}").await;
    assert!(log.take()[0].contains("status=401"));
}

#[tokio::test]
#[ignore = "`ci/platform-updates` generates the updates"]
async fn no_update_of_telegram_is_lost() {
    deliver_all("telegram", "telegram.jsonl").await;
}

#[tokio::test]
#[ignore = "`ci/platform-updates` generates the updates"]
async fn no_update_of_slack_is_lost() {
    deliver_all("slack", "slack.jsonl").await;
}

#[tokio::test]
#[ignore = "`ci/platform-updates` generates the updates"]
async fn no_update_of_discord_is_lost() {
    deliver_all("guild", "discord.jsonl").await;
}

#[tokio::test]
#[ignore = "`ci/platform-updates` generates the updates"]
async fn no_update_of_github_is_lost() {
    deliver_all("github", "github.jsonl").await;
}
