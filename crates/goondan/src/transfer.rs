//! Instances as files: out of a workspace, and into one.

use std::io::{self, BufRead, Write};
use std::sync::Arc;

use goondan_core::ids::InstanceId;
use goondan_core::message::Message;
use goondan_core::ports::store::InstanceMeta;
use goondan_models::Mask;
use goondan_spec::Code;
use goondan_store::jsonl::{JsonlStore, OpenWorkspaceError};
use goondan_store::transfer::{self, Export, ImportError};
use serde_json::Value;

use crate::workspace::Workspace;

/// Why nothing was imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportFailed {
    /// A running swarm holds the workspace, or it can't be used.
    #[error(transparent)]
    Workspace(#[from] OpenWorkspaceError),
    /// The stream is not what an export writes, or there is an instance of that name.
    #[error(transparent)]
    Import(#[from] ImportError),
}

impl ImportFailed {
    /// The code of the error.
    pub fn code(&self) -> Code {
        match self {
            ImportFailed::Workspace(_) => Code::WORKSPACE_ERROR,
            ImportFailed::Import(ImportError::Exists(_)) => Code::INSTANCE_EXISTS,
            ImportFailed::Import(ImportError::Store(_)) => Code::INTERNAL_ERROR,
            ImportFailed::Import(_) => Code::IMPORT_ERROR,
        }
    }
}

impl Workspace {
    /// Writes an instance as JSON Lines; false where there is none. A running swarm may go on meanwhile. What `mask` hides is
    /// hidden in texts, arguments, results and metadata.
    pub fn export(&self, id: &InstanceId, mask: &Mask, out: &mut dyn Write) -> io::Result<bool> {
        let Some(meta) = self.meta(id)? else {
            return Ok(false);
        };
        let (messages, _) = self.conversation(id)?;
        write(&meta, &messages, mask, out).map(|()| true)
    }

    /// Reads instances that [`Workspace::export`] has written; a single one as `target`, if that is given. The workspace is
    /// made where there is none. Nothing is overwritten, and nothing imported where anything is wrong with the stream.
    pub async fn import(
        &self,
        target: Option<InstanceId>,
        input: &mut dyn BufRead,
    ) -> Result<Vec<InstanceMeta>, ImportFailed> {
        // What can't be read leaves no workspace behind.
        let read = Export::read(target, input)?;
        let store = JsonlStore::open(&self.dir)?;
        Ok(read.put_in(&store).await?)
    }
}

/// Writes an instance without what `mask` hides.
pub(crate) fn write(
    meta: &InstanceMeta,
    messages: &[Arc<Message>],
    mask: &Mask,
    out: &mut dyn Write,
) -> io::Result<()> {
    let masked: Vec<Arc<Message>> = messages
        .iter()
        .map(|message| masked(message, mask).map(Arc::new))
        .collect::<io::Result<_>>()?;
    transfer::export(meta, &masked, out)
}

fn masked(message: &Message, mask: &Mask) -> io::Result<Message> {
    let mut value = serde_json::to_value(message)?;
    for place in ["/data/content", "/metadata"] {
        if let Some(part) = value.pointer_mut(place) {
            *part = mask.apply(std::mem::replace(part, Value::Null));
        }
    }
    Ok(serde_json::from_value(value)?)
}
