//! The program that `lines` has started, and that writes down how.

use std::process::ExitCode;

#[cfg(unix)]
fn main() -> ExitCode {
    goondan_tests::lines::witness::main()
}

/// There are no such shells here.
#[cfg(not(unix))]
fn main() -> ExitCode {
    ExitCode::SUCCESS
}
