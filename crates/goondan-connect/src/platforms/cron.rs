//! `cron`: an event whenever a schedule is due. What was missed while nothing ran fires once at the next start.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use chrono::{DateTime, SecondsFormat, Utc};
use goondan::Schedule;
use goondan::connectors::Bound;
use goondan::inside::private;

use super::Platform;
use crate::desk::Desk;
use crate::event::Event;

/// The last time that has fired, in the folder of the connection.
const FILE: &str = "cron.json";
/// The zone of a schedule that names none.
const ZONE: &str = "UTC";

/// A schedule with what it says.
pub(super) struct Cron {
    schedule: Schedule,
    text: String,
}

impl Cron {
    pub(super) fn new(bound: &Bound) -> Result<Self, String> {
        let setting = |name| bound.setting(name);
        let schedule = Schedule::parse(
            setting("schedule").unwrap_or_default(),
            setting("timezone").unwrap_or(ZONE),
        )?;
        Ok(Cron {
            schedule,
            text: setting("text").unwrap_or_default().to_owned(),
        })
    }

    /// When it is due next after it has fired at `last`: of all times that were missed, the latest.
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
impl Platform for Cron {
    async fn receive(&self, desk: &Arc<Desk>) -> Result<(), String> {
        let unusable =
            |error: std::io::Error| format!("the time of the last firing can't be kept: {error}");
        let mut last = match read(&desk.folder) {
            Some(last) => last,
            None => {
                let now = desk.now();
                write(&desk.folder, now).map_err(unusable)?;
                now
            }
        };
        loop {
            let Some(due) = self.due(last, desk.now()) else {
                return std::future::pending().await;
            };
            while desk.now() < due {
                desk.clock.sleep_until(due).await;
            }
            if let Err(error) = desk.accept(event(&desk.bound.name, &self.text, due)).await {
                if error.is_passing {
                    return Err(error.to_string());
                }
                tracing::warn!(
                    connection = desk.bound.name,
                    "a firing was not taken: {error}"
                );
            }
            // Behind the input: a process that dies in between fires again under the same id.
            write(&desk.folder, due).map_err(unusable)?;
            last = due;
        }
    }
}

fn read(folder: &Path) -> Option<DateTime<Utc>> {
    serde_json::from_slice(&std::fs::read(folder.join(FILE)).ok()?).ok()
}

fn write(folder: &Path, last: DateTime<Utc>) -> std::io::Result<()> {
    private::replace(&folder.join(FILE), &serde_json::to_vec(&last)?)
}

fn event(connection: &str, text: &str, due: DateTime<Utc>) -> Event {
    let at = due.to_rfc3339_opts(SecondsFormat::Secs, true);
    Event {
        name: "cron_tick".to_owned(),
        id: at.clone(),
        text: text.to_owned(),
        key: format!("cron:{connection}"),
        properties: [("scheduledAt".to_owned(), at)].into(),
        ..Event::default()
    }
}

pub(super) fn sample(bound: &Bound) -> Event {
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
    fn what_was_missed_is_due_once() {
        let cron = Cron {
            schedule: Schedule::parse("0 * * * *", "UTC").unwrap(),
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
