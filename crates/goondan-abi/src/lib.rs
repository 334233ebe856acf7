//! The contract of a loadable tool library, and the SDK for its author.
//!
//! Three layers, each usable without the next:
//!
//! * [`raw`]: the one exported symbol and the two function tables, as in
//!   `include/goondan_plugin.h`.
//! * [`wire`]: the JSON that is passed through them.
//! * [`sdk`]: plain Rust functions become tools with [`export_tools!`].
//!
//! No Rust type, allocation, future, waker, trait object or panic crosses the boundary. Bytes are
//! UTF-8 JSON, borrowed for the call and copied by the receiver. So a library in any language
//! continues to work with newer releases of the host.
//!
//! # Versions
//!
//! A structure only grows at its end, and states its size. A reader accesses a field only if the
//! size covers it ([`raw::read_prefix`]). An added field is a new minor version. A removed or
//! changed field is a new major version, and a host refuses a library of another major version.
//! Both sides ignore unknown JSON fields. New host operations are new names for `request`, never
//! new table entries.
//!
//! # A library
//!
//! ```
//! use goondan_abi::sdk::{ToolContext, ToolError, export_tools};
//! use serde::Deserialize;
//! use serde_json::{Value, json};
//!
//! /// Convert text to uppercase
//! #[derive(Deserialize, schemars::JsonSchema)]
//! struct Uppercase {
//!     /// Text to convert
//!     text: String,
//! }
//!
//! async fn uppercase(ctx: ToolContext, input: Uppercase) -> Result<Value, ToolError> {
//!     ctx.logger().info(&format!("{} characters", input.text.len()));
//!     Ok(json!({ "result": input.text.to_uppercase() }))
//! }
//!
//! export_tools! {
//!     name = "text-utils",
//!     tools = [uppercase => read_only().idempotent()],
//! }
//! # fn main() {}
//! ```
//!
//! This crate does not depend on other crates of this project, on a loader or on an async runtime.

pub mod raw;
pub mod sdk;
#[doc(hidden)]
pub mod spin_wait;
pub mod wire;
