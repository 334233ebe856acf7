//! Export and import of instances as a stream of JSON Lines, for moves, backups and inspection.
//!
//! The first line of each instance states format, version, identity, title and number of messages. Each
//! further line is a message as stored in `base.jsonl`. Not included are the working directory,
//! extension state, files, the chain of creators and pending events. The author of the file is
//! unknown, so an imported conversation counts as tainted by untrusted output.

use std::collections::HashSet;
use std::io::{self, BufRead, Read, Write};
use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::json;

use goondan_core::conversation_title::title_of;
use goondan_core::ids::InstanceId;
use goondan_core::message::Message;
use goondan_core::ports::store::{
    BaseChange, InstanceMeta, InstanceStatus, Store, StoreError, update,
};
use goondan_core::reserved_names::{TITLE_RECORD, UNTRUSTED_RECORD};

/// Format name in the first line.
pub const EXPORT_FORMAT: &str = "goondan-instance";
/// The version that is written, and the only one accepted.
pub const EXPORT_VERSION: u32 = 1;
/// Maximum length of an imported line in bytes.
pub const MAX_LINE_BYTES: u64 = 64 * 1024 * 1024;
/// Maximum number of imported messages.
pub const MAX_EXPORT_MESSAGES: usize = 1_000_000;
/// Maximum size of an import in bytes.
pub const MAX_EXPORT_BYTES: u64 = 1024 * 1024 * 1024;

/// Source that is shown for the untrusted content of an imported conversation.
const IMPORT_ORIGIN: &str = "the imported file";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ExportHeader {
    format: String,
    version: u32,
    agent_name: String,
    instance_key: String,
    created_at: DateTime<Utc>,
    updated_at: DateTime<Utc>,
    messages: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    title: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    #[error("failed to read the instance: {0}")]
    Read(#[from] io::Error),
    /// A line does not have the format of [`export`].
    #[error("line {line} is not part of an exported instance: {problem}")]
    Malformed {
        /// Line number, starting at 1.
        line: usize,
        problem: String,
    },
    /// The file was written by a later version.
    #[error(
        "the instance was exported in version {found} of the format, and this program reads \
        version {EXPORT_VERSION}"
    )]
    Version {
        /// Version stated in the file.
        found: u32,
    },
    /// The stream ends early.
    #[error("the first line states {promised} messages of `{id}`, but {found} follow")]
    Incomplete {
        id: InstanceId,
        /// Number of messages according to the first line.
        promised: usize,
        /// Number of messages in the stream.
        found: usize,
    },
    /// A single new name was given for several instances.
    #[error("there are {0} instances, and only one can be imported as {1}")]
    Several(usize, InstanceId),
    /// Two instances have the same name.
    #[error("the export contains the instance {0} twice")]
    Twice(InstanceId),
    #[error("the instance is too large: {0}")]
    TooLarge(String),
    /// The instance already exists. Imports do not overwrite.
    #[error("the instance {0} already exists")]
    Exists(InstanceId),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Writes an instance. The instance may be running: the output is the conversation that the caller
/// read.
pub fn export(
    meta: &InstanceMeta,
    title: Option<&str>,
    messages: &[Arc<Message>],
    out: &mut dyn Write,
) -> io::Result<()> {
    let header = ExportHeader {
        format: EXPORT_FORMAT.to_owned(),
        version: EXPORT_VERSION,
        agent_name: meta.agent.clone(),
        instance_key: meta.instance_key.clone(),
        created_at: meta.created_at,
        updated_at: meta.updated_at,
        messages: messages.len(),
        title: title.map(str::to_owned),
    };
    write_line(out, &header)?;
    messages
        .iter()
        .try_for_each(|message| write_line(out, message))?;
    out.flush()
}

/// Writes a value as one line of JSON.
fn write_line(out: &mut dyn Write, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    out.write_all(b"\n")
}

/// Fully read instances that are not in a store yet.
#[derive(Debug)]
pub struct InstanceExport(Vec<ImportedInstance>);

/// A fully read instance.
#[derive(Debug)]
struct ImportedInstance {
    meta: InstanceMeta,
    title: Option<String>,
    messages: Vec<Arc<Message>>,
}

impl InstanceExport {
    /// Reads instances. A single instance is renamed to `target` if given. Fails on any error in
    /// the stream.
    pub fn read(target: Option<InstanceId>, input: &mut dyn BufRead) -> Result<Self, ImportError> {
        with_metadata(read(input)?, target).map(InstanceExport)
    }

