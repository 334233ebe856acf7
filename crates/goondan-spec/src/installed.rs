//! The packages that a project depends on, as far as they are installed in it: found, held against the lock file, and read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use semver::{Version, VersionReq};

use crate::contents::contents;
use crate::diagnostic::{Code, Diagnostic, Position};
use crate::discover::discover_all;
use crate::entry::below;
use crate::findings::Findings;
use crate::lock::{LOCK_FILE, Lock, Locked};
use crate::meta::BASE_PACKAGE;
use crate::packages::manifest;
use crate::parallel;
use crate::paths::{Folder, Unreadable};
use crate::read::{KnownFiles, ParsedFile, read_file};
use crate::text::{excerpt, reason};

/// The folder of a project below which its packages are installed, each in a folder of its name.
pub const INSTALLED: &str = ".goondan/installed";
/// The command that makes things right.
const INSTALL: &str = "run `gdn package install`";
/// What makes a lock file right that nobody can read.
const RESTORE: &str = "restore it from git, or remove it and run `gdn package install`";
/// The manifest of a package whose build makes one.
const BUILT_MANIFEST: &str = "dist/goondan.yaml";

/// A package that a project uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstalledPackage {
    /// Its name.
    pub name: String,
    /// Its exact version.
    pub version: String,
    /// Its folder, relative to the project.
    pub folder: String,
    /// `sha256-…` of its files.
    pub contents: String,
    /// Where exactly it came from.
    pub resolved: String,
}

/// The folder of the package called `name`, relative to the project.
pub fn installed_folder(name: &str) -> String {
    format!("{INSTALLED}/{name}")
}

/// A package with its files.
pub(crate) struct Member {
    pub(crate) package: InstalledPackage,
    pub(crate) files: Vec<Arc<ParsedFile>>,
}

/// All packages of a project.
#[derive(Default)]
pub(crate) struct Installed {
    /// What comes first depends on nothing that comes later.
    pub(crate) members: Vec<Member>,
    /// Which packages each package may refer to, the project's own under its name.
    pub(crate) reach: BTreeMap<Option<String>, BTreeSet<String>>,
    /// Packages that are asked for and are not there.
    pub(crate) absent: BTreeSet<String>,
    /// What is wrong.
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// The text of the lock file, where something points into it.
    pub(crate) texts: Vec<(String, String)>,
}

/// Something that a package depends on, with its places.
struct Declared<'f> {
    file: &'f str,
    name: &'f str,
    at: Position,
    range: &'f str,
    range_at: Position,
    index: usize,
}

impl Declared<'_> {
    fn problem(&self, code: Code, message: String) -> Diagnostic {
        Diagnostic::new(code, message)
            .in_file(self.file)
            .at(self.at)
            .field(format!("spec.dependencies[{}].name", self.index))
    }

    fn of_range(&self, code: Code, message: String) -> Diagnostic {
        let field = format!("spec.dependencies[{}].version", self.index);
        Diagnostic {
            position: None,
            ..self.problem(code, message)
        }
        .at(self.range_at)
        .field(field)
    }

    /// Whether the range allows `version`. What is no range is told where it is decoded.
    fn allows(&self, version: &str) -> bool {
        match (VersionReq::parse(self.range), Version::parse(version)) {
            (Ok(range), Ok(version)) => range.matches(&version),
            (Err(_), _) => true,
            (_, Err(_)) => false,
        }
    }
}

/// The dependencies of a manifest but for the built-in package.
fn declared(file: &ParsedFile) -> Vec<Declared<'_>> {
    file.dependencies()
        .iter()
        .enumerate()
        .filter_map(|(index, item)| {
            let name = &item.entry("name")?.value;
            let text = name
                .text()
                .filter(|text| *text != BASE_PACKAGE && is_name(text))?;
            let range = item.entry("version").map(|entry| &entry.value);
            let (range, range_at) = range
                .and_then(|range| Some((range.text()?, range.at)))
                .unwrap_or(("*", name.at));
            Some(Declared {
                file: &file.name,
                name: text,
                at: name.at,
                range,
                range_at,
                index,
            })
        })
        .collect()
}

/// Whether a text is the name of a package. It becomes part of a path.
fn is_name(text: &str) -> bool {
    crate::check_name(text, crate::Kind::Package).is_ok()
}

