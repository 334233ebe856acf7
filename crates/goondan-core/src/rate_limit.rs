//! Waits that servers request: `Retry-After`, and the forms in which platforms state a rate limit.

use std::time::Duration;

use chrono::{DateTime, NaiveDateTime, Utc};
use serde_json::Value;

/// Wait after an exceeded rate limit if the platform does not state one.
const DEFAULT_WAIT: Duration = Duration::from_secs(5);
/// Default wait after a limit on creating content, which lasts longer than other limits.
const SECONDARY_LIMIT_WAIT: Duration = Duration::from_secs(60);
/// Longest stated wait that counts; a longer one is a mistake of the platform or of its clock.
const MAX_STATED_WAIT: Duration = Duration::from_secs(24 * 60 * 60);
/// Error codes for an exceeded rate limit in the body of a response with status 200.
const RATE_LIMIT_ERRORS: [&str; 2] = ["ratelimited", "rate_limited"];
/// Messages of a 403 for a limit on creating content, in lower case.
const SECONDARY_LIMIT_MESSAGES: [&str; 2] = ["secondary rate limit", "abuse detection"];
/// Message of a 403 for the limit per hour, in lower case.
const PRIMARY_LIMIT_MESSAGE: &str = "api rate limit exceeded";
/// Obsolete forms of an HTTP date, which recipients must accept.
const OBSOLETE_DATE_FORMS: [&str; 2] = ["%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"];

/// Returns the wait in a `Retry-After` header: seconds, or the time until an HTTP date. A past date
/// is a wait of 0.
pub fn retry_after(header_value: &str, now: DateTime<Utc>) -> Option<Duration> {
    let header_value = header_value.trim();
    match header_value.parse() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds).ok(),
        Err(_) => Some(
            (http_date(header_value)? - now)
                .to_std()
                .unwrap_or_default(),
        ),
    }
}

/// Parses an HTTP date.
fn http_date(text: &str) -> Option<DateTime<Utc>> {
    let parse_obsolete = || {
        let parse = |form: &&str| NaiveDateTime::parse_from_str(text, form).ok();
        OBSOLETE_DATE_FORMS.iter().find_map(parse)
    };
    match DateTime::parse_from_rfc2822(text) {
        Ok(date) => Some(date.to_utc()),
        Err(_) => Some(parse_obsolete()?.and_utc()),
    }
}

/// Response of a platform API.
pub struct PlatformResponse<'a, H> {
    /// HTTP status.
    pub status: u16,
    /// Returns a header by its name in lower case.
    pub header: H,
    /// JSON body; `Null` if the body is not JSON.
    pub body: &'a Value,
}

