//! Remembered approvals: their contents, lookup and storage.
//!
//! A grant records the data of the approved call: agent, tool, arguments, working directory, and
//! content hashes of the files that it runs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use goondan_spec::kinds::{MarkedArguments, Permission};
use serde_json::{Value, json};

use super::permission::sandboxes;
use super::referenced_files::{self, ReferencedPaths};
use super::resolved_paths::ResolvedPaths;
use crate::tooling::dispatch::{ToolCallContext, tool_context};
use crate::tooling::registry::RegisteredTool;
use crate::tooling::reporter::ToolCallReporter;
use goondan_core::JsonObject;
use goondan_core::content_hash::readable_content_identity;
use goondan_core::event::RuntimeEventKind;
use goondan_core::ids::derived_id;
use goondan_core::ports::approval::{ApprovalCoverage, ApprovalDuration, ApprovalGrant, CODE_KEY};
use goondan_core::ports::store::{blocking, update};
use goondan_core::ports::tool::ApprovedFile;
use goondan_core::program_search::interpreters;
use goondan_core::real_path::{depends_on_process, real_path};
use goondan_core::reserved_names::APPROVALS_RECORD;
use goondan_core::started_files::{CodePlace, command_words, pieces};

/// Data that all grants of a call share.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CallSnapshot {
    tool: String,
    args: JsonObject,
    folder: String,
    conversation: Option<String>,
    /// Hash of the settings that limit the call.
    settings: Option<String>,
    /// Content hash by path; `None` if a file cannot be read. Then no grant applies to the call.
    programs: Option<BTreeMap<String, String>>,
    /// Content hash of each file named in a command line; `None` if unreadable.
    files: Option<BTreeMap<String, String>>,
    /// Targets of the paths that contain links, by path.
    link_targets: BTreeMap<String, String>,
    /// Path that can mean another file in the process of the call; see [`depends_on_process`].
    process_dependent_path: Option<String>,
}

impl CallSnapshot {
    /// Collects everything about a call that must be unchanged for an earlier grant to apply: its
    /// arguments, directory, settings and link targets, and the hashes of its files.
    pub(crate) async fn of(
        context: &ToolCallContext,
        tool: &RegisteredTool,
        arguments: &JsonObject,
        paths: &ResolvedPaths,
    ) -> CallSnapshot {
        let named = named_files(context, tool, arguments).await;
        let is_known = named.is_some();
        let named = named.unwrap_or_default();
        let mut link_targets = paths.link_targets();
        link_targets.extend(named.link_targets);
        let programs = programs(context, tool, arguments).await;
        CallSnapshot {
            tool: tool.name.to_string(),
            args: kept_arguments(tool, arguments),
            folder: folder(context),
            conversation: conversation(context, tool),
            settings: settings(context, tool),
            process_dependent_path: named
                .process_dependent_path
                .or_else(|| programs.process_dependent_path.clone()),
            programs: programs.hashes.map(|mut programs| {
                programs.extend(
                    tool.handler
                        .code()
                        .map(|code| (CODE_KEY.to_owned(), code.to_owned())),
                );
                programs
            }),
            files: is_known.then_some(named.hashes),
            link_targets,
        }
    }

