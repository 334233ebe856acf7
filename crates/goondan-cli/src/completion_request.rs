//! Answers to completion requests of shells.

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use clap::CommandFactory;
use clap_complete::env::Shells;

use crate::args::CommandLine;
use crate::complete::COMPLETE_VARIABLE;
use crate::exit::CommandExit;

/// Prints completions for the command line in `arguments`. Returns `None` unless a shell asks for
/// them.
pub(crate) fn answer(arguments: &[OsString]) -> Option<ExitCode> {
    let name = std::env::var(COMPLETE_VARIABLE)
        .ok()
        .filter(|name| !name.is_empty())?;
    let shells = Shells::builtins();
    let Some(shell) = shells.completer(&name) else {
        return Some(CommandExit::Usage.into());
    };
    let typed_words = arguments
        .iter()
        .skip_while(|word| *word != "--")
        .skip(1)
        .cloned()
        .collect();
    let mut command = CommandLine::command();
    command.build();
    let mut answer = Vec::new();
    let completed = shell.write_complete(
        &mut command,
        typed_words,
        std::env::current_dir().ok().as_deref(),
        &mut answer,
    );
    let written = completed.and_then(|()| std::io::stdout().lock().write_all(&answer));
    // Errors are not shown during completion; the shell offers nothing.
    Some(
        written
            .map_or(CommandExit::Failure, |()| CommandExit::Ok)
            .into(),
    )
}
