//! Protected paths: files that define permissions, are run later, or contain keys. Writing them
//! unnoticed would bypass every policy. Therefore a call that names one requires an approval,
//! unless a rule allows that path by name.

use std::borrow::Cow;
use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use goondan_spec::Bundle;
use goondan_spec::discover::is_resource_file;
use goondan_spec::kinds::{
    ConnectorEntry, ExtensionEntry, MarkedArguments, McpServer, McpTransport, McpValue, Permission,
    PermissionAction, Permissions, ToolEntry,
};
use serde_json::{Value, json};

use crate::policy::{DecisionReason, PathArguments, PolicyDecision};
use goondan_core::JsonObject;
use goondan_core::protected_names::ProtectionReason;
use goondan_core::real_path::real_path;
use goondan_core::shell::{self, CommandPart, OpenedFile};
use goondan_core::started_files::StartedProgram;

/// Name of the file of a skill. A new one may become part of the prompt of an agent.
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
    /// Access by a redirection of a command line.
    redirection: Option<Permission>,
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
}

/// Path in a call.
struct NamedPath<'a> {
    argument: &'a str,
    given: &'a str,
    /// Possible targets.
    places: Vec<Cow<'a, Path>>,
    redirection: Option<Permission>,
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
    pub(crate) fn of(marked: &MarkedArguments, arguments: &JsonObject, max_paths: usize) -> Self {
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

    /// Returns `true` if the call has no redirection, neither known nor unknown.
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty() && !self.are_unclear
    }

    /// Returns the named paths if the lines start in one of `folders`.
    fn named<'a>(&'a self, folders: &'a [PathBuf]) -> impl Iterator<Item = NamedPath<'a>> {
        self.all.iter().map(move |(argument, opened)| {
            let paths = folders
                .iter()
                .flat_map(|folder| opened.paths.iter().map(|path| folder.join(path)));
            let targets = paths
                .flat_map(|path| [folded(&path), real(&path)])
                .map(Cow::Owned)
                .collect();
            let permission = if opened.is_written {
                Permission::Write
            } else {
                Permission::Read
            };
            NamedPath {
                argument,
                given: &opened.file,
                places: targets,
                redirection: Some(permission),
            }
        })
    }
}

/// Removes `.` and `..` from an absolute path without accessing the file system.
pub(super) fn folded(path: &Path) -> PathBuf {
    path.to_str()
        .map_or_else(|| path.to_owned(), |text| PathBuf::from(shell::fold(text)))
}

/// Returns the protected paths among `paths` and the targets of `redirections`. Relative targets are
/// resolved against each of `line_folders`, the directories in which the command line may start.
/// Accesses the file system.
pub(crate) fn find(
    environment: &PathEnvironment<'_>,
    paths: &PathArguments,
    redirections: &RedirectionTargets,
    line_folders: &[PathBuf],
) -> Vec<ProtectedPath> {
    let (root, folder) = (real(environment.bundle.root()), real(environment.workdir));
    // A project may contain the state directory, such as a project in the home directory. The state
    // is not part of the project.
    let state = environment.own_folder.ancestors().nth(2).map(real);
    let own = real(environment.own_folder);
    let of_bundle = LazyCell::new(|| of_bundle(environment.bundle, &root));
    let protection_of = |path: &Path| {
        if state.as_ref().is_some_and(|state| path.starts_with(state)) {
            return None;
        }
        let base = base(path, &root, &folder, &own)?;
        let by_name = by_name(base, path)
            .filter(|(_, why)| *why != ProtectionReason::Own || !environment.is_builtin);
        let decides = || base == root || is_ignore_file_above(path, &root);
        let by_name = by_name.or_else(|| decides().then(|| resources(path)).flatten());
        let by_name = by_name.or_else(|| instructions(environment.bundle, path));
        by_name.or_else(|| {
            of_bundle
                .iter()
                .find(|(protected, _)| is_in(path, protected))
                .cloned()
        })
    };
    let to_protected = |named: NamedPath<'_>| {
        let (path, (protected, why)) = named
            .places
            .iter()
            .find_map(|path| Some((path, protection_of(path)?)))?;
        let path = path.strip_prefix(&folder).unwrap_or(path).display();
        // A rule about a redirection begins with the redirection operator.
        let operator = named
            .redirection
            .and_then(|_| named.given.get(..2))
            .unwrap_or_default();
        let relative_name = protected.strip_prefix(&folder).ok().map(lowercase_text);
        let names = relative_name
            .into_iter()
            .chain([lowercase_text(&protected)])
            .filter(|name| !name.is_empty());
        Some(ProtectedPath {
            argument: named.argument.to_owned(),
            given: named.given.to_owned(),
            path: format!("{operator}{path}"),
            names: names.map(|name| format!("{operator}{name}")).collect(),
            why,
            redirection: named.redirection,
        })
    };
    let of_arguments = paths.absolute().map(|(argument, given, places)| {
        let places = places.into_iter().map(Cow::Borrowed).collect();
        NamedPath {
            argument,
            given,
            places,
            redirection: None,
        }
    });
    of_arguments
        .chain(redirections.named(line_folders))
        .filter_map(to_protected)
        .collect()
}