    /// Returns a path of the call that leads to another file in the process that the call starts. No
    /// approval can cover the content of that file.
    pub(crate) fn path_of_process(&self) -> Option<&str> {
        self.process_dependent_path.as_deref()
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
            conversation: self.conversation.clone(),
            untrusted,
            settings: self.settings.clone(),
            programs: self.programs.clone().unwrap_or_default(),
            files: self.files.clone().unwrap_or_default(),
            link_targets: self.link_targets.clone(),
        }
    }

    /// Returns the files whose content an approval of the call covers. If they cannot be determined,
    /// returns the working directory without a hash.
    pub(crate) fn approved_files(&self, workdir: &Path) -> Arc<[ApprovedFile]> {
        let (Some(programs), Some(files)) = (&self.programs, &self.files) else {
            return Arc::from([ApprovedFile {
                path: workdir.to_owned(),
                sha256: None,
            }]);
        };
        let programs = programs.iter().filter(|(path, _)| *path != CODE_KEY);
        programs
            .chain(files)
            .map(|(path, hash)| ApprovedFile {
                path: workdir.join(path),
                sha256: Some(hash.clone()),
            })
            .collect()
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
/// A conversation's own directory is identified by its agent, so that a permanent approval can apply
/// to all conversations. Any other directory is identified by its path.
fn folder(context: &ToolCallContext) -> String {
    let folder = &context.facts.workdir;
    if has_own_folder(context) {
        return format!("own folder of {}", context.facts.instance.agent);
    }
    real_path(folder)
        .unwrap_or_else(|_| folder.clone())
        .display()
        .to_string()
}

/// Returns the conversation to which an approval of the exact call is limited; `None` for a call
/// that runs no programs, or in a directory that several conversations share.
fn conversation(context: &ToolCallContext, tool: &RegisteredTool) -> Option<String> {
    let runs = tool.spec.permissions.contains(&Permission::Execute);
    (runs && has_own_folder(context)).then(|| context.facts.instance.to_string())
}

/// Hashes the settings that limit a call. A remembered approval must not apply after a sandbox was
/// removed or the tool got another host.
fn settings(context: &ToolCallContext, tool: &RegisteredTool) -> Option<String> {
    let sandboxes = sandboxes(context);
    if sandboxes.is_empty() {
        return tool.settings.clone();
    }
    let all = format!("{sandboxes:?}{:?}", tool.settings);
    Some(derived_id(&[&all]))
}

fn has_own_folder(context: &ToolCallContext) -> bool {
    context.facts.workdir == context.engine.store.workdir(&context.facts.instance)
}

/// Files that a call runs or names, and whose content an approval covers.
#[derive(Default)]
struct CoveredFiles<H> {
    /// Content hash by path.
    hashes: H,
    /// Targets of the paths that contain links, by path.
    link_targets: BTreeMap<String, String>,
    /// Path that can mean another file in the process of the call; see [`depends_on_process`].
    process_dependent_path: Option<String>,
}

/// Hashes the files that a call runs: path arguments, programs that the tool names, and files that
/// other arguments name. The hashes are `None` if a file cannot be read, or if the files are unknown.
async fn programs(
    context: &ToolCallContext,
    tool: &RegisteredTool,
    arguments: &JsonObject,
) -> CoveredFiles<Option<BTreeMap<String, String>>> {
    let reporter = Arc::new(ToolCallReporter::of(context, tool));
    let tool_context = tool_context(context, tool, context.cancel.child_token(), reporter);
    let tool_programs = tool.handler.programs(&tool_context, arguments).await;
    let started_files = tool.handler.started_files(&tool_context).await;
    // Programs of the tool always count. A path argument counts as a program only if the tool runs
    // programs.
    let runs = tool.spec.permissions.contains(&Permission::Execute);
    let paths = tool.marked_arguments.paths.iter().filter(|_| runs);
    let paths = paths.filter_map(|name| arguments.get(name)?.as_str());
    let workdir = context.facts.workdir.clone();
    let project = context.engine.generation.load().bundle.root().to_owned();
    let mut paths: Vec<PathBuf> = paths.map(|path| workdir.join(path)).collect();
    let mut variables = Vec::new();
    if runs {
        let words = words_of_variables(&tool.marked_arguments, arguments);
        // A relative path starts from the stated directory.
        let stated = tool.marked_arguments.folders.iter();
        let stated = stated.filter_map(|name| Some(workdir.join(arguments.get(name)?.as_str()?)));
        for folder in stated.chain([workdir.clone()]) {
            variables.extend(words.iter().map(|word| folder.join(word)));
        }
        let words = words_of_program(&tool.marked_arguments, arguments);
        paths.extend(words.iter().map(|word| workdir.join(word)));
    }
    let hashing = tokio::task::spawn_blocking(move || {
        let named = paths.iter().chain(&variables).chain(&tool_programs);
        let started = started_files.keys().map(Path::new);
        let process_dependent_path = named
            .map(PathBuf::as_path)
            .chain(started)
            .find(|path| depends_on_process(path))
            .map(|path| path.display().to_string());
        let hashes = code_directories(&variables, &workdir, &project).and_then(|directories| {
            let files = paths
                .into_iter()
                .chain(variables)
                .filter(|path| path.is_file());
            let mut covered: BTreeSet<PathBuf> = files.chain(tool_programs).collect();
            covered.extend(interpreters(&covered, &[workdir], None));
            covered.extend(directories);
            let mut hashes = content_hashes(covered.into_iter())?;
            hashes.extend(started_files);
            Some(hashes)
        });
        CoveredFiles {
            hashes,
            process_dependent_path,
            ..CoveredFiles::default()
        }
    });
    hashing.await.unwrap_or_default()
}

/// Returns the directories of code that variables name. `None` if one is the working directory or
/// contains it, because a program may load any file in it.
fn code_directories(variables: &[PathBuf], workdir: &Path, project: &Path) -> Option<Vec<PathBuf>> {
    let mut directories = Vec::new();
    for path in variables {
        match CodePlace::of(path, workdir, &[workdir, project]) {
            CodePlace::Directory => directories.push(path.clone()),
            CodePlace::AroundFolder => return None,
            CodePlace::Other => {}
        }
    }
    Some(directories)
}

/// Returns the words in the values of variables, such as the file of `BASH_ENV`.
fn words_of_variables(marked: &MarkedArguments, arguments: &JsonObject) -> Vec<String> {
    let variables = marked.environments.iter();
    let variables = variables.filter_map(|name| arguments.get(name)?.as_object());
    words(variables.flat_map(JsonObject::values))
}

/// Returns the words of the program, and of the arguments of a script.
fn words_of_program(marked: &MarkedArguments, arguments: &JsonObject) -> Vec<String> {
    let programs = marked.programs.iter();
    let programs = programs.filter_map(|name| arguments.get(name));
    let lists = arguments.values().filter_map(Value::as_array).flatten();
    words(programs.chain(lists.filter(|_| !marked.paths.is_empty())))
}

/// Returns the words of the texts that may name a file. A text may also be a command line.
fn words<'v>(texts: impl Iterator<Item = &'v Value>) -> Vec<String> {
    let texts = texts.filter_map(Value::as_str);
    texts
        .flat_map(|text| std::iter::once(text).chain(command_words(text)))
        .flat_map(pieces)
        .collect()
}

