//! The program that lines start, and that writes down how it was called. It is copied under many names, so it is small: it has
//! nothing of the rest of this crate.

use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::json;
use witness::{NOTES, calm, place_file};

#[path = "../lines/witness.rs"]
#[allow(dead_code, reason = "whoever starts it uses the rest")]
mod witness;

/// Notes its arguments, its folder, what it reads and the variable `A`; prints its arguments; fails where one is `fail`.
fn main() -> ExitCode {
    match note() {
        Ok(code) => code,
        Err(error) => {
            let _ = writeln!(io::stderr(), "witness: {error}");
            ExitCode::from(9)
        }
    }
}

fn note() -> io::Result<ExitCode> {
    let args: Vec<String> = std::env::args_os()
        .map(|arg| calm(&arg.to_string_lossy()))
        .collect();
    let program = std::env::current_exe()?;
    let place = place_file(&program).ok_or_else(|| io::Error::other("no prefix"))?;
    let work = PathBuf::from(fs::read_to_string(place)?);
    let mut read = Vec::new();
    io::stdin().read_to_end(&mut read)?;
    let folder = std::env::current_dir()?;
    // Two folders up, all runs are in the same place.
    let base = work.parent().unwrap_or(&work);
    let folder = folder
        .strip_prefix(base)
        .map_or_else(|_| "above".to_owned(), |below| below.display().to_string());
    let called = args
        .first()
        .map(|name| name.rsplit('/').next().unwrap_or(name).to_owned());
    let note = json!({
        "program": called,
        "args": args.get(1..),
        "in": folder,
        "reads": calm(&String::from_utf8_lossy(&read)),
        "A": std::env::var("A").ok(),
    });
    let mut notes = OpenOptions::new()
        .append(true)
        .create(true)
        .open(work.join(NOTES))?;
    notes.write_all(format!("{note}\n").as_bytes())?;
    // Nobody may be there to read it.
    let _ = writeln!(
        io::stdout(),
        "{}",
        args.get(1..).unwrap_or_default().join(" ")
    );
    let _ = writeln!(io::stderr(), "seen");
    Ok(ExitCode::from(u8::from(
        args.iter().any(|arg| arg == "fail"),
    )))
}
