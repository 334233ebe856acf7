//! Protected places: files that say what may be done, that run later on their own, or that hold keys. Who could write them
//! quietly could do anything. So a call that names one is asked about, unless a rule allows that very place by its name.

use std::borrow::Cow;
use std::cell::LazyCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use goondan_spec::Bundle;
use goondan_spec::discover::is_resource_file;
use goondan_spec::kinds::{
    Action, ConnectorEntry, Entry, ExtensionEntry, MarkedArguments, Permission, Permissions,
};
use serde_json::Value;

use crate::policy::{Because, Decision, PathArguments};
use goondan_core::JsonObject;
use goondan_core::protected::Why;
use goondan_core::real_path::real_path;
use goondan_core::shell::{self, Opened, Part};

/// A protected place that a call names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Protected {
    argument: String,
    /// The path as the caller wrote it.
    given: String,
    /// Where it leads, seen from the working folder, or absolute where it lies outside.
    path: String,
    /// How a rule may call the place: seen from the working folder and absolute, in lower case.
    names: Vec<String>,
    why: Why,
    /// What a redirection of a command line does there.
    redirection: Option<Permission>,
}

/// Where a call works.
pub struct Ground<'a> {
    /// The project.
    pub bundle: &'a Bundle,
    /// The working folder of the call.
    pub workdir: &'a Path,
    /// The folder that the conversation has for itself.
    pub own_folder: &'a Path,
    /// Whether the tool is built in: it refuses the folder of gdn itself.
    pub is_builtin: bool,
}

/// A path that a call names.
struct Named<'a> {
    argument: &'a str,
    given: &'a str,
    /// Where it may lead.
    places: Vec<Cow<'a, Path>>,
    redirection: Option<Permission>,
}

/// The files that the redirections of the command lines of a call open, with the arguments that the lines stand in.
#[derive(Debug, Default)]
pub(crate) struct Redirections {
    all: Vec<(String, Opened)>,
    /// Not all of them could be told.
    pub(crate) are_unclear: bool,
}

impl Redirections {
    /// Those of the lines in `arguments`, of which no more than `most` places are looked up.
    pub(crate) fn of(marked: &MarkedArguments, arguments: &JsonObject, most: usize) -> Self {
        let mut found = Redirections::default();
        for name in &marked.commands {
            let Some(line) = arguments.get(name).and_then(Value::as_str) else {
                continue;
            };
            match shell::opened(line) {
                Some(opened) => found
                    .all
                    .extend(opened.into_iter().map(|one| (name.clone(), one))),
                None => found.are_unclear = true,
            }
        }
        if found
            .all
            .iter()
            .map(|(_, opened)| opened.paths.len())
            .sum::<usize>()
            > most
        {
            found = Redirections {
                all: Vec::new(),
                are_unclear: true,
            };
        }
        found
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty() && !self.are_unclear
    }

    /// What they name, where the lines begin in one of `folders`.
    fn named<'a>(&'a self, folders: &'a [PathBuf]) -> impl Iterator<Item = Named<'a>> {
        self.all.iter().map(move |(argument, opened)| {
            let whole = folders
                .iter()
                .flat_map(|folder| opened.paths.iter().map(|path| folder.join(path)));
            let places = whole
                .flat_map(|path| [folded(&path), real(&path)])
                .map(Cow::Owned)
                .collect();
            let permission = if opened.is_written {
                Permission::Write
            } else {
                Permission::Read
            };
            Named {
                argument,
                given: &opened.file,
                places,
                redirection: Some(permission),
            }
        })
    }
}

/// An absolute path without `.` and `..`, as its text tells.
fn folded(path: &Path) -> PathBuf {
    path.to_str()
        .map_or_else(|| path.to_owned(), |text| PathBuf::from(shell::fold(text)))
}

