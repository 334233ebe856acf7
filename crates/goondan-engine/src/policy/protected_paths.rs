//! Protected paths: files that define permissions, are run later, or contain keys. Writing them
//! unnoticed would bypass every policy. Therefore a call that names one requires an approval,
//! unless a rule allows that path by name.

use std::borrow::Cow;
use std::cell::LazyCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use goondan_spec::Bundle;
use goondan_spec::discover::is_resource_file;
use goondan_spec::entry::library_candidates;
use goondan_spec::kinds::{
    ConnectorEntry, ExtensionEntry, MarkedArguments, McpServer, Permission, PermissionAction,
    Permissions, ScriptModule, ToolEntry,
};
use serde_json::{Value, json};

use super::hard_links;
use super::import_places::{ImportPlaces, ProjectScripts};
use super::started_places::{ConfiguredProgram, StartedPlaces};
use crate::policy::{DecisionReason, PathArguments, PolicyDecision};
use goondan_core::JsonObject;
use goondan_core::ports::tool::WrittenFile;
use goondan_core::protected_names::ProtectionReason;
use goondan_core::real_path::real_path;
use goondan_core::shell::{self, CommandPart, OpenedFile};
use goondan_spec::secret_files::{SecretFiles, is_declared};

/// Name of the file of a skill. A file of this name that an argument names may be for another
/// program, or for an agent that is added later.
const SKILL_FILE: &str = "SKILL.md";

/// Protected path in a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProtectedPath {
    argument: String,
    /// Path as the caller wrote it.
    given: String,
    /// Target, relative to the working directory, or absolute if it is outside.
    path: String,
    /// Names that a rule may use for the path: relative and absolute, in lower case.
    names: Vec<String>,
    why: ProtectionReason,
    access: PathAccess,
}

/// Way in which a call names or opens a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PathAccess {
    /// An argument is the path, or contains it.
    Argument,
    /// A redirection of a command line opens the file with this permission.
    Redirection(Permission),
    /// An argument selects the file.
    Selection,
    /// Every call writes the file.
    Always,
}

/// Environment of a call for path checks.
pub struct PathEnvironment<'a> {
    /// Bundle of the project.
    pub bundle: &'a Bundle,
    /// Working directory of the call.
    pub workdir: &'a Path,
    /// Own directory of the conversation.
    pub own_folder: &'a Path,
    /// The tool is built in; built-in tools reject gdn's own directory themselves.
    pub is_builtin: bool,
    /// The call can write files. The search for code that a new file would replace is slow, and only
    /// a write of such a file requires an approval.
    pub can_write: bool,
}

/// Path in a call.
struct NamedPath<'a> {
    argument: &'a str,
    given: Cow<'a, str>,
    /// Possible targets.
    places: Vec<Cow<'a, Path>>,
    access: PathAccess,
}

/// Files that redirections in the command lines of a call open, with the argument name.
#[derive(Debug, Default)]
pub(crate) struct RedirectionTargets {
    all: Vec<(String, OpenedFile)>,
    /// Some redirection targets are unknown.
    pub(crate) are_unclear: bool,
}

impl RedirectionTargets {
    /// Parses the redirections of the lines in `arguments`. More than `max_paths` paths count as
    /// unknown.
    pub(crate) fn from_arguments(
        marked: &MarkedArguments,
        arguments: &JsonObject,
        max_paths: usize,
    ) -> Self {
        let mut targets = RedirectionTargets::default();
        for name in &marked.commands {
            let Some(line) = arguments.get(name).and_then(Value::as_str) else {
                continue;
            };
            match shell::opened(line) {
                Some(opened) => targets
                    .all
                    .extend(opened.into_iter().map(|file| (name.clone(), file))),
                None => targets.are_unclear = true,
            }
        }
        if targets
            .all
            .iter()
            .map(|(_, opened)| opened.paths.len())
            .sum::<usize>()
            > max_paths
        {
            targets = RedirectionTargets {
                all: Vec::new(),
                are_unclear: true,
            };
        }
        targets
    }

