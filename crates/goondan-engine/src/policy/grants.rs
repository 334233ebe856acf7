//! Approvals that hold on: what one is about, those that hold, and how more are kept.
//!
//! A grant is about what somebody saw: the agent, the tool, the arguments, the folder in which it works, and what is in
//! the files that the call runs.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use goondan_spec::kinds::Permission;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::named;
use crate::tooling::dispatch::{ToolCallContext, tool_context};
use crate::tooling::registry::RegisteredTool;
use goondan_core::JsonObject;
use goondan_core::event::RuntimeEventKind;
use goondan_core::ports::approval::{Covers, Grant, Scope};
use goondan_core::ports::store::{blocking, update};
use goondan_core::real_path::real_path;
use goondan_core::reserved::APPROVALS;

/// What stands for the tool's own code among the programs of a grant.
const CODE: &str = "library";

/// The largest file that is read to be told from others, in bytes. A call that runs a larger one is asked about each time.
const LARGEST: u64 = 64 * 1024 * 1024;

/// What the grants of a call have in common.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Seen {
    tool: String,
    args: JsonObject,
    folder: String,
    /// `None` where what runs can't be read: then no grant is about the call.
    programs: Option<BTreeMap<String, String>>,
    /// What is in the files that its command lines name; `None` as above.
    files: Option<BTreeMap<String, String>>,
}

impl Seen {
    /// What there is to be seen of a call now.
    pub(crate) async fn of(
        context: &ToolCallContext,
        tool: &RegisteredTool,
        arguments: &JsonObject,
    ) -> Seen {
        Seen {
            tool: tool.name.to_string(),
            args: kept_arguments(tool, arguments),
            folder: folder(context),
            programs: programs(context, tool, arguments)
                .await
                .map(|mut programs| {
                    programs.extend(
                        tool.handler
                            .code()
                            .map(|code| (CODE.to_owned(), code.to_owned())),
                    );
                    programs
                }),
            files: named_files(context, tool, arguments).await,
        }
    }

    /// The grant that `agent` needs, `untrusted` where that is why it is asked.
    pub(crate) fn grant(&self, agent: &str, untrusted: bool) -> Grant {
        Grant {
            covers: Covers::Call,
            agent: agent.to_owned(),
            tool: self.tool.clone(),
            args: self.args.clone(),
            folder: self.folder.clone(),
            untrusted,
            programs: self.programs.clone().unwrap_or_default(),
            files: self.files.clone().unwrap_or_default(),
        }
    }

    /// Whether a grant can be about it.
    pub(crate) fn is_known(&self) -> bool {
        self.programs.is_some() && self.files.is_some()
    }
}

/// The arguments of a call as a grant holds them: what has the value of its default is left out.
fn kept_arguments(tool: &RegisteredTool, arguments: &JsonObject) -> JsonObject {
    let properties = tool.schema.as_value().get("properties");
    let default =
        |name: &str| properties.and_then(|properties| properties.get(name)?.get("default"));
    let kept = arguments
        .iter()
        .filter(|(name, value)| default(name) != Some(*value));
    kept.map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// The working folder of a call as a grant holds it. The folder that a conversation has for itself goes by its role: else
/// what is allowed always would be allowed in one conversation. It holds what that agent made there, in each of them; any
/// other folder goes by where it is.
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

/// What is in the files that a call runs, by their paths: those that its arguments name, and those that the tool names.
async fn programs(
    context: &ToolCallContext,
    tool: &RegisteredTool,
    arguments: &JsonObject,
) -> Option<BTreeMap<String, String>> {
    let tool_context = tool_context(context, tool, context.cancel.child_token());
    let own = tool.handler.programs(&tool_context, arguments).await;
    // What a tool runs by itself counts whatever it states; a path that it is given is a program only where it runs some.
    let runs = tool.spec.permissions.contains(&Permission::Execute);
    let named = tool.marked_arguments.paths.iter().filter(|_| runs);
    let named = named.filter_map(|name| arguments.get(name)?.as_str());
    let named: Vec<PathBuf> = named.map(|path| context.facts.workdir.join(path)).collect();
    let read = tokio::task::spawn_blocking(move || {
        contents(named.into_iter().filter(|path| path.is_file()).chain(own))
    });
    read.await.ok().flatten()
}

/// What is in the files that the command lines of a call name.
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
    let given = texts(&marked.folders)
        .into_iter()
        .map(|folder| workdir.join(folder));
    let folders: Vec<PathBuf> = given.chain([workdir.clone()]).collect();
    let read = tokio::task::spawn_blocking(move || {
        let found = contents(named::files(&lines, &folders)?.into_iter())?;
        // The folder that a conversation has for itself has another path in each.
        let own = format!("{}/", workdir.display());
        Some(
            found
                .into_iter()
                .map(|(path, content)| {
                    (path.strip_prefix(&own).unwrap_or(&path).to_owned(), content)
                })
                .collect(),
        )
    });
    read.await.ok().flatten()
}

