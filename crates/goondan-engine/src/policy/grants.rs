//! Remembered approvals: their contents, lookup and storage.
//!
//! A grant records the data of the approved call: agent, tool, arguments, working directory, and
//! content hashes of the files that it runs.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
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
use goondan_core::content_hash::{content_identity, readable_content_identity, whole_identity};
use goondan_core::event::RuntimeEventKind;
use goondan_core::ids::derived_id;
use goondan_core::loaded_files::ProgramNames;
use goondan_core::ports::approval::{ApprovalCoverage, ApprovalDuration, ApprovalGrant, CODE_KEY};
use goondan_core::ports::store::{blocking, update};
use goondan_core::ports::tool::ApprovedFile;
use goondan_core::program_search::{first_line_words, interpreters};
use goondan_core::real_path::{depends_on_process, real_path};
use goondan_core::reserved_names::APPROVALS_RECORD;
use goondan_core::sourced_files::sourced_files;
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
    /// Content of the programs that the tool starts, by path.
    programs: BTreeMap<String, String>,
    /// Content of the files and directories that the arguments name, by path. If not all of them are
    /// known, that of all files in the directories of the call.
    files: BTreeMap<String, String>,
    /// Reason why the call can run files whose content no grant can cover.
    unknown: Option<UnknownFiles>,
    /// The tool's own programs are known.
    are_programs_known: bool,
    /// A command line starts a program of version control. Many files, also outside of the project,
    /// determine the programs that it runs.
    starts_version_control: bool,
    /// Targets of the paths that contain links, by path.
    link_targets: BTreeMap<String, String>,
    /// Path that can mean another file in the process of the call; see [`depends_on_process`].
    process_dependent_path: Option<String>,
}

/// Reason why not all files of a call are known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum UnknownFiles {
    /// An approval covers one call. The content of all files is compared until it starts.
    OneCall,
    /// A directory has too many files to compare them.
    TooMany(PathBuf),
}

