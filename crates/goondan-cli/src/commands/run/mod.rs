//! `gdn run`: runs a swarm with one input, with an input stream, or as a chat.

mod approval;
mod chat;
mod client;
pub(crate) mod console;
mod local_endpoint;
mod reload_notices;
mod serve;
mod session;
mod signals;
mod single_input;
mod swarm_start;
mod unprompted_answers;
mod view;

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use goondan::adapters::connectors::BoundConnection;
use goondan::{Input, StateRoot, workspace::database};

pub(crate) use approval::ApprovalResponder;
pub(crate) use client::{
    LocalClient, RemoteClient, SwarmClient, TurnFailure, follow, follow_chain,
};
pub(crate) use session::RunSession;
pub(crate) use signals::{SignalReceiver, run_with_signals};
pub(crate) use unprompted_answers::UnpromptedAnswer;
pub(crate) use view::{TurnView, event_line};

use crate::commands::quoted;
use crate::complete;
use crate::exit::CliError;
use crate::input_files;
use crate::output::CommandOutput;
use crate::packages;
use crate::project::{self, StartArgs, SwarmLaunch};
use crate::project_path::ProjectPathArg;
use crate::remote::NotStarted;

const EXAMPLES: &str = "\
Examples:
  gdn run \"What is new?\"                           Send one input and print the answer
  gdn run examples/newsroom                        Chat
  git diff | gdn run reviewer                      Send piped input
  gdn run -k ticket-42 \"And then?\"                 Continue a conversation
  gdn run . Hi -o json | jq .                      Print ids and usage as well
  gdn run oci://ghcr.io/acme/newsroom              Run a published swarm, once you agree to what \
    it may do
  gdn run --watch                                  Chat, and reload the project when it changes
  gdn run --input-format stream-json < inputs.jsonl";

/// Arguments of `gdn run`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    project: ProjectPathArg,
    /// Send this input, print the answer and exit; PATH can be omitted if the input contains a space
    #[arg(value_name = "INPUT", conflicts_with_all = ["input", "input_file"])]
    text: Option<String>,
    /// The same, as an option
    #[arg(short, long, value_name = "TEXT", conflicts_with = "input_file")]
    input: Option<String>,
    /// Send the content of this file (`-` for standard input)
    #[arg(long, value_name = "FILE")]
    input_file: Option<PathBuf>,
    /// Send inputs to this agent [default: the swarm's entry agent]
    #[arg(short, long, value_name = "NAME", add = complete::agents())]
    agent: Option<String>,
    /// Continue the conversation with this key, or start it [default: main]
    #[arg(short = 'k', long, value_name = "KEY")]
    instance_key: Option<String>,
    #[command(flatten)]
    start: StartArgs,
    /// Read one input, or one JSON object per line until standard input ends
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    input_format: InputFormat,
    /// Print the answer, one result object, or one event per line [default: text]
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    output_format: Option<OutputFormat>,
    /// Record model calls to this file, for `provider: replay`
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Reload the project whenever one of its files changes
    #[arg(short, long)]
    watch: bool,
    /// Use a line-based chat that never redraws the screen
    #[arg(long)]
    plain: bool,
}

/// Format of inputs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum InputFormat {
    /// One input, as plain text.
    #[default]
    Text,
    /// One `{"input", "agent"?, "instanceKey"?, "id"?}` per line.
    #[value(alias = "jsonl")]
    StreamJson,
}

/// Format of answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OutputFormat {
    /// The answer.
    Text,
    /// One result object.
    Json,
    /// One runtime event per line, then the result.
    #[value(alias = "jsonl")]
    StreamJson,
}

/// Arrival of inputs.
enum InputMode<T> {
    /// One input.
    Ask(T),
    /// One input per line.
    Serve,
    /// Inputs typed by a user.
    Chat,
}