    /// Adds the instances to a store. Each is added completely or not at all, and nothing is
    /// overwritten.
    pub async fn put_in(self, store: &dyn Store) -> Result<Vec<InstanceMeta>, ImportError> {
        let known: HashSet<InstanceId> = store
            .instances()
            .await?
            .iter()
            .map(InstanceMeta::id)
            .collect();
        for ImportedInstance { meta, .. } in &self.0 {
            let stored = store.read(&meta.id()).await?;
            if known.contains(&meta.id()) || !stored.base.is_empty() || !stored.events.is_empty() {
                return Err(ImportError::Exists(meta.id()));
            }
        }
        for ImportedInstance {
            meta,
            title,
            messages,
        } in &self.0
        {
            // The instance becomes visible only when it is complete.
            let lease = store.claim(&meta.id()).await?;
            store
                .open(lease)
                .await?
                .checkpoint(BaseChange::Rewrite(messages))
                .await?;
            update(store, &meta.id(), UNTRUSTED_RECORD, |_| {
                Some(json!({"origin": IMPORT_ORIGIN}))
            })
            .await?;
            if let Some(title) = title {
                update(store, &meta.id(), TITLE_RECORD, |_| Some(json!(title))).await?;
            }
            store.put_instance(meta).await?;
        }
        Ok(self.0.into_iter().map(|imported| imported.meta).collect())
    }
}

type Exported<T> = (T, Vec<Arc<Message>>);

/// Returns the instances with their new metadata.
fn with_metadata(
    read: Vec<Exported<ExportHeader>>,
    target: Option<InstanceId>,
) -> Result<Vec<ImportedInstance>, ImportError> {
    if let Some(target) = target.as_ref().filter(|_| read.len() > 1) {
        return Err(ImportError::Several(read.len(), target.clone()));
    }
    let mut ids = HashSet::new();
    let with_meta = |(header, messages): Exported<ExportHeader>| {
        let id = target.clone().unwrap_or_else(|| header.id());
        if !ids.insert(id.clone()) {
            return Err(ImportError::Twice(id));
        }
        let meta = InstanceMeta {
            status: InstanceStatus::Idle,
            agent: id.agent,
            instance_key: id.instance_key,
            created_at: header.created_at,
            updated_at: header.updated_at,
            owner: None,
            cwd: None,
            released_at: None,
            retired_at: None,
            narrowing: None,
            spending: Default::default(),
        };
        Ok(ImportedInstance {
            meta,
            title: header.title.as_deref().and_then(title_of),
            messages,
        })
    };
    read.into_iter().map(with_meta).collect()
}

/// Reads all conversations of an export. Fails if the export is incomplete or invalid.
fn read(input: &mut dyn BufRead) -> Result<Vec<Exported<ExportHeader>>, ImportError> {
    let mut lines = BoundedLineReader {
        input,
        number: 0,
        left: MAX_EXPORT_BYTES,
    };
    let (mut read, mut messages) = (Vec::new(), 0);
    while let Some(line) = lines.next()? {
        let header = check_header(&line, lines.number)?;
        messages += header.messages;
        if messages > MAX_EXPORT_MESSAGES {
            return Err(ImportError::TooLarge(format!(
                "it has more than {MAX_EXPORT_MESSAGES} messages"
            )));
        }
        let messages = read_messages(&mut lines, &header)?;
        read.push((header, messages));
    }
    if read.is_empty() {
        Err(malformed_line_error(1, "it is empty"))
    } else {
        Ok(read)
    }
}

/// Reads the messages of one conversation. Fails if messages are missing, or if an id occurs twice.
fn read_messages(
    lines: &mut BoundedLineReader<'_>,
    header: &ExportHeader,
) -> Result<Vec<Arc<Message>>, ImportError> {
    let (mut messages, mut ids) = (Vec::new(), HashSet::new());
    let first = lines.number + 1;
    while messages.len() < header.messages {
        let Some(line) = lines.next()? else {
            return Err(ImportError::Incomplete {
                id: header.id(),
                promised: header.messages,
                found: messages.len(),
            });
        };
        let message: Message = serde_json::from_slice(&line)
            .map_err(|error| malformed_line_error(lines.number, error))?;
        if !ids.insert(message.id.clone()) {
            return Err(malformed_line_error(
                lines.number,
                format!("the message ID {} occurs twice", message.id),
            ));
        }
        messages.push(Arc::new(message));
    }
    check_calls(&messages, first)?;
    Ok(messages)
}

