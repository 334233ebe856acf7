//! Which files make up a bundle (rule L1).

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::diagnostic::{Code, Diagnostic};
use crate::files::{FileKind, Files};
use crate::paths::repository_around;
use crate::text::reason;

/// Base names of files, and where `plural`, names of folders, that hold resources.
const SINGULAR: [&str; 8] = [
    "goondan",
    "model",
    "agent",
    "tool",
    "extension",
    "connector",
    "connection",
    "swarm",
];
const PLURAL: [&str; 8] = [
    "models",
    "agents",
    "tools",
    "extensions",
    "connectors",
    "connections",
    "swarms",
    "resources",
];
/// Folders that hold what others made.
const SKIPPED: [&str; 3] = ["dist", "node_modules", "target"];
/// A `.gitignore` beyond this is not read.
const GITIGNORE_LIMIT: u64 = 1024 * 1024;
/// How many folders deep a bundle may be.
const MAX_FOLDER_DEPTH: usize = 64;

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// The YAML files of the bundle, relative to its root, in path order.
    pub(crate) files: Vec<String>,
    /// The `goondan.yaml` of sub-folders: each may make its folder a project of its own.
    pub(crate) nested: Vec<String>,
    /// What stood in the way.
    pub(crate) diagnostics: Vec<Diagnostic>,
}

/// Walks `root`.
pub(crate) fn discover(files: &dyn Files, root: &Path) -> Found {
    let canonical = files.canonical(root).unwrap_or_else(|_| root.to_owned());
    let mut walk = Walk {
        files,
        root: canonical.clone(),
        found: Found::default(),
        is_whole: false,
    };
    let ignores = ignores_above(files, &canonical);
    walk.folder("", &ignores, 0);
    let mut found = walk.found;
    found.files.sort_unstable();
    found.nested.sort_unstable();
    found
}

/// The YAML files of an installed package, whatever a `.gitignore` around it says: it holds only what was meant to be there.
pub(crate) fn discover_all(files: &dyn Files, root: &Path) -> Vec<String> {
    let mut walk = Walk {
        files,
        root: root.to_owned(),
        found: Found::default(),
        is_whole: true,
    };
    walk.folder("", &[], 0);
    walk.found.files.sort_unstable();
    walk.found.files
}

struct Walk<'f> {
    files: &'f dyn Files,
    /// No `.gitignore` is obeyed.
    is_whole: bool,
    root: PathBuf,
    found: Found,
}

