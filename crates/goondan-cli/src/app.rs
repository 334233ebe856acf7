//! Entry point: parses the arguments, runs the command and returns its exit code.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::Write;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ColorChoice, CommandFactory, Parser, ValueEnum};
use goondan::spec::reason;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use crate::args::{CliCommand, CommandLine};
use crate::commands::{self, sandbox_exec};
use crate::completion_request;
use crate::exit::{CliError, CommandExit};
use crate::global_args::GlobalArgs;
use crate::long_help::{self, HelpLength};
use crate::output::{CommandOutput, redactor, screen, style, terminal, write_error};
use crate::suggested_command;

/// Runs the command described by `arguments`. The first argument is the program name.
pub(crate) fn main(arguments: Vec<OsString>) -> ExitCode {
    if let Some(exit) = completion_request::answer(&arguments) {
        return exit;
    }
    hide_memory();
    // These flags are read before clap runs, because they also apply to the errors that clap
    // reports.
    let has_argument = |flag: &str| {
        arguments
            .iter()
            .skip(1)
            .take_while(|word| *word != "--")
            .any(|word| word == OsStr::new(flag))
    };
    let json = has_argument("--json");
    if let Some(color) = given_color(&arguments) {
        color.write_global();
    }
    std::panic::set_hook(Box::new(print_panic));
    let exit = match parse(&arguments) {
        Ok(CommandLine {
            command: CliCommand::SandboxExec(args),
            ..
        }) => return sandbox_exec::run(&args),
        Ok(cli) => run(cli),
        Err(error) => Err(error),
    };
    screen::release();
    terminal::restore_before_exit();
    match exit {
        Ok(()) => CommandExit::Ok.into(),
        Err(error) => {
            if !error.silent {
                // A failed write to standard error cannot be reported.
                let _ = write_error(&error, json);
            }
            error.exit.into()
        }
    }
}

/// Returns the valid value of `--color` or `--no-color`.
fn given_color(arguments: &[OsString]) -> Option<anstream::ColorChoice> {
    let words = arguments
        .iter()
        .map(|word| word.to_str().unwrap_or_default());
    let mut words = words.take_while(|word| *word != "--");
    let mut given = None;
    while let Some(word) = words.next() {
        let value = match word {
            "--no-color" => Some("never"),
            "--color" => words.next(),
            _ => word.strip_prefix("--color="),
        };
        given = value.or(given);
    }
    Some(match ColorChoice::from_str(given?, false).ok()? {
        ColorChoice::Auto => anstream::ColorChoice::Auto,
        ColorChoice::Always => anstream::ColorChoice::Always,
        ColorChoice::Never => anstream::ColorChoice::Never,
    })
}

/// Starts logging, then runs the parsed command in the directory of `-C`.
fn run(cli: CommandLine) -> Result<(), CliError> {
    if let Some(folder) = &cli.global.directory {
        std::env::set_current_dir(folder).map_err(|error| {
            CliError::usage(format!(
                "`-C {}` can't be used: {}.",
                folder.display(),
                reason(&error)
            ))
            .suggest("Pass `-C` an existing directory.")
        })?;
    }
    let output = CommandOutput::new(&cli.global);
    start_logging(&cli.global);
    suggested_command::set_state_root(cli.global.state_root.as_ref());
    commands::run(cli, &output)
}

/// Parses the arguments. Prints help and version texts itself and returns them as a silent success.
fn parse(arguments: &[OsString]) -> Result<CommandLine, CliError> {
    let arguments = with_help_flags(arguments.to_vec());
    let arguments = arguments.as_slice();
    let error = match CommandLine::try_parse_from(arguments) {
        Ok(cli) => return Ok(cli),
        Err(error) => error,
    };
    let rendered = error.render();
    match error.kind() {
        ErrorKind::DisplayHelp => {
            let help = long_help::help(&command_of(arguments), help_length(arguments));
            CommandOutput::print_styled(&help.ansi().to_string())?;
            Err(CliError::already_printed(CommandExit::Ok))
        }
        ErrorKind::DisplayVersion => {
            CommandOutput::print_styled(&rendered.ansi().to_string())?;
            Err(CliError::already_printed(CommandExit::Ok))
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let help = long_help::help(&command_of(arguments), HelpLength::Long);
            CommandOutput::note_styled(&help.ansi().to_string())?;
            Err(CliError::already_printed(CommandExit::Usage))
        }
        _ => Err(usage_error(&error, &rendered.to_string(), arguments)),
    }
}

