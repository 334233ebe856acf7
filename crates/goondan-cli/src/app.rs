//! From raw arguments to an exit code.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::Write;
use std::process::ExitCode;
use std::sync::LazyLock;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser};
use goondan::inside::Redactor;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use crate::args::{Cli, Command, Global};
use crate::commands::{self, sandbox_exec};
use crate::complete;
use crate::exit::{CliError, Exit};
use crate::output::{Output, screen, style, write_error};
use crate::retyped;

/// Runs the command that `arguments` (the program's name first) describe.
pub(crate) fn main(arguments: Vec<OsString>) -> ExitCode {
    if let Some(exit) = complete::answer(&arguments) {
        return exit;
    }
    hide_memory();
    // What clap refuses must be printed as asked for, too, so these two are looked up before it has its say.
    let given = |flag: &str| {
        arguments
            .iter()
            .skip(1)
            .take_while(|word| *word != "--")
            .any(|word| word == OsStr::new(flag))
    };
    let json = given("--json");
    if given("--no-color") {
        anstream::ColorChoice::Never.write_global();
    }
    std::panic::set_hook(Box::new(tell_panic));
    let exit = match parse(&arguments) {
        Ok(Cli {
            command: Command::SandboxExec(args),
            ..
        }) => return sandbox_exec::run(&args),
        Ok(cli) => run(cli),
        Err(error) => Err(error),
    };
    screen::release();
    match exit {
        Ok(()) => Exit::Ok.into(),
        Err(error) => {
            if !error.silent {
                // With standard error gone there is nobody left to tell.
                let _ = write_error(&error, json);
            }
            error.exit.into()
        }
    }
}

fn run(cli: Cli) -> Result<(), CliError> {
    let output = Output::new(&cli.global);
    start_logging(&cli.global);
    retyped::keep(cli.global.state_root.as_ref());
    commands::run(cli, &output)
}

/// Reads the arguments. Help and version texts are printed here and come back as a silent success.
fn parse(arguments: &[OsString]) -> Result<Cli, CliError> {
    let error = match Cli::try_parse_from(arguments) {
        Ok(cli) => return Ok(cli),
        Err(error) => error,
    };
    let rendered = error.render();
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            Output::print_styled(&rendered.ansi().to_string())?;
            Err(CliError::shown(Exit::Ok))
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            Output::note_styled(&rendered.ansi().to_string())?;
            Err(CliError::shown(Exit::Usage))
        }
        _ => Err(usage_error(&error, &rendered.to_string(), arguments)),
    }
}

/// The words of the command that was meant, such as `gdn new tool`, as far as there is one.
fn command_of(arguments: &[OsString]) -> String {
    let (mut words, mut command) = ("gdn".to_owned(), Cli::command());
    for argument in arguments
        .iter()
        .skip(1)
        .filter_map(|argument| argument.to_str())
    {
        let Some(next) = command.find_subcommand(argument).cloned() else {
            continue;
        };
        words = format!("{words} {}", next.get_name());
        command = next;
    }
    words
}

/// What is wrong, in words of ours; none where those of clap say it as well.
fn told(error: &clap::Error, command: &str, arguments: &[OsString]) -> Option<String> {
    let said = |kind| match error.get(kind)? {
        ContextValue::String(text) => Some(text.clone()),
        ContextValue::Strings(texts) => Some(texts.join(" ")),
        _ => None,
    };
    match error.kind() {
        ErrorKind::InvalidSubcommand => Some(format!(
            "There is no command `{command} {}`.",
            said(ContextKind::InvalidSubcommand)?
        )),
        ErrorKind::UnknownArgument => {
            let argument = said(ContextKind::InvalidArg)?;
            Some(match argument.starts_with('-') {
                true => format!("`{command}` has no option `{argument}`."),
                false => format!("`{command}` has no place for the argument `{argument}`."),
            })
        }
        ErrorKind::MissingRequiredArgument => {
            let missing = said(ContextKind::InvalidArg)?;
            Some(match asking(&missing, command, arguments) {
                Some(option) => format!("`{option}` needs `{missing}`."),
                None => format!("`{command}` needs {}.", missing.trim_end_matches("...")),
            })
        }
        ErrorKind::InvalidValue if said(ContextKind::InvalidValue)?.is_empty() => Some(format!(
            "`{}` needs a value.",
            said(ContextKind::InvalidArg)?
        )),
        _ => None,
    }
}

