//! Output routing: results go to standard output, everything else to standard error. Colors are
//! only used on terminals.

mod activity;
mod reload;
mod report;
pub(crate) mod screen;
mod status_rows;
mod table;
pub(crate) mod terminal;
mod terminal_prompt;
mod truncate;
pub(crate) mod width;

use std::io::{self, IsTerminal};

use anstyle::{AnsiColor, Style};
use goondan::internal::untrusted_text;
use serde::Serialize;

pub(crate) use activity::ActivitySpinner;
pub(crate) use reload::{build_words, outcome_words, plan_words};
pub(crate) use report::{TurnReport, TurnReportFacts, turn_error};
pub(crate) use screen::redactor;
pub(crate) use status_rows::StatusRows;
pub(crate) use table::TextTable;
pub(crate) use terminal_prompt::{
    TerminalLine, TerminalPrompt, TerminalSize, ask, is_yes, read_line,
};
pub(crate) use truncate::{counted, duration, gutter, shorten};

use self::screen::{TerminalStream, TextOrigin, write};
use crate::exit::CliError;
use crate::global_args::GlobalArgs;

/// Styles in use.
pub(crate) mod style {
    use super::{AnsiColor, Style};

    pub(crate) const ERROR: Style = AnsiColor::Red.on_default().bold();
    pub(crate) const WARNING: Style = AnsiColor::Yellow.on_default().bold();
    pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
    pub(crate) const FAINT: Style = Style::new().dimmed();
    pub(crate) const NAME: Style = AnsiColor::Cyan.on_default();
    pub(crate) const HEADING: Style = Style::new().bold();
}

/// Returns true if standard output is a pipe that its reader has closed. A write would also find
/// that, but there may be nothing to write.
pub(crate) fn stdout_is_closed() -> bool {
    #[cfg(unix)]
    {
        use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
        use std::os::fd::AsFd as _;
        let stdout = io::stdout();
        let mut polled = [PollFd::new(stdout.as_fd(), PollFlags::empty())];
        poll(&mut polled, PollTimeout::ZERO).is_ok()
            && polled[0]
                .revents()
                .is_some_and(|events| events.contains(PollFlags::POLLERR))
    }
    #[cfg(not(unix))]
    false
}

/// Verbosity and format of the output.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CommandOutput {
    /// Print JSON instead of text.
    pub(crate) json: bool,
    /// Print only results and errors.
    pub(crate) quiet: bool,
    /// Number of `-v` flags.
    pub(crate) verbose: u8,
}

impl CommandOutput {
    /// Creates the output settings from the global options.
    pub(crate) fn new(global: &GlobalArgs) -> Self {
        CommandOutput {
            json: global.json,
            quiet: global.quiet,
            verbose: global.verbose,
        }
    }

    /// Prints a line of the result as text.
    pub(crate) fn line(&self, text: &str) -> Result<(), CliError> {
        self.piece(&format!("{text}\n"))
    }

    /// Prints a piece of the result as text, without a line break.
    pub(crate) fn piece(&self, text: &str) -> Result<(), CliError> {
        Ok(write(TerminalStream::Out, TextOrigin::Ours, text)?)
    }

    /// Prints a piece of a result that a model or tool wrote. Pipes and files get it byte for byte.
    pub(crate) fn foreign(&self, text: &str) -> Result<(), CliError> {
        Ok(write(TerminalStream::Out, TextOrigin::Foreign, text)?)
    }

    /// Prints a value of the result as indented JSON.
    pub(crate) fn json_pretty(&self, value: &impl Serialize) -> Result<(), CliError> {
        self.json_text(&(serde_json::to_string_pretty(value).map_err(io::Error::other)? + "\n"))
    }

    /// Prints a value of the result as one line of JSON.
    pub(crate) fn json_line(&self, value: &impl Serialize) -> Result<(), CliError> {
        self.json_text(&(serde_json::to_string(value).map_err(io::Error::other)? + "\n"))
    }

