//! Spinner line on a terminal, shown while there is no other output.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use super::{CommandOutput, shorten};

const SPINNER_INTERVAL: Duration = Duration::from_millis(100);

/// Spinner line on standard error. If standard error is not a terminal, no method has an effect.
#[derive(Debug)]
pub(crate) struct ActivitySpinner {
    enabled: bool,
    bar: Option<ProgressBar>,
}

impl ActivitySpinner {
    /// Creates a spinner, which is disabled without a terminal and for quiet or JSON output.
    pub(crate) fn new(output: &CommandOutput) -> Self {
        ActivitySpinner {
            enabled: CommandOutput::stderr_is_terminal() && !output.quiet && !output.json,
            bar: None,
        }
    }

    /// Replaces the current message. The message may contain foreign text, but no styles.
    pub(crate) fn show(&mut self, message: impl std::fmt::Display) {
        self.show_since(message, Duration::ZERO);
    }

    /// Shows a message, see [`ActivitySpinner::show`], for an activity that started `elapsed` ago.
    pub(crate) fn show_since(&mut self, message: impl std::fmt::Display, elapsed: Duration) {
        if !self.enabled {
            return;
        }
        let message = shorten(&message.to_string());
        match &self.bar {
            Some(bar) if bar.message() == message => {}
            _ => {
                self.hide();
                self.bar = Some(start_spinner(message, elapsed));
            }
        }
    }

    /// Removes the line so that other output can be written.
    pub(crate) fn hide(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

impl Drop for ActivitySpinner {
    fn drop(&mut self) {
        self.hide();
    }
}

/// Draws a spinner with this message. `elapsed`: the time since its activity began.
fn start_spinner(message: String, elapsed: Duration) -> ProgressBar {
    let bar = ProgressBar::new_spinner().with_elapsed(elapsed);
    let style = ProgressStyle::with_template("{spinner} {msg} {elapsed:.dim}")
        .expect("the template is fixed and valid");
    bar.set_style(style);
    bar.set_message(message);
    bar.enable_steady_tick(SPINNER_INTERVAL);
    bar
}
