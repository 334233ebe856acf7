//! Clients against servers on this machine that use the formats of real providers, and the documentation.

mod aimock;
mod attacks;
mod bodies;
mod chat;
mod common;
mod documentation;
mod endings;
mod failures;
mod kinds;
mod lossless;
mod mock;
mod output;
mod setup;