/// The protected places among `paths`, and among what `redirections` open where lines begin in one of `line_folders`. Asks the file system.
pub(crate) fn find(
    ground: &Ground<'_>,
    paths: &PathArguments,
    redirections: &Redirections,
    line_folders: &[PathBuf],
) -> Vec<Protected> {
    let (root, folder) = (real(ground.bundle.root()), real(ground.workdir));
    // A project may lie above the state of its conversations, as one in the home folder does. What is theirs is no part of it.
    let state = ground.own_folder.ancestors().nth(2).map(real);
    let own = real(ground.own_folder);
    let of_bundle = LazyCell::new(|| of_bundle(ground.bundle, &root));
    let place_of = |path: &Path| {
        if state.as_ref().is_some_and(|state| path.starts_with(state)) {
            return None;
        }
        let base = base(path, &root, &folder, &own)?;
        let by_name = by_name(base, path).filter(|(_, why)| *why != Why::Own || !ground.is_builtin);
        let decides = || base == root || is_ignore_file_above(path, &root);
        let by_name = by_name.or_else(|| decides().then(|| resources(path)).flatten());
        let by_name = by_name.or_else(|| instructions(ground.bundle, path));
        by_name.or_else(|| {
            of_bundle
                .iter()
                .find(|(place, _)| is_in(path, place))
                .cloned()
        })
    };
    let about = |named: Named<'_>| {
        let (path, (place, why)) = named
            .places
            .iter()
            .find_map(|path| Some((path, place_of(path)?)))?;
        let path = path.strip_prefix(&folder).unwrap_or(path).display();
        // A rule about a redirection begins with what that does.
        let sign = named
            .redirection
            .and_then(|_| named.given.get(..2))
            .unwrap_or_default();
        let seen = place.strip_prefix(&folder).ok().map(lower);
        let names = seen
            .into_iter()
            .chain([lower(&place)])
            .filter(|name| !name.is_empty());
        Some(Protected {
            argument: named.argument.to_owned(),
            given: named.given.to_owned(),
            path: format!("{sign}{path}"),
            names: names.map(|name| format!("{sign}{name}")).collect(),
            why,
            redirection: named.redirection,
        })
    };
    let of_arguments = paths.absolute().map(|(argument, given, places)| {
        let places = places.into_iter().map(Cow::Borrowed).collect();
        Named {
            argument,
            given,
            places,
            redirection: None,
        }
    });
    let line_folders: Vec<PathBuf> = line_folders.iter().map(|folder| real(folder)).collect();
    of_arguments
        .chain(redirections.named(&line_folders))
        .filter_map(about)
        .collect()
}

/// The folder below which `path` may be protected: the project, or another folder that is worked in.
fn base<'a>(path: &Path, root: &'a Path, folder: &'a Path, own: &Path) -> Option<&'a Path> {
    match () {
        () if is_in(path, root) => Some(root),
        // Wherever else it works, but in the folder of its own conversation.
        () if folder != own && is_in(path, folder) => Some(folder),
        () => None,
    }
}

/// The place below `base` that is protected by its name, whatever project it is.
fn by_name(base: &Path, path: &Path) -> Option<(PathBuf, Why)> {
    let depth = base.components().count();
    let parts: Vec<&Path> = path
        .ancestors()
        .filter(|part| part.components().count() > depth)
        .collect();
    parts.into_iter().rev().find_map(|part| {
        let name = part.file_name()?.to_string_lossy().to_lowercase();
        Some((part.to_owned(), Why::of_name(&name)?))
    })
}

/// A file that may become part of the bundle, or decide what does, whether it is there yet or not.
fn resources(path: &Path) -> Option<(PathBuf, Why)> {
    let name = path.file_name()?.to_string_lossy().to_lowercase();
    let folder = path.parent()?.to_string_lossy().to_lowercase();
    let is_one = name == ".gitignore" || is_resource_file(&folder.replace('\\', "/"), &name);
    is_one.then(|| (path.to_owned(), Why::Bundle))
}

/// A file of which some agent does what it says, whether it is there yet or not.
fn instructions(bundle: &Bundle, path: &Path) -> Option<(PathBuf, Why)> {
    let name = path.file_name()?.to_string_lossy();
    let mut names = bundle
        .agents()
        .values()
        .flat_map(|agent| &agent.spec.instructions)
        .flat_map(|found| &found.names);
    names
        .any(|known| known.to_lowercase() == name.to_lowercase())
        .then(|| (path.to_owned(), Why::Instructions))
}

/// Whether `path` is a `.gitignore` above the project: it says which files become part of the bundle, too.
fn is_ignore_file_above(path: &Path, root: &Path) -> bool {
    let is_ignore_file = path
        .file_name()
        .is_some_and(|name| name.eq_ignore_ascii_case(".gitignore"));
    is_ignore_file && path.parent().is_some_and(|folder| is_in(root, folder))
}

