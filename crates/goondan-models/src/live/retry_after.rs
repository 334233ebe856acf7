//! How long a provider wants to be left alone.

use std::time::Duration;

use chrono::{DateTime, Utc};
use reqwest::header::HeaderMap;
use serde_json::Value;

/// What the headers say (`retry-after-ms`, `retry-after` in seconds or as a date), else what the body says.
pub(crate) fn retry_after(
    headers: Option<&HeaderMap>,
    body: &Value,
    now: DateTime<Utc>,
) -> Option<Duration> {
    let header = |name: &str| headers?.get(name)?.to_str().ok().map(str::trim);
    let milliseconds = || seconds(header("retry-after-ms")?, 1000.0);
    let plain = || seconds(header("retry-after")?, 1.0);
    let date = || until(header("retry-after")?, now);
    milliseconds()
        .or_else(plain)
        .or_else(date)
        .or_else(|| in_body(body))
}

fn seconds(text: &str, unit: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(text.parse::<f64>().ok()? / unit).ok()
}

fn until(date: &str, now: DateTime<Utc>) -> Option<Duration> {
    let date = DateTime::parse_from_rfc2822(date).ok()?;
    Some(
        (date.with_timezone(&Utc) - now)
            .to_std()
            .unwrap_or_default(),
    )
}

/// Google's RetryInfo: `error.details[].retryDelay`, such as `31s`.
fn in_body(body: &Value) -> Option<Duration> {
    let details = body.pointer("/error/details")?.as_array()?;
    let delay = details
        .iter()
        .find_map(|detail| detail.get("retryDelay")?.as_str())?;
    seconds(delay.strip_suffix('s')?, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn said(name: &'static str, value: &'static str) -> Option<Duration> {
        let headers = HeaderMap::from_iter([(name.parse().unwrap(), value.parse().unwrap())]);
        retry_after(
            Some(&headers),
            &Value::Null,
            "2026-01-01T00:00:00Z".parse().unwrap(),
        )
    }

    #[test]
    fn every_way_to_say_it_is_understood() {
        assert_eq!(said("retry-after", "7"), Some(Duration::from_secs(7)));
        assert_eq!(said("retry-after", "0.5"), Some(Duration::from_millis(500)));
        assert_eq!(
            said("retry-after-ms", "250"),
            Some(Duration::from_millis(250))
        );
        assert_eq!(
            said("retry-after", "Thu, 01 Jan 2026 00:01:00 GMT"),
            Some(Duration::from_secs(60))
        );
        assert_eq!(
            said("retry-after", "Thu, 01 Jan 1970 00:00:00 GMT"),
            Some(Duration::ZERO)
        );
        for nonsense in ["soon", "-3", "NaN", "inf", ""] {
            assert_eq!(said("retry-after", nonsense), None, "{nonsense}");
        }
        let body = json!({"error": {"details": [{"@type": "x"}, {"retryDelay": "31s"}]}});
        assert_eq!(
            retry_after(None, &body, Utc::now()),
            Some(Duration::from_secs(31))
        );
    }
}
