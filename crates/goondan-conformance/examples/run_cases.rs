//! Runs the cases below the given paths: `cargo run -p goondan-conformance --example run_cases -- tests/conformance`.

#![allow(clippy::print_stdout, reason = "this is a program")]

use std::path::PathBuf;
use std::process::ExitCode;

use goondan_conformance::{Options, report, run};

fn main() -> ExitCode {
    let options = Options::new(std::env::args_os().skip(1).map(PathBuf::from));
    let summary = run(&options, &mut |case| print!("{}", report::case_line(case)));
    for error in &summary.errors {
        print!("{}", report::case_error(error));
    }
    print!("{}", report::closing_line(&summary));
    if summary.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
