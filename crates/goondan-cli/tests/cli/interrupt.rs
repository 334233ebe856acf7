//! Ctrl-C.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use crate::projects::scripted;

const SLOW: &str = "default: {text: late, delayMs: 60000}\n";

fn interrupt(child: &Child) {
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
}

#[test]
fn a_stream_ends_at_once() {
    let sandbox = scripted(SLOW);
    let mut command = sandbox.command(&["run", "p", "--input-format", "stream-json"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"{\"input\": \"hi\"}\n").unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(stdout.any(|line| line.contains("step.started")), "the model is being asked");
    interrupt(&child);
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[test]
fn the_first_press_cancels_the_turn() {
    let sandbox = scripted(SLOW);
    let mut command = sandbox.command(&["run", "p", "--input", "hi", "--output-format", "stream-json"]);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let step = stdout.find(|line| line.contains("step.started"));
    assert!(step.is_some(), "the model is being asked");
    interrupt(&child);
    let last = stdout.last().unwrap();
    assert!(last.contains("\"result\"") && last.contains("\"cancelled\""), "{last}");
    assert_eq!(child.wait().unwrap().code(), Some(130));
}