/// The option that was typed and that asks for the one that is missing; none where the command itself does.
fn asking(missing: &str, command: &str, arguments: &[OsString]) -> Option<String> {
    let is_missing = |words: &[&str]| {
        let all = command.split(' ').chain(words.iter().copied());
        let error = Cli::try_parse_from(all)
            .err()
            .filter(|error| error.kind() == ErrorKind::MissingRequiredArgument);
        let said = error
            .as_ref()
            .and_then(|error| error.get(ContextKind::InvalidArg));
        said.is_some_and(|said| said.to_string() == missing)
    };
    if !missing.starts_with("--") || is_missing(&[]) {
        return None;
    }
    let words: Vec<&str> = arguments
        .iter()
        .filter_map(|argument| argument.to_str())
        .collect();
    let options = words
        .iter()
        .enumerate()
        .filter(|(_, word)| word.starts_with("--"));
    let alone = |at: usize| (1..=2).any(|many| words.get(at..at + many).is_some_and(is_missing));
    let option = options
        .filter(|(at, _)| alone(*at))
        .map(|(_, word)| *word)
        .next()?;
    Some(option.split('=').next().unwrap_or(option).to_owned())
}

/// The command that was meant by a word that is none, where one is near.
fn near(error: &clap::Error, command: &str) -> Option<String> {
    let ContextValue::String(typed) = error.get(ContextKind::InvalidSubcommand)? else {
        return None;
    };
    let mut parent = Cli::command();
    for word in command.split(' ').skip(1) {
        parent = parent.find_subcommand(word)?.clone();
    }
    let sorted = |word: &str| {
        let mut letters: Vec<char> = word.chars().collect();
        letters.sort_unstable();
        letters
    };
    let names: Vec<&str> = parent
        .get_subcommands()
        .filter(|known| !known.is_hide_set())
        .map(clap::Command::get_name)
        .collect();
    // Letters in another order are the mistake that a distance of edits takes for two.
    let meant = names
        .iter()
        .find(|name| sorted(name) == sorted(typed))
        .copied();
    meant
        .or_else(|| goondan::inside::closest(typed, &names))
        .map(|name| format!("Did you mean `{name}`?"))
}

/// Turns clap's several lines into a message and a suggestion.
fn usage_error(error: &clap::Error, rendered: &str, arguments: &[OsString]) -> CliError {
    let (kind, command) = (error.kind(), &*command_of(arguments));
    let mut message = Vec::new();
    let mut hints = Vec::new();
    for line in rendered
        .lines()
        .map(str::trim_end)
        .filter(|line| !line.is_empty())
    {
        if let Some(tip) = line.trim_start().strip_prefix("tip: ") {
            hints.push(capitalised(tip));
        } else if line.starts_with("Usage: ") {
            // Of two options that exclude each other, the usage shows one and not why.
            hints.extend((kind != ErrorKind::ArgumentConflict).then(|| line.to_owned()));
        } else if !line.starts_with("For more information") {
            message.push(line.strip_prefix("error: ").unwrap_or(line).to_owned());
        }
    }
    if let Some(told) = told(error, command, arguments) {
        // The lines below the first one are the arguments that are missing, or the values that are possible.
        message.truncate(if kind == ErrorKind::MissingRequiredArgument {
            0
        } else {
            message.len()
        });
        message.splice(..message.len().min(1), [told]);
    }
    if kind == ErrorKind::InvalidSubcommand && !hints.iter().any(|hint| hint.contains("similar")) {
        hints.splice(..0, near(error, command));
    }
    hints.push(format!("`{command} --help` says more."));
    let mut message = capitalised(&message.join("\n"));
    for (theirs, ours) in PLAIN {
        message = message.replace(theirs, ours);
    }
    CliError::usage(in_range(message)).suggest(hints.join("\n"))
}

