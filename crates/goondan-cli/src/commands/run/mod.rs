//! `gdn run`.

mod answers;
mod approval;
mod ask;
mod chat;
pub(crate) mod console;
mod door;
mod elsewhere;
#[cfg(unix)]
mod live;
mod reloads;
mod serve;
mod session;
mod signals;
mod starting;
mod terminal;
mod view;

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use goondan::connectors::Bound;
use goondan::{Input, StateRoot, database};

pub(crate) use answers::Unasked;
pub(crate) use approval::Asked;
pub(crate) use elsewhere::{Elsewhere, Unsaid};
pub(crate) use session::{OnInterrupt, Session, not_accepted};
pub(crate) use signals::{Signals, watched};
pub(crate) use view::{View, event_line};

use crate::complete;
use crate::exit::CliError;
use crate::output::Output;
use crate::packages;
use crate::place::ProjectPath;
use crate::project::{self, Launch, StartArgs};
use crate::reading;
use crate::remote::NotStarted;

const EXAMPLES: &str = "\
Examples:
  gdn run --input \"What is new?\"                   Send one input and print the answer
  gdn run examples/newsroom                        Chat
  git diff | gdn run reviewer                      Send what a pipe delivers
  gdn run -k ticket-42 --input \"And then?\"         Continue a conversation
  gdn run --input Hi --output-format json | jq .   Print ids and usage, too
  gdn run oci://ghcr.io/acme/newsroom              Run a published swarm, once you agree to what it may do
  gdn run --watch                                  Chat, and reload the project when it changes
  gdn run --input-format stream-json < inputs.jsonl";

/// Arguments of `gdn run`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    project: ProjectPath,
    /// Send this input, print the answer and exit
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
    /// Read one text, or one JSON object per line until standard input ends
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    input_format: InputFormat,
    /// Print the answer, one result object, or one event per line [default: text]
    #[arg(long, value_enum, value_name = "FORMAT")]
    output_format: Option<OutputFormat>,
    /// Record what models are asked and what they answer in this file, for `provider: replay`
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Reload the project whenever one of its files changes
    #[arg(short, long)]
    watch: bool,
    /// Chat in plain lines, without a part of the screen that changes
    #[arg(long)]
    plain: bool,
}

/// What comes in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum InputFormat {
    /// One text.
    #[default]
    Text,
    /// One `{"input", "agent"?, "instanceKey"?, "id"?}` a line.
    StreamJson,
}

/// What goes out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OutputFormat {
    /// The answer.
    Text,
    /// One result object.
    Json,
    /// One runtime event a line, then the result.
    StreamJson,
}

/// How inputs arrive.
enum Mode<T> {
    /// One input.
    Ask(T),
    /// One input a line.
    Serve,
    /// A person types.
    Chat,
}

/// Where the one input is.
enum Source<'a> {
    Given(&'a str),
    File(&'a Path),
    Stdin,
}

/// Runs a swarm.
pub(crate) async fn run(
    args: RunArgs,
    state_root: &StateRoot,
    output: &Output,
) -> Result<(), CliError> {
    let mode = mode(&args)?;
    let format = output_format(&args, &mode, output)?;
    let project = find(&args, state_root, output).await?;
    let mode = mode.read()?;
    watched(async |signals| start(args, &project, mode, format, signals, state_root, output).await)
        .await
}

async fn start(
    args: RunArgs,
    project: &Path,
    mode: Mode<String>,
    format: OutputFormat,
    mut signals: Signals,
    state_root: &StateRoot,
    output: &Output,
) -> Result<(), CliError> {
    let asked = match (&mode, format) {
        (Mode::Serve, OutputFormat::StreamJson) => Asked::Lines,
        _ => Asked::Terminal,
    };
    let record = args.record.as_deref();
    let launch = Launch {
        project,
        args: &args.start,
        record,
        watch: args.watch,
        asked,
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
            Session::start(launch, signals, state_root, output).await,
            &mode,
        ) {
            (Ok(session), _) => break session,
            (Err(NotStarted::Elsewhere(remote, given)), Mode::Ask(text)) => {
                // With an id it is one input, whoever takes it in the end.
                let id = input.id.get_or_insert_with(database::new_id).clone();
                let input = Input {
                    text: text.clone(),
                    id: Some(id),
                    ..input.clone()
                };
                let mut there = Elsewhere::begin(*remote, "input", &args.start, given, output)?;
                match there.ask(input, format).await {
                    Err(Unsaid::NotBegun(why)) => signals = there.outlive(why).await?,
                    said => return Ok(said?),
                }
            }
            (Err(NotStarted::Elsewhere(remote, signals)), Mode::Chat) => {
                let there = Elsewhere::begin(*remote, "input", &args.start, signals, output)?;
                return talk(chat::There::with(there), &input, args.plain, output).await;
            }
            (Err(not_started), _) => return Err(not_started.into()),
        }
    };
    // Whoever asks once is gone before anybody else could write.
    if !matches!(mode, Mode::Ask(_)) {
        // In a chat people type to the chat; where programs speak, nobody types.
        let console = matches!(mode, Mode::Chat).then(goondan_connect::Console::silent);
        session.connect(false, console).await?;
    }
    if is_routed && matches!(mode, Mode::Chat) {
        take_route(&session, &mut input).await;
    }
    match mode {
        Mode::Ask(text) => ask::ask(session, Input { text, ..input }, format, output).await,
        Mode::Serve => serve::serve(session, &input, format, output).await,
        Mode::Chat => talk(chat::Here::with(session), &input, args.plain, output).await,
    }
}