impl CallSnapshot {
    /// Collects everything about a call that must be unchanged for an earlier grant to apply: its
    /// arguments, directory, settings and link targets, and the hashes of its files.
    pub(crate) async fn capture(
        context: &ToolCallContext,
        tool: &RegisteredTool,
        arguments: &JsonObject,
        paths: &ResolvedPaths,
    ) -> CallSnapshot {
        let named_files = named_files(context, tool, arguments).await;
        let programs = hash_programs(context, tool, arguments).await;
        let are_programs_known = programs.hashes.is_some() && !programs.are_unknown;
        let is_known = named_files.is_some() && are_programs_known;
        let named_files = named_files.unwrap_or_default();
        let mut link_targets = paths.link_targets();
        link_targets.extend(named_files.link_targets);
        let mut files = named_files.hashes;
        let mut unknown = None;
        files.extend(programs.directories);
        if !is_known {
            let listed_files = all_files(context, tool, arguments).await;
            unknown = Some(match listed_files {
                Ok(listed_files) => {
                    files.extend(listed_files);
                    UnknownFiles::OneCall
                }
                Err(folder) => UnknownFiles::TooMany(folder),
            });
        }
        let mut args = kept_arguments(tool, arguments);
        args.extend(unique_arguments(context, tool, arguments));
        let mut programs_by_path = programs.hashes.unwrap_or_default();
        let code = programs.code.map(|code| (CODE_KEY.to_owned(), code));
        programs_by_path.extend(code);
        CallSnapshot {
            tool: tool.name.to_string(),
            args,
            folder: grant_directory(context),
            conversation: conversation(context, tool),
            settings: settings_hash(context, tool),
            process_dependent_path: named_files
                .process_dependent_path
                .or(programs.process_dependent_path),
            programs: programs_by_path,
            files,
            unknown,
            are_programs_known,
            starts_version_control: named_files.starts_version_control
                || program_is_version_control(&tool.marked_arguments, arguments),
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
    pub(crate) fn to_grant(&self, agent: &str, untrusted: bool) -> ApprovalGrant {
        ApprovalGrant {
            covers: ApprovalCoverage::Call,
            agent: agent.to_owned(),
            tool: self.tool.clone(),
            args: self.args.clone(),
            folder: self.folder.clone(),
            conversation: self.conversation.clone(),
            untrusted,
            settings: self.settings.clone(),
            programs: self.programs.clone(),
            files: self.files.clone(),
            link_targets: self.link_targets.clone(),
        }
    }

    /// Returns the files whose content an approval of the call covers.
    pub(crate) fn approved_files(&self, workdir: &Path) -> Arc<[ApprovedFile]> {
        let programs = self.programs.iter().filter(|(path, _)| *path != CODE_KEY);
        programs
            .chain(&self.files)
            .map(|(path, hash)| ApprovedFile {
                path: workdir.join(path),
                sha256: Some(hash.clone()),
            })
            .collect()
    }

    /// Returns the code of the tool that an approval of the call covers.
    pub(crate) fn code(&self) -> Option<String> {
        self.programs.get(CODE_KEY).cloned()
    }

    /// Returns true if a grant of this scope can apply to the call. Grants for a tool and for
    /// commands of a form do not cover the content of files that a command line names. A line that
    /// starts version control is only remembered by its form, because its commands then run in a
    /// sandbox.
    pub(crate) fn permits(&self, covers: ApprovalCoverage) -> bool {
        match covers {
            ApprovalCoverage::Call => self.unknown.is_none() && !self.starts_version_control,
            ApprovalCoverage::Program | ApprovalCoverage::Tool => self.are_programs_known,
        }
    }

    /// Returns a directory with too many files, if the call can run any of them.
    pub(crate) fn too_large_directory(&self) -> Option<&Path> {
        match &self.unknown {
            Some(UnknownFiles::TooMany(folder)) => Some(folder),
            Some(UnknownFiles::OneCall) | None => None,
        }
    }
}

/// Returns the arguments for a grant, without arguments that equal their default.
fn kept_arguments(tool: &RegisteredTool, arguments: &JsonObject) -> JsonObject {
    let defaults = tool.default_arguments(arguments);
    let changed = arguments
        .iter()
        .filter(|(name, _)| !defaults.contains(*name));
    changed
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// Returns arguments whose ids no other thing can have later.
fn unique_arguments(
    context: &ToolCallContext,
    tool: &RegisteredTool,
    arguments: &JsonObject,
) -> JsonObject {
    let reporter = Arc::new(ToolCallReporter::for_call(context, tool));
    let tool_context = tool_context(context, tool, context.cancel.child_token(), reporter);
    tool.handler.unique_arguments(&tool_context, arguments)
}

/// Returns the identities of all files in the directories in which a call runs. If a directory has
/// too many files, returns its path as the error.
async fn all_files(
    context: &ToolCallContext,
    tool: &RegisteredTool,
    arguments: &JsonObject,
) -> Result<BTreeMap<String, String>, PathBuf> {
    let workdir = context.facts.workdir.clone();
    let stated_folders = tool.marked_arguments.folders.iter();
    let stated_folders =
        stated_folders.filter_map(|name| Some(workdir.join(arguments.get(name)?.as_str()?)));
    let folders: BTreeSet<PathBuf> = stated_folders.chain([workdir.clone()]).collect();
    let identify = |folder: PathBuf| match whole_identity(&folder) {
        Some(identity) => Ok((folder.display().to_string(), identity)),
        None => Err(folder),
    };
    let identifying =
        tokio::task::spawn_blocking(move || folders.into_iter().map(identify).collect());
    identifying.await.unwrap_or(Err(workdir))
}

/// Returns the working directory for a grant.
///
/// A conversation's own directory is identified by its agent, so that a permanent approval can apply
/// to all conversations. Any other directory is identified by its path.
fn grant_directory(context: &ToolCallContext) -> String {
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
fn settings_hash(context: &ToolCallContext, tool: &RegisteredTool) -> Option<String> {
    let sandboxes = sandboxes(context);
    if sandboxes.is_empty() {
        return tool.settings.clone();
    }
    let settings_text = format!("{sandboxes:?}{:?}", tool.settings);
    Some(derived_id(&[&settings_text]))
}

/// Returns true if the call runs in the own directory of its conversation.
pub(super) fn has_own_folder(context: &ToolCallContext) -> bool {
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
    /// A running process of the tool can have started other files.
    are_unknown: bool,
    /// A command line starts a program of version control.
    starts_version_control: bool,
    /// Content of directories from which a script of the call may import code, by path.
    directories: BTreeMap<String, String>,
    /// Code of the tool.
    code: Option<String>,
}

/// Hashes the files that a call runs: path arguments, programs that the tool names, and files that
/// other arguments name. The hashes are `None` if a file cannot be read, or if the files are unknown.
async fn hash_programs(
    context: &ToolCallContext,
    tool: &RegisteredTool,
    arguments: &JsonObject,
) -> CoveredFiles<Option<BTreeMap<String, String>>> {
    let reporter = Arc::new(ToolCallReporter::for_call(context, tool));
    let tool_context = tool_context(context, tool, context.cancel.child_token(), reporter);
    let tool_programs = tool.handler.executed_files(&tool_context, arguments).await;
    let started_files = tool.handler.started_files(&tool_context).await;
    let code = tool.handler.current_code(&tool_context).await;
    // Programs of the tool always count. A path argument counts as a program only if the tool runs
    // programs.
    let runs = tool.spec.permissions.contains(&Permission::Execute);
    let paths = tool.marked_arguments.paths.iter().filter(|_| runs);
    let paths = paths.filter_map(|name| arguments.get(name)?.as_str());
    let workdir = context.facts.workdir.clone();
    let project = context.engine.generation.load().bundle.root().to_owned();
    let mut paths: Vec<PathBuf> = paths.map(|path| workdir.join(path)).collect();
    // A shell runs the script, whatever its name is.
    let script_lines: Vec<String> = if tool.marked_arguments.programs.is_empty() {
        Vec::new()
    } else {
        paths.iter().map(|path| script_call(path)).collect()
    };
    let mut variables = Vec::new();
    // A script may import other code from these directories.
    let mut folders = Vec::new();
    if runs {
        let words = words_of_variables(&tool.marked_arguments, arguments);
        // A relative path starts from the stated directory.
        let stated_folders = tool.marked_arguments.folders.iter();
        let stated_folders =
            stated_folders.filter_map(|name| Some(workdir.join(arguments.get(name)?.as_str()?)));
        for folder in stated_folders.chain([workdir.clone()]) {
            variables.extend(words.iter().map(|word| folder.join(word)));
            folders.extend(Some(folder).filter(|_| !tool.marked_arguments.programs.is_empty()));
        }
        let words = words_of_program(&tool.marked_arguments, arguments);
        paths.extend(words.iter().map(|word| workdir.join(word)));
    }
    let hashing = tokio::task::spawn_blocking(move || {
        let named_programs = paths.iter().chain(&variables).chain(&tool_programs);
        let started = started_files.contents.keys().map(Path::new);
        let process_dependent_path = named_programs
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
            covered.extend(interpreters(&covered, std::slice::from_ref(&workdir), None));
            let sourced = sourced_files(
                &script_lines,
                &covered,
                std::slice::from_ref(&workdir),
                &project,
            );
            if sourced.are_unknown {
                return None;
            }
            covered.extend(sourced.files.into_iter().chain(sourced.missing));
            covered.extend(script_directories(&covered, &workdir, &project));
            covered.extend(directories);
            let mut hashes = content_hashes(covered.into_iter())?;
            hashes.extend(started_files.contents);
            Some((hashes, content_hashes(folders.into_iter())?))
        });
        let (hashes, directories) = hashes.unzip();
        CoveredFiles {
            hashes,
            directories: directories.unwrap_or_default(),
            process_dependent_path,
            are_unknown: started_files.are_unknown,
            ..CoveredFiles::default()
        }
    });
    CoveredFiles {
        code,
        ..hashing.await.unwrap_or_default()
    }
}

/// Returns a command line that runs a script.
fn script_call(script: &Path) -> String {
    let quoted = script.display().to_string().replace('\'', r"'\''");
    format!("sh '{quoted}'")
}

/// Returns the directories of scripts in the project, from which an interpreter imports modules.
fn script_directories(files: &BTreeSet<PathBuf>, workdir: &Path, project: &Path) -> Vec<PathBuf> {
    let scripts = files.iter().filter(|file| {
        let words = first_line_words(file);
        ProgramNames::of(words.iter().map(String::as_str)).import_code()
    });
    let parents: BTreeSet<&Path> = scripts.filter_map(|script| script.parent()).collect();
    let is_code =
        |path: &&Path| CodePlace::of(path, workdir, &[workdir, project]) == CodePlace::Directory;
    parents
        .into_iter()
        .filter(is_code)
        .map(Path::to_owned)
        .collect()
}

/// Returns the directories of code among `paths`, which come from environment variables. `None` if
/// a path is the working directory or contains it, because a program may load any file in it.
fn code_directories(paths: &[PathBuf], workdir: &Path, project: &Path) -> Option<Vec<PathBuf>> {
    let mut directories = Vec::new();
    for path in paths {
        match CodePlace::of(path, workdir, &[workdir, project]) {
            CodePlace::Directory => directories.push(path.clone()),
            CodePlace::ContainsWorkdir => return None,
            CodePlace::Other => {}
        }
    }
    Some(directories)
}

/// Returns the words in the values of variables, such as the file of `BASH_ENV`.
fn words_of_variables(marked: &MarkedArguments, arguments: &JsonObject) -> Vec<String> {
    let variables = marked.environments.iter();
    let variables = variables.filter_map(|name| arguments.get(name)?.as_object());
    possible_paths(variables.flat_map(JsonObject::values))
}

/// Returns true if a program that an argument names is version control.
fn program_is_version_control(marked: &MarkedArguments, arguments: &JsonObject) -> bool {
    let programs = marked.programs.iter();
    let programs = programs.filter_map(|name| arguments.get(name)?.as_str());
    programs
        .flat_map(command_words)
        .any(referenced_files::is_version_control)
}

/// Returns the words of the program, and of the arguments of a script.
fn words_of_program(marked: &MarkedArguments, arguments: &JsonObject) -> Vec<String> {
    let programs = marked.programs.iter();
    let programs = programs.filter_map(|name| arguments.get(name));
    let lists = arguments.values().filter_map(Value::as_array).flatten();
    possible_paths(programs.chain(lists.filter(|_| !marked.paths.is_empty())))
}

/// Returns all parts of `texts` that may be paths. Each text counts as one word, and as a command
/// line.
fn possible_paths<'v>(texts: impl Iterator<Item = &'v Value>) -> Vec<String> {
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
            starts_version_control,
        } = referenced_files::find(&lines, &folders, &project)?;
        // The own directory has a different path in each conversation.
        let name = |path: &Path| {
            let path = path.strip_prefix(&workdir).unwrap_or(path);
            if path.as_os_str().is_empty() {
                WORKING_DIRECTORY.to_owned()
            } else {
                path.display().to_string()
            }
        };
        let hashes = files
            .iter()
            .map(|path| Some((name(path), covered_identity(path)?)));
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
            starts_version_control,
            ..CoveredFiles::default()
        })
    });
    hashing.await.ok().flatten()
}

