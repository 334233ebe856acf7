//! The contract of a loadable tool library, and the SDK that its author uses.
//!
//! Three layers, each usable without the next:
//!
//! * [`raw`]: the one exported symbol and the two tables of functions, as C sees them (`include/goondan_plugin.h`).
//! * [`wire`]: the JSON that travels through them.
//! * [`sdk`]: plain Rust functions become tools by [`export_tools!`].
//!
//! No Rust type, allocation, future, waker, trait object or panic crosses the line: bytes are UTF-8 JSON, borrowed for the
//! call and copied by the receiver, so that a library in any language keeps working over releases of the host.
//!
//! # Versions
//!
//! A structure only grows at its end, and says its size; a reader looks at a field only where the size covers it
//! ([`raw::read_prefix`]). That is a new minor. A field that goes or changes its meaning is a new major, and a host
//! refuses a library of another major. Unknown fields of the JSON are ignored by both sides; new powers of the host are new
//! names for `request`, never new table entries.
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
//! This crate deliberately does not know anything else of this project, and neither a loader nor an async runtime.

#[doc(hidden)]
pub mod moment;
pub mod raw;
pub mod sdk;
pub mod wire;