/// Returns the directory below which `path` may be protected: the project or another working
/// directory.
fn base<'a>(path: &Path, root: &'a Path, folder: &'a Path, own: &Path) -> Option<&'a Path> {
    match () {
        () if is_in(path, root) => Some(root),
        // Any other working directory except the own directory of the conversation.
        () if folder != own && is_in(path, folder) => Some(folder),
        () => None,
    }
}

/// Returns the path below `base` that is protected by its name in any project.
fn by_name(base: &Path, path: &Path) -> Option<(PathBuf, ProtectionReason)> {
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

/// Returns the path if the file can become part of the bundle or controls its contents. The file
/// may not exist yet.
fn resources(path: &Path) -> Option<(PathBuf, ProtectionReason)> {
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

/// Returns the path if an agent uses the file as instructions. The file may not exist yet.
fn instructions(bundle: &Bundle, path: &Path) -> Option<(PathBuf, ProtectionReason)> {
    let name = path.file_name()?.to_string_lossy();
    if name.eq_ignore_ascii_case(SKILL_FILE) {
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

/// Returns `true` for a `.gitignore` above the project, which also controls the contents of the
/// bundle.
fn is_ignore_file_above(path: &Path, root: &Path) -> bool {
    let is_ignore_file = path
        .file_name()
        .is_some_and(|name| name.eq_ignore_ascii_case(".gitignore"));
    is_ignore_file && path.parent().is_some_and(|folder| is_in(root, folder))
}

/// Returns the files of a bundle, the files its tools run and are built from, and the replay files
/// of its models.
fn of_bundle(bundle: &Bundle, root: &Path) -> Vec<(PathBuf, ProtectionReason)> {
    let entries = bundle
        .tools()
        .values()
        .flat_map(|tool| match &tool.spec.entry {
            ToolEntry::Builtin(_) | ToolEntry::Embedded | ToolEntry::A2a(_) => Vec::new(),
            ToolEntry::Library(path) | ToolEntry::Executable(path) => vec![path.clone()],
            ToolEntry::Module(module) => module.files.clone(),
            ToolEntry::Mcp(server) => server_files(server, root),
        });
    let modules = bundle
        .extensions()
        .values()
        .flat_map(|extension| match &extension.spec.entry {
            ExtensionEntry::Module(module) => module.files.clone(),
            ExtensionEntry::Library(path) => vec![path.clone()],
            ExtensionEntry::Builtin(_) => Vec::new(),
        });
    let connectors =
        bundle
            .connectors()
            .values()
            .flat_map(|connector| match &connector.spec.entry {
                ConnectorEntry::Module(module) => module.files.clone(),
                ConnectorEntry::Library(path) => vec![path.clone()],
                ConnectorEntry::Builtin(_) => Vec::new(),
            });
    let entries = entries
        .chain(modules)
        .chain(connectors)
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
    let of_tools = bundle
        .tools()
        .values()
        .filter_map(|tool| tool.spec.build.as_ref());
    let of_extensions = bundle
        .extensions()
        .values()
        .filter_map(|extension| extension.spec.build.as_ref());
    let of_connectors = bundle
        .connectors()
        .values()
        .filter_map(|connector| connector.spec.build.as_ref());
    let builds = of_tools
        .chain(of_extensions)
        .chain(of_connectors)
        .filter_map(|build| build.cwd.clone());
    let builds = builds.map(|folder| (folder, ProtectionReason::Program));
    let skills = bundle
        .agents()
        .values()
        .flat_map(|agent| &agent.spec.skills);
    let skills = skills.map(|skill| (skill.folder.clone(), ProtectionReason::Instructions));
    entries
        .chain(skills)
        .chain(files)
        .chain(models)
        .chain(builds)
        .map(|(path, why)| (real(&root.join(path)), why))
        .collect()
}

/// Returns the files of a server program that its command line and its variables name.
fn server_files(server: &McpServer, root: &Path) -> Vec<String> {
    let McpTransport::Program {
        command,
        args,
        env,
        cwd,
    } = &server.transport
    else {
        return Vec::new();
    };
    let variables = env.iter().filter_map(|(name, value)| match value {
        McpValue::Plain(text) => Some((name.clone(), text.clone())),
        McpValue::Source(_) => None,
    });
    let variables: BTreeMap<String, String> = variables.collect();
    let folder = cwd
        .as_ref()
        .map_or_else(|| root.to_owned(), |cwd| root.join(cwd));
    // The command is relative to the project, the arguments to the working directory.
    let program = match command.contains('/') {
        true => root.join(command).to_string_lossy().into_owned(),
        false => command.clone(),
    };
    let started = StartedProgram {
        command: &program,
        args,
        variables: &variables,
        folder: &folder,
        project: root,
    };
    let files = started.files().into_iter();
    files
        .map(|file| file.to_string_lossy().into_owned())
        .chain(server.bundled_program())
        .collect()
}

impl ProtectedPath {
    /// Returns `true` if a call with these permissions requires an approval. Files with keys also
    /// require it for reading.
    pub(crate) fn concerns(&self, needs: &BTreeSet<Permission>) -> bool {
        let does = |permission| match self.redirection {
            Some(only) => only == permission,
            None => needs.contains(&permission),
        };
        does(Permission::Write) || (self.why == ProtectionReason::Secrets && does(Permission::Read))
    }

    /// Returns `true` for a redirection target. If a shell opens the file, it requires no approval
    /// by itself.
    pub(crate) fn is_redirected_to(&self) -> bool {
        self.redirection.is_some()
    }

    /// Returns the reason for the approval request.
    pub(crate) fn reason(&self) -> String {
        format!("`{}` is a protected place: {}", self.given, self.why.text())
    }

    /// Returns a rule that allows the path.
    pub(crate) fn rule(&self, tool: &str) -> String {
        format!(
            "{{tool: \"{tool}\", args: {{{}: {}}}, action: allow}}",
            self.argument,
            json!(self.path)
        )
    }

    /// Returns `true` if the pattern of the deciding rule contains the path literally.
    pub(crate) fn is_named(
        &self,
        permissions: Option<&Permissions>,
        decision: &PolicyDecision,
    ) -> bool {
        let called = |part: &CommandPart| part.file.as_ref().unwrap_or(&part.shown) == &self.given;
        let about = decision.parts.iter().find(|part| called(&part.part));
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
pub(super) fn real(path: &Path) -> PathBuf {
    real_path(path).unwrap_or_else(|_| path.to_owned())
}

/// Returns `true` if `path` is `ancestor` or below it. Ignores case, so that the protection works on
/// every file system.
fn is_in(path: &Path, ancestor: &Path) -> bool {
    Path::new(&lowercase_text(path)).starts_with(lowercase_text(ancestor))
}

/// Returns `path` as text in lower case.
fn lowercase_text(path: &Path) -> String {
    path.to_string_lossy().to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_ignored_above_a_project_decides_about_it() {
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

    fn why(path: &str) -> Option<ProtectionReason> {
        let (root, folder) = (Path::new("/home/u/shop"), Path::new("/home/u"));
        let path = Path::new(path);
        by_name(base(path, root, folder, Path::new("/state"))?, path).map(|(_, why)| why)
    }

    #[test]
    fn some_names_are_protected_in_every_project_in_any_case() {
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
        ] {
            assert_eq!(why(path), expected, "{path}");
        }
    }
}
