//! Tests the contract from both sides.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod header;
mod sdk;
