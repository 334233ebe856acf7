//! Where the JSON of OTLP differs from what serde makes of the messages.

use std::fmt::Display;

use serde::Serializer;

/// Ids are hex.
pub(crate) fn hex<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&goondan_core::ids::hex(bytes))
}

/// Numbers of 64 bits are text.
pub(crate) fn text<S: Serializer>(number: &impl Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(number)
}
