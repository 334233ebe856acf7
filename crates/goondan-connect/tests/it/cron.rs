//! `cron`: due runs, one run for all missed times, and no duplicate runs.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono::{DateTime, Utc};
use futures::future::BoxFuture;
use goondan::ports::clock::Clock;

use crate::support::TestRuntime;

const HOURLY: &str = r#"
apiVersion: goondan.ai/v1
kind: Connection
metadata: {name: hourly}
spec:
  connectorRef: Connector/cron
  config: {schedule: {value: "0 * * * *"}, text: {value: "Report"}}
"#;

/// Clock with a time that the test sets.
#[derive(Clone)]
struct ManualClock(Arc<Mutex<DateTime<Utc>>>);

impl ManualClock {
    fn at(text: &str) -> ManualClock {
        ManualClock(Arc::new(Mutex::new(text.parse().unwrap())))
    }

    fn set(&self, text: &str) {
        *self.0.lock().unwrap() = text.parse().unwrap();
    }
}

impl Clock for ManualClock {
    fn now(&self) -> DateTime<Utc> {
        *self.0.lock().unwrap()
    }

    fn random_hex(&self, digits: usize) -> String {
        "0".repeat(digits)
    }

    /// Returns after a millisecond, so that the caller checks the time again.
    fn sleep_until(&self, _at: DateTime<Utc>) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(Duration::from_millis(1)))
    }
}

#[tokio::test]
async fn a_schedule_fires_when_due_and_catches_up_once() {
    let state = tempfile::tempdir().unwrap();
    let clock = ManualClock::at("2026-01-01T08:30:00Z");
    let runtime = TestRuntime::start_at(state.path(), HOURLY, Arc::new(clock.clone())).await;
    runtime
        .wait_until("hourly", |snapshot| snapshot.status.is_some())
        .await;
    crate::support::with_timeout(async {
        while !state.path().join("w/connections/hourly/cron.json").exists() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    clock.set("2026-01-01T09:00:00Z");
    assert_eq!(runtime.wait_for_answers("cron:hourly", 1).await, ["Report"]);
    clock.set("2026-01-01T09:59:59Z");
    runtime.kill().await;
    // Three runs were missed; only the last one is made up.
    clock.set("2026-01-01T12:20:00Z");
    let runtime = TestRuntime::start_at(state.path(), HOURLY, Arc::new(clock.clone())).await;
    assert_eq!(runtime.wait_for_answers("cron:hourly", 2).await.len(), 2);
    // Simulates a crash before the run was recorded.
    runtime.kill().await;
    let file = state.path().join("w/connections/hourly/cron.json");
    std::fs::write(file, "\"2026-01-01T09:00:00Z\"").unwrap();
    let runtime = TestRuntime::start_at(state.path(), HOURLY, Arc::new(clock.clone())).await;
    clock.set("2026-01-01T13:00:00Z");
    assert_eq!(
        runtime.wait_for_answers("cron:hourly", 3).await.len(),
        3,
        "12:00 does not fire again"
    );
    let messages = runtime
        .swarm
        .conversation(&goondan::ids::InstanceId::new("a", "cron:hourly"))
        .await
        .unwrap();
    let times: Vec<&str> = messages
        .iter()
        .filter_map(|message| {
            message.metadata.get("connection")?["properties"]["scheduledAt"].as_str()
        })
        .collect();
    assert_eq!(
        times,
        [
            "2026-01-01T09:00:00Z",
            "2026-01-01T12:00:00Z",
            "2026-01-01T13:00:00Z"
        ]
    );
}
