//! Tests of the clients with local servers in the formats of real providers, and of the
//! documentation.

mod aimock;
mod answer_end;
mod anthropic;
mod attacks;
mod bodies;
mod chat;
mod common;
mod configuration;
mod documentation;
mod embeddings;
mod error_kinds;
mod failures;
mod gemini;
mod mock;
mod ollama;
mod opaque_data;
mod responses;
mod structured_output;
mod tool_calls;
