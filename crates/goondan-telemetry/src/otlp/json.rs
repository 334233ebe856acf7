//! Differences between the JSON of OTLP and the output of serde.

use std::fmt::Display;

use serde::Serializer;

/// Writes ids in hex.
pub(crate) fn hex<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&goondan_core::ids::hex(bytes))
}

/// Writes 64-bit integers as strings.
pub(crate) fn text<S: Serializer>(number: &impl Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(number)
}