impl<'h, H: Fn(&str) -> Option<&'h str>> PlatformResponse<'_, H> {
    /// Returns the wait if a rate limit is exceeded. The request had no effect then. Platforms use
    /// different statuses: 429, 403 with a header or a message, 503 with a header, or any status
    /// with an error code in the body.
    pub fn requested_wait(&self, now: DateTime<Utc>) -> Option<Duration> {
        let message = self.body["message"].as_str().unwrap_or_default();
        let message = message.to_lowercase();
        let is_secondary = SECONDARY_LIMIT_MESSAGES
            .iter()
            .any(|part| message.contains(part));
        let is_exhausted = self.header("x-ratelimit-remaining") == Some("0");
        let has_wait = self.header("retry-after").is_some();
        let is_limited = match self.status {
            429 => true,
            403 => {
                has_wait || is_exhausted || is_secondary || message.contains(PRIMARY_LIMIT_MESSAGE)
            }
            503 => has_wait,
            _ => self.states_limit(),
        };
        let stated_wait = self
            .stated_wait(now)
            .or_else(|| self.until_reset(now).filter(|_| is_exhausted))
            .filter(|wait| *wait <= MAX_STATED_WAIT);
        let default = if is_secondary {
            SECONDARY_LIMIT_WAIT
        } else {
            DEFAULT_WAIT
        };
        is_limited.then(|| stated_wait.unwrap_or(default))
    }

    /// Returns true if the body contains the error code of a rate limit.
    fn states_limit(&self) -> bool {
        let error = self.body["error"].as_str();
        self.body["ok"] == false
            && (error.is_some_and(|error| RATE_LIMIT_ERRORS.contains(&error))
                || self.body["error_code"] == 429)
    }

    /// Returns the wait that the body or a header states.
    fn stated_wait(&self, now: DateTime<Utc>) -> Option<Duration> {
        let body_wait = self
            .body
            .pointer("/parameters/retry_after")
            .or(self.body.get("retry_after"))
            .and_then(Value::as_f64);
        let body_wait = body_wait.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let header_wait = || {
            let stated = self.header("retry-after");
            retry_after(stated.or(self.header("x-ratelimit-reset-after"))?, now)
        };
        body_wait.or_else(header_wait)
    }

    /// Returns the time until the limit is reset.
    fn until_reset(&self, now: DateTime<Utc>) -> Option<Duration> {
        let reset: i64 = self.header("x-ratelimit-reset")?.parse().ok()?;
        let seconds = u64::try_from(reset.saturating_sub(now.timestamp())).unwrap_or(0);
        // The clocks may differ by a second.
        Some(Duration::from_secs(seconds.saturating_add(1)))
    }

    fn header(&self, name: &str) -> Option<&'h str> {
        (self.header)(name).map(str::trim)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn retry_after_is_a_number_of_seconds_or_a_date() {
        let now = "1994-11-06T08:49:30Z".parse().unwrap();
        for (header, expected) in [
            ("7", Some(7_000)),
            (" 0.5 ", Some(500)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(7_000)),
            ("Sunday, 06-Nov-94 08:49:37 GMT", Some(7_000)),
            ("Sun Nov  6 08:49:37 1994", Some(7_000)),
            ("Thu, 01 Jan 1970 00:00:00 GMT", Some(0)),
            ("-1", None),
            ("NaN", None),
            ("inf", None),
            ("soon", None),
            ("", None),
        ] {
            let wait = retry_after(header, now).map(|wait| wait.as_millis());
            assert_eq!(wait, expected, "{header}");
        }
    }

    type Headers<'h> = &'h [(&'static str, &'static str)];

    fn wait(status: u16, headers: Headers<'_>, body: &Value) -> Option<u64> {
        let header = |name: &str| headers.iter().find(|(known, _)| *known == name);
        let answer = PlatformResponse {
            status,
            header: |name: &str| header(name).map(|(_, value)| *value),
            body,
        };
        let now = DateTime::from_timestamp(1_000, 0).unwrap();
        answer.requested_wait(now).map(|wait| wait.as_secs())
    }

    #[test]
    fn rate_limit_responses_of_all_platforms_are_recognized() {
        let after = ("retry-after", "7");
        let none_left = ("x-ratelimit-remaining", "0");
        let reset = ("x-ratelimit-reset", "1060");
        let message = |text: &str| json!({"message": text});
        let slack = |error: &str| json!({"ok": false, "error": error});
        let telegram = json!({
            "ok": false, "error_code": 429, "parameters": {"retry_after": 3},
        });
        let cases: [(u16, Headers<'_>, Value, u64); 18] = [
            (429, &[], Value::Null, 5),
            (429, &[after], Value::Null, 7),
            (429, &[], telegram.clone(), 3),
            (400, &[], telegram, 3),
            (429, &[], json!({"retry_after": 1.5, "global": true}), 1),
            (429, &[("x-ratelimit-reset-after", "2.5")], Value::Null, 2),
            (
                429,
                &[("retry-after", "Thu, 01 Jan 1970 00:17:00 GMT")],
                Value::Null,
                20,
            ),
            (429, &[("retry-after", "-1")], Value::Null, 5),
            (429, &[none_left, reset], Value::Null, 61),
            (403, &[after], Value::Null, 7),
            (403, &[none_left, reset], Value::Null, 61),
            (
                403,
                &[none_left, ("x-ratelimit-reset", "-9223372036854775808")],
                Value::Null,
                1,
            ),
            (
                403,
                &[],
                message("You have exceeded a secondary rate limit."),
                60,
            ),
            (
                403,
                &[],
                message("You have triggered an Abuse Detection mechanism."),
                60,
            ),
            (403, &[], message("API rate limit exceeded for x."), 5),
            (503, &[after], Value::Null, 7),
            (200, &[after], slack("ratelimited"), 7),
            (200, &[], slack("rate_limited"), 5),
        ];
        for (status, headers, body, expected) in cases {
            assert_eq!(
                wait(status, headers, &body),
                Some(expected),
                "{status} {headers:?} {body}"
            );
        }
        let cases: [(u16, Headers<'_>, Value); 6] = [
            (403, &[("x-ratelimit-remaining", "9")], message("Forbidden")),
            (403, &[], message("This account was reported for abuse.")),
            (200, &[none_left], json!({"ok": true})),
            (200, &[], json!({"ok": true, "error": "ratelimited"})),
            (503, &[], Value::Null),
            (400, &[after], Value::Null),
        ];
        for (status, headers, body) in cases {
            assert_eq!(
                wait(status, headers, &body),
                None,
                "{status} {headers:?} {body}"
            );
        }
    }
}
