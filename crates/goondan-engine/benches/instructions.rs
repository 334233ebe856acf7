//! How many instructions the inner pieces take, held against what is written down in `instructions.json`. Counts, unlike
//! times, are the same on a busy machine.
//!
//! `cargo bench -p goondan-engine --bench instructions` fails where a piece takes more than the tolerance allows;
//! `UPDATE_INSTRUCTIONS=1` writes the new counts down. It needs valgrind, and says so where there is none.

#![allow(clippy::disallowed_methods, reason = "a bench reads its own files")]
#![allow(clippy::print_stdout, reason = "figures are a program's result")]

mod pieces;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use pieces::PIECES;

/// By how much a count may exceed the one that is written down: compilers and processors differ a little, and the counts were
/// written down before records had sequence numbers.
const TOLERANCE: f64 = 0.30;

/// What is counted is the difference between these numbers of repetitions, so that neither the start of the process nor the
/// preparation counts.
const FEW: u32 = 2;
const MANY: u32 = 12;

/// Of a piece that takes less than that, so many: tables are hashed differently in each process, so the preparation takes some
/// thousand instructions more or less.
const CHEAP: u64 = 200_000;
const VERY_MANY: u32 = 1_002;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() == Some("--repeat") {
        let mut number = || {
            arguments
                .next()
                .and_then(|text| text.parse().ok())
                .expect("two numbers")
        };
        let (piece, times): (usize, u32) =
            (number(), u32::try_from(number()).expect("a small number"));
        let mut once = (PIECES[piece].prepare)();
        (0..times).for_each(|_| once());
        return ExitCode::SUCCESS;
    }
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("skipped: valgrind is not installed");
        return ExitCode::SUCCESS;
    }
    let counts: BTreeMap<&str, u64> = PIECES
        .iter()
        .enumerate()
        .map(|(index, piece)| (piece.name, per_run(index)))
        .collect();
    if std::env::var_os("UPDATE_INSTRUCTIONS").is_some() {
        let text = serde_json::to_string_pretty(&counts).expect("counts are JSON");
        std::fs::write(baseline(), text + "\n").expect("the baseline can be written");
        return ExitCode::SUCCESS;
    }
    compare(&counts)
}

fn baseline() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("benches/instructions.json")
}

fn compare(counts: &BTreeMap<&str, u64>) -> ExitCode {
    let text = std::fs::read_to_string(baseline()).expect("the baseline is there");
    let known: BTreeMap<String, u64> = serde_json::from_str(&text).expect("the baseline is JSON");
    let mut is_good = true;
    for (name, count) in counts {
        let Some(before) = known.get(*name) else {
            println!("{name}: {count}, which is not written down");
            is_good = false;
            continue;
        };
        let ratio = *count as f64 / *before as f64;
        let verdict = if ratio > 1.0 + TOLERANCE {
            "TOO MANY"
        } else {
            "ok"
        };
        is_good &= verdict == "ok";
        println!("{name}: {count} instructions, {ratio:.3} of {before}: {verdict}");
    }
    if is_good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Instructions for one run of a piece.
fn per_run(piece: usize) -> u64 {
    let few = counted(piece, FEW);
    let up_to = |many: u32| counted(piece, many).saturating_sub(few) / u64::from(many - FEW);
    match up_to(MANY) {
        cheap if cheap < CHEAP => up_to(VERY_MANY),
        dear => dear,
    }
}

fn counted(piece: usize, times: u32) -> u64 {
    let this = std::env::current_exe().expect("this program has a path");
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(this)
        .args(["--repeat", &piece.to_string(), &times.to_string()])
        .output()
        .expect("valgrind runs");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    let line = told
        .lines()
        .find_map(|line| line.split("Collected :").nth(1))
        .expect("valgrind tells a count");
    line.trim().parse().expect("a count is a number")
}
