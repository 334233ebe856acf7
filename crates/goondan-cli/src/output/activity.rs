//! A line that says what is going on, on a terminal, for as long as nothing else is there to read.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use super::{Output, shorten};

/// How often the spinner turns.
const TICK: Duration = Duration::from_millis(100);

/// The line. It draws on standard error and only where that is a terminal; everywhere else its methods do nothing.
#[derive(Debug)]
pub(crate) struct Activity {
    enabled: bool,
    bar: Option<ProgressBar>,
}

impl Activity {
    pub(crate) fn new(output: &Output) -> Self {
        Activity {
            enabled: Output::stderr_is_terminal() && !output.quiet && !output.json,
            bar: None,
        }
    }

    /// Shows `message`, in place of what was there. It may hold words of strangers, and no style.
    pub(crate) fn show(&mut self, message: impl std::fmt::Display) {
        self.show_since(message, Duration::ZERO);
    }

    /// As [`Activity::show`], of something that has gone on for that long.
    pub(crate) fn show_since(&mut self, message: impl std::fmt::Display, elapsed: Duration) {
        if !self.enabled {
            return;
        }
        let message = shorten(&message.to_string());
        match &self.bar {
            Some(bar) if bar.message() == message => {}
            _ => {
                self.hide();
                self.bar = Some(spinner(message, elapsed));
            }
        }
    }

    /// Takes the line away, so that others can write.
    pub(crate) fn hide(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Activity {
    fn drop(&mut self) {
        self.hide();
    }
}

fn spinner(message: String, elapsed: Duration) -> ProgressBar {
    let bar = ProgressBar::new_spinner().with_elapsed(elapsed);
    let style = ProgressStyle::with_template("{spinner} {msg} {elapsed:.dim}")
        .expect("the template is fixed and valid");
    bar.set_style(style);
    bar.set_message(message);
    bar.enable_steady_tick(TICK);
    bar
}
