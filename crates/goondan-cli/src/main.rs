//! The `gdn` command: arguments, rendering, exit codes.
//!
//! Everything that a swarm does lives in the library `goondan`; this crate only turns words on a command line into calls of
//! it, and what comes back into text or JSON. It deliberately holds no behaviour that a library user would miss.
//!
//! Start reading at [`args::Cli`], which is the whole command line, and [`commands::run`].

// Elsewhere chats are in plain lines, and what draws the other one stands idle.
#![cfg_attr(
    not(unix),
    allow(
        dead_code,
        unused_imports,
        reason = "the chat that has the terminal is for Unix alone"
    )
)]

mod app;
mod args;
mod commands;
mod complete;
mod elsewhere;
mod exit;
mod instances;
mod output;
mod packages;
mod place;
mod project;
mod reading;
mod recorder;
mod remote;
mod retyped;
mod store;
mod trust;

fn main() -> std::process::ExitCode {
    app::main(std::env::args_os().collect())
}
