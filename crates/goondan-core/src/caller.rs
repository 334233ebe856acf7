//! Trace context of the client that submits an input, from the W3C headers `traceparent` and
//! `tracestate`.

use serde::{Deserialize, Serialize};

/// Maximum number of members of a `tracestate`, and its maximum length in bytes. Longer values are
/// dropped, which the standard allows.
const MAX_TRACESTATE_MEMBERS: usize = 32;
const MAX_TRACESTATE_BYTES: usize = 512;

/// Maximum length of a member's name or value, in bytes.
const MAX_TRACESTATE_PART_BYTES: usize = 256;

/// An external caller with its own trace. Two inputs can have the same caller, so a chain keeps its
/// own id. Only exported spans and requests to servers use the caller's trace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallerTrace {
    /// Trace and span of the caller.
    pub traceparent: TraceParent,
    /// Vendor data of the systems on the way.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tracestate: Option<String>,
}

impl CallerTrace {
    /// Header with the trace and the span; also the key in the `_meta` of MCP.
    pub const TRACEPARENT: &str = "traceparent";
    /// Header with the vendor data of the systems on the way.
    pub const TRACESTATE: &str = "tracestate";

    /// Parses the two headers. Returns `None` for an invalid `traceparent`; an invalid `tracestate`
    /// is dropped.
    pub fn read<'a>(
        traceparent: &str,
        tracestate: impl IntoIterator<Item = &'a str>,
    ) -> Option<Self> {
        let traceparent = TraceParent::read(traceparent)?;
        let state = tracestate
            .into_iter()
            .map(str::trim)
            .filter(|text| !text.is_empty())
            .collect::<Vec<_>>()
            .join(",");
        Some(CallerTrace {
            traceparent,
            tracestate: Some(state).filter(|state| is_state(state)),
        })
    }

    /// Returns the headers: names and values.
    pub fn headers(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let state = self
            .tracestate
            .as_deref()
            .map(|state| (CallerTrace::TRACESTATE, state));
        std::iter::once((CallerTrace::TRACEPARENT, self.traceparent.as_str())).chain(state)
    }
}

/// A span of a trace, in the form `00-<32 hex digits>-<16>-<2>`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TraceParent(String);

impl TraceParent {
    /// Parses a header. For a later version of the standard, parses only the known fields.
    pub fn read(text: &str) -> Option<Self> {
        let text = text.trim_matches([' ', '\t']);
        if !text.is_ascii() || text.len() < 55 {
            return None;
        }
        let (known_fields, rest) = text.split_at(55);
        let mut parts = known_fields.split('-');
        let [version, trace, span, flags] = [(); 4].map(|()| parts.next().unwrap_or_default());
        let lengths = [version, trace, span, flags].map(str::len);
        let is_whole = parts.next().is_none()
            && lengths == [2, 32, 16, 2]
            && [version, trace, span, flags]
                .iter()
                .all(|part| is_hex(part));
        let is_null = |id: &str| id.bytes().all(|digit| digit == b'0');
        let has_rest = if version == "00" {
            rest.is_empty()
        } else {
            rest.is_empty() || rest.starts_with('-')
        };
        if !is_whole || version == "ff" || is_null(trace) || is_null(span) || !has_rest {
            return None;
        }
        Some(TraceParent::of(
            trace,
            span,
            u8::from_str_radix(flags, 16).is_ok_and(|flags| flags & 1 == 1),
        ))
    }

    /// Returns a span of a trace. The ids are in lower-case hex.
    pub fn of(trace_id: &str, span_id: &str, is_sampled: bool) -> Self {
        TraceParent(format!(
            "00-{trace_id}-{span_id}-{:02x}",
            u8::from(is_sampled)
        ))
    }

    /// Returns the trace id, 32 hex digits.
    pub fn trace_id(&self) -> &str {
        &self.0[3..35]
    }

    /// Returns the span id, 16 hex digits.
    pub fn span_id(&self) -> &str {
        &self.0[36..52]
    }

    /// Returns true if the caller exports its trace.
    pub fn is_sampled(&self) -> bool {
        self.0.ends_with('1')
    }