impl ExportHeader {
    fn id(&self) -> InstanceId {
        InstanceId::new(self.agent_name.clone(), self.instance_key.clone())
    }
}

/// Parses the header of a conversation. Fails if the file has another format or version.
fn check_header(line: &[u8], number: usize) -> Result<ExportHeader, ImportError> {
    #[derive(Deserialize)]
    struct Kind {
        format: String,
        version: u32,
    }
    // Check format and version first, because other versions may have other fields.
    let kind: Kind =
        serde_json::from_slice(line).map_err(|error| malformed_line_error(number, error))?;
    if kind.format != EXPORT_FORMAT {
        return Err(malformed_line_error(
            number,
            format!("its `format` is {:?}, not {EXPORT_FORMAT:?}", kind.format),
        ));
    }
    if kind.version != EXPORT_VERSION {
        return Err(ImportError::Version {
            found: kind.version,
        });
    }
    serde_json::from_slice(line).map_err(|error| malformed_line_error(number, error))
}

/// Providers reject a conversation with a tool call that is not followed directly by its result.
/// The last calls may be open, because the next turn adds their results.
fn check_calls(messages: &[Arc<Message>], first: usize) -> Result<(), ImportError> {
    for (index, pair) in messages.windows(2).enumerate() {
        let answered: HashSet<&str> = pair[1]
            .tool_results()
            .map(|result| result.tool_call_id.as_str())
            .collect();
        if let Some(call) = pair[0]
            .tool_calls()
            .find(|call| !answered.contains(call.tool_call_id.as_str()))
        {
            return Err(malformed_line_error(
                index + first,
                format!("the call {} has no result after it", call.tool_call_id),
            ));
        }
    }
    Ok(())
}

/// Creates the error for an invalid line (from 1).
fn malformed_line_error(line: usize, problem: impl ToString) -> ImportError {
    ImportError::Malformed {
        line,
        problem: problem.to_string(),
    }
}

/// Reads lines of limited length.
struct BoundedLineReader<'a> {
    input: &'a mut dyn BufRead,
    number: usize,
    left: u64,
}

