//! `cron`: an event at each time of a schedule. Times missed while the swarm was stopped fire once
//! at the next start.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use chrono::{DateTime, SecondsFormat, Utc};
use goondan::adapters::connectors::BoundConnection;
use goondan::internal::private_files;
use goondan::{CronSchedule, ScheduleTime};

use super::PlatformConnector;
use crate::connection_runtime::ConnectionRuntime;
use crate::event::PlatformEvent;

/// File with the time of the last firing.
const LAST_FIRING_FILE: &str = "cron.json";
/// Default time zone of a schedule.
const DEFAULT_ZONE: &str = "UTC";

/// A schedule with the text of its events.
pub(super) struct CronConnector {
    schedule: CronSchedule,
    text: String,
}

impl CronConnector {
    /// Parses the schedule of the connection. Fails with a sentence.
    pub(super) fn new(bound: &BoundConnection) -> Result<Self, String> {
        let setting = |name| bound.setting(name);
        let schedule = CronSchedule::parse(
            setting("schedule").unwrap_or_default(),
            setting("timezone").unwrap_or(DEFAULT_ZONE),
        )?;
        Ok(CronConnector {
            schedule,
            text: setting("text").unwrap_or_default().to_owned(),
        })
    }

    /// Returns the next scheduled time after `last`. If several times have passed, returns the
    /// latest of them. Returns `None` if the schedule has no later time.
    fn due(&self, last: DateTime<Utc>, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let next = self.schedule.next(last)?;
        if next > now {
            return Some(next);
        }
        self.schedule
            .last(now)
            .filter(|missed| *missed > last)
            .or(Some(next))
    }
}

#[async_trait]
impl PlatformConnector for CronConnector {
    async fn receive(&self, runtime: &Arc<ConnectionRuntime>) -> Result<(), String> {
        let unusable_error = |error: std::io::Error| {
            format!("the time of the last scheduled event cannot be stored: {error}")
        };
        let time = ScheduleTime::default();
        let now = || time.now(runtime.now());
        let mut last = match read(&runtime.folder) {
            // A later time was stored before the clock was set back.
            Some(last) => last.min(now()),
            None => {
                let now = runtime.now();
                write(&runtime.folder, now).map_err(unusable_error)?;
                now
            }
        };
        loop {
            let Some(due) = self.due(last, now()) else {
                return std::future::pending().await;
            };
            while now() < due {
                runtime
                    .shared
                    .options
                    .clock
                    .sleep_until(time.on_clock(due))
                    .await;
            }
            if let Err(error) = runtime
                .accept(event(&runtime.bound.name, &self.text, due))
                .await
            {
                if error.is_retryable {
                    return Err(error.to_string());
                }
                tracing::warn!(
                    connection = runtime.bound.name,
                    "could not accept a scheduled event; it is skipped: {error}"
                );
            }
            // Written after the input: after a crash in between, the same time fires again under
            // the same event id.
            write(&runtime.folder, due).map_err(unusable_error)?;
            last = due;
        }
    }
}

/// Returns the time of the last event; `None` if there is none.
fn read(folder: &Path) -> Option<DateTime<Utc>> {
    serde_json::from_slice(&std::fs::read(folder.join(LAST_FIRING_FILE)).ok()?).ok()
}

/// Stores the time of the last event.
fn write(folder: &Path, last: DateTime<Utc>) -> std::io::Result<()> {
    private_files::replace(&folder.join(LAST_FIRING_FILE), &serde_json::to_vec(&last)?)
}

/// Creates the event for the scheduled time `due`.
fn event(connection: &str, text: &str, due: DateTime<Utc>) -> PlatformEvent {
    let due_time = due.to_rfc3339_opts(SecondsFormat::Secs, true);
    PlatformEvent {
        name: "cron_tick".to_owned(),
        id: due_time.clone(),
        text: text.to_owned(),
        key: format!("cron:{connection}"),
        properties: [("scheduledAt".to_owned(), due_time)].into(),
        ..PlatformEvent::default()
    }
}

/// Returns an event for tests and documentation.
pub(super) fn sample(bound: &BoundConnection) -> PlatformEvent {
    event(
        &bound.name,
        "The text of the schedule",
        DateTime::UNIX_EPOCH,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missed_runs_are_due_once() {
        let cron = CronConnector {
            schedule: CronSchedule::parse("0 * * * *", "UTC").unwrap(),
            text: String::new(),
        };
        let at = |text: &str| text.parse::<DateTime<Utc>>().unwrap();
        let due = |last: &str, now: &str| cron.due(at(last), at(now)).unwrap();
        let (nine, ten) = ("2026-01-01T09:00:00Z", "2026-01-01T10:00:00Z");
        assert_eq!(due(nine, "2026-01-01T09:30:00Z"), at(ten));
        assert_eq!(
            due(nine, "2026-01-01T13:30:00Z"),
            at("2026-01-01T13:00:00Z")
        );
        assert_eq!(
            due("2026-01-01T13:00:00Z", "2026-01-01T13:30:00Z"),
            at("2026-01-01T14:00:00Z")
        );
        assert_eq!(due(nine, ten), at(ten));
    }
}
