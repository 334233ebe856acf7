//! Remembered approvals: their contents, lookup and storage.
//!
//! A grant records the data of the approved call: agent, tool, arguments, working directory, and
//! content hashes of the files that it runs.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use goondan_spec::kinds::Permission;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::referenced_files;
use crate::tooling::dispatch::{ToolCallContext, tool_context};
use crate::tooling::registry::RegisteredTool;
use crate::tooling::reporter::ToolCallReporter;
use goondan_core::JsonObject;
use goondan_core::event::RuntimeEventKind;
use goondan_core::ports::approval::{ApprovalCoverage, ApprovalDuration, ApprovalGrant};
use goondan_core::ports::store::{blocking, update};
use goondan_core::real_path::real_path;
use goondan_core::reserved_names::APPROVALS_RECORD;

/// Key of the tool's own code among the programs of a grant.
const CODE_KEY: &str = "library";

/// Size limit of a hashed file, in bytes. A call that runs a larger file requires an approval each
/// time.
const MAX_HASHED_FILE_BYTES: u64 = 64 * 1024 * 1024;

/// Data that all grants of a call share.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CallSnapshot {
    tool: String,
    args: JsonObject,
    folder: String,
    /// Content hash by path; `None` if a file cannot be read. Then no grant applies to the call.
    programs: Option<BTreeMap<String, String>>,
    /// Content hash of each file named in a command line; `None` if unreadable.
    files: Option<BTreeMap<String, String>>,
}

impl CallSnapshot {
    /// Collects the data of a call with which grants are compared: its arguments, its working
    /// directory, and the hashes of the files that it uses.
    pub(crate) async fn of(
        context: &ToolCallContext,
        tool: &RegisteredTool,
        arguments: &JsonObject,
    ) -> CallSnapshot {
        CallSnapshot {
            tool: tool.name.to_string(),
            args: kept_arguments(tool, arguments),
            folder: folder(context),
            programs: programs(context, tool, arguments)
                .await
                .map(|mut programs| {
                    programs.extend(
                        tool.handler
                            .code()
                            .map(|code| (CODE_KEY.to_owned(), code.to_owned())),
                    );
                    programs
                }),
            files: named_files(context, tool, arguments).await,
        }
    }

    /// Returns the grant that `agent` needs. `untrusted`: the approval is required because of
    /// untrusted content.
    pub(crate) fn grant(&self, agent: &str, untrusted: bool) -> ApprovalGrant {
        ApprovalGrant {
            covers: ApprovalCoverage::Call,
            agent: agent.to_owned(),
            tool: self.tool.clone(),
            args: self.args.clone(),
            folder: self.folder.clone(),
            untrusted,
            programs: self.programs.clone().unwrap_or_default(),
            files: self.files.clone().unwrap_or_default(),
        }
    }

    /// Returns `true` if a grant can apply to the call.
    pub(crate) fn is_known(&self) -> bool {
        self.programs.is_some() && self.files.is_some()
    }
}

