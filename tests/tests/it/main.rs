//! Integration tests of the whole product. Tests of the command line are in `crates/goondan-cli/tests`.

#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod architecture;
mod codes;
mod command_lines;
mod environment;
mod redirections;
mod source_map;
mod words;