/// Location of the only input.
enum InputSource<'a> {
    Given(&'a str),
    File(&'a Path),
    Stdin,
}

/// Runs a swarm with one input, with input lines, or as a chat.
pub(crate) async fn run(
    mut args: RunArgs,
    state_root: &StateRoot,
    output: &CommandOutput,
) -> Result<(), CliError> {
    take_positional_input(&mut args);
    let mode = input_mode(&args)?;
    let format = output_format(&args, &mode, output)?;
    let project = find_project(&args, state_root, output).await?;
    let inputs = mode.read()?;
    run_with_signals(async |signals| {
        start(args, &project, inputs, format, signals, state_root, output).await
    })
    .await
}

/// Starts the swarm and runs the inputs. If another process runs the swarm, sends them to that
/// process.
async fn start(
    args: RunArgs,
    project: &Path,
    mode: InputMode<String>,
    format: OutputFormat,
    mut signals: SignalReceiver,
    state_root: &StateRoot,
    output: &CommandOutput,
) -> Result<(), CliError> {
    let responder = match (&mode, format) {
        (InputMode::Serve, OutputFormat::StreamJson) => ApprovalResponder::Lines,
        _ => ApprovalResponder::Terminal,
    };
    let record = args.record.as_deref();
    let launch = SwarmLaunch {
        project,
        args: &args.start,
        record,
        watch: args.watch,
        asked: responder,
        waits: false,
    };
    let is_routed = args.agent.is_none() && args.instance_key.is_none();
    let instance_key = args.instance_key.unwrap_or_else(|| "main".to_owned());
    let mut input = Input {
        agent: args.agent,
        instance_key: Some(instance_key),
        ..Input::default()
    };
    let mut session = loop {
        match (
            RunSession::start(launch, signals, state_root, output).await,
            &mode,
        ) {
            (Ok(session), _) => break session,
            (Err(NotStarted::Elsewhere(remote, returned_signals)), InputMode::Ask(text)) => {
                // With an id it stays one input, whichever process accepts it in the end.
                let id = input.id.get_or_insert_with(database::new_id).clone();
                let input = Input {
                    text: text.clone(),
                    id: Some(id),
                    ..input.clone()
                };
                let mut client =
                    RemoteClient::begin(*remote, "input", &args.start, returned_signals, output)?;
                match single_input::ask(&mut client, input, format, output).await {
                    Err(TurnFailure::NotBegun(reason)) => {
                        signals = client.wait_for_exit(reason).await?
                    }
                    outcome => return Ok(outcome?),
                }
            }
            (Err(NotStarted::Elsewhere(remote, signals)), InputMode::Chat) => {
                let client = RemoteClient::begin(*remote, "input", &args.start, signals, output)?;
                return chat::chat(client, &input, args.plain, output).await;
            }
            (Err(not_started), _) => return Err(not_started.into()),
        }
    };
    // A run with one input ends before a connection could receive anything.
    if !matches!(mode, InputMode::Ask(_)) {
        // In a chat, typed lines belong to the chat. With `stream-json`, no user types.
        let console = matches!(mode, InputMode::Chat).then(goondan_connect::LineConsole::silent);
        session.connect(false, console).await?;
    }
    if is_routed && matches!(mode, InputMode::Chat) {
        apply_console_route(&session, &mut input).await;
    }
    match mode {
        InputMode::Ask(text) => {
            let mut client = LocalClient::new(session);
            let input = Input { text, ..input };
            let outcome = single_input::ask(&mut client, input, format, output).await;
            let left_outcome = client.end_client(None).await;
            // The first error counts.
            outcome.map_err(CliError::from).and(left_outcome)
        }
        InputMode::Serve => serve::serve(session, &input, format, output).await,
        InputMode::Chat => chat::chat(LocalClient::new(session), &input, args.plain, output).await,
    }
}

/// Returns the project to run, before any input for it is read.
/// A published project is fetched first, and the user must trust it.
async fn find_project(
    args: &RunArgs,
    state_root: &StateRoot,
    output: &CommandOutput,
) -> Result<PathBuf, CliError> {
    let Some(address) = args.project.given_path().and_then(packages::published_url) else {
        let path = args.project.find(output)?;
        return match project::require(&path) {
            Ok(()) => Ok(path),
            Err(error) => Err(suggest_input(args, &path, error)),
        };
    };
    let package = packages::fetch(address, state_root, output).await?;
    let project = project::load(&package.folder)?;
    args.start
        .trust(state_root)
        .require_published(&project, &package.resolved, output)?;
    Ok(package.folder)
}

/// Makes the second argument the input. The only argument is also an input if it is not a path: it
/// contains spaces, and no file has this name.
fn take_positional_input(args: &mut RunArgs) {
    let has_input = args.input.is_some() || args.input_file.is_some() || args.text.is_some();
    if !has_input {
        args.text = args.project.take_text();
    }
    args.input = args.input.take().or_else(|| args.text.clone());
}

/// Suggests an input for a path that does not exist, because it may be meant as an input.
/// Applies only inside a project, since such a command would fail elsewhere.
fn suggest_input(args: &RunArgs, path: &Path, error: CliError) -> CliError {
    let current_dir = Path::new(".");
    let is_in_project =
        goondan::manifest_in(current_dir).is_some() || goondan::around(current_dir).is_some();
    let has_option = args.text.is_none() && (args.input.is_some() || args.input_file.is_some());
    if has_option || !is_in_project || path.exists() || path.is_symlink() {
        return error;
    }
    let word = path.to_string_lossy();
    let hint = match &args.text {
        Some(text) => format!(
            "To send several words as an input, quote them: gdn run {}",
            quoted(&format!("{word} {text}"))
        ),
        None => format!("To send it as an input, run `gdn run . {}`.", quoted(&word)),
    };
    match error.suggestion.clone() {
        Some(other) => error.suggest(format!("{other} {hint}")),
        None => error.suggest(hint),
    }
}

/// Applies the route of the swarm's `cli` connection to inputs typed in a chat.
async fn apply_console_route(session: &RunSession, input: &mut Input) {
    let connections = session.swarm.connections().await;
    let is_typed = |bound: &&BoundConnection| bound.connector == "cli" && bound.file.is_none();
    let Some(bound) = connections.iter().flatten().find(is_typed) else {
        return;
    };
    let Ok(event) = goondan_connect::sample(bound, None) else {
        return;
    };
    let route = goondan_connect::route(&bound.ingress, &event);
    (input.agent, input.instance_key) = (route.agent, Some(route.instance_key));
}

/// Decides how inputs arrive, without reading any.
fn input_mode(args: &RunArgs) -> Result<InputMode<InputSource<'_>>, CliError> {
    let has_input = args.input.is_some() || args.input_file.is_some();
    match (args.input_format, &args.input, &args.input_file) {
        (InputFormat::StreamJson, ..) if has_input => Err(CliError::usage(
            "`--input-format stream-json` reads inputs from standard input.",
        )
        .suggest(
            "Omit `--input` and `--input-file`, and pipe one JSON object per line into the \
                command.",
        )),
        (InputFormat::StreamJson, ..) => Ok(InputMode::Serve),
        (_, Some(text), _) => Ok(InputMode::Ask(InputSource::Given(text))),
        (_, _, Some(file)) if file == Path::new("-") => Ok(InputMode::Ask(InputSource::Stdin)),
        (_, _, Some(file)) => Ok(InputMode::Ask(InputSource::File(file))),
        _ if CommandOutput::stdin_is_terminal() => Ok(InputMode::Chat),
        _ => Ok(InputMode::Ask(InputSource::Stdin)),
    }
}

