//! Console for connections that read typed lines.

use std::io::BufRead;

use goondan_connect::LineConsole;

use crate::output::CommandOutput;

/// Returns a console that reads standard input on demand and writes to standard output.
pub(crate) fn of_process(output: &CommandOutput) -> LineConsole {
    let output = *output;
    let open = |sender: tokio::sync::mpsc::Sender<String>| {
        // A read can't be interrupted: the thread ends with the process.
        std::thread::spawn(move || {
            for line in std::io::stdin().lock().lines() {
                let Ok(line) = line else { return };
                if sender.blocking_send(line).is_err() {
                    return;
                }
            }
        });
    };
    LineConsole::new(open, move |text| drop(output.foreign(&format!("{text}\n"))))
}
