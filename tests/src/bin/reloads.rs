//! `cargo run -p goondan-tests --bin reloads -- --reloads N --instances N --versions N --seed S`

use std::process::ExitCode;

fn main() -> ExitCode {
    goondan_tests::reloads::main(std::env::args().skip(1).collect())
}