/// Returns the content hash of each file by its path; `None` if a file cannot be read.
fn content_hashes(paths: impl Iterator<Item = PathBuf>) -> Option<BTreeMap<String, String>> {
    paths
        .map(|path| Some((path.display().to_string(), covered_identity(&path)?)))
        .collect()
}

/// Returns the identity of a covered file, which may be missing. `None` if it cannot be read.
fn covered_identity(path: &Path) -> Option<String> {
    match path.symlink_metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => Some(content_identity(path)),
        _ => readable_content_identity(path),
    }
}

/// Name of the working directory among covered files.
const WORKING_DIRECTORY: &str = ".";

/// Limit of files that the reason of an approval request names.
const MAX_NAMED_FILES: usize = 3;

/// Describes which files changed since the last approval; `None` if none did.
pub(crate) fn change_description(changed: &BTreeSet<String>) -> Option<String> {
    let shown_paths = changed
        .iter()
        .take(MAX_NAMED_FILES)
        .map(|path| match path.as_str() {
            CODE_KEY => "the code or the description of the tool".to_owned(),
            WORKING_DIRECTORY => "code in the working directory".to_owned(),
            path => format!("`{path}`"),
        });
    let mut names = shown_paths.collect::<Vec<_>>().join(", ");
    if changed.len() > MAX_NAMED_FILES {
        names.push_str(" and other files");
    }
    (!changed.is_empty()).then(|| format!("{names} changed since the last approval"))
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
        Ok(record) => grants.extend(decode_grants(record.map(|record| record.value))),
        Err(error) => tracing::warn!(%error, "could not read the remembered approvals of the \
            conversation; they do not apply to this call"),
    }
    grants
}

/// Decodes the grants of a record. Ignores grants of another shape: an older version of gdn wrote
/// them, and they no longer apply.
fn decode_grants(record: Option<Value>) -> Vec<ApprovalGrant> {
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
                let mut all_grants = decode_grants(record);
                all_grants.extend(grants.iter().cloned());
                Some(json!(all_grants))
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