/// Finds and reads the packages of the project whose own files are `own`.
pub(crate) fn read(folder: &Folder<'_>, own: &[Arc<ParsedFile>], known: &KnownFiles) -> Installed {
    let Some(root) = manifest(own) else {
        return Installed::default();
    };
    let wanted = declared(root);
    let mut reading = Reading {
        folder,
        known,
        lock: None,
        done: Installed::default(),
        seen: BTreeMap::new(),
    };
    let reach = wanted
        .iter()
        .map(|dependency| dependency.name.to_owned())
        .collect();
    reading
        .done
        .reach
        .insert(root.package().map(str::to_owned), reach);
    if wanted.is_empty() {
        return reading.done;
    }
    reading.lock = reading.read_lock();
    let mut road: Vec<String> = root.package().map(str::to_owned).into_iter().collect();
    for dependency in &wanted {
        reading.visit(dependency, &mut road);
    }
    reading.done
}

struct Reading<'r> {
    folder: &'r Folder<'r>,
    known: &'r KnownFiles,
    /// None where there is none; an empty one where it can't be read.
    lock: Option<Lock>,
    done: Installed,
    /// The packages that were visited, each with its version where it is there.
    seen: BTreeMap<String, Option<String>>,
}

impl Reading<'_> {
    fn read_lock(&mut self) -> Option<Lock> {
        // An installation refuses such a file, too: what it pins may not get lost.
        let problem = |message: String| {
            Diagnostic::new(Code::PACKAGE_LOCK_OUTDATED, message)
                .in_file(LOCK_FILE)
                .suggest(RESTORE)
        };
        let text = match self.folder.read(LOCK_FILE) {
            Ok(text) => text,
            Err(Unreadable::Io(error)) if error.kind() == std::io::ErrorKind::NotFound => {
                return None;
            }
            Err(Unreadable::Io(error)) => {
                let message = format!("`{LOCK_FILE}` cannot be read: {}.", reason(&error));
                self.done.diagnostics.push(problem(message));
                return Some(Lock::default());
            }
            Err(_) => {
                self.done.diagnostics.push(problem(format!(
                    "`{LOCK_FILE}` is not a text of at most 1 MiB."
                )));
                return Some(Lock::default());
            }
        };
        match Lock::parse(&text) {
            Ok(lock) if lock.is_known() => Some(lock),
            Ok(_) => {
                self.done.diagnostics.push(problem(format!(
                    "`{LOCK_FILE}` was written by another version of gdn."
                )));
                Some(Lock::default())
            }
            Err(error) => {
                self.done.diagnostics.push(problem(format!(
                    "`{LOCK_FILE}` is not a lock file: {error}."
                )));
                self.done.texts.push((LOCK_FILE.to_owned(), text));
                Some(Lock::default())
            }
        }
    }

    /// Looks at one dependency of the package at the end of `road`.
    fn visit(&mut self, dependency: &Declared<'_>, road: &mut Vec<String>) {
        let name = dependency.name;
        if let Some(at) = road.iter().position(|known| known == name) {
            // One on itself is found where it is decoded.
            if road.len() > 1 {
                let circle = road[at..]
                    .iter()
                    .map(String::as_str)
                    .chain([name])
                    .collect::<Vec<_>>()
                    .join(" → ");
                let message = format!("The packages depend on each other in a circle: {circle}.");
                let problem = dependency.problem(Code::CYCLE, message);
                self.done
                    .diagnostics
                    .push(problem.suggest("use a version of one of them without that dependency"));
            }
            return;
        }
        if let Some(version) = self.seen.get(name).cloned() {
            if let Some(version) = version.filter(|version| !dependency.allows(version)) {
                self.done
                    .diagnostics
                    .push(conflict(dependency, road, &version));
            }
            return;
        }
        let found = self.find(dependency, road);
        self.seen.insert(
            name.to_owned(),
            found.as_ref().map(|locked| locked.version.clone()),
        );
        let read = found.and_then(|locked| self.read(dependency, &locked));
        let Some(member) = read else {
            self.done.absent.insert(name.to_owned());
            return;
        };
        let files = member.files.clone();
        let manifest = main_file(&files, &member.package.folder);
        let wanted = manifest.map(declared).unwrap_or_default();
        let reach = wanted
            .iter()
            .map(|dependency| dependency.name.to_owned())
            .collect();
        self.done.reach.insert(Some(name.to_owned()), reach);
        road.push(name.to_owned());
        for dependency in &wanted {
            self.visit(dependency, road);
        }
        road.pop();
        self.done.members.push(member);
    }

    /// What the lock file says of it, or why it says nothing that helps.
    fn find(&mut self, dependency: &Declared<'_>, road: &[String]) -> Option<Locked> {
        let shown = excerpt(dependency.name, 100);
        let Some(lock) = &self.lock else {
            let message = format!("The package `{shown}` is not installed.");
            self.done.diagnostics.push(
                dependency
                    .problem(Code::PACKAGE_NOT_INSTALLED, message)
                    .suggest(INSTALL),
            );
            return None;
        };
        let Some(locked) = lock
            .find(dependency.name)
            .filter(|locked| locked.contents.is_some())
            .cloned()
        else {
            let message = format!("The package `{shown}` is not in `{LOCK_FILE}`.");
            self.done.diagnostics.push(
                dependency
                    .problem(Code::PACKAGE_LOCK_OUTDATED, message)
                    .suggest(INSTALL),
            );
            return None;
        };
        if dependency.allows(&locked.version) {
            return Some(locked);
        }
        let version = excerpt(&locked.version, 40);
        let problem = match road.len() {
            0 | 1 => {
                let message = format!(
                    "`{LOCK_FILE}` has version {version} of `{shown}`, which `{}` does not allow.",
                    excerpt(dependency.range, 40)
                );
                dependency
                    .of_range(Code::PACKAGE_LOCK_OUTDATED, message)
                    .suggest(INSTALL)
            }
            _ => conflict(dependency, road, &version),
        };
        self.done.diagnostics.push(problem);
        None
    }

    /// Reads the files of a package, if they are those that the lock file states.
    fn read(&mut self, dependency: &Declared<'_>, locked: &Locked) -> Option<Member> {
        let (shown, base) = (
            excerpt(dependency.name, 100),
            installed_folder(dependency.name),
        );
        let path = self.folder.root.join(&base);
        if self.folder.files.kind(&path).is_err() {
            let message = format!("The package `{shown}` is not installed.");
            self.done.diagnostics.push(
                dependency
                    .problem(Code::PACKAGE_NOT_INSTALLED, message)
                    .suggest(INSTALL),
            );
            return None;
        }
        let wrong = match self.folder.look(&base).leaves_folder() {
            true => Some("its folder is a link that leads out of the project".to_owned()),
            false => match contents(self.folder.files, &path) {
                Ok(found) if Some(&found) == locked.contents.as_ref() => None,
                Ok(_) => Some(format!("its files are not those that `{LOCK_FILE}` states")),
                Err(error) => Some(reason(&error)),
            },
        };
        if let Some(wrong) = wrong {
            let message = format!("The package `{shown}` in `{base}` was changed: {wrong}.");
            self.done.diagnostics.push(
                dependency
                    .problem(Code::PACKAGE_INTEGRITY, message)
                    .suggest(INSTALL),
            );
            return None;
        }
        let is_built = self.folder.files.kind(&path.join(BUILT_MANIFEST)).is_ok();
        let names: Vec<String> = match is_built {
            true => vec![below(&base, BUILT_MANIFEST)],
            false => discover_all(self.folder.files, &path)
                .iter()
                .map(|name| below(&base, name))
                .collect(),
        };
        let mut files =
            parallel::map_files(&names, |name| read_file(self.folder, name, self.known));
        files.retain(|file| !file.is_tool_manifest());
        let package = InstalledPackage {
            name: dependency.name.to_owned(),
            version: locked.version.clone(),
            folder: base,
            contents: locked.contents.clone().unwrap_or_default(),
            resolved: locked.resolved.clone(),
        };
        Some(Member { package, files })
    }
}

