//! `cargo run -p goondan-tests --bin chaos -- --seconds N --seed S`

use std::process::ExitCode;

fn main() -> ExitCode {
    goondan_tests::chaos::main(std::env::args().skip(1).collect())
}
