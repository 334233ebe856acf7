//! The `Accept` header of a request.

use axum::http::HeaderMap;
use axum::http::header::ACCEPT;

/// Media ranges that a client accepts, in lower case.
pub(crate) struct AcceptHeader {
    ranges: Vec<String>,
}

impl AcceptHeader {
    /// Reads the `Accept` headers.
    pub(crate) fn from_headers(headers: &HeaderMap) -> AcceptHeader {
        let ranges = headers
            .get_all(ACCEPT)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .map(|range| range.trim().to_ascii_lowercase())
            .filter(|range| !range.is_empty());
        AcceptHeader {
            ranges: ranges.collect(),
        }
    }

    /// Returns true if the most specific range that matches `media_type` has a quality above 0.
    /// Without a range, the client accepts everything.
    pub(crate) fn accepts(&self, media_type: &str) -> bool {
        let kind = media_type.split('/').next().unwrap_or_default();
        let wildcards = [media_type, &format!("{kind}/*"), "*/*"];
        let mut qualities = wildcards.iter().filter_map(|range| self.quality(range));
        self.ranges.is_empty() || qualities.next().is_some_and(|quality| quality > 0.0)
    }

    /// Returns true if the client names `media_type` without a wildcard and does not refuse it.
    pub(crate) fn names(&self, media_type: &str) -> bool {
        self.quality(media_type)
            .is_some_and(|quality| quality > 0.0)
    }

    /// Returns the highest quality of a range; `None` if the client does not name it.
    fn quality(&self, wanted: &str) -> Option<f32> {
        let qualities = self.ranges.iter().filter_map(|range| {
            let mut parts = range.split(';').map(str::trim);
            let is_wanted = parts.next() == Some(wanted);
            let quality_text = parts.find_map(|parameter| parameter.strip_prefix("q="));
            let quality = quality_text.and_then(|quality| quality.parse().ok());
            is_wanted.then_some(quality.unwrap_or(1.0))
        });
        qualities.reduce(f32::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(accept: &str) -> AcceptHeader {
        let headers = HeaderMap::from_iter([(ACCEPT, accept.parse().unwrap())]);
        AcceptHeader::from_headers(&headers)
    }

    #[test]
    fn media_types_match_the_accept_header() {
        for (accept, expected) in [
            ("*/*", (true, true)),
            ("", (true, true)),
            ("application/json", (true, false)),
            ("Application/JSON; charset=utf-8", (true, false)),
            ("application/*", (true, false)),
            ("text/event-stream", (false, true)),
            ("text/*;q=0.5", (false, true)),
            ("application/json;q=0, */*", (false, true)),
            ("*/*;q=0", (false, false)),
            ("text/html", (false, false)),
        ] {
            let header = header(accept);
            let accepted = ["application/json", "text/event-stream"];
            let accepted = accepted.map(|media_type| header.accepts(media_type));
            assert_eq!(accepted, <[bool; 2]>::from(expected), "{accept}");
        }
        assert!(AcceptHeader::from_headers(&HeaderMap::new()).accepts("text/html"));
    }

    #[test]
    fn a_wildcard_does_not_name_a_media_type() {
        for (accept, expected) in [
            ("text/event-stream", true),
            ("application/json, Text/Event-Stream;q=0.5", true),
            ("text/event-stream;q=0", false),
            ("text/event-streams", false),
            ("text/*", false),
            ("*/*", false),
            ("", false),
        ] {
            assert_eq!(
                header(accept).names("text/event-stream"),
                expected,
                "{accept}"
            );
        }
    }
}
