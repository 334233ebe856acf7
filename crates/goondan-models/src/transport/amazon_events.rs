//! Parser for Amazon's binary event stream, which Bedrock uses.

use aws_smithy_eventstream::frame::{DecodedFrame, MessageFrameDecoder};
use aws_smithy_types::event_stream::{HeaderValue, Message};
use bytes::BytesMut;

use super::events::{EventSink, FramingError};
use crate::formats::WireEvent;

/// Headers that name an event or an exception.
const NAME_HEADERS: [&str; 3] = [":exception-type", ":error-code", ":event-type"];

/// Divides a body into messages.
pub(crate) struct AmazonEvents {
    decoder: MessageFrameDecoder,
    buffer: BytesMut,
    max_bytes: usize,
}

impl AmazonEvents {
    pub(crate) fn new(max_bytes: usize) -> Self {
        AmazonEvents {
            decoder: MessageFrameDecoder::new(),
            buffer: BytesMut::new(),
            max_bytes,
        }
    }

    /// Adds received bytes and passes all complete events to `sink`. Fails for a damaged or too
    /// long event.
    pub(crate) fn take(&mut self, bytes: &[u8], sink: EventSink<'_>) -> Result<(), FramingError> {
        self.buffer.extend_from_slice(bytes);
        loop {
            let frame = self.decoder.decode_frame(&mut self.buffer);
            match frame.map_err(|error| FramingError::Damaged(error.to_string()))? {
                DecodedFrame::Complete(message) => emit_message(&message, sink)?,
                DecodedFrame::Incomplete if self.buffer.len() > self.max_bytes => {
                    return Err(FramingError::TooLong);
                }
                DecodedFrame::Incomplete => return Ok(()),
            }
        }
    }
}

/// Passes a message to `sink`, with its name from the headers.
fn emit_message(message: &Message, sink: EventSink<'_>) -> Result<(), FramingError> {
    let value = |name: &str| {
        let header = message
            .headers()
            .iter()
            .find(|header| header.name().as_str() == name)?;
        match header.value() {
            HeaderValue::String(text) => Some(text.as_str()),
            _ => None,
        }
    };
    let name = NAME_HEADERS.into_iter().find_map(value);
    let data = std::str::from_utf8(message.payload())?;
    sink(WireEvent { name, data });
    Ok(())
}
