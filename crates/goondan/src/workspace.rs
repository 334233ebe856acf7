//! The state of swarms on disk, for looking at it while nothing runs.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use chrono::{DateTime, Utc};
use goondan_core::conversation::Conversation;
use goondan_core::event::RuntimeEvent;
use goondan_core::ids::InstanceId;
use goondan_core::message::Message;
use goondan_core::ports::journal::EffectKind;
use goondan_core::ports::store::{
    DeadLetter, InstanceMeta, InstanceStatus, Instances as _, StoredConversation,
};
use goondan_core::private;
use goondan_store::jsonl::{JournalRecord, JsonlStore, OpenWorkspaceError, layout, read_lines};
use serde::Serialize;
use serde_json::Value;

/// The folder that holds all workspaces: `--state-root` > `GOONDAN_STATE_ROOT` > `~/.goondan` (rule C3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateRoot(pub PathBuf);

impl StateRoot {
    /// `explicit`, or what the environment says.
    pub fn find(explicit: Option<&Path>) -> StateRoot {
        let stated = || {
            std::env::var_os("GOONDAN_STATE_ROOT")
                .filter(|path| !path.is_empty())
                .map(PathBuf::from)
        };
        let home = || {
            std::env::home_dir()
                .unwrap_or_else(std::env::temp_dir)
                .join(".goondan")
        };
        let path = explicit
            .map(Path::to_owned)
            .or_else(stated)
            .unwrap_or_else(home);
        StateRoot(std::path::absolute(&path).unwrap_or(path))
    }

    /// Makes the folder where there is none, and keeps others out of one that is there.
    ///
    /// # Errors
    /// There is none, or others may look into it.
    pub fn prepare(&self) -> io::Result<()> {
        private::make_folder(&self.0)?;
        private::tighten(&self.0)
    }

    /// As [`StateRoot::prepare`], where it is the least of one's worries: what can't be made is told when it is opened.
    pub fn prepare_or_warn(&self) {
        if let Err(error) = self.prepare()
            && self.0.is_dir()
        {
            tracing::warn!(folder = %self.0.display(), %error, "others may look into the state root");
        }
    }

    /// All workspaces, sorted by id.
    pub fn workspaces(&self) -> io::Result<Vec<Workspace>> {
        let mut workspaces = Vec::new();
        for dir in folders(&self.0.join(layout::WORKSPACES))? {
            if let Some(id) = dir.file_name().and_then(|name| name.to_str()) {
                workspaces.push(Workspace {
                    id: id.to_owned(),
                    dir,
                });
            }
        }
        workspaces.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(workspaces)
    }

    /// The workspace with that id, or with the one that is made of a stated instance key; it need not exist yet.
    /// [`StateRoot::workspace_of`] knows that of a project.
    pub fn workspace(&self, key: &str) -> Workspace {
        Workspace {
            id: layout::workspace_id(key),
            dir: layout::workspace_dir(&self.0, key),
        }
    }
}

/// One swarm's state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workspace {
    /// Its id.
    pub id: String,
    /// Its folder.
    pub dir: PathBuf,
}

/// An instance as it lies on disk.
#[derive(Debug, Clone, PartialEq)]
pub struct InstanceSummary {
    /// Who it is.
    pub id: InstanceId,
    /// `idle`, `processing` where a turn runs or was cut off, or `retired`.
    pub status: String,
    /// When its first event came.
    pub created_at: DateTime<Utc>,
    /// When it last changed.
    pub updated_at: DateTime<Utc>,
    /// How many messages its conversation holds.
    pub messages: usize,
}

/// Something that a turn did or began to do which is not over: it runs in another process, or was cut off.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UnfinishedEffect {
    /// The turn; it resumes at the next start.
    pub turn_id: String,
    /// The effect's id, unique in the turn.
    pub effect: String,
    /// What kind of thing it is.
    pub kind: EffectKind,
    /// What it is about; of a tool call `toolCallId`, `toolName` and `input`.
    pub intent: Value,
    /// Whether it is known what came of it. A resumed turn does not do it again then.
    pub has_outcome: bool,
    /// Whether a resumed turn may do it again: exports that are `readOnly` or `idempotent` say so.
    pub may_repeat: bool,
}

impl UnfinishedEffect {
    /// Whether it is a tool call that may or may not have happened (rule C2b).
    pub fn is_uncertain(&self) -> bool {
        self.kind == EffectKind::ToolCall && !self.has_outcome && !self.may_repeat
    }
}

impl Workspace {
    /// All instances, sorted by last change, newest first.
    pub fn instances(&self) -> io::Result<Vec<InstanceSummary>> {
        let mut summaries = Vec::new();
        for dir in folders(&self.dir.join(layout::INSTANCES))? {
            // A folder without metadata is what a cut-off creation leaves.
            if let Ok(meta) = read_meta(&dir) {
                let is_at_work = self.is_at_work(&meta.id());
                summaries.push(summary(
                    &meta,
                    is_at_work,
                    self.conversation(&meta.id())?.0.len(),
                ));
            }
        }
        summaries.sort_by(|a, b| (b.updated_at, &a.id).cmp(&(a.updated_at, &b.id)));
        Ok(summaries)
    }

