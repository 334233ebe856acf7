//! Providers against servers on this machine that speak their formats, and what the documentation says of them.

mod aimock;
mod anthropic;
mod attacks;
mod bodies;
mod chat;
mod common;
mod documentation;
mod embeddings;
mod failures;
mod gemini;
mod mock;
mod ollama;
mod output;
mod responses;
mod setup;
