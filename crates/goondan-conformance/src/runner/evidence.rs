//! Final state of a test case, for expectations and invariants.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use goondan::Workspace;
use goondan::event::RuntimeEvent;
use goondan::ids::InstanceId;
use goondan::internal::layout;
use goondan::message::Message;
use goondan::ports::model::ModelRequest;
use goondan::ports::store::StoreError;
use goondan::spec::Diagnostic;
use goondan::spec::kinds::AgentWorkdir;
use goondan::workspace::database::SharedDatabase;

use super::case_context::{CaseContext, run_detached};
use super::mcp_mocks::McpServers;
use crate::case::{ConformanceCase, StepAction};

/// Tool names by agent, as offered to its model at the first step.
pub(crate) type Catalog = BTreeMap<String, Vec<String>>;

/// Messages by instance.
pub(crate) type Conversations = BTreeMap<InstanceId, Vec<Arc<Message>>>;

/// Final state of a test case, read after its last shutdown.
pub(crate) struct CaseEvidence<'c> {
    pub(crate) case: &'c ConformanceCase,
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// A swarm was running at some time.
    pub(crate) started: bool,
    pub(crate) catalog: Catalog,
    pub(crate) requests: Vec<ModelRequest>,
    pub(crate) mcp: Arc<McpServers>,
    /// Conversations as stored.
    pub(crate) conversations: Conversations,
    pub(crate) events: Vec<RuntimeEvent>,
    pub(crate) logs: String,
    pub(crate) state_root: PathBuf,
    pub(crate) workspaces: Vec<Workspace>,
    pub(crate) project: PathBuf,
    /// Project files that differ from the test case's files; `None` if tools may write there.
    pub(crate) unexpected_changes: Option<Vec<String>>,
    /// Events may lack their end.
    pub(crate) cut_off: bool,
    /// Working directories of the agents' tools.
    workdirs: BTreeMap<String, AgentWorkdir>,
}

impl<'c> CaseEvidence<'c> {
    /// Collects everything that the checks need after the last step.
    pub(crate) fn collect(context: &CaseContext<'c>, catalog: Catalog) -> Result<Self, String> {
        let workspaces = context.workspaces();
        let tools_in_project = context
            .workdirs
            .values()
            .any(|workdir| *workdir != AgentWorkdir::Instance);
        let unexpected = if tools_in_project {
            None
        } else {
            Some(context.project.unexpected_changes())
        };
        Ok(CaseEvidence {
            case: context.case,
            diagnostics: context.diagnostics.clone(),
            started: context.started,
            catalog,
            requests: context.models.requests(),
            mcp: Arc::clone(&context.mcp),
            conversations: match &context.database {
                Some(database) => run_detached(conversations_in(database, &workspaces))?,
                None => conversations(&workspaces)?,
            },
            events: context.events.to_vec(),
            logs: context.logs.text(),
            state_root: context.state_root(),
            project: context.project.root().to_owned(),
            unexpected_changes: unexpected
                .transpose()
                .map_err(|error| format!("the project directory can't be read: {error}"))?,
            cut_off: context.cut_off,
            workdirs: context.workdirs.clone(),
            workspaces,
        })
    }

    /// Returns true if the test case calls tools directly. Such calls belong to no turn.
    pub(crate) fn has_direct_calls(&self) -> bool {
        self.case
            .steps
            .iter()
            .any(|step| matches!(step.action, StepAction::Call(_)))
    }

    /// Returns the working directory of an instance's tools.
    pub(crate) fn workdir(&self, agent: &str, instance_key: &str) -> Option<PathBuf> {
        match self.workdirs.get(agent)? {
            AgentWorkdir::Project => Some(self.project.clone()),
            AgentWorkdir::Path(path) => Some(self.project.join(path)),
            AgentWorkdir::Repository(folder) => Some(folder.clone()),
            AgentWorkdir::Instance => {
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

/// Reads all conversations from the workspaces on disk.
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

/// Reads all conversations from the workspaces in the database.
async fn conversations_in(
    database: &SharedDatabase,
    workspaces: &[Workspace],
) -> Result<Conversations, String> {
    let mut conversations = BTreeMap::new();
    for workspace in workspaces {
        let reader = database
            .look(workspace)
            .await
            .map_err(|error| error.to_string())?;
        let read = async {
            for meta in reader.instances().await? {
                conversations.insert(meta.id(), reader.conversation(&meta.id()).await?);
            }
            Ok::<_, StoreError>(())
        };
        read.await
            .map_err(|error| format!("the workspace can't be read: {error}"))?;
    }
    Ok(conversations)
}