fn contents(paths: impl Iterator<Item = PathBuf>) -> Option<BTreeMap<String, String>> {
    paths
        .map(|path| Some((path.display().to_string(), content(&path)?)))
        .collect()
}

/// What tells a file's content from others.
fn content(path: &Path) -> Option<String> {
    let mut file = std::fs::File::open(path).ok()?.take(LARGEST + 1);
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
                if length > LARGEST {
                    return None;
                }
                hash.update(&piece[..read]);
            }
        }
    }
}

/// Approvals that hold always, and those of this conversation.
pub(crate) async fn held(context: &ToolCallContext) -> Vec<Grant> {
    let mut grants = context.engine.approvals.grants();
    match context
        .engine
        .store
        .get(&context.facts.instance, APPROVALS)
        .await
    {
        Ok(own) => grants.extend(of_record(own.map(|record| record.value))),
        Err(error) => tracing::warn!(%error, "the approvals of the conversation can't be read"),
    }
    grants
}

/// What has another shape is of an older version, and holds no more.
fn of_record(found: Option<Value>) -> Vec<Grant> {
    let Some(Value::Array(grants)) = found else {
        return Vec::new();
    };
    grants
        .into_iter()
        .filter_map(|grant| serde_json::from_value(grant).ok())
        .collect()
}

/// Keeps grants for as long as `scope` says, and tells what was kept. Where that fails the call at hand runs all the same.
pub(crate) async fn remember(context: &ToolCallContext, scope: Scope, grants: Vec<Grant>) {
    let told = grants.iter().map(Grant::to_string).collect();
    let kept = match scope {
        Scope::Once => return,
        Scope::Conversation => {
            let with_these = |found| {
                let mut all = of_record(found);
                all.extend(grants.iter().cloned());
                Some(json!(all))
            };
            update(
                &*context.engine.store,
                &context.facts.instance,
                APPROVALS,
                with_these,
            )
            .await
        }
        Scope::Always => {
            let engine = Arc::clone(&context.engine);
            blocking(move || engine.approvals.remember(grants)).await
        }
    };
    match kept {
        Ok(()) => context.publish(RuntimeEventKind::ApprovalRemembered {
            approval_id: super::asking::id_of(context),
            tool_call_id: context.call.tool_call_id.clone(),
            tool_name: context.call.tool_name.clone(),
            scope,
            grants: told,
        }),
        Err(error) => {
            tracing::warn!(%error, "an approval holds for this call alone: it could not be kept")
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
        assert_eq!(content(&path), None);
        std::fs::write(&path, "echo a").unwrap();
        let first = content(&path);
        std::fs::write(&path, "echo b").unwrap();
        assert!(first.is_some() && first != content(&path));
        std::fs::write(&path, "echo a").unwrap();
        assert_eq!(first, content(&path));
    }

    #[test]
    fn what_is_too_large_is_not_known() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run");
        std::fs::File::create(&path)
            .unwrap()
            .set_len(LARGEST + 1)
            .unwrap();
        assert_eq!(content(&path), None);
    }
}