    /// Prints lines that are already JSON.
    pub(crate) fn json_text(&self, json: &str) -> Result<(), CliError> {
        Ok(write(TerminalStream::Out, TextOrigin::Json, json)?)
    }

    /// Prints a note; suppressed by `--quiet` and `--json`.
    pub(crate) fn note(&self, text: &str) -> Result<(), CliError> {
        if self.quiet || self.json {
            return Ok(());
        }
        self.trace(text)
    }

    /// Prints details of the error that follows. `--quiet` keeps them; with `--json` the error
    /// object contains them.
    pub(crate) fn explain(&self, text: &str) -> Result<(), CliError> {
        if self.json {
            return Ok(());
        }
        self.trace(text)
    }

    /// Prints a progress line, including with `--json`.
    pub(crate) fn trace(&self, text: &str) -> Result<(), CliError> {
        Ok(write(
            TerminalStream::Err,
            TextOrigin::Ours,
            &format!("{text}\n"),
        )?)
    }

    /// Prints styled text from clap as a result.
    pub(crate) fn print_styled(text: &str) -> Result<(), CliError> {
        Ok(write(TerminalStream::Out, TextOrigin::Ours, text)?)
    }

    /// Prints styled text to standard error, without a line break. Prompts whose answer follows on
    /// the same line also use it.
    pub(crate) fn note_styled(text: &str) -> Result<(), CliError> {
        Ok(write(TerminalStream::Err, TextOrigin::Ours, text)?)
    }

    /// Returns true if standard output is a terminal.
    pub(crate) fn stdout_is_terminal() -> bool {
        io::stdout().is_terminal()
    }

    /// Returns true if standard error is a terminal.
    pub(crate) fn stderr_is_terminal() -> bool {
        io::stderr().is_terminal()
    }

    /// Returns the width of standard error in columns. Without a terminal, a usual width is
    /// assumed.
    pub(crate) fn columns() -> usize {
        terminal_size::terminal_size_of(io::stderr()).map_or(100, |(width, _)| width.0.into())
    }

    /// Returns true if standard input is a terminal.
    pub(crate) fn stdin_is_terminal() -> bool {
        io::stdin().is_terminal()
    }

    /// Returns true if standard output shows colors.
    pub(crate) fn stdout_has_colour() -> bool {
        anstream::AutoStream::choice(&io::stdout()) != anstream::ColorChoice::Never
    }

    /// Returns true if standard error shows colors.
    pub(crate) fn stderr_has_colour() -> bool {
        anstream::AutoStream::choice(&io::stderr()) != anstream::ColorChoice::Never
    }
}

/// Prints `error` on standard error, as JSON or as text.
pub(crate) fn write_error(error: &CliError, json: bool) -> io::Result<()> {
    if json {
        write(
            TerminalStream::Err,
            TextOrigin::Json,
            &format!("{}\n", error.to_json()),
        )
    } else {
        write(TerminalStream::Err, TextOrigin::Ours, &error_text(error))
    }
}

/// Renders an error as text. Further lines are indented, so that foreign text in a message cannot
/// imitate gdn's own output.
fn error_text(error: &CliError) -> String {
    let (red, faint) = (style::ERROR, style::FAINT);
    let indented = |text: &str, line_break: &str| {
        untrusted_text::lines(text)
            .to_string()
            .replace('\n', line_break)
    };
    let code = untrusted_text::line(&error.code);
    let mut text = format!(
        "{red}error[{code}]{red:#}: {}\n",
        indented(&error.message, "\n  ")
    );
    if let Some(suggestion) = &error.suggestion {
        text.push_str(&format!(
            "  suggestion: {}\n",
            indented(suggestion, "\n              ")
        ));
    }
    if let Some(url) = &error.help_url {
        text.push_str(&format!(
            "  {faint}help: {}{faint:#}\n",
            untrusted_text::line(url)
        ));
    }
    text
}
