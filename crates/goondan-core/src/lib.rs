//! Shared values of a running swarm (ids, events, messages) and the ports between engine, stores,
//! tools and models. Also reads strings, paths and command lines.
//!
//! Deliberately excluded: how events become turns (`goondan-engine`), where data is stored
//! (`goondan-store`), and which tools and models exist.

pub mod agent_event;
pub mod agent_operations;
pub mod caller;
pub mod code_directory;
pub mod connector_host;
pub mod content_capture;
pub mod content_hash;
mod context_usage;
pub mod conversation;
pub mod conversation_title;
pub mod event;
pub mod extension_protocol;
pub mod file_lock;
pub mod history;
pub mod ids;
pub mod json_rpc;
pub mod json_text;
pub mod limits;
pub mod loaded_files;
pub mod message;
pub mod model_calls;
pub mod nofollow_fs;
pub mod notices;
pub mod package_copies;
pub mod patch_headers;
pub mod path_json;
pub mod path_style;
pub mod plugin_session;
pub mod ports;
pub mod private_files;
pub mod program_search;
pub mod protected_names;
pub mod rate_limit;
pub mod real_path;
pub mod received_text;
pub mod redact;
pub mod reserved_names;
pub mod result_cache;
pub mod run_mode;
pub mod schema;
pub mod shell;
pub mod sourced_files;
pub mod started_files;
pub mod tool_allowlist;
pub mod utf8_cut;

pub use goondan_spec::JsonObject;