    /// Returns true if the call has no redirection, neither known nor unknown.
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty() && !self.are_unclear
    }

    /// Returns the named paths if the lines start in one of `folders`.
    fn named_paths<'a>(&'a self, folders: &'a [PathBuf]) -> impl Iterator<Item = NamedPath<'a>> {
        self.all.iter().map(move |(argument, opened)| {
            let paths = folders
                .iter()
                .flat_map(|folder| opened.paths.iter().map(|path| folder.join(path)));
            let targets = paths
                .flat_map(|path| [normalize_path(&path), real_path_or_self(&path)])
                .map(Cow::Owned)
                .collect();
            let permission = if opened.is_written {
                Permission::Write
            } else {
                Permission::Read
            };
            NamedPath {
                argument,
                given: Cow::Borrowed(&opened.file),
                places: targets,
                access: PathAccess::Redirection(permission),
            }
        })
    }
}

/// Removes `.` and `..` from an absolute path without accessing the file system.
pub(super) fn normalize_path(path: &Path) -> PathBuf {
    path.to_str()
        .map_or_else(|| path.to_owned(), |text| PathBuf::from(shell::fold(text)))
}

/// Returns the protected paths among `paths` and the targets of `redirections`. Relative targets are
/// resolved against each of `line_folders`, the directories in which the command line may start.
/// `written` are further files that the call writes, with the text of their argument. Accesses the
/// file system.
pub(crate) fn find(
    environment: &PathEnvironment<'_>,
    paths: &PathArguments,
    redirections: &RedirectionTargets,
    line_folders: &[PathBuf],
    written: &[WrittenFile],
    arguments: &JsonObject,
) -> Vec<ProtectedPath> {
    let (root, folder) = (
        real_path_or_self(environment.bundle.root()),
        real_path_or_self(environment.workdir),
    );
    // A project may contain the state directory, such as a project in the home directory. The state
    // is not part of the project.
    let state = environment
        .own_folder
        .ancestors()
        .nth(2)
        .map(real_path_or_self);
    let own_folder = real_path_or_self(environment.own_folder);
    let bundle_paths = LazyCell::new(|| bundle_protections(environment.bundle, &root));
    let imports = LazyCell::new(|| {
        let programs = bundle_paths.iter();
        let programs = programs.filter(|(_, why)| *why == ProtectionReason::Program);
        let handlers: BTreeSet<PathBuf> = script_modules(environment.bundle)
            .flat_map(|module| &module.files)
            .map(|path| real_path_or_self(&root.join(path)))
            .collect();
        let programs = programs.map(|(path, _)| path.clone());
        let (handlers, started) = programs.partition(|path| handlers.contains(path));
        ImportPlaces::from_scripts(&ProjectScripts { handlers, started }, &root)
    });
    let started = LazyCell::new(|| StartedPlaces::of_bundle(environment.bundle, &root));
    let secrets = if is_in(&folder, &root) {
        SecretFiles::below([&root])
    } else {
        SecretFiles::below([&root, &folder])
    };
    let protection_of = |path: &Path, access: PathAccess| {
        if is_declared(path) {
            return Some((path.to_owned(), ProtectionReason::Secrets));
        }
        if state.as_ref().is_some_and(|state| path.starts_with(state)) {
            return None;
        }
        let base = protection_base(path, &root, &folder, &own_folder)?;
        let protection = protection_by_name(base, path)
            .filter(|(_, why)| *why != ProtectionReason::Own || !environment.is_builtin);
        let is_in_project = || base == root || is_ignore_file_above(path, &root);
        let protection =
            protection.or_else(|| is_in_project().then(|| resource_protection(path)).flatten());
        let protection =
            protection.or_else(|| instruction_protection(environment.bundle, path, access));
        let protection = protection.or_else(|| hard_links::protection(path, &secrets));
        let protection = protection.or_else(|| repository_without_name(base, path));
        let protection = protection.or_else(|| {
            bundle_paths
                .iter()
                .find(|(protected, _)| is_in(path, protected))
                .cloned()
        });
        if protection.is_some() || !environment.can_write {
            return protection;
        }
        let protection = imports
            .find_containing(path)
            .map(|place| (place, ProtectionReason::Program));
        let is_started = || started.contains(path);
        protection.or_else(|| is_started().then(|| (path.to_owned(), ProtectionReason::Program)))
    };
    let to_protected = |named: NamedPath<'_>| {
        let (path, (protected, why)) = named
            .places
            .iter()
            .find_map(|path| Some((path, protection_of(path, named.access)?)))?;
        let path = path.strip_prefix(&folder).unwrap_or(path).display();
        // A rule about a redirection begins with the redirection operator.
        let operator = match named.access {
            PathAccess::Redirection(_) => named.given.get(..2).unwrap_or_default(),
            _ => "",
        };
        let relative_name = protected.strip_prefix(&folder).ok().map(lowercase_text);
        let names = relative_name
            .into_iter()
            .chain([lowercase_text(&protected)])
            .filter(|name| !name.is_empty());
        let (path, names) = match named.access {
            PathAccess::Selection | PathAccess::Always => {
                let value = arguments.get(named.argument).and_then(Value::as_str);
                let names = value.filter(|value| !value.is_empty());
                let names = names.map(str::to_lowercase).into_iter().collect();
                (value.unwrap_or_default().to_owned(), names)
            }
            PathAccess::Argument | PathAccess::Redirection(_) => {
                let names = names.map(|name| format!("{operator}{name}"));
                (format!("{operator}{path}"), names.collect())
            }
        };
        Some(ProtectedPath {
            argument: named.argument.to_owned(),
            given: named.given.into_owned(),
            path,
            names,
            why,
            access: named.access,
        })
    };
    let argument_paths = paths.absolute().map(|(argument, given, places)| {
        let places = places.into_iter().map(Cow::Borrowed).collect();
        NamedPath {
            argument,
            given: Cow::Borrowed(given),
            places,
            access: PathAccess::Argument,
        }
    });
    let written_paths = written.iter().map(|file| {
        let relative_path = file.path.strip_prefix(environment.bundle.root());
        let access = match file.argument {
            Some(_) => PathAccess::Selection,
            None => PathAccess::Always,
        };
        NamedPath {
            argument: file.argument.as_deref().unwrap_or_default(),
            given: Cow::Owned(relative_path.unwrap_or(&file.path).display().to_string()),
            places: vec![
                Cow::Owned(normalize_path(&file.path)),
                Cow::Owned(real_path_or_self(&file.path)),
            ],
            access,
        }
    });
    argument_paths
        .chain(written_paths)
        .chain(redirections.named_paths(line_folders))
        .filter_map(to_protected)
        .collect()
}