impl Walk<'_> {
    /// `folder` is relative to the root and empty for the root itself.
    fn folder(&mut self, folder: &str, above: &[Arc<Gitignore>], depth: usize) {
        let path = self.root.join(folder);
        let mut names = match self.files.list(&path) {
            Ok(names) => names,
            Err(error) => return self.unreadable(folder, &error),
        };
        names.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        let mut ignores = above.to_vec();
        if !self.is_whole && names.iter().any(|(name, _)| name == ".gitignore") {
            ignores.extend(read_gitignore(self.files, &path).map(Arc::new));
        }
        for (name, kind) in names {
            let relative = if folder.is_empty() {
                name.clone()
            } else {
                format!("{folder}/{name}")
            };
            if name.starts_with('.') || is_ignored(&ignores, &self.root.join(&relative), kind) {
                continue;
            }
            match kind {
                FileKind::Directory if is_resource_file(folder, &name) => {
                    self.is_a_folder(&relative)
                }
                FileKind::Directory
                    if SKIPPED.contains(&name.as_str()) || depth >= MAX_FOLDER_DEPTH => {}
                FileKind::Directory => self.folder(&relative, &ignores, depth + 1),
                FileKind::File => self.file(folder, &name, relative),
                FileKind::Other => self.link(folder, &name, relative),
            }
        }
    }

    fn file(&mut self, folder: &str, name: &str, relative: String) {
        if is_resource_file(folder, name) {
            if !folder.is_empty() && stem(name) == Some("goondan") {
                self.found.nested.push(relative.clone());
            }
            self.found.files.push(relative);
        }
    }

    /// A link to a file inside the bundle counts as that file. Links to folders are not entered, so no walk is endless.
    fn link(&mut self, folder: &str, name: &str, relative: String) {
        let path = self.root.join(&relative);
        let wanted = is_resource_file(folder, name);
        if !wanted && !PLURAL.contains(&name) {
            return;
        }
        match self.files.kind(&path) {
            Ok(kind) if self.leaves(&path) => self.escapes(&relative, kind),
            Ok(FileKind::File) if wanted => self.file(folder, name, relative),
            Ok(FileKind::Other) if wanted => self.problem(
                Diagnostic::new(
                    Code::PARSE_ERROR,
                    format!("`{relative}` is neither a file nor a folder."),
                )
                .suggest("put a regular file there"),
                relative,
            ),
            Err(error) if wanted && error.kind() == io::ErrorKind::NotFound => self.problem(
                Diagnostic::new(
                    Code::PARSE_ERROR,
                    format!("`{relative}` is a link to a file that is not there."),
                )
                .suggest("remove the link, or put the file where it points"),
                relative,
            ),
            Err(error) if wanted => self.unreadable(&relative, &error),
            _ => {}
        }
    }

    fn leaves(&self, path: &Path) -> bool {
        self.files
            .canonical(path)
            .is_ok_and(|target| !target.starts_with(&self.root))
    }

    fn escapes(&mut self, relative: &str, kind: FileKind) {
        let what = if kind == FileKind::Directory {
            "folder"
        } else {
            "file"
        };
        let message = format!("`{relative}` is a link to a {what} outside the bundle.");
        let suggestion = format!("copy the {what} into the bundle instead of linking to it");
        self.problem(
            Diagnostic::new(Code::PATH_ESCAPE, message).suggest(suggestion),
            relative.to_owned(),
        );
    }

    fn is_a_folder(&mut self, relative: &str) {
        let message = format!("`{relative}` is a folder, but a bundle has a file of that name.");
        let suggestion = format!("rename the folder, or put a file at `{relative}`");
        self.problem(
            Diagnostic::new(Code::PARSE_ERROR, message).suggest(suggestion),
            relative.to_owned(),
        );
    }

    fn unreadable(&mut self, relative: &str, error: &io::Error) {
        let shown = if relative.is_empty() {
            "The bundle's folder".to_owned()
        } else {
            format!("`{relative}`")
        };
        let diagnostic = Diagnostic::new(
            Code::PARSE_ERROR,
            format!("{shown} cannot be read: {}.", reason(error)),
        );
        self.problem(
            diagnostic.suggest("check that you may read it"),
            relative.to_owned(),
        );
    }

    fn problem(&mut self, mut diagnostic: Diagnostic, file: String) {
        diagnostic.file = (!file.is_empty()).then_some(file);
        self.found.diagnostics.push(diagnostic);
    }
}

/// Whether a new `name` in a folder may change which files make up a bundle; `folder` is that folder's own name.
pub fn may_matter(folder: &str, name: &str, kind: FileKind) -> bool {
    let is_folder = kind == FileKind::Directory;
    match name {
        ".gitignore" => true,
        hidden if hidden.starts_with('.') => false,
        // A link may lead to either.
        name => is_resource_file(folder, name) || (is_folder && !SKIPPED.contains(&name)),
    }
}

/// Whether a folder of that name holds what others made.
pub fn is_skipped(name: &str) -> bool {
    SKIPPED.contains(&name)
}

/// Whether a file called `name` in `folder` holds resources.
pub fn is_resource_file(folder: &str, name: &str) -> bool {
    let parent = folder.rsplit('/').next().unwrap_or_default();
    stem(name).is_some_and(|stem| {
        let stem = stem.to_ascii_lowercase();
        SINGULAR.contains(&stem.as_str())
            || PLURAL.contains(&stem.as_str())
            || PLURAL.contains(&parent)
    })
}

/// The name without `.yaml` or `.yml`, where it has one of the two.
fn stem(name: &str) -> Option<&str> {
    name.strip_suffix(".yaml")
        .or_else(|| name.strip_suffix(".yml"))
        .filter(|stem| !stem.is_empty())
}

/// Whether `file` may be the manifest of an executable custom tool rather than a file of resources.
pub(crate) fn may_be_tool_manifest(file: &str) -> bool {
    file.rsplit('/').next().and_then(stem) == Some("tool")
}

