//! Where text goes: results on standard output, everything else on standard error, colours only on terminals.

mod activity;
mod reload;
mod report;
mod table;
mod words;

use std::io::{self, IsTerminal, Write};

use anstyle::{AnsiColor, Style};
use serde::Serialize;

pub(crate) use activity::Activity;
pub(crate) use reload::{build_words, outcome_words, plan_words};
pub(crate) use report::{TurnFacts, TurnReport, turn_error};
pub(crate) use table::Table;
pub(crate) use words::{printable, shorten};

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
        Output { json: global.json, quiet: global.quiet, verbose: global.verbose }
    }

    /// A line of the result.
    pub(crate) fn line(&self, text: &str) -> Result<(), CliError> {
        Ok(writeln!(anstream::stdout().lock(), "{text}")?)
    }

    /// A piece of the result as it arrives: flushed, without a line break of its own.
    pub(crate) fn piece(&self, text: &str) -> Result<(), CliError> {
        let mut stdout = anstream::stdout().lock();
        write!(stdout, "{text}")?;
        Ok(stdout.flush()?)
    }

    /// A value of the result, indented for people who look at it.
    pub(crate) fn json_pretty(&self, value: &impl Serialize) -> Result<(), CliError> {
        self.line(&serde_json::to_string_pretty(value).map_err(io::Error::other)?)
    }

    /// A value of the result in one line, flushed: somebody may be waiting for it.
    pub(crate) fn json_line(&self, value: &impl Serialize) -> Result<(), CliError> {
        let mut line = serde_json::to_vec(value).map_err(io::Error::other)?;
        line.push(b'\n');
        let mut stdout = io::stdout().lock();
        stdout.write_all(&line)?;
        Ok(stdout.flush()?)
    }

    /// Something worth knowing that is no result.
    pub(crate) fn note(&self, text: &str) -> Result<(), CliError> {
        if self.quiet || self.json {
            return Ok(());
        }
        Ok(writeln!(anstream::stderr().lock(), "{text}")?)
    }

    /// What explains an error that follows: `--quiet` leaves errors alone, and `--json` tells all in the error itself.
    pub(crate) fn explain(&self, text: &str) -> Result<(), CliError> {
        if self.json {
            return Ok(());
        }
        Ok(writeln!(anstream::stderr().lock(), "{text}")?)
    }

    /// A line for people who watch what happens, also with `--json`.
    pub(crate) fn trace(&self, text: &str) -> Result<(), CliError> {
        Ok(writeln!(anstream::stderr().lock(), "{text}")?)
    }

    /// Text that clap has already styled, as a result.
    pub(crate) fn print_styled(text: &str) -> Result<(), CliError> {
        Ok(write!(anstream::stdout().lock(), "{text}")?)
    }

    /// Text that clap has already styled, beside the result.
    pub(crate) fn note_styled(text: &str) -> Result<(), CliError> {
        Ok(write!(anstream::stderr().lock(), "{text}")?)
    }

    /// Whether results are read by a person right now.
    pub(crate) fn stdout_is_terminal() -> bool {
        io::stdout().is_terminal()
    }

    /// Whether notes are read by a person right now.
    pub(crate) fn stderr_is_terminal() -> bool {
        io::stderr().is_terminal()
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
    let mut stderr = anstream::stderr().lock();
    if json {
        return writeln!(stderr, "{}", error.to_json());
    }
    let (red, faint) = (style::ERROR, style::FAINT);
    writeln!(stderr, "{red}error[{}]{red:#}: {}", error.code, error.message)?;
    if let Some(suggestion) = &error.suggestion {
        writeln!(stderr, "  suggestion: {}", suggestion.replace('\n', "\n              "))?;
    }
    if let Some(url) = &error.help_url {
        writeln!(stderr, "  {faint}help: {url}{faint:#}")?;
    }
    Ok(())
}
