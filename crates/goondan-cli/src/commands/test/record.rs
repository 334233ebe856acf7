//! `gdn test record`: creates a test case from a past conversation.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use goondan::event::RuntimeEvent;
use goondan::ids::InstanceId;
use goondan::internal::untrusted_text;
use goondan::message::Message;
use goondan::models::CassetteMask;
use goondan::spec::Code;
use goondan::workspace::database::SharedDatabase;
use goondan::{StateRoot, Workspace};
use goondan_conformance::record::{CaseHistory, RecordingError, RecordingSource, record};

use crate::case_recorder::{CASE_FILE_SUFFIX, RecordError, RecordedHistory, relative, write_case};
use crate::commands::{block_on, quoted};
use crate::exit::{CliError, CommandExit};
use crate::instances::{self, ConversationScope, FoundConversation};
use crate::output::CommandOutput;
use crate::project;
use crate::project_path::ProjectPathArg;
use crate::store::{self, StoreArgs};
use crate::trust::TrustSettings;

/// Arguments of `gdn test record`.
#[derive(Debug, Args)]
#[command(mut_arg("store", store::help("Read from")))]
pub(super) struct TestRecordArgs {
    #[command(flatten)]
    project: ProjectPathArg,
    /// The conversation as `agent:key`, or only its agent or key if unique
    #[arg(short, long, value_name = "INSTANCE", default_value = "main")]
    instance: String,
    /// Use the conversation of this agent [default: the one that `--instance` names]
    #[arg(short, long, value_name = "NAME")]
    agent: Option<String>,
    /// Record only this turn, counted from 1; can be repeated
    #[arg(long = "turn", value_name = "N")]
    turns: Vec<usize>,
    /// Run the real tools in the test instead of mocking their results; skips the trial run
    #[arg(long)]
    run_tools: bool,
    /// Write the test case to this file; its name must end in `.case.yaml`
    #[arg(short, long, value_name = "FILE", required = true)]
    output: PathBuf,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
    /// Trust the project for this run
    #[arg(long)]
    trust: bool,
    #[command(flatten)]
    store: StoreArgs,
}

/// Records a conversation as a test case. Runs the new test case, and writes the file only if it
/// passes. A test case that runs tools is written without this run, because tools may not be
/// repeatable.
pub(super) fn run(
    args: &TestRecordArgs,
    state_root: &StateRoot,
    output: &CommandOutput,
) -> Result<(), CliError> {
    let name = case_name(&args.output)?;
    if args.output.exists() && !args.force {
        return Err(
            CliError::usage(format!("`{}` already exists.", args.output.display()))
                .suggest("Choose another file, or replace the file with `--force`."),
        );
    }
    let (root, bundle, _) = project::load_trusted(
        &args.project.find(output)?,
        &TrustSettings::new(state_root, args.trust),
        output,
    )?;
    let root = std::path::absolute(root)?;
    let recorded = block_on(read_history(args, &root, state_root))?;
    let environment = goondan::environment(&root, None);
    let mask = CassetteMask::of_environment(
        &environment.map_err(|problem| CliError::configuration(problem.message))?,
    );
    let folder = folder_of(&args.output);
    let source = RecordingSource {
        name,
        project: relative(&folder.canonicalize()?, &root.canonicalize()?),
        bundle: &bundle,
        conversations: recorded.conversations,
        mask: &mask,
        runs_tools: args.run_tools,
    };
    let text = record(&recorded.history, &source).map_err(|reason| recording_error(&reason))?;
    let must_pass = !args.run_tools;
    let file = write_case(&text, folder, &bundle, must_pass).map_err(|error| match error {
        RecordError::Unrecordable(reason) => recording_error(&reason),
        RecordError::Io(error) => CliError::from(error),
    })?;
    file.persist(&args.output).map_err(|error| error.error)?;
    let from = untrusted_text::line(recorded.history.instance());
    output.note(&format!(
        "Recorded {from} to {}. Run the test case with `gdn test {}`.",
        untrusted_text::line(args.output.display()),
        untrusted_text::line(quoted(&args.output.to_string_lossy()))
    ))
}