/// Hashes the files that the command lines of a call name, and resolves the links among their
/// paths. `None` if a file cannot be determined or read.
async fn named_files(
    context: &ToolCallContext,
    tool: &RegisteredTool,
    arguments: &JsonObject,
) -> Option<CoveredFiles<BTreeMap<String, String>>> {
    let texts = |names: &[String]| -> Vec<String> {
        names
            .iter()
            .filter_map(|name| Some(arguments.get(name)?.as_str()?.to_owned()))
            .collect()
    };
    let marked = &tool.marked_arguments;
    let (lines, workdir) = (texts(&marked.commands), context.facts.workdir.clone());
    if lines.is_empty() {
        return Some(CoveredFiles::default());
    }
    let stated_folders = texts(&marked.folders);
    let project = context.engine.generation.load().bundle.root().to_owned();
    let hashing = tokio::task::spawn_blocking(move || {
        let workdir = real_path(&workdir).unwrap_or(workdir);
        let stated_folders = stated_folders.iter().map(|folder| workdir.join(folder));
        let folders: Vec<PathBuf> = stated_folders.chain([workdir.clone()]).collect();
        let ReferencedPaths {
            files,
            link_targets,
            process_dependent_path,
        } = referenced_files::find(&lines, &folders, &project)?;
        // The own directory has a different path in each conversation.
        let name = |path: &Path| {
            let path = path.strip_prefix(&workdir).unwrap_or(path);
            path.display().to_string()
        };
        let hashes = files
            .iter()
            .map(|path| Some((name(path), readable_content_identity(path)?)));
        let links = link_targets
            .iter()
            .map(|(path, target)| (name(path), name(target)));
        Some(CoveredFiles {
            // The hash of such a path has no meaning, so it need not be readable.
            hashes: match process_dependent_path {
                Some(_) => BTreeMap::new(),
                None => hashes.collect::<Option<_>>()?,
            },
            link_targets: links.collect(),
            process_dependent_path: process_dependent_path.map(|path| path.display().to_string()),
        })
    });
    hashing.await.ok().flatten()
}

/// Returns the content hash of each file by its path; `None` if a file cannot be read.
fn content_hashes(paths: impl Iterator<Item = PathBuf>) -> Option<BTreeMap<String, String>> {
    paths
        .map(|path| {
            Some((
                path.display().to_string(),
                readable_content_identity(&path)?,
            ))
        })
        .collect()
}

/// Limit of files that the reason of an approval request names.
const MAX_NAMED_FILES: usize = 3;

/// Describes which files changed since an earlier approval; `None` if none did.
pub(crate) fn change_description(changed: &BTreeSet<String>) -> Option<String> {
    let named = changed.iter().take(MAX_NAMED_FILES).map(|path| {
        if path == CODE_KEY {
            "the code or the description of the tool".to_owned()
        } else {
            format!("`{path}`")
        }
    });
    let mut names = named.collect::<Vec<_>>().join(", ");
    if changed.len() > MAX_NAMED_FILES {
        names.push_str(" and other files");
    }
    (!changed.is_empty()).then(|| format!("{names} changed since an earlier approval"))
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
