//! Integration tests of the whole product. Tests of the command line stand beside the command, in `crates/goondan-cli/tests`.

mod architecture;
mod codes;
mod command_lines;
mod redirections;
