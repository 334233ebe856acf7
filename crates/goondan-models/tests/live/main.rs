//! Providers against servers on this machine that speak their formats.

mod anthropic;
mod attacks;
mod bodies;
mod chat;
mod common;
mod embeddings;
mod failures;
mod gemini;
mod mock;
mod ollama;
mod responses;
mod setup;
