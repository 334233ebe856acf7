//! Cron expressions: five fields, in a time zone.

use chrono::{DateTime, Utc};
use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};

use super::zone::IanaZone;

/// Fields of an expression, each with its values.
const FIELDS: [(&str, &str); 5] = [
    ("minute", "0 to 59"),
    ("hour", "0 to 23"),
    ("day of the month", "1 to 31"),
    ("month", "1 to 12, or JAN to DEC"),
    ("day of the week", "0 to 7, or SUN to SAT"),
];

/// Parsed cron expression with its time zone.
pub struct CronSchedule {
    cron: Cron,
    zone: IanaZone,
}

impl CronSchedule {
    /// Parses minute, hour, day of month, month and day of week, and a time zone name. Fails with a
    /// message if either is invalid.
    pub fn parse(expression: &str, zone: &str) -> Result<CronSchedule, String> {
        // The parser takes an empty part of a list, and then searches for a time that never comes.
        if expression
            .split_whitespace()
            .any(|field| field.split(',').any(str::is_empty))
        {
            return Err(format!(
                "`{expression}` is not a cron expression: a list has an empty part"
            ));
        }
        let cron = parse(expression).ok_or_else(|| {
            format!(
                "`{expression}` is not a cron expression: {}",
                invalid_reason(expression)
            )
        })?;
        let zone = IanaZone::from_name(zone).ok_or_else(|| match IanaZone::of_city(zone) {
            Some(full) => format!("`{zone}` is not a time zone; write `{full}`"),
            None => format!("`{zone}` is not a time zone; write a name such as `Europe/Berlin`"),
        })?;
        let schedule = CronSchedule { cron, zone };
        match schedule.next(DateTime::UNIX_EPOCH) {
            Some(_) => Ok(schedule),
            None => Err(format!("`{expression}` is never due")),
        }
    }

    /// Returns the first due time after `after`; `None` if there is none.
    ///
    /// A local time that a clock change skips moves to the end of the gap. A local time that occurs
    /// twice counts once.
    pub fn next(&self, after: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let next = self
            .cron
            .find_next_occurrence(&after.with_timezone(&self.zone), false)
            .ok()?;
        Some(next.with_timezone(&Utc))
    }

    /// Returns the last due time at or before `now`; `None` if there is none.
    pub fn last(&self, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let last = self
            .cron
            .find_previous_occurrence(&now.with_timezone(&self.zone), true)
            .ok()?;
        Some(last.with_timezone(&Utc))
    }
}

/// Parses five fields.
fn parse(expression: &str) -> Option<Cron> {
    let parser = CronParser::builder()
        .seconds(Seconds::Disallowed)
        .year(Year::Disallowed)
        .build();
    parser.parse(expression).ok()
}

/// Returns the reason why `expression` is invalid.
fn invalid_reason(expression: &str) -> String {
    let fields: Vec<&str> = expression.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        let names = FIELDS.map(|(name, _)| name).join(", ");
        return format!("it has {} fields instead of 5 ({names})", fields.len());
    }
    let is_wrong = |index: &usize| {
        let mut alone = ["*"; FIELDS.len()];
        alone[*index] = fields[*index];
        parse(&alone.join(" ")).is_none()
    };
    match (0..FIELDS.len()).find(is_wrong) {
        Some(index) => {
            let (name, values) = FIELDS[index];
            format!("the {name} `{}` is invalid; use {values}", fields[index])
        }
        None => "its fields contradict each other".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_messages_name_the_invalid_field_and_time_zone() {
        let parse_error = |expression, zone| CronSchedule::parse(expression, zone).err().unwrap();
        assert_eq!(
            parse_error("0 25 * * *", "UTC"),
            "`0 25 * * *` is not a cron expression: the hour `25` is invalid; use 0 to 23"
        );
        assert!(
            parse_error("0 0 2 * * *", "UTC")
                .contains("it has 6 fields instead of 5 (minute, hour")
        );
        assert_eq!(
            parse_error("0 2 * * *", "Berlin"),
            "`Berlin` is not a time zone; write `Europe/Berlin`"
        );
        assert!(parse_error("0 2 * * *", "Mars").contains("such as `Europe/Berlin`"));
    }

    fn next(expression: &str, zone: &str, after: &str) -> String {
        let schedule = CronSchedule::parse(expression, zone).unwrap();
        let after = after.parse().unwrap();
        schedule
            .next(after)
            .map_or_else(|| "never".to_owned(), |at| at.format("%FT%TZ").to_string())
    }

    #[test]
    fn the_next_time_follows_the_time_zone_of_the_schedule() {
        assert_eq!(
            next("0 9 * * *", "UTC", "2026-01-15T09:00:00Z"),
            "2026-01-16T09:00:00Z"
        );
        assert_eq!(
            next("0 9 * * *", "Europe/Berlin", "2026-01-15T09:00:00Z"),
            "2026-01-16T08:00:00Z"
        );
        assert_eq!(
            next("*/15 * * * MON-FRI", "UTC", "2026-01-16T23:50:00Z"),
            "2026-01-19T00:00:00Z"
        );
        assert_eq!(
            next("0 0 29 2 *", "UTC", "2026-01-15T09:00:00Z"),
            "2028-02-29T00:00:00Z"
        );
    }

    #[test]
    fn last_returns_the_previous_scheduled_time() {
        let last = |expression: &str, now: &str| {
            let schedule = CronSchedule::parse(expression, "UTC").unwrap();
            schedule
                .last(now.parse().unwrap())
                .map(|at| at.format("%FT%TZ").to_string())
        };
        assert_eq!(
            last("0 9 * * *", "2026-01-18T09:01:02.5Z").as_deref(),
            Some("2026-01-18T09:00:00Z")
        );
        assert_eq!(
            last("0 9 * * *", "2026-01-18T09:00:00.5Z").as_deref(),
            Some("2026-01-18T09:00:00Z")
        );
        assert_eq!(
            last("0 9 * * *", "2026-01-18T08:59:59Z").as_deref(),
            Some("2026-01-17T09:00:00Z")
        );
    }

    #[test]
    fn daylight_saving_changes_neither_skip_nor_repeat_a_run() {
        // In Berlin 02:30 is skipped on 2026-03-29 and occurs twice on 2026-10-25.
        let spring = next("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z");
        assert!(spring.starts_with("2026-03-29T01"), "{spring}");
        let first = next("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z");
        assert!(first.starts_with("2026-10-25T0"), "{first}");
        let second = next("30 2 * * *", "Europe/Berlin", &first);
        assert_eq!(second, "2026-10-26T01:30:00Z");
    }

    #[test]
    fn invalid_schedules_are_rejected() {
        for (expression, zone) in [
            ("", "UTC"),
            ("* * * *", "UTC"),
            ("* * * * * *", "UTC"),
            ("61 * * * *", "UTC"),
            ("often", "UTC"),
            ("0 0 30 2 *", "UTC"),
            ("0 0 31 4,6,9,11 *", "UTC"),
            ("0 9 * * *", "Mars"),
        ] {
            assert!(
                CronSchedule::parse(expression, zone).is_err(),
                "{expression} {zone}"
            );
        }
    }
}