/// What a bundle was made from, what its tools run and are built from, and what its models play.
fn of_bundle(bundle: &Bundle, root: &Path) -> Vec<(PathBuf, Why)> {
    let entries = bundle
        .tools()
        .values()
        .flat_map(|tool| match &tool.spec.entry {
            Entry::Builtin(_) | Entry::A2a(_) => Vec::new(),
            Entry::Library(path) | Entry::Executable(path) => vec![path.clone()],
            Entry::Module(module) => module.files.clone(),
            Entry::Mcp(server) => server.bundled_program().into_iter().collect(),
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
        .map(|path| (path, Why::Program));
    let files = bundle
        .files()
        .iter()
        .map(|file| (file.clone(), Why::Bundle));
    let models = bundle
        .models()
        .values()
        .flat_map(|model| model.spec.files())
        .map(|file| (file.to_owned(), Why::Bundle));
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
    let builds = builds.map(|folder| (folder, Why::Program));
    let skills = bundle
        .agents()
        .values()
        .flat_map(|agent| &agent.spec.skills);
    let skills = skills.map(|skill| (skill.folder.clone(), Why::Instructions));
    entries
        .chain(skills)
        .chain(files)
        .chain(models)
        .chain(builds)
        .map(|(path, why)| (real(&root.join(path)), why))
        .collect()
}

impl Protected {
    /// Whether a call that needs `needs` is asked about: a file with keys where it is read, too.
    pub(crate) fn concerns(&self, needs: &BTreeSet<Permission>) -> bool {
        let does = |permission| match self.redirection {
            Some(only) => only == permission,
            None => needs.contains(&permission),
        };
        does(Permission::Write) || (self.why == Why::Secrets && does(Permission::Read))
    }

    /// Whether a redirection leads there: where a shell opens the file, nobody is asked about that alone.
    pub(crate) fn is_redirected_to(&self) -> bool {
        self.redirection.is_some()
    }

    /// Why it is asked about.
    pub(crate) fn reason(&self) -> String {
        format!("`{}` is a protected place: {}", self.given, self.why.text())
    }

    /// A rule that allows it.
    pub(crate) fn rule(&self, tool: &str) -> String {
        format!(
            "{{tool: \"{tool}\", args: {{{}: \"{}\"}}, action: allow}}",
            self.argument, self.path
        )
    }

    /// Whether the rule that decided names the place: its pattern is spelled out as far as there.
    pub(crate) fn is_named(&self, permissions: Option<&Permissions>, decision: &Decision) -> bool {
        let called = |part: &Part| part.file.as_ref().unwrap_or(&part.shown) == &self.given;
        let about = decision.parts.iter().find(|part| called(&part.part));
        let because = match about {
            Some(part) => &part.because,
            None if decision.parts.is_empty() => &decision.because,
            None => return false,
        };
        let Because::Rule {
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
        rule.action == Action::Allow
            && self
                .names
                .iter()
                .any(|name| literal.starts_with(name.as_str()))
    }
}

fn real(path: &Path) -> PathBuf {
    real_path(path).unwrap_or_else(|_| path.to_owned())
}

/// Whether `path` is `place`, or below it. Some file systems do not tell letters by case: what is protected is so in any.
fn is_in(path: &Path, place: &Path) -> bool {
    Path::new(&lower(path)).starts_with(lower(place))
}

fn lower(path: &Path) -> String {
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

    fn why(path: &str) -> Option<Why> {
        let (root, folder) = (Path::new("/home/u/shop"), Path::new("/home/u"));
        let path = Path::new(path);
        by_name(base(path, root, folder, Path::new("/state"))?, path).map(|(_, why)| why)
    }

    #[test]
    fn some_names_are_protected_in_every_project_in_any_case() {
        for (path, expected) in [
            ("/home/u/shop/.git/hooks/pre-commit", Some(Why::Git)),
            ("/home/u/shop/sub/.GIT/config", Some(Why::Git)),
            ("/HOME/u/Shop/.git/config", Some(Why::Git)),
            ("/home/u/.git/config", Some(Why::Git)),
            ("/home/u/shop/.Goondan/x", Some(Why::Own)),
            ("/home/u/shop/.env", Some(Why::Secrets)),
            ("/home/u/shop/a/.env.local", Some(Why::Secrets)),
            ("/home/u/shop/.gitignore", None),
            ("/home/u/shop/git/config", None),
            ("/home/v/.git/config", None),
        ] {
            assert_eq!(why(path), expected, "{path}");
        }
    }
}
