//! Where text goes: results on standard output, everything else on standard error, colours only on terminals.

mod activity;
mod ask;
mod bottom;
mod reload;
mod report;
pub(crate) mod screen;
mod table;
pub(crate) mod width;
mod words;

use std::io::{self, IsTerminal};

use anstyle::{AnsiColor, Style};
use goondan::inside::shown;
use serde::Serialize;

pub(crate) use activity::Activity;
pub(crate) use ask::{Printer, Size, ask, ask_with, is_yes};
pub(crate) use bottom::Bottom;
pub(crate) use reload::{build_words, outcome_words, plan_words};
pub(crate) use report::{TurnFacts, TurnReport, turn_error};
pub(crate) use table::Table;
pub(crate) use words::{duration, gutter, shorten};

use self::screen::{Stream, Words, write};
use crate::args::Global;
use crate::exit::CliError;

/// The colours in use, one name each.
pub(crate) mod style {
    use super::{AnsiColor, Style};

    pub(crate) const ERROR: Style = AnsiColor::Red.on_default().bold();
    pub(crate) const WARNING: Style = AnsiColor::Yellow.on_default().bold();
    pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
    pub(crate) const FAINT: Style = Style::new().dimmed();
    pub(crate) const NAME: Style = AnsiColor::Cyan.on_default();
    pub(crate) const HEADING: Style = Style::new().bold();
}

/// How much is said, and in which form.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    /// JSON instead of text.
    pub(crate) json: bool,
    /// Only results and errors.
    pub(crate) quiet: bool,
    /// How often `-v` was given.
    pub(crate) verbose: u8,
}

impl Output {
    pub(crate) fn new(global: &Global) -> Self {
        Output {
            json: global.json,
            quiet: global.quiet,
            verbose: global.verbose,
        }
    }

    /// A line of the result, for people.
    pub(crate) fn line(&self, text: &str) -> Result<(), CliError> {
        self.piece(&format!("{text}\n"))
    }

    /// A piece of the result, for people, without a line break of its own.
    pub(crate) fn piece(&self, text: &str) -> Result<(), CliError> {
        Ok(write(Stream::Out, Words::Ours, text)?)
    }

    /// A piece of what somebody else wrote and that is the result: programs get it byte for byte.
    pub(crate) fn foreign(&self, text: &str) -> Result<(), CliError> {
        Ok(write(Stream::Out, Words::Foreign, text)?)
    }

    /// A value of the result, indented for people who look at it.
    pub(crate) fn json_pretty(&self, value: &impl Serialize) -> Result<(), CliError> {
        self.json_text(&(serde_json::to_string_pretty(value).map_err(io::Error::other)? + "\n"))
    }

    /// A value of the result in one line.
    pub(crate) fn json_line(&self, value: &impl Serialize) -> Result<(), CliError> {
        self.json_text(&(serde_json::to_string(value).map_err(io::Error::other)? + "\n"))
    }

    /// Lines of the result that are JSON already.
    pub(crate) fn json_text(&self, json: &str) -> Result<(), CliError> {
        Ok(write(Stream::Out, Words::Json, json)?)
    }

    /// Something worth knowing that is no result.
    pub(crate) fn note(&self, text: &str) -> Result<(), CliError> {
        if self.quiet || self.json {
            return Ok(());
        }
        self.trace(text)
    }

    /// What explains an error that follows: `--quiet` leaves errors alone, and `--json` tells all in the error itself.
    pub(crate) fn explain(&self, text: &str) -> Result<(), CliError> {
        if self.json {
            return Ok(());
        }
        self.trace(text)
    }

    /// A line for people who watch what happens, also with `--json`.
    pub(crate) fn trace(&self, text: &str) -> Result<(), CliError> {
        Ok(write(Stream::Err, Words::Ours, &format!("{text}\n"))?)
    }

    /// Text that clap has already styled, as a result.
    pub(crate) fn print_styled(text: &str) -> Result<(), CliError> {
        Ok(write(Stream::Out, Words::Ours, text)?)
    }

    /// Text that clap has already styled, beside the result; also a question whose answer is typed behind it.
    pub(crate) fn note_styled(text: &str) -> Result<(), CliError> {
        Ok(write(Stream::Err, Words::Ours, text)?)
    }

    /// Whether results are read by a person right now.
    pub(crate) fn stdout_is_terminal() -> bool {
        io::stdout().is_terminal()
    }

    /// Whether notes are read by a person right now.
    pub(crate) fn stderr_is_terminal() -> bool {
        io::stderr().is_terminal()
    }

    /// How many columns notes have. Where they go to no terminal, as many as people mostly have.
    pub(crate) fn columns() -> usize {
        terminal_size::terminal_size_of(io::stderr()).map_or(100, |(width, _)| width.0.into())
    }

    /// Whether somebody can type.
    pub(crate) fn stdin_is_terminal() -> bool {
        io::stdin().is_terminal()
    }

    /// Whether colours may be used on standard output.
    pub(crate) fn stdout_has_colour() -> bool {
        anstream::AutoStream::choice(&io::stdout()) != anstream::ColorChoice::Never
    }

    /// Whether colours may be used on standard error.
    pub(crate) fn stderr_has_colour() -> bool {
        anstream::AutoStream::choice(&io::stderr()) != anstream::ColorChoice::Never
    }
}

/// Puts `error` on standard error, in the form that was asked for.
pub(crate) fn write_error(error: &CliError, json: bool) -> io::Result<()> {
    match json {
        true => write(Stream::Err, Words::Json, &format!("{}\n", error.to_json())),
        false => write(Stream::Err, Words::Ours, &error_words(error)),
    }
}

/// An error for people. Providers and tools write messages, too: their further lines can't be taken for ours.
fn error_words(error: &CliError) -> String {
    let (red, faint) = (style::ERROR, style::FAINT);
    let indented = |text: &str, by: &str| shown::lines(text).to_string().replace('\n', by);
    let code = shown::line(&error.code);
    let mut words = format!(
        "{red}error[{code}]{red:#}: {}\n",
        indented(&error.message, "\n  ")
    );
    if let Some(suggestion) = &error.suggestion {
        words.push_str(&format!(
            "  suggestion: {}\n",
            indented(suggestion, "\n              ")
        ));
    }
    if let Some(url) = &error.help_url {
        words.push_str(&format!("  {faint}help: {}{faint:#}\n", shown::line(url)));
    }
    words
}
