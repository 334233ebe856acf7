//! Parser for server-sent events, the streaming format of most providers.

use memchr::memchr2;

use super::events::{EventSink, FramingError};
use crate::formats::WireEvent;

/// Divides a body into server-sent events.
pub(crate) struct ServerSentEvents {
    /// An unfinished line.
    line: Vec<u8>,
    /// Name of an unfinished event.
    name: Vec<u8>,
    /// Data lines of an unfinished event.
    data: Vec<u8>,
    has_data: bool,
    /// The last line ended with a carriage return, so a line feed that follows belongs to it.
    after_return: bool,
    max_bytes: usize,
}

impl ServerSentEvents {
    pub(crate) fn new(max_bytes: usize) -> Self {
        ServerSentEvents {
            line: Vec::new(),
            name: Vec::new(),
            data: Vec::new(),
            has_data: false,
            after_return: false,
            max_bytes,
        }
    }

    /// Adds the next bytes of the body, and passes each finished event to `sink`.
    pub(crate) fn take(
        &mut self,
        mut bytes: &[u8],
        sink: EventSink<'_>,
    ) -> Result<(), FramingError> {
        while !bytes.is_empty() {
            if std::mem::take(&mut self.after_return) && bytes[0] == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let Some(end) = memchr2(b'\n', b'\r', bytes) else {
                self.check_size(bytes.len())?;
                self.line.extend_from_slice(bytes);
                return Ok(());
            };
            self.check_size(end)?;
            self.after_return = bytes[end] == b'\r';
            self.line.extend_from_slice(&bytes[..end]);
            let mut line = std::mem::take(&mut self.line);
            self.end_line(&line, sink)?;
            line.clear();
            self.line = line;
            bytes = &bytes[end + 1..];
        }
        Ok(())
    }

    /// Ends the body. Passes the last event to `sink` even if the empty line after it is missing.
    pub(crate) fn finish(&mut self, sink: EventSink<'_>) -> Result<(), FramingError> {
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            self.end_line(&line, sink)?;
        }
        if self.has_data {
            self.end_line(b"", sink)?;
        }
        Ok(())
    }

    /// Fails if the unfinished event has more than the maximum size with `new_bytes` more bytes.
    fn check_size(&self, new_bytes: usize) -> Result<(), FramingError> {
        let event_bytes = self.line.len() + self.data.len() + self.name.len() + new_bytes;
        if event_bytes > self.max_bytes {
            return Err(FramingError::TooLong);
        }
        Ok(())
    }

    /// Adds a line to the unfinished event. An empty line ends the event and passes it to `sink`.
    fn end_line(&mut self, line: &[u8], sink: EventSink<'_>) -> Result<(), FramingError> {
        if line.is_empty() {
            let name = std::str::from_utf8(&self.name)?;
            let name = (!name.is_empty()).then_some(name);
            sink(WireEvent {
                name,
                data: std::str::from_utf8(&self.data)?,
            });
            self.name.clear();
            self.data.clear();
            self.has_data = false;
        } else if let Some(value) = line.strip_prefix(b"data:") {
            if std::mem::replace(&mut self.has_data, true) {
                self.data.push(b'\n');
            }
            self.data.extend_from_slice(value.trim_ascii());
        } else if let Some(value) = line.strip_prefix(b"event:") {
            self.name = value.trim_ascii().to_vec();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn events_of<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<String> {
        let mut events = ServerSentEvents::new(1000);
        let mut found = Vec::new();
        let mut sink = |event: WireEvent<'_>| {
            if !event.data.is_empty() {
                found.push(format!("{}{}", event.name.unwrap_or_default(), event.data));
            }
        };
        for piece in pieces {
            events.take(piece, &mut sink).expect("short enough");
        }
        events.finish(&mut sink).expect("text");
        found
    }

    #[test]
    fn server_sent_events_are_read_in_every_valid_syntax() {
        for (stream, expected) in [
            ("data: a\n\ndata: b\n\n", &["a", "b"][..]),
            ("data:a\r\n\r\ndata:  b \r\n\r\n", &["a", "b"]),
            ("data: a\r\rdata: b\r\r", &["a", "b"]),
            (
                ": ping\n\nevent: x\nid: 1\ndata: a\n\ndata: b\n\n",
                &["xa", "b"],
            ),
            ("data: a\ndata: b\n\n", &["a\nb"]),
            ("data: a\n\ndata: b", &["a", "b"]),
            ("data\ndatas: x\n\n\n\n", &[]),
        ] {
            assert_eq!(events_of([stream.as_bytes()]), expected, "{stream:?}");
        }
    }

    #[test]
    fn server_sent_events_have_a_size_limit() {
        let mut events = ServerSentEvents::new(10);
        assert!(events.take(b"data: 7890", &mut |_| {}).is_ok());
        assert!(matches!(
            events.take(b"1", &mut |_| {}),
            Err(FramingError::TooLong)
        ));
        let mut events = ServerSentEvents::new(20);
        let stream = b"data: 7890\n".repeat(4);
        assert!(matches!(
            events.take(&stream, &mut |_| {}),
            Err(FramingError::TooLong)
        ));
    }

    proptest! {
        #[test]
        fn server_sent_events_do_not_depend_on_read_boundaries(
            parts in prop::collection::vec("(data:|: |event: )?[a-c ]{0,4}(\n|\r\n|\r|\n\n)?", 0..12),
            cuts in prop::collection::vec(0usize..100, 0..12),
        ) {
            let stream = parts.concat();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(stream.len())).collect();
            cuts.extend([0, stream.len()]);
            cuts.sort_unstable();
            let pieces = cuts.windows(2).map(|cut| &stream.as_bytes()[cut[0]..cut[1]]);
            prop_assert_eq!(events_of(pieces), events_of([stream.as_bytes()]));
        }
    }
}
