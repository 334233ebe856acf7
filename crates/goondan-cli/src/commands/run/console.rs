//! Where people type, for connections that read it.

use std::io::BufRead;

use goondan_connect::Console;

use crate::output::Output;

/// Standard input, which is read once somebody wants it; answers go to standard output.
pub(crate) fn of_process(output: &Output) -> Console {
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
    Console::new(open, move |text| drop(output.foreign(&format!("{text}\n"))))
}
