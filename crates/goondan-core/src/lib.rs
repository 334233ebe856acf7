//! What the parts of a running swarm share: its values (ids, events, messages), the ports between engine, stores, tools and
//! models, and how texts, paths and command lines are read.
//!
//! It deliberately does not know how events become turns (that is `goondan-engine`), where anything is kept (`goondan-store`),
//! or which tools and models there are.

pub mod caller;
pub mod connecting;
pub mod conversation;
pub mod event;
pub mod handled;
pub mod history;
pub mod ids;
pub mod inbound;
pub mod json_text;
pub mod layering;
pub mod limits;
pub mod message;
pub mod narrowing;
pub mod notices;
pub mod patch;
pub mod path_style;
pub mod ports;
pub mod private;
pub mod protected;
pub mod real_path;
pub mod redact;
pub mod reserved;
pub mod run_mode;
pub mod said;
pub mod schema;
pub mod shell;

pub use goondan_spec::JsonObject;
