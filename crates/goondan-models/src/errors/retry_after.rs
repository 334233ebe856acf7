//! The wait that a provider asks for.

use std::time::Duration;

use chrono::{DateTime, Utc};
use goondan_core::rate_limit;
use reqwest::header::HeaderMap;
use serde_json::Value;

/// Returns the wait in the headers `retry-after-ms` and `retry-after` (seconds or a date).
pub(crate) fn retry_after(headers: &HeaderMap, now: DateTime<Utc>) -> Option<Duration> {
    let header = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let milliseconds = || parse_seconds(header("retry-after-ms")?, 1000.0);
    let stated_wait = || rate_limit::retry_after(header("retry-after")?, now);
    milliseconds().or_else(stated_wait)
}

/// Returns the wait in Google's RetryInfo: `error.details[].retryDelay`, such as `31s`. `body` is a body or its error.
pub(crate) fn retry_delay_in(body: &Value) -> Option<Duration> {
    let details = body
        .pointer("/error/details")
        .or_else(|| body.get("details"))?
        .as_array()?;
    let delay = details
        .iter()
        .find_map(|detail| detail.get("retryDelay")?.as_str())?;
    parse_seconds(delay.strip_suffix('s')?, 1.0)
}

fn parse_seconds(text: &str, units_per_second: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(text.parse::<f64>().ok()? / units_per_second).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn retry_delays_are_read_from_all_header_formats_and_bodies() {
        let wait = |name: &'static str, value: &'static str| {
            let headers = HeaderMap::from_iter([(name.parse().unwrap(), value.parse().unwrap())]);
            retry_after(&headers, "2026-01-01T00:00:00Z".parse().unwrap())
        };
        assert_eq!(wait("retry-after", "7"), Some(Duration::from_secs(7)));
        assert_eq!(wait("retry-after", "0.5"), Some(Duration::from_millis(500)));
        assert_eq!(
            wait("retry-after-ms", "250"),
            Some(Duration::from_millis(250))
        );
        assert_eq!(
            wait("retry-after", "Thu, 01 Jan 2026 00:01:00 GMT"),
            Some(Duration::from_secs(60))
        );
        assert_eq!(
            wait("retry-after", "Thu, 01 Jan 1970 00:00:00 GMT"),
            Some(Duration::ZERO)
        );
        for nonsense in ["soon", "-3", "NaN", "inf", ""] {
            assert_eq!(wait("retry-after", nonsense), None, "{nonsense}");
        }
        let body = json!({"error": {"details": [{"@type": "x"}, {"retryDelay": "31s"}]}});
        assert_eq!(retry_delay_in(&body), Some(Duration::from_secs(31)));
    }
}