/// Returns the arguments for a grant, without arguments that equal their default.
fn kept_arguments(tool: &RegisteredTool, arguments: &JsonObject) -> JsonObject {
    let properties = tool.schema.as_value().get("properties");
    let default =
        |name: &str| properties.and_then(|properties| properties.get(name)?.get("default"));
    let changed = arguments
        .iter()
        .filter(|(name, value)| default(name) != Some(*value));
    changed
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// Returns the working directory for a grant.
///
/// A conversation's own directory is identified by its agent, so that a permanent approval applies
/// to all conversations. Any other directory is identified by its path.
fn folder(context: &ToolCallContext) -> String {
    let (instance, folder) = (&context.facts.instance, &context.facts.workdir);
    if *folder == context.engine.store.workdir(instance) {
        return format!("own folder of {}", instance.agent);
    }
    real_path(folder)
        .unwrap_or_else(|_| folder.clone())
        .display()
        .to_string()
}

/// Hashes the files that a call runs: path arguments and programs that the tool names. Returns the
/// hashes by path; `None` if a file cannot be read.
async fn programs(
    context: &ToolCallContext,
    tool: &RegisteredTool,
    arguments: &JsonObject,
) -> Option<BTreeMap<String, String>> {
    let reporter = Arc::new(ToolCallReporter::of(context, tool));
    let tool_context = tool_context(context, tool, context.cancel.child_token(), reporter);
    let tool_programs = tool.handler.programs(&tool_context, arguments).await;
    // Programs of the tool always count. A path argument counts as a program only if the tool runs
    // programs.
    let runs = tool.spec.permissions.contains(&Permission::Execute);
    let paths = tool.marked_arguments.paths.iter().filter(|_| runs);
    let paths = paths.filter_map(|name| arguments.get(name)?.as_str());
    let paths: Vec<PathBuf> = paths.map(|path| context.facts.workdir.join(path)).collect();
    let hashing = tokio::task::spawn_blocking(move || {
        content_hashes(
            paths
                .into_iter()
                .filter(|path| path.is_file())
                .chain(tool_programs),
        )
    });
    hashing.await.ok().flatten()
}

/// Hashes the files that the command lines of a call name. Returns the hashes by path; `None` if a
/// file cannot be determined or read.
async fn named_files(
    context: &ToolCallContext,
    tool: &RegisteredTool,
    arguments: &JsonObject,
) -> Option<BTreeMap<String, String>> {
    let texts = |names: &[String]| -> Vec<String> {
        names
            .iter()
            .filter_map(|name| Some(arguments.get(name)?.as_str()?.to_owned()))
            .collect()
    };
    let marked = &tool.marked_arguments;
    let (lines, workdir) = (texts(&marked.commands), context.facts.workdir.clone());
    if lines.is_empty() {
        return Some(BTreeMap::new());
    }
    let stated_folders = texts(&marked.folders)
        .into_iter()
        .map(|folder| workdir.join(folder));
    let folders: Vec<PathBuf> = stated_folders.chain([workdir.clone()]).collect();
    let hashing = tokio::task::spawn_blocking(move || {
        let hashes = content_hashes(referenced_files::files(&lines, &folders)?.into_iter())?;
        // The own directory has a different path in each conversation.
        let workdir_prefix = format!("{}/", workdir.display());
        Some(
            hashes
                .into_iter()
                .map(|(path, hash)| {
                    (
                        path.strip_prefix(&workdir_prefix)
                            .unwrap_or(&path)
                            .to_owned(),
                        hash,
                    )
                })
                .collect(),
        )
    });
    hashing.await.ok().flatten()
}

/// Returns the content hash of each file by its path; `None` if a file cannot be read.
fn content_hashes(paths: impl Iterator<Item = PathBuf>) -> Option<BTreeMap<String, String>> {
    paths
        .map(|path| Some((path.display().to_string(), content_hash(&path)?)))
        .collect()
}

/// Returns the SHA-256 hash of a file; `None` if it is unreadable or too large.
#[expect(
    clippy::disallowed_methods,
    reason = "only a hash of the content leaves the function"
)]
fn content_hash(path: &Path) -> Option<String> {
    let mut file = std::fs::File::open(path)
        .ok()?
        .take(MAX_HASHED_FILE_BYTES + 1);
    let (mut hash, mut length, mut piece) = (Sha256::new(), 0, vec![0; 64 * 1024]);
    loop {
        match file.read(&mut piece).ok()? {
            0 => {
                return Some(
                    hash.finalize()
                        .iter()
                        .map(|byte| format!("{byte:02x}"))
                        .collect(),
                );
            }
            read => {
                length += read as u64;
                if length > MAX_HASHED_FILE_BYTES {
                    return None;
                }
                hash.update(&piece[..read]);
            }
        }
    }
}

/// Returns the permanent approvals and the approvals of this conversation.
pub(crate) async fn remembered_grants(context: &ToolCallContext) -> Vec<ApprovalGrant> {
    let mut grants = context.engine.approvals.grants();
    match context
        .engine
        .store
        .get(&context.facts.instance, APPROVALS_RECORD)
        .await
    {
        Ok(record) => grants.extend(of_record(record.map(|record| record.value))),
        Err(error) => tracing::warn!(%error, "could not read the remembered approvals of the \
            conversation; they do not apply to this call"),
    }
    grants
}

/// Decodes the grants of a record. Ignores grants of another shape: an older version of gdn wrote
/// them, and they no longer apply.
fn of_record(record: Option<Value>) -> Vec<ApprovalGrant> {
    let Some(Value::Array(grants)) = record else {
        return Vec::new();
    };
    grants
        .into_iter()
        .filter_map(|grant| serde_json::from_value(grant).ok())
        .collect()
}

/// Stores grants for the given scope and publishes them. If storing fails, the current call still
/// runs.
pub(crate) async fn remember(
    context: &ToolCallContext,
    scope: ApprovalDuration,
    grants: Vec<ApprovalGrant>,
) {
    let descriptions = grants.iter().map(ApprovalGrant::to_string).collect();
    let outcome = match scope {
        ApprovalDuration::Once => return,
        ApprovalDuration::Conversation => {
            let add_grants = |record| {
                let mut all = of_record(record);
                all.extend(grants.iter().cloned());
                Some(json!(all))
            };
            update(
                &*context.engine.store,
                &context.facts.instance,
                APPROVALS_RECORD,
                add_grants,
            )
            .await
        }
        ApprovalDuration::Always => {
            let engine = Arc::clone(&context.engine);
            blocking(move || engine.approvals.remember(grants)).await
        }
    };
    match outcome {
        Ok(()) => context.publish(RuntimeEventKind::ApprovalRemembered {
            approval_id: super::approval_request::id_of(context),
            tool_call_id: context.call.tool_call_id.clone(),
            tool_name: context.call.tool_name.clone(),
            scope,
            grants: descriptions,
        }),
        Err(error) => {
            tracing::warn!(%error, "could not save an approval; it applies only to this call")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_content_is_another_program() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run.sh");
        assert_eq!(content_hash(&path), None);
        std::fs::write(&path, "echo a").unwrap();
        let first = content_hash(&path);
        std::fs::write(&path, "echo b").unwrap();
        assert!(first.is_some() && first != content_hash(&path));
        std::fs::write(&path, "echo a").unwrap();
        assert_eq!(first, content_hash(&path));
    }

    #[test]
    fn what_is_too_large_is_not_known() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run");
        std::fs::File::create(&path)
            .unwrap()
            .set_len(MAX_HASHED_FILE_BYTES + 1)
            .unwrap();
        assert_eq!(content_hash(&path), None);
    }
}
