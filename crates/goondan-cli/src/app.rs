//! From raw arguments to an exit code.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::process::ExitCode;
use std::sync::LazyLock;

use clap::Parser;
use clap::error::ErrorKind;
use goondan::inside::Redactor;
use tracing_subscriber::EnvFilter;

use crate::args::{Cli, Command, Global};
use crate::commands::{self, sandbox_exec};
use crate::complete;
use crate::exit::{CliError, Exit};
use crate::output::{Output, screen, write_error};

/// Runs the command that `arguments` (the program's name first) describe.
pub(crate) fn main(arguments: Vec<OsString>) -> ExitCode {
    if let Some(exit) = complete::answer(&arguments) {
        return exit;
    }
    hide_memory();
    // What clap refuses must be printed as asked for, too, so these two are looked up before it has its say.
    let given =
        |flag: &str| arguments.iter().skip(1).take_while(|word| *word != "--").any(|word| word == OsStr::new(flag));
    let json = given("--json");
    if given("--no-color") {
        anstream::ColorChoice::Never.write_global();
    }
    std::panic::set_hook(Box::new(tell_panic));
    let exit = match parse(&arguments) {
        Ok(Cli { command: Command::SandboxExec(args), .. }) => return sandbox_exec::run(&args),
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
        kind => Err(usage_error(kind, &rendered.to_string())),
    }
}

/// Turns clap's several lines into a message and a suggestion.
fn usage_error(kind: ErrorKind, rendered: &str) -> CliError {
    let mut message = Vec::new();
    let mut hints = Vec::new();
    for line in rendered.lines().map(str::trim_end).filter(|line| !line.is_empty()) {
        if let Some(tip) = line.trim_start().strip_prefix("tip: ") {
            hints.push(capitalised(tip));
        } else if line.starts_with("Usage: ") {
            // Of two options that exclude each other, the usage shows one and not why.
            hints.extend((kind != ErrorKind::ArgumentConflict).then(|| line.to_owned()));
        } else if !line.starts_with("For more information") {
            message.push(line.strip_prefix("error: ").unwrap_or(line).to_owned());
        }
    }
    let mut error = CliError::usage(capitalised(&message.join("\n")));
    if !hints.is_empty() {
        error = error.suggest(hints.join("\n"));
    }
    error
}

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
    let _ = writeln!(redactor().writer(screen::Messages), "a fault of gdn: thread {name}: {panic}");
}

/// Knows the secrets of the swarm that this process runs, once it runs. Logging begins before that.
pub(crate) fn redactor() -> &'static Redactor {
    static REDACTOR: LazyLock<Redactor> = LazyLock::new(Redactor::new);
    &REDACTOR
}

/// Log lines of the libraries go to standard error; `GOONDAN_LOG` takes a filter such as `goondan_engine=trace`.
fn start_logging(global: &Global) {
    let default = match (global.quiet, global.verbose) {
        (true, _) => "error,genai=off,rmcp=off",
        (false, 0 | 1) => "warn,genai=off,agent_client_protocol=error,rmcp=off,gdn::agent=trace",
        // `goondan` stands for all crates, `gdn` for what tools, extensions and agents log.
        (false, 2) => "goondan=debug,gdn=debug,warn,genai=off,gdn::agent=trace",
        (false, _) => "trace,genai=off",
    };
    let filter = EnvFilter::try_from_env("GOONDAN_LOG").unwrap_or_else(|_| EnvFilter::new(default));
    // A second initialisation can only happen in tests, and there the first one serves as well.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(|| redactor().writer(screen::Messages))
        .with_ansi(Output::stderr_has_colour())
        .try_init();
}
