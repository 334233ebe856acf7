//! Events of a response body, whatever their framing.

use std::str::Utf8Error;

use super::amazon_events::AmazonEvents;
use super::json_lines::JsonLines;
use super::server_sent_events::ServerSentEvents;
use crate::formats::{EventFraming, WireEvent};

/// A response body cannot be divided into events.
#[derive(Debug)]
pub(crate) enum FramingError {
    /// An event is larger than the limit.
    TooLong,
    /// An event is not UTF-8 text.
    NotText(Utf8Error),
    /// A frame of an event stream is damaged.
    Damaged(String),
}

/// Divides a response body into events. It never holds more than its limit.
pub(crate) enum EventReader {
    ServerSentEvents(ServerSentEvents),
    JsonLines(JsonLines),
    AmazonEvents(AmazonEvents),
}

/// Receiver of events. An event without data is a comment or a keep-alive.
pub(crate) type EventSink<'a> = &'a mut dyn FnMut(WireEvent<'_>);

impl EventReader {
    /// Returns a reader for `framing`. An event may have up to `max_bytes`.
    pub(crate) fn new(framing: EventFraming, max_bytes: usize) -> Self {
        match framing {
            EventFraming::ServerSentEvents => {
                EventReader::ServerSentEvents(ServerSentEvents::new(max_bytes))
            }
            EventFraming::JsonLines => EventReader::JsonLines(JsonLines::new(max_bytes)),
            EventFraming::AmazonEvents => EventReader::AmazonEvents(AmazonEvents::new(max_bytes)),
        }
    }

    /// Parses the next bytes and passes each completed event to `sink`.
    ///
    /// # Errors
    /// An event is too long, not text, or damaged.
    pub(crate) fn take(&mut self, bytes: &[u8], sink: EventSink<'_>) -> Result<(), FramingError> {
        match self {
            EventReader::ServerSentEvents(events) => events.take(bytes, sink),
            EventReader::JsonLines(lines) => lines.take(bytes, sink),
            EventReader::AmazonEvents(events) => events.take(bytes, sink),
        }
    }

    /// Ends the body: an unfinished last event counts as complete.
    ///
    /// # Errors
    /// The last event is not text.
    pub(crate) fn finish(&mut self, sink: EventSink<'_>) -> Result<(), FramingError> {
        match self {
            EventReader::ServerSentEvents(events) => events.finish(sink),
            EventReader::JsonLines(lines) => lines.finish(sink),
            EventReader::AmazonEvents(_) => Ok(()),
        }
    }
}

impl From<Utf8Error> for FramingError {
    fn from(error: Utf8Error) -> Self {
        FramingError::NotText(error)
    }
}
