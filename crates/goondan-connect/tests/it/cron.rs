//! `cron`: fires when it is due, catches up once, and never fires twice.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono::{DateTime, Utc};
use futures::future::BoxFuture;
use goondan::ports::clock::Clock;

use crate::support::Running;

const HOURLY: &str = r#"
apiVersion: goondan.ai/v1
kind: Connection
metadata: {name: hourly}
spec:
  connectorRef: Connector/cron
  config: {schedule: {value: "0 * * * *"}, text: {value: "Report"}}
"#;

/// A clock that stands still until somebody sets it.
#[derive(Clone)]
struct Hands(Arc<Mutex<DateTime<Utc>>>);

impl Hands {
    fn at(text: &str) -> Hands {
        Hands(Arc::new(Mutex::new(text.parse().unwrap())))
    }

    fn set(&self, text: &str) {
        *self.0.lock().unwrap() = text.parse().unwrap();
    }
}

impl Clock for Hands {
    fn now(&self) -> DateTime<Utc> {
        *self.0.lock().unwrap()
    }

    fn random_hex(&self, digits: usize) -> String {
        "0".repeat(digits)
    }

    /// Whoever waits looks again.
    fn sleep_until(&self, _at: DateTime<Utc>) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(Duration::from_millis(1)))
    }
}

#[tokio::test]
async fn it_fires_when_due_and_catches_up_once() {
    let state = tempfile::tempdir().unwrap();
    let clock = Hands::at("2026-01-01T08:30:00Z");
    let running = Running::start_at(state.path(), HOURLY, Arc::new(clock.clone())).await;
    running.until("hourly", |look| look.status.is_some()).await;
    crate::support::within(async {
        while !state.path().join("w/connections/hourly/cron.json").exists() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    clock.set("2026-01-01T09:00:00Z");
    assert_eq!(running.answered("cron:hourly", 1).await, ["Report"]);
    clock.set("2026-01-01T09:59:59Z");
    running.kill().await;
    // Three times were missed: the last one counts.
    clock.set("2026-01-01T12:20:00Z");
    let running = Running::start_at(state.path(), HOURLY, Arc::new(clock.clone())).await;
    assert_eq!(running.answered("cron:hourly", 2).await.len(), 2);
    // As if the process had died before it wrote down that it has fired.
    running.kill().await;
    let file = state.path().join("w/connections/hourly/cron.json");
    std::fs::write(file, "\"2026-01-01T09:00:00Z\"").unwrap();
    let running = Running::start_at(state.path(), HOURLY, Arc::new(clock.clone())).await;
    clock.set("2026-01-01T13:00:00Z");
    assert_eq!(
        running.answered("cron:hourly", 3).await.len(),
        3,
        "12:00 does not fire again"
    );
    let messages = running
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
