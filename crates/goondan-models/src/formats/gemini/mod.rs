//! Gemini's format, at Google AI and at Vertex AI.
//!
//! A thought signature belongs to one part of an answer and returns on the same part. Parts with a signature are
//! therefore never joined with others.

mod request;
mod stream;
#[cfg(test)]
mod tests;
mod thinking;

pub(crate) use request::GeminiFormat;

/// Field of a part that contains its signature.
const SIGNATURE: &str = "thoughtSignature";
