//! Scenarios that drive the real `gdn` process and measure it against a model server that answers at once.
//!
//! The server writes down when each request came and when its answer left. What lies between an answer and the next request
//! is the framework's, so every figure stands beside the raw round trip of the same run.
//!
//! Nothing here knows the crates of the product: a peer that speaks the OpenAI protocol can be put in `gdn`'s place.

pub mod behaviour;
pub mod figures;
pub mod gdn;
pub mod http;
pub mod postgres;
pub mod projects;
pub mod scenarios;
pub mod server;