/// Returns the requested amount of help: `--help` prints the long one, `-h` the short one.
fn help_length(arguments: &[OsString]) -> HelpLength {
    if arguments.iter().any(|argument| argument == "--help") {
        HelpLength::Long
    } else {
        HelpLength::Short
    }
}

/// Rewrites `gdn help COMMAND` as `gdn COMMAND --help`, and `gdn version` as `gdn --version`.
fn with_help_flags(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let flag = match arguments.get(1).and_then(|word| word.to_str()) {
        Some("help") => "--help",
        Some("version") => "--version",
        _ => return arguments,
    };
    arguments.remove(1);
    arguments.push(flag.into());
    arguments
}

/// Returns the command up to the last recognized subcommand, such as `gdn new tool`.
fn command_of(arguments: &[OsString]) -> String {
    let mut path = "gdn".to_owned();
    let mut command = CommandLine::command();
    for argument in arguments
        .iter()
        .skip(1)
        .filter_map(|argument| argument.to_str())
    {
        let Some(next) = command.find_subcommand(argument).cloned() else {
            continue;
        };
        path = format!("{path} {}", next.get_name());
        command = next;
    }
    path
}

/// Returns a replacement for clap's error message, or `None` if clap's own message is good enough.
fn error_message(error: &clap::Error, command: &str, arguments: &[OsString]) -> Option<String> {
    let context_text = |kind| match error.get(kind)? {
        ContextValue::String(text) => Some(text.clone()),
        ContextValue::Strings(texts) => Some(texts.join(" ")),
        _ => None,
    };
    match error.kind() {
        ErrorKind::InvalidSubcommand => Some(format!(
            "There is no command `{command} {}`.",
            context_text(ContextKind::InvalidSubcommand)?
        )),
        ErrorKind::UnknownArgument => {
            let argument = context_text(ContextKind::InvalidArg)?;
            Some(if argument.starts_with('-') {
                format!("`{command}` has no option `{argument}`.")
            } else {
                format!("`{command}` takes no argument `{argument}`.")
            })
        }
        ErrorKind::MissingRequiredArgument => {
            let missing_option = context_text(ContextKind::InvalidArg)?;
            Some(
                match requiring_option(&missing_option, command, arguments) {
                    Some(option) => format!("`{option}` requires `{missing_option}`."),
                    None => format!(
                        "`{command}` requires {}.",
                        missing_option.trim_end_matches("...")
                    ),
                },
            )
        }
        ErrorKind::InvalidValue if context_text(ContextKind::InvalidValue)?.is_empty() => {
            Some(format!(
                "`{}` requires a value.",
                context_text(ContextKind::InvalidArg)?
            ))
        }
        _ => None,
    }
}

/// Returns the typed option that requires the `missing` one, or `None` if the command itself
/// requires it.
fn requiring_option(missing: &str, command: &str, arguments: &[OsString]) -> Option<String> {
    let is_missing = |arguments_to_try: &[&str]| {
        let command_line = command.split(' ').chain(arguments_to_try.iter().copied());
        let error = CommandLine::try_parse_from(command_line)
            .err()
            .filter(|error| error.kind() == ErrorKind::MissingRequiredArgument);
        let missing_argument = error
            .as_ref()
            .and_then(|error| error.get(ContextKind::InvalidArg));
        missing_argument.is_some_and(|missing_argument| missing_argument.to_string() == missing)
    };
    if !missing.starts_with("--") || is_missing(&[]) {
        return None;
    }
    let arguments_to_try: Vec<&str> = arguments
        .iter()
        .filter_map(|argument| argument.to_str())
        .collect();
    let options = arguments_to_try
        .iter()
        .enumerate()
        .filter(|(_, word)| word.starts_with("--"));
    // An option that lacks the argument even alone, with or without its value, requires it.
    let requires_missing =
        |at: usize| (1..=2).any(|many| arguments_to_try.get(at..at + many).is_some_and(is_missing));
    let option = options
        .filter(|(at, _)| requires_missing(*at))
        .map(|(_, word)| *word)
        .next()?;
    Some(option.split('=').next().unwrap_or(option).to_owned())
}

/// Returns a "Did you mean" hint if a subcommand name is similar to the typed one.
fn similar_command(error: &clap::Error, command: &str) -> Option<String> {
    let ContextValue::String(typed) = error.get(ContextKind::InvalidSubcommand)? else {
        return None;
    };
    let mut parent = CommandLine::command();
    for word in command.split(' ').skip(1) {
        parent = parent.find_subcommand(word)?.clone();
    }
    let sorted_letters = |word: &str| {
        let mut letters: Vec<char> = word.chars().collect();
        letters.sort_unstable();
        letters
    };
    let names: Vec<&str> = parent
        .get_subcommands()
        .filter(|known| !known.is_hide_set())
        .map(clap::Command::get_name)
        .collect();
    // An edit distance counts two swapped letters as two edits, so anagrams are matched first.
    let intended = names
        .iter()
        .find(|name| sorted_letters(name) == sorted_letters(typed))
        .copied();
    intended
        .or_else(|| goondan::internal::closest(typed, &names))
        .map(|name| format!("Did you mean `{name}`?"))
}