/// Returns the directory below which `path` may be protected: the project or another working
/// directory.
fn protection_base<'a>(
    path: &Path,
    root: &'a Path,
    folder: &'a Path,
    own: &Path,
) -> Option<&'a Path> {
    match () {
        () if is_in(path, root) => Some(root),
        // Any other working directory except the own directory of the conversation.
        () if folder != own && is_in(path, folder) => Some(folder),
        () => None,
    }
}

/// Returns the path below `base` that is protected by its name in any project.
fn protection_by_name(base: &Path, path: &Path) -> Option<(PathBuf, ProtectionReason)> {
    let depth = base.components().count();
    let parts: Vec<&Path> = path
        .ancestors()
        .filter(|part| part.components().count() > depth)
        .collect();
    parts.into_iter().rev().find_map(|part| {
        let name = part.file_name()?.to_string_lossy().to_lowercase();
        Some((part.to_owned(), ProtectionReason::of_name(&name)?))
    })
}

/// Returns the path if it is in a directory that git takes for a repository, or if it would make a
/// directory one: git needs the file `HEAD` next to `objects` and `refs`, and runs the programs that
/// its `config` names. Accesses the file system.
fn repository_without_name(base: &Path, path: &Path) -> Option<(PathBuf, ProtectionReason)> {
    let name = path.file_name()?;
    let is_marker = name.eq_ignore_ascii_case("HEAD");
    let has_markers = |folder: &Path| {
        let mut markers = ["HEAD", "objects", "refs"].iter();
        markers.all(|marker| folder.join(marker).exists())
    };
    let is_inside = || {
        let folders = path.ancestors().skip(1);
        folders
            .take_while(|folder| is_in(folder, base))
            .any(has_markers)
    };
    (is_marker || is_inside()).then(|| (path.to_owned(), ProtectionReason::Git))
}

/// Returns the path if the file can become part of the bundle or controls its contents. The file
/// may not exist yet.
fn resource_protection(path: &Path) -> Option<(PathBuf, ProtectionReason)> {
    let name = path.file_name()?.to_string_lossy().to_lowercase();
    let folder = path.parent()?.to_string_lossy().to_lowercase();
    let is_one = name == ".gitignore"
        || is_test_case(&name)
        || is_resource_file(&folder.replace('\\', "/"), &name);
    is_one.then(|| (path.to_owned(), ProtectionReason::Bundle))
}

