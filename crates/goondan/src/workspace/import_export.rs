//! Export and import of instances.

use std::io::{self, BufRead, Write};
use std::sync::Arc;

use goondan_core::ids::InstanceId;
use goondan_core::message::Message;
use goondan_core::ports::store::InstanceMeta;
use goondan_models::CassetteMask;
use goondan_spec::Code;
use goondan_store::instance_export::{self, ImportError, InstanceExport};
use goondan_store::jsonl::{JsonlStore, OpenWorkspaceError};
use serde_json::Value;

use crate::workspace::Workspace;

/// Reason for a failed import.
#[derive(Debug, thiserror::Error)]
pub enum ImportFailed {
    /// A running swarm holds the workspace, or it is unusable.
    #[error(transparent)]
    Workspace(#[from] OpenWorkspaceError),
    /// The stream is not a valid export, or the instance already exists.
    #[error(transparent)]
    Import(#[from] ImportError),
}

impl ImportFailed {
    /// Returns the error code.
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
    /// Writes an instance as JSON Lines. Returns false if it does not exist. A swarm may run during
    /// the export. `mask` hides values in texts, arguments, results and metadata.
    pub fn export(
        &self,
        id: &InstanceId,
        mask: &CassetteMask,
        out: &mut dyn Write,
    ) -> io::Result<bool> {
        let Some(meta) = self.meta(id)? else {
            return Ok(false);
        };
        let (messages, _) = self.conversation(id)?;
        write(&meta, self.title(id), &messages, mask, out).map(|()| true)
    }

    /// Imports instances from the output of [`Workspace::export`]. A single instance is stored as
    /// `target`, if given. Creates the workspace if needed. Overwrites nothing, and imports nothing
    /// if the stream has an error.
    pub async fn import(
        &self,
        target: Option<InstanceId>,
        input: &mut dyn BufRead,
    ) -> Result<Vec<InstanceMeta>, ImportFailed> {
        // Read first, so that an invalid stream creates no workspace.
        let imported = InstanceExport::read(target, input)?;
        let store = JsonlStore::open(&self.dir)?;
        Ok(imported.put_in(&store).await?)
    }
}

/// Writes an instance with masked values.
pub(crate) fn write(
    meta: &InstanceMeta,
    title: Option<String>,
    messages: &[Arc<Message>],
    mask: &CassetteMask,
    out: &mut dyn Write,
) -> io::Result<()> {
    let masked: Vec<Arc<Message>> = messages
        .iter()
        .map(|message| with_masked_values(message, mask).map(Arc::new))
        .collect::<io::Result<_>>()?;
    let title = title.map(|title| mask.apply(Value::String(title)));
    let title = title.as_ref().and_then(Value::as_str);
    instance_export::export(meta, title, &masked, out)
}

/// Returns the message with the values of `mask` hidden in its content and metadata.
fn with_masked_values(message: &Message, mask: &CassetteMask) -> io::Result<Message> {
    let mut value = serde_json::to_value(message)?;
    for pointer in ["/data/content", "/metadata"] {
        if let Some(part) = value.pointer_mut(pointer) {
            *part = mask.apply(std::mem::replace(part, Value::Null));
        }
    }
    Ok(serde_json::from_value(value)?)
}