/// Chats with `partner`, in lines where that is wanted or all that the terminal can do.
async fn talk(
    partner: impl chat::Partner,
    input: &Input,
    is_plain: bool,
    output: &Output,
) -> Result<(), CliError> {
    #[cfg(unix)]
    if !is_plain && live::is_possible(output) {
        return live::chat(partner, input, output).await;
    }
    let _ = is_plain;
    chat::chat(partner, input, output).await
}

/// The project to run, before anything is read that it would get. A published one is fetched, and somebody has to agree.
async fn find(
    args: &RunArgs,
    state_root: &StateRoot,
    output: &Output,
) -> Result<PathBuf, CliError> {
    let Some(address) = args.project.given().and_then(packages::published) else {
        let path = args.project.find(output)?;
        return project::require(&path).map(|()| path);
    };
    let found = packages::fetch(address, state_root, output).await?;
    let project = project::load(&found.folder)?;
    args.start
        .trust(state_root)
        .require_published(&project, &found.resolved, output)?;
    Ok(found.folder)
}

/// What is typed in a chat goes where a `cli` connection of the swarm says.
async fn take_route(session: &Session, input: &mut Input) {
    let connections = session.swarm.connections().await;
    let is_typed = |bound: &&Bound| bound.connector == "cli" && bound.file.is_none();
    let Some(bound) = connections.iter().flatten().find(is_typed) else {
        return;
    };
    let Ok(event) = goondan_connect::sample(bound, None) else {
        return;
    };
    let route = goondan_connect::route(&bound.ingress, &event);
    (input.agent, input.instance_key) = (route.agent, Some(route.instance_key));
}

/// Decides how inputs arrive. Nothing is read yet.
fn mode(args: &RunArgs) -> Result<Mode<Source<'_>>, CliError> {
    let given = args.input.is_some() || args.input_file.is_some();
    match (args.input_format, &args.input, &args.input_file) {
        (InputFormat::StreamJson, ..) if given => {
            Err(CliError::usage("`--input-format stream-json` reads its inputs from standard input.")
                .suggest("Leave `--input` and `--input-file` out, and pipe one JSON object a line into the command."))
        }
        (InputFormat::StreamJson, ..) => Ok(Mode::Serve),
        (_, Some(text), _) => Ok(Mode::Ask(Source::Given(text))),
        (_, _, Some(file)) if file == Path::new("-") => Ok(Mode::Ask(Source::Stdin)),
        (_, _, Some(file)) => Ok(Mode::Ask(Source::File(file))),
        _ if Output::stdin_is_terminal() => Ok(Mode::Chat),
        _ => Ok(Mode::Ask(Source::Stdin)),
    }
}

impl Mode<Source<'_>> {
    /// Reads the one input where there is only one.
    fn read(self) -> Result<Mode<String>, CliError> {
        match self {
            Mode::Ask(Source::Given(text)) => Ok(Mode::Ask(text.to_owned())),
            Mode::Ask(Source::File(file)) => from_file(file).map(Mode::Ask),
            Mode::Ask(Source::Stdin) => from_stdin().map(Mode::Ask),
            Mode::Serve => Ok(Mode::Serve),
            Mode::Chat => Ok(Mode::Chat),
        }
    }
}

fn output_format<T>(
    args: &RunArgs,
    mode: &Mode<T>,
    output: &Output,
) -> Result<OutputFormat, CliError> {
    let format = args
        .output_format
        .or(output.json.then_some(OutputFormat::Json));
    match (mode, format) {
        (Mode::Serve, None) => Ok(OutputFormat::StreamJson),
        (Mode::Serve, Some(OutputFormat::Text)) => Err(CliError::usage(
            "With `--input-format stream-json`, answers need an output format that carries their ids.",
        )
        .suggest("Use `--output-format stream-json` (the default there) or `--output-format json`.")),
        (Mode::Chat, Some(OutputFormat::Json | OutputFormat::StreamJson)) => {
            Err(CliError::usage("A chat prints only text; JSON needs an input.")
                .suggest("Add `--input TEXT`, pipe the input into the command, or use `--input-format stream-json`."))
        }
        (_, format) => Ok(format.unwrap_or(OutputFormat::Text)),
    }
}

const STDIN: &str = "Standard input";

fn from_stdin() -> Result<String, CliError> {
    text(&reading::text(std::io::stdin().lock(), STDIN)?, STDIN)
}

fn from_file(file: &Path) -> Result<String, CliError> {
    let what = format!("The input file `{}`", file.display());
    text(&reading::text(reading::open(file, &what)?, &what)?, &what)
}

/// The input as text, without the line break that ends a file.
fn text(text: &str, origin: &str) -> Result<String, CliError> {
    let text = text.trim_end_matches(['\r', '\n']);
    if text.trim().is_empty() {
        return Err(
            CliError::usage(format!("{origin} is empty, so there is no input."))
                .suggest("Add `--input TEXT`, or start the command on a terminal to chat."),
        );
    }
    Ok(text.to_owned())
}