/// Returns true for a file of test cases. `gdn test` runs the calls in it without a sandbox.
fn is_test_case(name: &str) -> bool {
    name.ends_with(".case.yaml") || name.ends_with(".case.yml")
}

/// Returns the path if an agent uses the file as instructions. The file may not exist yet. A tool
/// that builds the path of a skill itself writes its own skills, which agents use only if
/// `Agent.spec.skills` names them.
fn instruction_protection(
    bundle: &Bundle,
    path: &Path,
    access: PathAccess,
) -> Option<(PathBuf, ProtectionReason)> {
    let name = path.file_name()?.to_string_lossy();
    let is_own = matches!(access, PathAccess::Selection | PathAccess::Always);
    if !is_own && name.eq_ignore_ascii_case(SKILL_FILE) {
        return Some((path.to_owned(), ProtectionReason::Instructions));
    }
    let mut names = bundle
        .agents()
        .values()
        .flat_map(|agent| &agent.spec.instructions)
        .flat_map(|files| &files.names);
    names
        .any(|used| used.to_lowercase() == name.to_lowercase())
        .then(|| (path.to_owned(), ProtectionReason::Instructions))
}

/// Returns true for a `.gitignore` above the project, which also controls the contents of the
/// bundle.
fn is_ignore_file_above(path: &Path, root: &Path) -> bool {
    let is_ignore_file = path
        .file_name()
        .is_some_and(|name| name.eq_ignore_ascii_case(".gitignore"));
    is_ignore_file && path.parent().is_some_and(|folder| is_in(root, folder))
}

/// Returns the files of a bundle, the files its tools run and are built from, and the replay files
/// of its models.
fn bundle_protections(bundle: &Bundle, root: &Path) -> Vec<(PathBuf, ProtectionReason)> {
    let entries = bundle
        .tools()
        .values()
        .flat_map(|tool| match &tool.spec.entry {
            ToolEntry::Builtin(_) | ToolEntry::Embedded | ToolEntry::A2a(_) => Vec::new(),
            ToolEntry::Library(path) => library_candidates(path),
            ToolEntry::Executable(path) => vec![path.clone()],
            ToolEntry::Module(_) => Vec::new(),
            ToolEntry::Mcp(server) => server_files(server, root),
        });
    let extensions = bundle.extensions().values();
    let extensions = extensions.filter_map(|extension| match &extension.spec.entry {
        ExtensionEntry::Library(path) => Some(library_candidates(path)),
        ExtensionEntry::Module(_) | ExtensionEntry::Builtin(_) => None,
    });
    let connectors = bundle.connectors().values();
    let connectors = connectors.filter_map(|connector| match &connector.spec.entry {
        ConnectorEntry::Library(path) => Some(library_candidates(path)),
        ConnectorEntry::Module(_) | ConnectorEntry::Builtin(_) => None,
    });
    let modules = script_modules(bundle);
    let modules = modules.flat_map(|module| module.files.iter().chain(&module.candidates).cloned());
    let entries = entries
        .chain(extensions.flatten())
        .chain(connectors.flatten())
        .chain(modules)
        .map(|path| (path, ProtectionReason::Program));
    let files = bundle
        .files()
        .iter()
        .map(|file| (file.clone(), ProtectionReason::Bundle));
    let models = bundle
        .models()
        .values()
        .flat_map(|model| model.spec.files())
        .map(|file| (file.to_owned(), ProtectionReason::Bundle));
    let tool_builds = bundle
        .tools()
        .values()
        .filter_map(|tool| tool.spec.build.as_ref());
    let extension_builds = bundle
        .extensions()
        .values()
        .filter_map(|extension| extension.spec.build.as_ref());
    let connector_builds = bundle
        .connectors()
        .values()
        .filter_map(|connector| connector.spec.build.as_ref());
    let builds = tool_builds
        .chain(extension_builds)
        .chain(connector_builds)
        .filter_map(|build| build.cwd.clone());
    let builds = builds.map(|folder| (folder, ProtectionReason::Program));
    let agents = bundle.agents().values();
    let skills = agents.flat_map(|agent| {
        let skill_folders = agent.spec.skills.iter().map(|skill| &skill.folder);
        skill_folders.chain(&agent.spec.skill_collections).cloned()
    });
    let skills = skills.map(|directory| (directory, ProtectionReason::Instructions));
    entries
        .chain(skills)
        .chain(files)
        .chain(models)
        .chain(builds)
        .map(|(path, why)| (real_path_or_self(&root.join(path)), why))
        .collect()
}

