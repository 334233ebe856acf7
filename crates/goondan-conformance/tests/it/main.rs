//! The runner, and the cases of the product.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod live;
mod product;
mod runner;