/// Reads the conversation to record, and the conversations that it caused.
async fn read_history(
    args: &TestRecordArgs,
    root: &Path,
    state_root: &StateRoot,
) -> Result<RecordedHistory, CliError> {
    let workspaces = state_root
        .workspaces_of(root)
        .map_err(|error| CliError::configuration(error.to_string()))?;
    let scope = ConversationScope::Project(root.to_owned(), workspaces);
    let database = args.store.database()?;
    let all_instances = instances::all(database.as_ref(), state_root, &scope).await?;
    let name = match &args.agent {
        Some(agent) => format!("{agent}:{}", args.instance),
        None => args.instance.clone(),
    };
    let recorded = instances::choose(&all_instances, &name)?
        .ok_or_else(|| instances::unknown_conversation_error(&scope, &name))?;
    let related_ids = all_instances
        .iter()
        .filter(|other| other.workspace == recorded.workspace)
        .map(|other| other.summary.id.clone());
    let reader = ConversationReader {
        database: database.as_ref(),
        found: &recorded,
    };
    let mut events = Vec::new();
    for id in related_ids {
        events.extend(reader.events(&id).await?);
    }
    let history = CaseHistory::of(&recorded.summary.id, &args.turns, events)
        .map_err(|reason| recording_error(&reason))?;
    let mut conversations = BTreeMap::new();
    for id in history.instances() {
        let messages = reader.conversation(&id).await?;
        conversations.insert(id, messages);
    }
    Ok(RecordedHistory {
        history,
        conversations,
    })
}

/// Reader of conversations in files or in a database.
struct ConversationReader<'k> {
    database: Option<&'k SharedDatabase>,
    found: &'k FoundConversation,
}

impl ConversationReader<'_> {
    /// Returns the workspace of the conversation.
    fn workspace(&self) -> &Workspace {
        &self.found.workspace
    }

    /// Reads the events of a conversation.
    async fn events(&self, id: &InstanceId) -> Result<Vec<RuntimeEvent>, CliError> {
        let Some(database) = self.database else {
            return Ok(self
                .workspace()
                .runtime_events(id)?
                .into_iter()
                .flatten()
                .collect());
        };
        let reader = database
            .look(self.workspace())
            .await
            .map_err(|error| store::unusable_error(&error))?;
        reader
            .events(id, 0)
            .await
            .map_err(|error| store::read_error(&error))
    }

    /// Reads the messages of a conversation.
    async fn conversation(&self, id: &InstanceId) -> Result<Vec<Arc<Message>>, CliError> {
        let Some(database) = self.database else {
            return Ok(self.workspace().conversation(id)?.0);
        };
        let reader = database
            .look(self.workspace())
            .await
            .map_err(|error| store::unusable_error(&error))?;
        reader
            .conversation(id)
            .await
            .map_err(|error| store::read_error(&error))
    }
}

/// Returns the error of a conversation that can't be recorded.
fn recording_error(reason: &RecordingError) -> CliError {
    CliError::new(
        CommandExit::Failure,
        Code::CASE_NOT_RECORDED,
        reason.to_string(),
    )
    .suggest(
        "Nothing was written. Choose turns that can be replayed with `--turn`; `gdn logs` shows \
            the events of each turn.",
    )
}

/// Returns the name of the test case: the file name without its suffix.
fn case_name(path: &Path) -> Result<String, CliError> {
    let name = path
        .file_name()
        .and_then(|name| name.to_str())
        .and_then(|name| name.strip_suffix(CASE_FILE_SUFFIX));
    let is_kebab = |name: &&str| {
        let is_part = |part: &str| {
            !part.is_empty()
                && part
                    .chars()
                    .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
        };
        name.split('-').all(is_part)
    };
    name.filter(is_kebab).map(str::to_owned).ok_or_else(|| {
        CliError::usage(format!(
            "`{}` is not a valid file name for a test case.",
            path.display()
        ))
        .suggest(
            "Use a kebab-case name that ends with `.case.yaml`, such as `asks-for-bees.case.yaml`.",
        )
    })
}

/// Returns the directory of a file; the current directory for a bare file name.
fn folder_of(path: &Path) -> &Path {
    path.parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}
