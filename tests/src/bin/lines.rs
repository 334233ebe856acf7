//! `cargo run -p goondan-tests --bin lines -- --seconds S --seed N`

use std::process::ExitCode;

#[cfg(unix)]
fn main() -> ExitCode {
    goondan_tests::lines::main(std::env::args().skip(1).collect())
}

/// There are no such shells here.
#[cfg(not(unix))]
fn main() -> ExitCode {
    ExitCode::SUCCESS
}