/// Returns the command of `gdn` for the task of a command that other programs have.
fn other_command(error: &clap::Error, command: &str) -> Option<String> {
    let ContextValue::String(typed) = error.get(ContextKind::InvalidSubcommand)? else {
        return None;
    };
    let is_typed = |(words, _): &&(&[&str], &str)| words.contains(&typed.as_str());
    let (_, ours) = COMMANDS_OF_OTHERS.iter().find(is_typed)?;
    (command == "gdn").then(|| format!("Did you mean `{ours}`?"))
}

/// Commands of other programs, each group with the command of `gdn` for the same task.
const COMMANDS_OF_OTHERS: [(&[&str], &str); 15] = [
    (&["login", "auth"], "gdn mcp login"),
    (
        &["list", "ls", "sessions", "history", "threads"],
        "gdn conversation list",
    ),
    (&["chat", "exec", "ask", "start", "resume"], "gdn run"),
    (&["ui", "web", "dashboard", "dev"], "gdn studio"),
    (&["api", "server", "up"], "gdn serve"),
    (&["check", "lint"], "gdn validate"),
    (&["create", "generate"], "gdn init"),
    (&["add", "install", "pull"], "gdn package add"),
    (&["push", "publish"], "gdn package publish"),
    (&["eval", "evals", "bench"], "gdn test --live"),
    (&["tools"], "gdn tool list"),
    (&["permissions", "approvals"], "gdn policy explain"),
    (&["update", "upgrade"], "gdn self update"),
    (&["status", "top", "jobs"], "gdn ps"),
    (&["schedule", "cron", "channels"], "gdn connection list"),
];

/// Condenses clap's multi-line error into a message and a suggestion.
fn usage_error(error: &clap::Error, rendered: &str, arguments: &[OsString]) -> CliError {
    let kind = error.kind();
    let command = &*command_of(arguments_before_unknown(error, arguments));
    let mut message = Vec::new();
    let mut hints = Vec::new();
    for line in rendered
        .lines()
        .map(str::trim_end)
        .filter(|line| !line.is_empty())
    {
        if let Some(tip) = line.trim_start().strip_prefix("tip: ") {
            hints.push(capitalize(tip));
        } else if line.starts_with("Usage: ") {
            // For conflicting options, the usage line shows only one of them and no reason.
            hints.extend((kind != ErrorKind::ArgumentConflict).then(|| line.to_owned()));
        } else if !line.starts_with("For more information") {
            message.push(line.strip_prefix("error: ").unwrap_or(line).to_owned());
        }
    }
    if let Some(replacement) = error_message(error, command, arguments) {
        // The lines after the first one list missing arguments or possible values.
        message.truncate(if kind == ErrorKind::MissingRequiredArgument {
            0
        } else {
            message.len()
        });
        message.splice(..message.len().min(1), [replacement]);
    }
    if let Some(hint) = other_command(error, command) {
        hints.retain(|hint| !hint.contains("similar"));
        hints.insert(0, hint);
    } else if kind == ErrorKind::InvalidSubcommand
        && !hints.iter().any(|hint| hint.contains("similar"))
    {
        hints.splice(..0, similar_command(error, command));
    }
    if kind == ErrorKind::UnknownArgument {
        hints.splice(..0, argument_hint(error, command));
    }
    hints.push(format!("See `{command} --help`."));
    let mut message = capitalize(&message.join("\n"));
    for (theirs, ours) in PLAIN_PARSE_ERRORS {
        message = message.replace(theirs, ours);
    }
    CliError::usage(reword_range_error(message)).suggest(hints.join("\n"))
}

/// Returns the arguments before an unknown subcommand, or all arguments.
fn arguments_before_unknown<'a>(error: &clap::Error, arguments: &'a [OsString]) -> &'a [OsString] {
    let Some(ContextValue::String(unknown)) = error.get(ContextKind::InvalidSubcommand) else {
        return arguments;
    };
    let end = arguments
        .iter()
        .position(|argument| argument == unknown.as_str());
    &arguments[..end.unwrap_or(arguments.len())]
}