/// The file of an installed package that may begin with its Package document.
pub(crate) fn main_file<'f>(files: &'f [Arc<ParsedFile>], base: &str) -> Option<&'f ParsedFile> {
    let names = ["goondan.yaml", "goondan.yml", BUILT_MANIFEST].map(|name| below(base, name));
    names
        .iter()
        .find_map(|name| files.iter().find(|file| file.name == *name))
        .map(AsRef::as_ref)
}

fn conflict(dependency: &Declared<'_>, road: &[String], version: &str) -> Diagnostic {
    let who = match road.last() {
        Some(last) => format!("`{}`", excerpt(last, 100)),
        None => "The project".to_owned(),
    };
    let message = format!(
        "{who} needs `{}` in a version that `{}` allows, but another package needs {version}.",
        excerpt(dependency.name, 100),
        excerpt(dependency.range, 40)
    );
    dependency
        .of_range(Code::PACKAGE_VERSION_CONFLICT, message)
        .suggest("use versions of the two whose ranges meet, then run `gdn package install`")
}

/// Whether a file of the bundle belongs to an installed package.
pub(crate) fn is_installed(file: &str) -> bool {
    file.strip_prefix(INSTALLED)
        .is_some_and(|rest| rest.starts_with('/'))
}

/// Takes note of what the reading of `members` has found in their texts.
pub(crate) fn findings(members: &[Member]) -> impl Iterator<Item = Findings> {
    members
        .iter()
        .flat_map(|member| member.files.iter().map(|file| file.findings.clone()))
}
