//! Tests the ABI from the host side and the library side.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod header;
mod sdk;
