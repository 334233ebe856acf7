//! `gdn test record`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use goondan::database::Database;
use goondan::event::RuntimeEvent;
use goondan::ids::InstanceId;
use goondan::inside::shown;
use goondan::message::Message;
use goondan::models::Mask;
use goondan::spec::Code;
use goondan::{StateRoot, Workspace};
use goondan_conformance::record::{History, Source, Unrecordable, record};

use crate::commands::{block_on, quoted};
use crate::exit::{CliError, Exit};
use crate::instances::{self, Found, Scope};
use crate::output::Output;
use crate::place::ProjectPath;
use crate::project;
use crate::recorder::{Kept, RecordError, SUFFIX, relative, written};
use crate::store::{self, StoreArgs};
use crate::trust::Trust;

/// Arguments of `gdn test record`.
#[derive(Debug, Args)]
pub(super) struct RecordArgs {
    #[command(flatten)]
    project: ProjectPath,
    /// The conversation as `agent:key`, or its agent or key alone if that is unique
    #[arg(short, long, value_name = "INSTANCE", default_value = "main")]
    instance: String,
    /// Take the conversation of this agent [default: the one that `--instance` names]
    #[arg(short, long, value_name = "NAME")]
    agent: Option<String>,
    /// Take only this turn, counted from 1; may be given several times
    #[arg(long = "turn", value_name = "N")]
    turns: Vec<usize>,
    /// Let the case run the tools, instead of playing what they returned; then it is not tried first
    #[arg(long)]
    run_tools: bool,
    /// Write the case to this file, NAME.case.yaml
    #[arg(short, long, value_name = "FILE", required = true)]
    output: PathBuf,
    /// Replace the file if there is one
    #[arg(long)]
    force: bool,
    /// Trust the project for this run
    #[arg(long)]
    trust: bool,
    #[command(flatten)]
    store: StoreArgs,
}

/// Writes a case, once it has passed.
pub(super) fn run(
    args: &RecordArgs,
    state_root: &StateRoot,
    output: &Output,
) -> Result<(), CliError> {
    let name = case_name(&args.output)?;
    if args.output.exists() && !args.force {
        return Err(
            CliError::usage(format!("`{}` is there already.", args.output.display()))
                .suggest("Choose another file, or replace it with `--force`."),
        );
    }
    let (root, bundle, _) = project::load_trusted(
        &args.project.find(output)?,
        &Trust::new(state_root, args.trust),
        output,
    )?;
    let root = std::path::absolute(root)?;
    let kept = block_on(kept(args, &root, state_root))?;
    let environment = goondan::environment(&root, None);
    let mask = Mask::of_environment(
        &environment.map_err(|problem| CliError::configuration(problem.message))?,
    );
    let folder = folder_of(&args.output);
    let source = Source {
        name,
        project: relative(&folder.canonicalize()?, &root.canonicalize()?),
        bundle: &bundle,
        conversations: kept.conversations,
        mask: &mask,
        runs_tools: args.run_tools,
    };
    let text = record(&kept.history, &source).map_err(|reason| not_recorded(&reason))?;
    // A case that runs tools is not tried: they may do what must not be done twice.
    let file = written(&text, folder, &bundle, !args.run_tools).map_err(|error| match error {
        RecordError::Unrecordable(reason) => not_recorded(&reason),
        RecordError::Io(error) => CliError::from(error),
    })?;
    file.persist(&args.output).map_err(|error| error.error)?;
    let from = shown::line(kept.history.instance());
    output.note(&format!(
        "Recorded {from} to {}: run it with `gdn test {}`.",
        shown::line(args.output.display()),
        shown::line(quoted(&args.output.to_string_lossy()))
    ))
}

async fn kept(args: &RecordArgs, root: &Path, state_root: &StateRoot) -> Result<Kept, CliError> {
    let workspaces = state_root
        .workspaces_of(root)
        .map_err(|error| CliError::configuration(error.to_string()))?;
    let scope = Scope::Project(root.to_owned(), workspaces);
    let database = args.store.database()?;
    let all = instances::all(database.as_ref(), state_root, &scope).await?;
    let name = match &args.agent {
        Some(agent) => format!("{agent}:{}", args.instance),
        None => args.instance.clone(),
    };
    let found = instances::choose(&all, &name)?.ok_or_else(|| instances::unknown(&scope, &name))?;
    let beside = all
        .iter()
        .filter(|one| one.workspace == found.workspace)
        .map(|one| one.summary.id.clone());
    let keeper = Keeper {
        database: database.as_ref(),
        found: &found,
    };
    let mut events = Vec::new();
    for id in beside {
        events.extend(keeper.events(&id).await?);
    }
    let history = History::of(&found.summary.id, &args.turns, events)
        .map_err(|reason| not_recorded(&reason))?;
    let mut conversations = BTreeMap::new();
    for id in history.instances() {
        let messages = keeper.conversation(&id).await?;
        conversations.insert(id, messages);
    }
    Ok(Kept {
        history,
        conversations,
    })
}

/// Reads from files or from a database.
struct Keeper<'k> {
    database: Option<&'k Database>,
    found: &'k Found,
}

impl Keeper<'_> {
    fn workspace(&self) -> &Workspace {
        &self.found.workspace
    }

    async fn events(&self, id: &InstanceId) -> Result<Vec<RuntimeEvent>, CliError> {
        let Some(database) = self.database else {
            return Ok(self
                .workspace()
                .runtime_events(id)?
                .into_iter()
                .flatten()
                .collect());
        };
        let looking = database
            .look(self.workspace())
            .await
            .map_err(|error| store::unusable(&error))?;
        looking
            .events(id, 0)
            .await
            .map_err(|error| store::failed(&error))
    }

    async fn conversation(&self, id: &InstanceId) -> Result<Vec<Arc<Message>>, CliError> {
        let Some(database) = self.database else {
            return Ok(self.workspace().conversation(id)?.0);
        };
        let looking = database
            .look(self.workspace())
            .await
            .map_err(|error| store::unusable(&error))?;
        looking
            .conversation(id)
            .await
            .map_err(|error| store::failed(&error))
    }
}

fn not_recorded(reason: &Unrecordable) -> CliError {
    CliError::new(Exit::Failure, Code::CASE_NOT_RECORDED, reason.to_string()).suggest(
        "Nothing was written. `--turn` chooses turns that can be played, and `gdn logs` shows what happened in each.",
    )
}

/// The name of the case, which is that of its file.
fn case_name(path: &Path) -> Result<String, CliError> {
    let name = path
        .file_name()
        .and_then(|name| name.to_str())
        .and_then(|name| name.strip_suffix(SUFFIX));
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
            "`{}` is not the name of a file with a case.",
            path.display()
        ))
        .suggest(
            "The name is kebab-case and ends with `.case.yaml`, such as `asks-for-bees.case.yaml`.",
        )
    })
}

fn folder_of(path: &Path) -> &Path {
    path.parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}
