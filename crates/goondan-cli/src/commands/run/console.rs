//! Console for connections that read typed lines.

use std::io::BufRead;

use goondan_connect::LineConsole;

use crate::output::CommandOutput;

/// Returns a console that reads standard input on demand and writes to standard output.
pub(crate) fn standard_console(output: &CommandOutput) -> LineConsole {
    let output = *output;
    let start_reading = |lines: tokio::sync::mpsc::Sender<String>| {
        // A read can't be interrupted: the thread ends with the process.
        std::thread::spawn(move || forward_standard_input(&lines));
    };
    let write = move |text: &str| {
        // A closed standard output must not end the connection.
        let _ = output.foreign(&format!("{text}\n"));
    };
    LineConsole::new(start_reading, write)
}

/// Sends the lines of standard input until it ends or the receiver is dropped.
fn forward_standard_input(lines: &tokio::sync::mpsc::Sender<String>) {
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { return };
        if lines.blocking_send(line).is_err() {
            return;
        }
    }
}