impl InputMode<InputSource<'_>> {
    /// Reads the input if there is only one.
    fn read(self) -> Result<InputMode<String>, CliError> {
        match self {
            InputMode::Ask(InputSource::Given(text)) => Ok(InputMode::Ask(text.to_owned())),
            InputMode::Ask(InputSource::File(file)) => prompt_from_file(file).map(InputMode::Ask),
            InputMode::Ask(InputSource::Stdin) => prompt_from_stdin().map(InputMode::Ask),
            InputMode::Serve => Ok(InputMode::Serve),
            InputMode::Chat => Ok(InputMode::Chat),
        }
    }
}

/// Returns the output format. Fails if it does not fit the way in which inputs arrive.
fn output_format<T>(
    args: &RunArgs,
    mode: &InputMode<T>,
    output: &CommandOutput,
) -> Result<OutputFormat, CliError> {
    let format = args
        .output_format
        .or(output.json.then_some(OutputFormat::Json));
    match (mode, format) {
        (InputMode::Serve, None) => Ok(OutputFormat::StreamJson),
        (InputMode::Serve, Some(OutputFormat::Text)) => Err(CliError::usage(
            "`--input-format stream-json` requires an output format with input ids.",
        )
        .suggest("Use `--output-format stream-json` (its default) or `--output-format json`.")),
        (InputMode::Chat, Some(OutputFormat::Json | OutputFormat::StreamJson)) => Err(
            CliError::usage("A chat prints only text; JSON needs an input.").suggest(
                "Add `--input TEXT`, pipe the input into the command, or use \
                    `--input-format stream-json`.",
            ),
        ),
        (_, format) => Ok(format.unwrap_or(OutputFormat::Text)),
    }
}

const STDIN_NAME: &str = "Standard input";

/// Reads standard input to its end as one input. Fails if it is blank.
fn prompt_from_stdin() -> Result<String, CliError> {
    non_blank_prompt(
        &input_files::read_text(std::io::stdin().lock(), STDIN_NAME)?,
        STDIN_NAME,
    )
}

/// Reads a file as one input. Fails if it is blank.
fn prompt_from_file(file: &Path) -> Result<String, CliError> {
    let name = format!("The input file `{}`", file.display());
    non_blank_prompt(
        &input_files::read_text(input_files::open(file, &name)?, &name)?,
        &name,
    )
}

/// Returns the input without its final line break. Fails if it is blank.
fn non_blank_prompt(text: &str, origin: &str) -> Result<String, CliError> {
    let text = text.trim_end_matches(['\r', '\n']);
    if text.trim().is_empty() {
        return Err(CliError::usage(format!("{origin} is empty."))
            .suggest("Add `--input TEXT`, or start the command on a terminal to chat."));
    }
    Ok(text.to_owned())
}