    /// Returns the value of the header.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for TraceParent {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        TraceParent::read(&text).ok_or("no traceparent")
    }
}

impl From<TraceParent> for String {
    fn from(parent: TraceParent) -> Self {
        parent.0
    }
}

/// Returns true if `text` contains only hexadecimal digits in lower case.
fn is_hex(text: &str) -> bool {
    text.bytes()
        .all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
}

/// Returns true for a valid `tracestate` header within the size limits.
fn is_state(state: &str) -> bool {
    let members: Vec<&str> = state.split(',').map(str::trim).collect();
    state.len() <= MAX_TRACESTATE_BYTES
        && members.len() <= MAX_TRACESTATE_MEMBERS
        && members.into_iter().all(is_state_entry)
}

/// Returns true for a valid `name=value` entry of a `tracestate` header.
fn is_state_entry(member: &str) -> bool {
    let Some((name, value)) = member.split_once('=') else {
        return false;
    };
    let is_name =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-*/@".contains(&byte);
    let is_value = |byte: u8| matches!(byte, 0x20..=0x7e) && byte != b',' && byte != b'=';
    (1..=MAX_TRACESTATE_PART_BYTES).contains(&name.len())
        && (1..=MAX_TRACESTATE_PART_BYTES).contains(&value.len())
        && name.starts_with(|first: char| first.is_ascii_lowercase() || first.is_ascii_digit())
        && name.bytes().all(is_name)
        && value.bytes().all(is_value)
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALID: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn valid_trace_headers_are_read() {
        let caller = CallerTrace::read(VALID, ["rojo=00f067aa0ba902b7", " congo=t61 "]).unwrap();
        assert_eq!(
            caller.traceparent.trace_id(),
            "0af7651916cd43dd8448eb211c80319c"
        );
        assert_eq!(caller.traceparent.span_id(), "b7ad6b7169203331");
        assert!(caller.traceparent.is_sampled());
        assert_eq!(
            caller.tracestate.as_deref(),
            Some("rojo=00f067aa0ba902b7,congo=t61")
        );
        let text = serde_json::to_string(&caller).unwrap();
        assert_eq!(serde_json::from_str::<CallerTrace>(&text).unwrap(), caller);
    }

    #[test]
    fn later_traceparent_versions_are_read_without_unknown_parts() {
        let later = TraceParent::read(
            &VALID
                .replace("00-0a", "cc-0a")
                .replace("-01", "-09-what-comes"),
        )
        .unwrap();
        assert_eq!(later.as_str(), VALID, "unknown flags are dropped");
        assert!(TraceParent::read(&format!("cc{}x", &VALID[2..])).is_none());
    }

    #[test]
    fn an_invalid_traceparent_is_ignored() {
        let long = format!("{VALID}-more");
        for invalid in [
            "",
            "00",
            &long,
            &VALID.to_uppercase(),
            &VALID.replace("00-", "ff-"),
            &VALID.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32)),
            &VALID.replace("b7ad6b7169203331", &"0".repeat(16)),
            &VALID.replace("-b7", "_b7"),
            &VALID.replace("0af7", "0äf"),
            &VALID.replace("-01", "-0g"),
            &VALID.replace('7', "-"),
            "00-0af7651916cd43dd8448eb211c80319-cb7ad6b7169203331-01",
        ] {
            assert!(TraceParent::read(invalid).is_none(), "{invalid}");
        }
    }

    #[test]
    fn an_invalid_tracestate_is_dropped() {
        let (long, many) = (format!("a={}", "x".repeat(600)), vec!["a=1"; 33]);
        for invalid in [
            vec!["A=1"],
            vec!["a"],
            vec!["a="],
            vec!["=1"],
            vec!["a=\u{7}"],
            vec!["a=b=c"],
            vec![&long],
            many,
        ] {
            assert_eq!(
                CallerTrace::read(VALID, invalid.iter().copied())
                    .unwrap()
                    .tracestate,
                None,
                "{invalid:?}"
            );
        }
    }
}