/// Returns the handler files of tools, extensions and connectors.
fn script_modules(bundle: &Bundle) -> impl Iterator<Item = &ScriptModule> {
    let tools = bundle.tools().values();
    let tools = tools.filter_map(|tool| match &tool.spec.entry {
        ToolEntry::Module(module) => Some(&**module),
        _ => None,
    });
    let extensions = bundle.extensions().values();
    let extensions = extensions.filter_map(|extension| match &extension.spec.entry {
        ExtensionEntry::Module(module) => Some(&**module),
        _ => None,
    });
    let connectors = bundle.connectors().values();
    let connectors = connectors.filter_map(|connector| match &connector.spec.entry {
        ConnectorEntry::Module(module) => Some(&**module),
        _ => None,
    });
    tools.chain(extensions).chain(connectors)
}

/// Returns the files of a server program that its command line and its variables name.
fn server_files(server: &McpServer, root: &Path) -> Vec<String> {
    let Some(program) = ConfiguredProgram::of_server(server, root) else {
        return Vec::new();
    };
    let files = program.started(root).files().into_iter();
    files
        .map(|file| file.to_string_lossy().into_owned())
        .chain(server.bundled_program())
        .collect()
}

impl ProtectedPath {
    /// Returns true if a call with these permissions requires an approval. Files with keys also
    /// require it for reading.
    pub(crate) fn requires_approval(&self, needs: &BTreeSet<Permission>) -> bool {
        let has_permission = |permission| match self.access {
            PathAccess::Redirection(only) => only == permission,
            _ => needs.contains(&permission),
        };
        has_permission(Permission::Write)
            || (self.why == ProtectionReason::Secrets && has_permission(Permission::Read))
    }

    /// Returns true for a redirection target. If a shell opens the file, it requires no approval
    /// by itself.
    pub(crate) fn is_redirected_to(&self) -> bool {
        matches!(self.access, PathAccess::Redirection(_))
    }

    /// Returns the reason for the approval request.
    pub(crate) fn approval_reason(&self) -> String {
        format!("`{}` is a protected place: {}", self.given, self.why.text())
    }

    /// Returns a rule that allows the path.
    pub(crate) fn allow_rule(&self, tool: &str) -> String {
        if self.access == PathAccess::Always {
            return format!("{{tool: \"{tool}\", action: allow}}");
        }
        format!(
            "{{tool: \"{tool}\", args: {{{}: {}}}, action: allow}}",
            self.argument,
            json!(self.path)
        )
    }

    /// Returns true if the pattern of the deciding rule contains the path literally, or the value
    /// that selects it. For a file that every call writes, the rule must contain the tool.
    pub(crate) fn is_named(
        &self,
        tool: &str,
        permissions: Option<&Permissions>,
        decision: &PolicyDecision,
    ) -> bool {
        let names_this_file =
            |part: &CommandPart| part.file.as_ref().unwrap_or(&part.shown) == &self.given;
        let about = decision
            .parts
            .iter()
            .find(|part| names_this_file(&part.part));
        let because = match about {
            Some(part) => &part.because,
            None if decision.parts.is_empty() => &decision.because,
            None => return false,
        };
        let DecisionReason::Rule {
            number: Some(number),
            ..
        } = because
        else {
            return false;
        };
        let Some(rule) = permissions.and_then(|permissions| permissions.rules.get(*number)) else {
            return false;
        };
        if self.access == PathAccess::Always {
            return rule.action == PermissionAction::Allow && rule.tool.as_deref() == Some(tool);
        }
        let Some(expected) = rule.args.get(&self.argument) else {
            return false;
        };
        let literal = expected
            .split(['*', '?'])
            .next()
            .unwrap_or_default()
            .to_lowercase();
        let literal = literal.strip_prefix("./").unwrap_or(&literal);
        rule.action == PermissionAction::Allow
            && self
                .names
                .iter()
                .any(|name| literal.starts_with(name.as_str()))
    }
}

/// Returns `path` with links resolved; `path` itself if that fails.
pub(super) fn real_path_or_self(path: &Path) -> PathBuf {
    real_path(path).unwrap_or_else(|_| path.to_owned())
}

