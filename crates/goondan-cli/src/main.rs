//! The `gdn` command: arguments, rendering, exit codes.
//!
//! All behavior of swarms is in the library `goondan`. This crate only converts command lines into
//! calls of the library, and results into text or JSON.
//!
//! Start reading at [`args::CommandLine`], the complete command line, and at [`commands::run`].

// Only Unix has the full view of the chat. Other platforms use plain lines and leave its code unused.
#![cfg_attr(
    not(unix),
    allow(
        dead_code,
        unused_imports,
        reason = "the full view of the chat is only available on Unix"
    )
)]

mod app;
mod args;
mod case_recorder;
mod case_runner;
mod command_groups;
mod commands;
mod complete;
mod completion_request;
mod exit;
mod global_args;
mod help_texts;
mod input_files;
mod instances;
mod long_help;
mod output;
mod packages;
mod project;
mod project_editor;
mod project_path;
mod remote;
mod stale_state;
mod store;
mod suggested_command;
mod trust;

fn main() -> std::process::ExitCode {
    app::main(std::env::args_os().collect())
}