/// Returns a hint for an unknown argument: an input of several words without quotes, or an output
/// format of a command that has only text and JSON.
fn argument_hint(error: &clap::Error, command: &str) -> Option<String> {
    let ContextValue::String(unknown) = error.get(ContextKind::InvalidArg)? else {
        return None;
    };
    if ["-o", "--output-format", "--format"].contains(&unknown.as_str()) {
        return Some("Use `--json` to print JSON.".to_owned());
    }
    let is_input = ["gdn run", "gdn send"].contains(&command) && !unknown.starts_with('-');
    is_input.then(|| format!("Quote an input of several words: {command} \"…\""))
}

/// Rewrites `… 0 is not in 1..=1000` as a sentence. Other messages are returned unchanged.
fn reword_range_error(message: String) -> String {
    let sentence = || {
        let (before, range) = message.split_once(" is not in ")?;
        let (min, max) = range.split_once("..=")?;
        let before = before.rsplit_once(' ').map_or("", |(before, _)| before);
        Some(format!("{before} must be from {min} to {max}"))
    };
    sentence().unwrap_or(message)
}

/// Parse errors of libraries, each with a plain replacement.
const PLAIN_PARSE_ERRORS: [(&str, &str); 3] = [
    (
        "number would be zero for non-zero type",
        "must be at least 1",
    ),
    ("invalid digit found in string", "must be an integer"),
    (
        "invalid socket address syntax",
        "write an address with its port, such as 127.0.0.1:4747",
    ),
];

/// Returns the text with its first letter in upper case.
fn capitalize(text: &str) -> String {
    let mut chars = text.chars();
    match chars.next() {
        Some(first) => first.to_uppercase().chain(chars).collect(),
        None => String::new(),
    }
}

/// Stops other processes of the same user, such as those of tools, from reading this process's
/// memory and environment, which contain API keys. Root can still read them.
fn hide_memory() {
    #[cfg(target_os = "linux")]
    if let Err(error) = nix::sys::prctl::set_dumpable(false) {
        tracing::debug!(%error, "could not disable ptrace and core dumps for this process");
    }
}

/// Prints a panic through the redactor, because a panic message can contain foreign strings and
/// secrets.
fn print_panic(panic: &std::panic::PanicHookInfo<'_>) {
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("without a name").to_owned();
    let location = panic
        .location()
        .map(ToString::to_string)
        .unwrap_or_default();
    let message = panic.payload_as_str().unwrap_or("no message");
    // Written at once, because each write is redacted and printed separately.
    let text = format!("bug in gdn: thread {name} panicked at {location}: {message}\n");
    let _ = redactor()
        .writer(screen::LogMessageWriter)
        .write_all(text.as_bytes());
}

/// Log format that matches the notes around it: no timestamp, no module.
struct NoteLogFormat;

impl<S, N> FormatEvent<S, N> for NoteLogFormat
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let (colour, word) = match *event.metadata().level() {
            Level::ERROR => (style::ERROR, "error"),
            Level::WARN => (style::WARNING, "warning"),
            _ => (style::FAINT, "log"),
        };
        if writer.has_ansi_escapes() {
            write!(writer, "{colour}{word}{colour:#}: ")?
        } else {
            write!(writer, "{word}: ")?
        }
        context
            .field_format()
            .format_fields(writer.by_ref(), event)?;
        writeln!(writer)
    }
}

/// Starts logging to standard error. `GOONDAN_LOG` sets a filter such as `goondan_engine=trace`.
fn start_logging(global: &GlobalArgs) {
    let default = match (global.quiet, global.verbose) {
        (true, _) => "error,rmcp=off",
        (false, 0 | 1) => "warn,agent_client_protocol=error,rmcp=off,gdn::agent=trace",
        // `goondan` matches all crates; `gdn` matches the logs of tools, extensions and agents.
        (false, 2) => "goondan=debug,gdn=debug,warn,gdn::agent=trace",
        (false, _) => "trace",
    };
    let stated_filter = EnvFilter::try_from_env("GOONDAN_LOG").ok();
    let is_for_people =
        stated_filter.is_none() && global.verbose == 0 && CommandOutput::stderr_is_terminal();
    let log = tracing_subscriber::fmt()
        .with_env_filter(stated_filter.unwrap_or_else(|| EnvFilter::new(default)))
        .with_writer(|| redactor().writer(screen::LogMessageWriter))
        .with_ansi(CommandOutput::stderr_has_colour());
    // Only tests initialize logging twice; the first initialization is sufficient for them.
    let _ = if is_for_people {
        log.event_format(NoteLogFormat).try_init()
    } else {
        log.try_init()
    };
}