/// `0 is not in 1..=1000` in words.
fn in_range(message: String) -> String {
    let said = || {
        let (before, range) = message.split_once(" is not in ")?;
        let (least, most) = range.split_once("..=")?;
        let before = before.rsplit_once(' ').map_or("", |(before, _)| before);
        Some(format!("{before} must be from {least} to {most}"))
    };
    said().unwrap_or(message)
}

/// Why a value can't be read, as libraries say it and as people do.
const PLAIN: [(&str, &str); 3] = [
    (
        "number would be zero for non-zero type",
        "must be at least 1",
    ),
    ("invalid digit found in string", "write a whole number"),
    (
        "invalid socket address syntax",
        "write an address with its port, such as 127.0.0.1:4747",
    ),
];

fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    match chars.next() {
        Some(first) => first.to_uppercase().chain(chars).collect(),
        None => String::new(),
    }
}

/// Keeps programs of the same user, such as those that tools run, from reading this process's memory and environment,
/// which hold the keys. Root can read them all the same.
fn hide_memory() {
    #[cfg(target_os = "linux")]
    if let Err(error) = nix::sys::prctl::set_dumpable(false) {
        tracing::debug!(%error, "the process can be looked into");
    }
}

/// What a panic says may hold the words of strangers, as everything else.
fn tell_panic(panic: &std::panic::PanicHookInfo<'_>) {
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("without a name").to_owned();
    let _ = writeln!(
        redactor().writer(screen::Messages),
        "a fault of gdn: thread {name}: {panic}"
    );
}

/// Knows the secrets of the swarm that this process runs, once it runs. Logging begins before that.
pub(crate) fn redactor() -> &'static Redactor {
    static REDACTOR: LazyLock<Redactor> = LazyLock::new(Redactor::new);
    &REDACTOR
}

/// A log line that reads like the notes around it: no moment, no module.
struct Note;

impl<S, N> FormatEvent<S, N> for Note
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
        match writer.has_ansi_escapes() {
            true => write!(writer, "{colour}{word}{colour:#}: ")?,
            false => write!(writer, "{word}: ")?,
        }
        context
            .field_format()
            .format_fields(writer.by_ref(), event)?;
        writeln!(writer)
    }
}

/// Log lines of the libraries go to standard error; `GOONDAN_LOG` takes a filter such as `goondan_engine=trace`.
fn start_logging(global: &Global) {
    let default = match (global.quiet, global.verbose) {
        (true, _) => "error,rmcp=off",
        (false, 0 | 1) => "warn,agent_client_protocol=error,rmcp=off,gdn::agent=trace",
        // `goondan` stands for all crates, `gdn` for what tools, extensions and agents log.
        (false, 2) => "goondan=debug,gdn=debug,warn,gdn::agent=trace",
        (false, _) => "trace",
    };
    let asked = EnvFilter::try_from_env("GOONDAN_LOG").ok();
    let is_for_people = asked.is_none() && global.verbose == 0 && Output::stderr_is_terminal();
    let log = tracing_subscriber::fmt()
        .with_env_filter(asked.unwrap_or_else(|| EnvFilter::new(default)))
        .with_writer(|| redactor().writer(screen::Messages))
        .with_ansi(Output::stderr_has_colour());
    // A second initialisation can only happen in tests, and there the first one serves as well.
    let _ = match is_for_people {
        true => log.event_format(Note).try_init(),
        false => log.try_init(),
    };
}
