//! Clients against servers on this machine that use the formats of real providers, and the documentation.

mod aimock;
mod anthropic;
mod attacks;
mod bodies;
mod calls;
mod chat;
mod common;
mod documentation;
mod embeddings;
mod endings;
mod failures;
mod gemini;
mod kinds;
mod lossless;
mod mock;
mod ollama;
mod output;
mod responses;
mod setup;
