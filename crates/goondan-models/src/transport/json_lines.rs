//! Parser for streams with one JSON value a line, which Ollama uses.

use memchr::memchr;

use super::events::{EventSink, FramingError};
use crate::formats::WireEvent;

/// Divides a body into lines.
pub(crate) struct JsonLines {
    line: Vec<u8>,
    max_bytes: usize,
}

impl JsonLines {
    pub(crate) fn new(max_bytes: usize) -> Self {
        JsonLines {
            line: Vec::new(),
            max_bytes,
        }
    }

    pub(crate) fn take(
        &mut self,
        mut bytes: &[u8],
        sink: EventSink<'_>,
    ) -> Result<(), FramingError> {
        while let Some(end) = memchr(b'\n', bytes) {
            self.append(&bytes[..end])?;
            self.finish(sink)?;
            bytes = &bytes[end + 1..];
        }
        self.append(bytes)
    }

    pub(crate) fn finish(&mut self, sink: EventSink<'_>) -> Result<(), FramingError> {
        let line = std::mem::take(&mut self.line);
        let data = std::str::from_utf8(line.trim_ascii())?;
        sink(WireEvent { name: None, data });
        Ok(())
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), FramingError> {
        if self.line.len() + bytes.len() > self.max_bytes {
            return Err(FramingError::TooLong);
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }
}
