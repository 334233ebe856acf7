//! A host program for one library: what `gdn tool-host PATH` does.

use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    match std::env::args_os().nth(1) {
        Some(path) => goondan_dylib::tool_host::run(&PathBuf::from(path)),
        None => ExitCode::from(2),
    }
}
