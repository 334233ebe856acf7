//! Tests of the `gdn` binary, run from a terminal, a script or another program.

#![allow(clippy::unwrap_used, reason = "tests and their helpers may panic")]

mod acp;
mod alternative_names;
mod answers;
#[cfg(unix)]
mod approved_code;
#[cfg(unix)]
mod bindings;
#[cfg(unix)]
mod build;
mod caller_permissions;
mod cases;
mod complete;
mod concurrent_commands;
mod connection;
#[cfg(unix)]
mod control_endpoint;
mod conversations;
#[cfg(unix)]
mod crashing_turns;
#[cfg(unix)]
mod custom_tools;
mod documentation;
#[cfg(target_os = "linux")]
mod emulated_terminal;
mod enclosing_project;
mod explain;
#[cfg(target_os = "linux")]
mod full_screen_chat;
#[cfg(unix)]
mod handler_runtimes;
mod help;
#[cfg(unix)]
mod hostile_text;
mod init;
#[cfg(unix)]
mod javascript_tools;
mod json_rpc_client;
mod killed_telegram_bot;
mod later_answers;
mod limits;
mod lsp;
mod maintenance;
#[cfg(unix)]
mod mcp;
#[cfg(target_os = "linux")]
mod mcp_login;
mod mcp_server;
#[cfg(unix)]
#[path = "../../../../tests/src/nested_cargo.rs"]
mod nested_cargo;
mod new;
mod new_resources;
mod nodes;
#[cfg(unix)]
mod package;
#[cfg(unix)]
mod plain_chat;
#[cfg(unix)]
mod privacy;
mod processes;
mod projects;
#[cfg(unix)]
mod pty_session;
mod recording;
mod run;
mod safety;
mod sandbox;
mod schema;
#[cfg(unix)]
mod serve;
mod signals;
mod ssh_host;
mod store;
mod stream;
mod tool;
#[cfg(unix)]
mod trust;
mod types;
#[cfg(unix)]
mod untrusted_output;
#[cfg(unix)]
mod updates;
mod usage_errors;
mod validate;
#[cfg(unix)]
mod watch;
mod workspaces;
