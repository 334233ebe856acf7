//! What a case has left behind, for the expectations and for what is always checked.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use goondan::Workspace;
use goondan::database::Database;
use goondan::event::RuntimeEvent;
use goondan::ids::InstanceId;
use goondan::inside::layout;
use goondan::message::Message;
use goondan::ports::model::ModelRequest;
use goondan::ports::store::StoreError;
use goondan::spec::Diagnostic;
use goondan::spec::kinds::Workdir;

use super::mcp::McpServers;
use super::world::{World, alone};
use crate::case::{Action, Case};

/// Names of tools by agent, as its model is offered them at the first step.
pub(crate) type Catalog = BTreeMap<String, Vec<String>>;

/// Messages by instance.
pub(crate) type Conversations = BTreeMap<InstanceId, Vec<Arc<Message>>>;

/// What a case has left behind, read once its last life has ended.
pub(crate) struct Evidence<'c> {
    pub(crate) case: &'c Case,
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// Whether there ever was a running swarm.
    pub(crate) started: bool,
    pub(crate) catalog: Catalog,
    pub(crate) requests: Vec<ModelRequest>,
    pub(crate) mcp: Arc<McpServers>,
    /// As they were kept.
    pub(crate) conversations: Conversations,
    pub(crate) events: Vec<RuntimeEvent>,
    pub(crate) logs: String,
    pub(crate) state_root: PathBuf,
    pub(crate) workspaces: Vec<Workspace>,
    pub(crate) project: PathBuf,
    /// What in the project is otherwise than the case has written it; `None` where tools may write there.
    pub(crate) strange_files: Option<Vec<String>>,
    /// What was started need not have ended.
    pub(crate) cut_off: bool,
    /// Where agents have their tools work.
    workdirs: BTreeMap<String, Workdir>,
}

impl<'c> Evidence<'c> {
    /// Reads everything.
    pub(crate) fn collect(world: &World<'c>, catalog: Catalog) -> Result<Self, String> {
        let workspaces = world.workspaces();
        let tools_in_project = world
            .workdirs
            .values()
            .any(|workdir| *workdir != Workdir::Instance);
        let strange = if tools_in_project {
            None
        } else {
            Some(world.project.strange())
        };
        Ok(Evidence {
            case: world.case,
            diagnostics: world.diagnostics.clone(),
            started: world.started,
            catalog,
            requests: world.models.requests(),
            mcp: Arc::clone(&world.mcp),
            conversations: match &world.database {
                Some(database) => alone(conversations_in(database, &workspaces))?,
                None => conversations(&workspaces)?,
            },
            events: world.events.all(),
            logs: world.logs.text(),
            state_root: world.state_root(),
            project: world.project.root().to_owned(),
            strange_files: strange
                .transpose()
                .map_err(|error| format!("the project folder can't be read: {error}"))?,
            cut_off: world.cut_off,
            workdirs: world.workdirs.clone(),
            workspaces,
        })
    }

    /// Whether the case calls tools itself: such calls belong to no turn.
    pub(crate) fn has_direct_calls(&self) -> bool {
        self.case
            .steps
            .iter()
            .any(|step| matches!(step.action, Action::Call(_)))
    }

    /// Where the tools of an instance work.
    pub(crate) fn workdir(&self, agent: &str, instance_key: &str) -> Option<PathBuf> {
        match self.workdirs.get(agent)? {
            Workdir::Project => Some(self.project.clone()),
            Workdir::Path(path) => Some(self.project.join(path)),
            Workdir::Repository(folder) => Some(folder.clone()),
            Workdir::Instance => {
                let id = InstanceId::new(agent, instance_key);
                Some(
                    self.workspaces
                        .first()?
                        .instance_dir(&id)
                        .join(layout::WORKDIR),
                )
            }
        }
    }
}

fn conversations(workspaces: &[Workspace]) -> Result<Conversations, String> {
    let mut conversations = BTreeMap::new();
    for workspace in workspaces {
        let instances = workspace
            .instances()
            .map_err(|error| format!("the workspace can't be read: {error}"))?;
        for instance in instances {
            let read = workspace.conversation(&instance.id);
            let (messages, _) = read.map_err(|error| {
                format!("the conversation of {} can't be read: {error}", instance.id)
            })?;
            conversations.insert(instance.id, messages);
        }
    }
    Ok(conversations)
}

async fn conversations_in(
    database: &Database,
    workspaces: &[Workspace],
) -> Result<Conversations, String> {
    let mut conversations = BTreeMap::new();
    for workspace in workspaces {
        let looking = database
            .look(workspace)
            .await
            .map_err(|error| error.to_string())?;
        let read = async {
            for meta in looking.instances().await? {
                conversations.insert(meta.id(), looking.conversation(&meta.id()).await?);
            }
            Ok::<_, StoreError>(())
        };
        read.await
            .map_err(|error| format!("the workspace can't be read: {error}"))?;
    }
    Ok(conversations)
}