/// Returns true if `path` is `ancestor` or below it. Ignores case, so that the protection works on
/// every file system.
pub(super) fn is_in(path: &Path, ancestor: &Path) -> bool {
    Path::new(&lowercase_text(path)).starts_with(lowercase_text(ancestor))
}

/// Returns `path` as text in lower case.
pub(super) fn lowercase_text(path: &Path) -> String {
    path.to_string_lossy().to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignore_files_above_the_project_are_recognized() {
        let root = Path::new("/r/team/swarm");
        for (path, expected) in [
            ("/r/.gitignore", true),
            ("/r/team/.GITIGNORE", true),
            ("/r/src/.gitignore", false),
            ("/r/team/goondan.yaml", false),
        ] {
            assert_eq!(
                is_ignore_file_above(Path::new(path), root),
                expected,
                "{path}"
            );
        }
    }

    fn reason(path: &str) -> Option<ProtectionReason> {
        let (root, folder) = (Path::new("/home/u/shop"), Path::new("/home/u"));
        let path = Path::new(path);
        protection_by_name(
            protection_base(path, root, folder, Path::new("/state"))?,
            path,
        )
        .map(|(_, reason)| reason)
    }

    #[test]
    fn a_directory_that_git_accepts_as_a_repository_is_protected() {
        let directory = tempfile::tempdir().unwrap();
        let base = directory.path();
        for folder in ["a/objects", "a/refs", "b/objects"] {
            std::fs::create_dir_all(base.join(folder)).unwrap();
        }
        let reason =
            |path: &str| repository_without_name(base, &base.join(path)).map(|(_, reason)| reason);
        assert_eq!(reason("b/head"), Some(ProtectionReason::Git));
        assert_eq!(reason("a/config"), None);
        std::fs::write(base.join("a/HEAD"), "ref: refs/heads/m").unwrap();
        assert_eq!(reason("a/config"), Some(ProtectionReason::Git));
        assert_eq!(reason("b/config"), None);
    }

    #[test]
    fn protected_names_match_in_every_project_ignoring_case() {
        for (path, expected) in [
            (
                "/home/u/shop/.git/hooks/pre-commit",
                Some(ProtectionReason::Git),
            ),
            ("/home/u/shop/sub/.GIT/config", Some(ProtectionReason::Git)),
            ("/HOME/u/Shop/.git/config", Some(ProtectionReason::Git)),
            ("/home/u/.git/config", Some(ProtectionReason::Git)),
            ("/home/u/shop/.Goondan/x", Some(ProtectionReason::Own)),
            ("/home/u/shop/.env", Some(ProtectionReason::Secrets)),
            ("/home/u/shop/a/.env.local", Some(ProtectionReason::Secrets)),
            ("/home/u/shop/.gitignore", None),
            ("/home/u/shop/git/config", None),
            ("/home/v/.git/config", None),
            (
                "/home/u/shop/lib/__pycache__/x.cpython-312.pyc",
                Some(ProtectionReason::Loaded),
            ),
            ("/home/u/shop/lib/x.PYC", Some(ProtectionReason::Loaded)),
            ("/home/u/shop/.npmrc", Some(ProtectionReason::Loaded)),
            (
                "/home/u/shop/node_modules/x/index.js",
                Some(ProtectionReason::Loaded),
            ),
            (
                "/home/u/shop/sitecustomize.py",
                Some(ProtectionReason::Loaded),
            ),
            (
                "/home/u/shop/.Claude/settings.json",
                Some(ProtectionReason::Loaded),
            ),
            ("/home/u/shop/sub/.jj/repo", Some(ProtectionReason::Loaded)),
            (
                "/home/u/shop/.mise/config.toml",
                Some(ProtectionReason::Loaded),
            ),
            (
                "/home/u/shop/a/X.code-workspace",
                Some(ProtectionReason::Loaded),
            ),
            (
                "/home/u/shop/.lintstagedrc.json",
                Some(ProtectionReason::Loaded),
            ),
            ("/home/u/shop/a/.gitattributes", Some(ProtectionReason::Git)),
            (
                "/home/u/shop/.yarn/releases/y.cjs",
                Some(ProtectionReason::Loaded),
            ),
            (
                "/home/u/shop/tests/conftest.py",
                Some(ProtectionReason::Loaded),
            ),
            ("/home/u/shop/lib/x.py", None),
        ] {
            assert_eq!(reason(path), expected, "{path}");
        }
    }
}