    /// Whose runtime events lie there: all instances, and those that have had calls of tools and no turn yet.
    pub fn instances_with_events(&self) -> io::Result<Vec<InstanceId>> {
        let mut ids = Vec::new();
        for dir in folders(&self.dir.join(layout::INSTANCES))? {
            match read_meta(&dir) {
                Ok(meta) => ids.push(meta.id()),
                Err(_) => {
                    let (events, _) =
                        read_lines::<RuntimeEvent>(&dir.join(layout::RUNTIME_EVENTS))?;
                    ids.extend(events.first().map(RuntimeEvent::instance));
                }
            }
        }
        Ok(ids)
    }

    /// Base and events, folded; with warnings about lines that could not be read.
    pub fn conversation(&self, id: &InstanceId) -> io::Result<(Vec<Arc<Message>>, Vec<String>)> {
        let dir = layout::instance_dir(&self.dir, id);
        // In this order: a turn that is folded meanwhile is seen twice, which `restore` tells, and never missed.
        let (events, mut warnings) = read_lines(&dir.join(layout::EVENTS))?;
        let (base, more) = read_lines(&dir.join(layout::BASE))?;
        warnings.extend(more);
        let stored = StoredConversation {
            base,
            events,
            warnings: Vec::new(),
        };
        Ok((
            Conversation::restore(stored).0.messages().to_vec(),
            warnings,
        ))
    }

    /// Events of an instance whose turns failed, oldest first.
    pub fn dead_letters(&self, id: &InstanceId) -> io::Result<Vec<DeadLetter>> {
        match fs::read(layout::instance_dir(&self.dir, id).join(layout::DEAD_LETTERS)) {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// The runtime events of an instance, oldest first: those that were put aside, and the others.
    pub fn runtime_events(&self, id: &InstanceId) -> io::Result<[Vec<RuntimeEvent>; 2]> {
        let [older, newer] = self.runtime_events_paths(id);
        Ok([read_lines(&older)?.0, read_lines(&newer)?.0])
    }

    /// Where they lie, for those who follow them: what is put aside when the second file has grown large, and that file.
    pub fn runtime_events_paths(&self, id: &InstanceId) -> [PathBuf; 2] {
        [layout::OLDER_RUNTIME_EVENTS, layout::RUNTIME_EVENTS]
            .map(|name| self.instance_dir(id).join(name))
    }

    /// Where the instance's state lies.
    pub fn instance_dir(&self, id: &InstanceId) -> PathBuf {
        layout::instance_dir(&self.dir, id)
    }

    /// Deletes everything of an instance; false where there is none. The workspace must not be held by a running swarm.
    pub async fn delete(&self, id: &InstanceId) -> Result<bool, OpenWorkspaceError> {
        if !self.dir.exists() {
            return Ok(false);
        }
        Ok(JsonlStore::open(&self.dir)?.delete_instance(id).await?)
    }

    pub(crate) fn meta(&self, id: &InstanceId) -> io::Result<Option<InstanceMeta>> {
        match read_meta(&layout::instance_dir(&self.dir, id)) {
            Ok(meta) => Ok(Some(meta)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether a turn of an instance runs, or was cut off: it has begun its events and not folded them.
    fn is_at_work(&self, id: &InstanceId) -> bool {
        let events = fs::metadata(self.instance_dir(id).join(layout::EVENTS));
        events.is_ok_and(|events| events.len() > 0)
    }

    /// What the turn of an instance has begun that is not over, in the order in which it began. Empty between turns.
    pub fn unfinished(&self, id: &InstanceId) -> io::Result<Vec<UnfinishedEffect>> {
        let (records, _) = read_lines(&layout::instance_dir(&self.dir, id).join(layout::JOURNAL))?;
        let mut effects: Vec<UnfinishedEffect> = Vec::new();
        for record in records {
            match record {
                JournalRecord::Intent {
                    turn_id,
                    effect,
                    kind,
                    intent,
                    may_repeat,
                } => {
                    // Done once more by a resumed turn, it is still one effect.
                    effects.retain(|known| (&known.turn_id, &known.effect) != (&turn_id, &effect));
                    effects.push(UnfinishedEffect {
                        turn_id,
                        effect,
                        kind,
                        intent,
                        has_outcome: false,
                        may_repeat,
                    });
                }
                JournalRecord::Outcome {
                    turn_id, effect, ..
                } => {
                    let done = effects
                        .iter_mut()
                        .find(|known| known.turn_id == turn_id && known.effect == effect);
                    done.into_iter().for_each(|known| known.has_outcome = true);
                }
            }
        }
        Ok(effects)
    }
}

/// Whoever looks on while a running swarm writes may see half of it: then it looks again.
fn read_meta(dir: &Path) -> io::Result<InstanceMeta> {
    let path = dir.join(layout::METADATA);
    match serde_json::from_slice(&fs::read(&path)?) {
        Ok(meta) => Ok(meta),
        Err(_) => Ok(serde_json::from_slice(&fs::read(&path)?)?),
    }
}

pub(crate) fn summary(meta: &InstanceMeta, is_at_work: bool, messages: usize) -> InstanceSummary {
    let status = match meta.status {
        // What it does at the moment is not written down with each turn.
        _ if is_at_work => "processing",
        InstanceStatus::Idle => "idle",
        InstanceStatus::Processing => "processing",
        InstanceStatus::Retired => "retired",
    };
    InstanceSummary {
        id: meta.id(),
        status: status.to_owned(),
        created_at: meta.created_at,
        updated_at: meta.updated_at,
        messages,
    }
}

fn folders(path: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let paths: Vec<PathBuf> = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<io::Result<_>>()?;
    Ok(paths.into_iter().filter(|path| path.is_dir()).collect())
}
