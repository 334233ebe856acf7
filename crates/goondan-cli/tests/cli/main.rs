//! Drives the `gdn` binary as a person, a script or another program does.

#![allow(
    clippy::unwrap_used,
    reason = "a test may end with a panic, in its helpers too"
)]

mod acp;
mod answers;
#[cfg(unix)]
mod approved_code;
#[cfg(unix)]
mod bindings;
mod bot;
#[cfg(unix)]
mod build;
mod cases;
mod chain;
#[cfg(unix)]
mod chat;
mod complete;
mod connection;
#[cfg(unix)]
mod control_endpoint;
#[cfg(unix)]
mod custom_tools;
mod documentation;
mod explain;
mod help;
#[cfg(unix)]
mod hostile;
#[cfg(unix)]
mod hosts;
mod init;
mod instances;
mod later;
mod limits;
#[cfg(target_os = "linux")]
mod live;
mod lsp;
mod maintenance;
#[cfg(unix)]
mod mcp;
#[cfg(target_os = "linux")]
mod mcp_login;
mod mcp_server;
mod misuse;
#[cfg(unix)]
mod modules;
#[cfg(unix)]
#[path = "../../../../tests/src/nested_cargo.rs"]
mod nested_cargo;
mod new;
mod new_resources;
mod nodes;
#[cfg(unix)]
mod package;
mod parents;
mod peer;
#[cfg(unix)]
mod person;
#[cfg(unix)]
mod poison;
#[cfg(unix)]
mod privacy;
mod processes;
mod projects;
mod recording;
mod remote;
mod run;
mod safety;
mod sandbox;
mod schema;
#[cfg(unix)]
mod serve;
mod signals;
mod spellings;
mod store;
mod stream;
#[cfg(unix)]
mod terminal;
mod together;
mod tool;
#[cfg(unix)]
mod trust;
mod types;
#[cfg(unix)]
mod updates;
mod validate;
#[cfg(target_os = "linux")]
mod viewer;
#[cfg(unix)]
mod watch;
mod workspaces;