fn is_ignored(ignores: &[Arc<Gitignore>], path: &Path, kind: FileKind) -> bool {
    // The innermost file that says anything decides, as in git.
    let decision = ignores
        .iter()
        .rev()
        .map(|ignore| ignore.matched(path, kind == FileKind::Directory));
    matches!(
        decision.into_iter().find(|found| !found.is_none()),
        Some(Match::Ignore(_))
    )
}

fn read_gitignore(files: &dyn Files, folder: &Path) -> Option<Gitignore> {
    let path = folder.join(".gitignore");
    let FileKind::File = files.kind(&path).ok()? else {
        return None;
    };
    let bytes = files.read(&path, GITIGNORE_LIMIT).ok()?;
    let mut builder = GitignoreBuilder::new(folder);
    for line in String::from_utf8_lossy(&bytes).lines() {
        // A pattern that git would not understand either ignores nothing.
        let _ = builder.add_line(None, line);
    }
    builder.build().ok()
}

/// The `.gitignore` files between the repository's top and `root`, outermost first; none outside a repository.
fn ignores_above(files: &dyn Files, root: &Path) -> Vec<Arc<Gitignore>> {
    let Some(top) = repository_around(files, root) else {
        return Vec::new();
    };
    let between = root
        .ancestors()
        .skip(1)
        .take_while(|folder| folder.starts_with(top));
    let mut ignores: Vec<_> = between
        .filter_map(|folder| read_gitignore(files, folder).map(Arc::new))
        .collect();
    ignores.reverse();
    ignores
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::MemoryFiles;

    fn found(files: &MemoryFiles) -> Vec<String> {
        discover(files, Path::new("/p")).files
    }

    #[test]
    fn names_and_plural_folders_are_found_in_path_order() {
        let files = MemoryFiles::new()
            .file("/p/goondan.yaml", "")
            .file("/p/tools/weather.yaml", "")
            .file("/p/team/agents/a.yml", "")
            .file("/p/team/Agents.yaml", "")
            .file("/p/team/notes.yaml", "")
            .file("/p/tools/weather/data.yaml", "")
            .file("/p/tools/readme.md", "");
        assert_eq!(
            found(&files),
            [
                "goondan.yaml",
                "team/Agents.yaml",
                "team/agents/a.yml",
                "tools/weather.yaml"
            ]
        );
    }

    #[test]
    fn hidden_built_and_ignored_folders_are_skipped() {
        let files = MemoryFiles::new()
            .file("/p/goondan.yaml", "")
            .file("/p/.git/tools.yaml", "")
            .file("/p/dist/tools.yaml", "")
            .file("/p/node_modules/x/tools.yaml", "")
            .file("/p/target/tools.yaml", "")
            .file(
                "/p/.gitignore",
                "scratch/\n*.local.yaml\n!keep/agents.yaml\n",
            )
            .file("/p/scratch/tools.yaml", "")
            .file("/p/tools/a.local.yaml", "")
            .file("/p/keep/.gitignore", "agents.yaml\n")
            .file("/p/keep/agents.yaml", "");
        assert_eq!(found(&files), ["goondan.yaml"]);
    }

    #[test]
    fn a_repository_above_the_bundle_ignores_too() {
        let files = MemoryFiles::new()
            .directory("/r/.git")
            .file("/r/.gitignore", "/p/old/\n")
            .file("/r/p/goondan.yaml", "")
            .file("/r/p/old/agents.yaml", "");
        assert_eq!(discover(&files, Path::new("/r/p")).files, ["goondan.yaml"]);
    }

    #[test]
    fn links_are_followed_only_inside_and_only_to_files() {
        let files = MemoryFiles::new()
            .file("/p/shared/one.txt", "")
            .link("/p/tools.yaml", "shared/one.txt")
            .link("/p/agents.yaml", "/outside.yaml")
            .file("/outside.yaml", "")
            .link("/p/models.yaml", "nowhere")
            .link("/p/loop", "/p");
        let found = discover(&files, Path::new("/p"));
        assert_eq!(found.files, ["tools.yaml"]);
        let codes: Vec<_> = found
            .diagnostics
            .iter()
            .map(|problem| problem.code)
            .collect();
        assert_eq!(codes, [Code::PATH_ESCAPE, Code::PARSE_ERROR]);
    }
}