impl BoundedLineReader<'_> {
    /// Returns the next non-empty line.
    fn next(&mut self) -> Result<Option<Vec<u8>>, ImportError> {
        loop {
            let mut line = Vec::new();
            let limit = MAX_LINE_BYTES.min(self.left);
            let read = (&mut *self.input)
                .take(limit + 1)
                .read_until(b'\n', &mut line)? as u64;
            self.number += 1;
            if read > limit {
                let problem = format!(
                    "line {} exceeds {MAX_LINE_BYTES} bytes, or all lines exceed \
                        {MAX_EXPORT_BYTES}",
                    self.number
                );
                return Err(ImportError::TooLarge(problem));
            }
            self.left -= read;
            if read == 0 {
                return Ok(None);
            }
            if !line.trim_ascii().is_empty() {
                return Ok(Some(line));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::memory::MemoryStore;
    use crate::suite::samples::{instance, message, messages, meta};
    use goondan_core::message::{MessagePart, MessageRole, ToolCall};
    use goondan_core::ports::store::{ConversationStore as _, RecordStore as _};

    fn store() -> MemoryStore {
        MemoryStore::new(PathBuf::from("/nowhere"))
    }

    fn exported(messages: &[Arc<Message>]) -> Vec<u8> {
        let mut bytes = Vec::new();
        export(&meta(&instance("k")), Some("Bees"), messages, &mut bytes).unwrap();
        bytes
    }

    async fn import(
        store: &MemoryStore,
        target: Option<InstanceId>,
        bytes: &[u8],
    ) -> Result<Vec<InstanceMeta>, ImportError> {
        InstanceExport::read(target, &mut &*bytes)?
            .put_in(store)
            .await
    }

    async fn import_bytes(bytes: &[u8]) -> Result<Vec<InstanceMeta>, String> {
        import(&store(), None, bytes)
            .await
            .map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn an_export_is_imported_unchanged() {
        let (one, two) = (store(), store());
        let bytes = exported(&messages(&["m0", "m1"]));
        let imported = import(&one, None, &bytes).await.unwrap();
        assert_eq!(imported, [meta(&instance("k"))]);
        let stored = one.read(&instance("k")).await.unwrap();
        assert_eq!(exported(&stored.base), bytes);
        let title = one.get(&instance("k"), TITLE_RECORD).await.unwrap();
        assert_eq!(title.unwrap().value, json!("Bees"));
        let taint = one.get(&instance("k"), UNTRUSTED_RECORD).await.unwrap();
        assert_eq!(
            taint.unwrap().value,
            json!({"origin": IMPORT_ORIGIN}),
            "an imported conversation is tainted"
        );
        let other = InstanceId::new("b", "elsewhere");
        assert_eq!(
            import(&two, Some(other.clone()), &bytes).await.unwrap()[0].id(),
            other
        );
        assert_eq!(
            two.read(&other).await.unwrap().base,
            messages(&["m0", "m1"])
        );
    }

    #[tokio::test]
    async fn an_import_does_not_overwrite_an_existing_instance() {
        let store = store();
        let bytes = exported(&messages(&["m0"]));
        import(&store, None, &bytes).await.unwrap();
        let error = import(&store, None, &bytes).await.unwrap_err();
        assert_eq!(error.to_string(), "the instance a:k already exists");
    }

    #[tokio::test]
    async fn an_incomplete_or_invalid_export_is_refused() {
        let bytes = exported(&messages(&["m0", "m1"]));
        let lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
        let cases = [
            (
                vec![],
                "line 1 is not part of an exported instance: it is empty",
            ),
            (
                lines[..2].concat(),
                "the first line states 2 messages of `a:k`, but 1 follow",
            ),
            (
                [&bytes[..], lines[1]].concat(),
                "line 4 is not part of an exported instance: missing field `format`",
            ),
            (
                [lines[0], lines[1], lines[1]].concat(),
                "line 3 is not part of an exported instance: the message ID m0 occurs twice",
            ),
            (
                [&bytes[..], &bytes[..]].concat(),
                "the export contains the instance a:k twice",
            ),
            (
                lines[1].to_vec(),
                "line 1 is not part of an exported instance: missing field `format` at line 1",
            ),
            (
                bytes[..bytes.len() - 9].to_vec(),
                "line 3 is not part of an exported instance: EOF while parsing",
            ),
            (
                b"{\"format\":\"x\",\"version\":1}".to_vec(),
                "its `format` is \"x\", not \"goondan-instance\"",
            ),
            (
                b"{\"format\":\"goondan-instance\",\"version\":2,\"new\":1}".to_vec(),
                "the instance was exported in version 2 of the format, and this program reads \
                version 1",
            ),
        ];
        for (bytes, expected) in cases {
            let error = import_bytes(&bytes).await.unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[tokio::test]
    async fn one_export_can_contain_several_instances() {
        let store = store();
        let mut bytes = exported(&messages(&["m0", "m1"]));
        export(&meta(&instance("l")), None, &[], &mut bytes).unwrap();
        let target = InstanceId::new("a", "x");
        let error = import(&store, Some(target), &bytes)
            .await
            .unwrap_err()
            .to_string();
        assert_eq!(
            error,
            "there are 2 instances, and only one can be imported as a:x"
        );
        assert_eq!(
            import(&store, None, &bytes).await.unwrap(),
            [meta(&instance("k")), meta(&instance("l"))]
        );
    }

    #[tokio::test]
    async fn an_unanswered_tool_call_is_accepted_only_at_the_end() {
        let mut calling = message("m0", MessageRole::Assistant);
        let call = ToolCall::new("c1", "a__b", serde_json::json!({}));
        calling.data.content.push(MessagePart::ToolCall(call));
        let calling = vec![Arc::new(calling)];
        assert!(
            import_bytes(&exported(&calling)).await.is_ok(),
            "the next turn adds the missing result"
        );
        let error = import_bytes(&exported(&[calling, messages(&["m1"])].concat()))
            .await
            .unwrap_err();
        assert!(
            error.contains("line 2 is not part of an exported instance: the call c1 has no result"),
            "{error}"
        );
    }

    #[test]
    fn an_endless_line_is_refused() {
        let mut endless = io::BufReader::new(io::repeat(b'x'));
        let error = InstanceExport::read(None, &mut endless).unwrap_err();
        assert!(matches!(error, ImportError::TooLarge(_)), "{error}");
    }
}
