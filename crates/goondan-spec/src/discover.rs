//! Discovers the files of a bundle (rule L1).

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ignore::Match;
use ignore::gitignore::Gitignore;

use crate::diagnostic::{Code, Diagnostic};
use crate::files::{FileAccess, FileKind};
use crate::ignore_files::{IgnorePatterns, MAX_IGNORE_FILE_BYTES, MAX_IGNORE_PATTERN_BYTES};
use crate::meta::Kind;
use crate::paths::repository_around;
use crate::text::reason;

/// Base names of resource files. The names in `PLURAL_NAMES` are also directory names.
const SINGULAR_NAMES: [&str; 8] = [
    "goondan",
    "model",
    "agent",
    "tool",
    "extension",
    "connector",
    "connection",
    "swarm",
];
const PLURAL_NAMES: [&str; 8] = [
    "models",
    "agents",
    "tools",
    "extensions",
    "connectors",
    "connections",
    "swarms",
    "resources",
];
/// Directories of build output and dependencies.
const SKIPPED_DIRS: [&str; 3] = ["dist", "node_modules", "target"];
/// Name of the ignore file that discovery respects.
const GITIGNORE: &str = ".gitignore";
/// Maximum number of remembered YAML files without resources.
const MAX_UNREAD_FILES: usize = 1_000;
/// Start of the `apiVersion` of each resource.
const API_GROUP: &str = "goondan.ai/";
/// Limits of the search for resources in files that are not read.
const MAX_SCANNED_BYTES: u64 = 64 * 1024;
const MAX_SCANNED_FILES: usize = 200;
/// Maximum directory depth of a bundle.
const MAX_DIRECTORY_DEPTH: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct DiscoveredFiles {
    /// YAML files relative to the root, in path order.
    pub(crate) files: Vec<String>,
    /// `goondan.yaml` files of subdirectories, which may be separate projects.
    pub(crate) nested: Vec<String>,
    /// YAML files that are not read, because of their places or names.
    pub(crate) unread: Vec<String>,
    pub(crate) diagnostics: Vec<Diagnostic>,
}

/// Finds the resource files of a project; skips files that `.gitignore` excludes.
pub(crate) fn discover_files(files: &dyn FileAccess, root: &Path) -> DiscoveredFiles {
    let canonical = files.canonicalize(root).unwrap_or_else(|_| root.to_owned());
    let mut walk = DiscoveryWalk {
        files,
        root: canonical.clone(),
        found: DiscoveredFiles::default(),
        is_whole: false,
        patterns: IgnorePatterns::default(),
    };
    let ignores = walk.ignores_above();
    walk.visit_directory("", &ignores, 0);
    let mut found_files = walk.found;
    found_files.files.sort_unstable();
    found_files.nested.sort_unstable();
    found_files
}

/// Returns the YAML files of an installed package. Ignores `.gitignore` files, because a package
/// contains only intended files.
pub(crate) fn discover_all(files: &dyn FileAccess, root: &Path) -> Vec<String> {
    let mut walk = DiscoveryWalk {
        files,
        root: root.to_owned(),
        found: DiscoveredFiles::default(),
        is_whole: true,
        patterns: IgnorePatterns::default(),
    };
    walk.visit_directory("", &[], 0);
    walk.found.files.sort_unstable();
    walk.found.files
}

/// Returns the YAML files of the project that contain resources but are not read, because of their
/// names. Excludes test cases, and files of other projects below the root.
pub fn unread_resource_files(files: &dyn FileAccess, root: &Path) -> Vec<String> {
    let discovered = discover_files(files, root);
    let is_of_project = |file: &&String| {
        !file.contains(".case.")
            && !discovered
                .nested
                .iter()
                .any(|nested| is_beside(nested, file))
    };
    let has_resources = |file: &&String| {
        let bytes = files.read(&root.join(file), MAX_SCANNED_BYTES);
        bytes.is_ok_and(|bytes| {
            let text = String::from_utf8_lossy(&bytes);
            text.lines().any(|line| {
                line.strip_prefix("apiVersion:")
                    .is_some_and(|version| version.contains(API_GROUP))
            })
        })
    };
    let candidates = discovered.unread.iter().filter(is_of_project);
    let mut unread: Vec<String> = candidates
        .take(MAX_SCANNED_FILES)
        .filter(has_resources)
        .cloned()
        .collect();
    unread.sort_unstable();
    unread
}

/// Returns true if `file` is in the directory of `manifest`, or below it.
fn is_beside(manifest: &str, file: &str) -> bool {
    manifest.rsplit_once('/').is_some_and(|(folder, _)| {
        file.strip_prefix(folder)
            .is_some_and(|rest| rest.starts_with('/'))
    })
}

struct DiscoveryWalk<'f> {
    files: &'f dyn FileAccess,
    /// Set to ignore all `.gitignore` files.
    is_whole: bool,
    root: PathBuf,
    found: DiscoveredFiles,
    /// Patterns of the ignore files that were read.
    patterns: IgnorePatterns,
}

impl DiscoveryWalk<'_> {
    /// Collects the resource files below a directory; the root is the empty path.
    fn visit_directory(&mut self, folder: &str, above: &[Arc<Gitignore>], depth: usize) {
        let path = self.root.join(folder);
        let mut names = match self.files.list_directory(&path) {
            Ok(names) => names,
            Err(error) => return self.report_unreadable(folder, &error),
        };
        names.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        let mut ignores = above.to_vec();
        if !self.is_whole && names.iter().any(|(name, _)| name == GITIGNORE) {
            ignores.extend(self.read_gitignore(&path).map(Arc::new));
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
                    self.report_directory_instead_of_file(&relative)
                }
                FileKind::Directory
                    if SKIPPED_DIRS.contains(&name.as_str()) || depth >= MAX_DIRECTORY_DEPTH => {}
                FileKind::Directory => self.visit_directory(&relative, &ignores, depth + 1),
                FileKind::File => self.visit_file(folder, &name, relative),
                FileKind::Other => self.visit_link(folder, &name, relative),
                FileKind::NonUnicodeName if is_resource_file(folder, &name) => {
                    self.report_unnamed(relative)
                }
                FileKind::NonUnicodeName => {}
            }
        }
    }

    /// Reads the `.gitignore` of a directory; `None` if there is none. Reports a file with too many
    /// patterns, because its files would become part of the bundle.
    fn read_gitignore(&mut self, folder: &Path) -> Option<Gitignore> {
        let path = folder.join(GITIGNORE);
        let FileKind::File = self.files.kind(&path).ok()? else {
            return None;
        };
        // A link could lead to a secret, and git follows none either.
        let real = self.files.canonicalize(folder).ok()?.join(GITIGNORE);
        if self.files.canonicalize(&path).ok()? != real {
            return None;
        }
        let bytes = self.files.read(&path, MAX_IGNORE_FILE_BYTES).ok()?;
        let is_complete = bytes.len() as u64 <= MAX_IGNORE_FILE_BYTES;
        let text = is_complete.then_some(bytes);
        let rules = text.and_then(|text| self.patterns.parse(folder, &text));
        if rules.is_none() {
            self.report_large_gitignore(&path);
        }
        rules
    }

    /// Reports an ignore file whose patterns do not apply.
    fn report_large_gitignore(&mut self, path: &Path) {
        let name = path.strip_prefix(&self.root).unwrap_or(path);
        let name = name.to_string_lossy().into_owned();
        let message = format!(
            "`{name}` is too large. The ignore files of a project have at most {} MiB each, and \
             patterns of {} MiB in total; a pattern with wildcards counts eight times.",
            MAX_IGNORE_FILE_BYTES / 1024 / 1024,
            MAX_IGNORE_PATTERN_BYTES / 1024 / 1024,
        );
        let problem = Diagnostic::new(Code::FILE_TOO_LARGE, message)
            .suggest("shorten the file; a pattern for a directory covers all files in it");
        self.add_diagnostic(problem, name);
    }

    /// Returns the `.gitignore` files from the repository's top to the root, outermost first. Empty
    /// outside a repository.
    fn ignores_above(&mut self) -> Vec<Arc<Gitignore>> {
        let root = self.root.clone();
        let Some(top) = repository_around(self.files, &root) else {
            return Vec::new();
        };
        let between = root
            .ancestors()
            .skip(1)
            .take_while(|folder| folder.starts_with(top));
        let mut ignores: Vec<_> = between
            .filter_map(|folder| self.read_gitignore(folder).map(Arc::new))
            .collect();
        ignores.reverse();
        ignores
    }

    /// Adds a resource file, and remembers a `goondan.yaml` in a subdirectory as a possible nested
    /// project.
    fn visit_file(&mut self, folder: &str, name: &str, relative: String) {
        if is_resource_file(folder, name) {
            if !folder.is_empty() && yaml_stem(name) == Some("goondan") {
                self.found.nested.push(relative.clone());
            }
            self.found.files.push(relative);
        } else if yaml_stem(name).is_some() && self.found.unread.len() < MAX_UNREAD_FILES {
            self.found.unread.push(relative);
        }
    }

    /// Treats a link to a file inside the bundle as that file. Links to directories are not
    /// followed, so the walk always ends.
    fn visit_link(&mut self, folder: &str, name: &str, relative: String) {
        let path = self.root.join(&relative);
        let is_resource = is_resource_file(folder, name);
        if !is_resource && !PLURAL_NAMES.contains(&name) {
            return;
        }
        match self.files.kind(&path) {
            Ok(kind) if self.leads_outside(&path) => self.report_link_outside(&relative, kind),
            Ok(FileKind::File) if is_resource => self.visit_file(folder, name, relative),
            Ok(FileKind::Other) if is_resource => self.add_diagnostic(
                Diagnostic::new(
                    Code::PARSE_ERROR,
                    format!("`{relative}` is neither a file nor a directory."),
                )
                .suggest("put a regular file there"),
                relative,
            ),
            Err(error) if is_resource && error.kind() == io::ErrorKind::NotFound => self
                .add_diagnostic(
                    Diagnostic::new(
                        Code::PARSE_ERROR,
                        format!("`{relative}` is a link to a file that does not exist."),
                    )
                    .suggest("remove the link, or create the file that it points to"),
                    relative,
                ),
            Err(error) if is_resource => self.report_unreadable(&relative, &error),
            _ => {}
        }
    }

    /// Returns true if the path, with links resolved, is outside the project.
    fn leads_outside(&self, path: &Path) -> bool {
        self.files
            .canonicalize(path)
            .is_ok_and(|target| !target.starts_with(&self.root))
    }

    /// Reports a link to a file or directory outside the project.
    fn report_link_outside(&mut self, relative: &str, kind: FileKind) {
        let kind_name = if kind == FileKind::Directory {
            "directory"
        } else {
            "file"
        };
        let message = format!("`{relative}` is a link to a {kind_name} outside the bundle.");
        let suggestion = format!("copy the {kind_name} into the bundle instead of linking to it");
        self.add_diagnostic(
            Diagnostic::new(Code::PATH_ESCAPE, message).suggest(suggestion),
            relative.to_owned(),
        );
    }

    /// Reports a resource file whose name is not UTF-8.
    fn report_unnamed(&mut self, relative: String) {
        let message = format!("`{relative}` cannot be read: its name is not UTF-8.");
        self.add_diagnostic(
            Diagnostic::new(Code::PARSE_ERROR, message).suggest("rename the file"),
            relative,
        );
    }

    /// Reports a directory at a path that needs a file.
    fn report_directory_instead_of_file(&mut self, relative: &str) {
        let message = format!("`{relative}` is a directory, but must be a file.");
        let suggestion = format!("rename the directory, or put a file at `{relative}`");
        self.add_diagnostic(
            Diagnostic::new(Code::PARSE_ERROR, message).suggest(suggestion),
            relative.to_owned(),
        );
    }

    /// Reports a file or directory that cannot be read.
    fn report_unreadable(&mut self, relative: &str, error: &io::Error) {
        let shown_path = if relative.is_empty() {
            "The bundle directory".to_owned()
        } else {
            format!("`{relative}`")
        };
        let diagnostic = Diagnostic::new(
            Code::PARSE_ERROR,
            format!("{shown_path} cannot be read: {}.", reason(error)),
        );
        self.add_diagnostic(
            diagnostic.suggest("check that you may read it"),
            relative.to_owned(),
        );
    }

    /// Adds a diagnostic about `file`; an empty path means the project.
    fn add_diagnostic(&mut self, mut diagnostic: Diagnostic, file: String) {
        diagnostic.file = (!file.is_empty()).then_some(file);
        self.found.diagnostics.push(diagnostic);
    }
}

/// Returns true if a new entry `name` may change the set of the bundle's files. `folder` is the
/// name of its directory.
pub fn may_affect_bundle(folder: &str, name: &str, kind: FileKind) -> bool {
    let is_folder = kind == FileKind::Directory;
    match name {
        GITIGNORE => true,
        hidden if hidden.starts_with('.') => false,
        // The file kind is not checked for a resource name, because a link may lead to any kind.
        name => is_resource_file(folder, name) || (is_folder && !SKIPPED_DIRS.contains(&name)),
    }
}

/// Returns true if a directory of this name contains build output or dependencies.
pub fn is_skipped(name: &str) -> bool {
    SKIPPED_DIRS.contains(&name)
}

/// Returns true if the file `name` in `folder` contains resources.
pub fn is_resource_file(folder: &str, name: &str) -> bool {
    let parent = folder.rsplit('/').next().unwrap_or_default();
    yaml_stem(name).is_some_and(|stem| {
        let stem = stem.to_ascii_lowercase();
        SINGULAR_NAMES.contains(&stem.as_str())
            || PLURAL_NAMES.contains(&stem.as_str())
            || PLURAL_NAMES.contains(&parent)
    })
}

/// Returns the name without its extension `.yaml` or `.yml`, which may be in upper case.
fn yaml_stem(name: &str) -> Option<&str> {
    let (stem, extension) = name.rsplit_once('.')?;
    let is_yaml = ["yaml", "yml"]
        .iter()
        .any(|yaml| extension.eq_ignore_ascii_case(yaml));
    (is_yaml && !stem.is_empty()).then_some(stem)
}

/// Returns true if an unread file seems to define the resource `name`: by its own name, or by a
/// directory above it.
pub(crate) fn seems_to_define(file: &str, kind: Kind, name: &str) -> bool {
    let (folders, file_name) = file.rsplit_once('/').unwrap_or(("", file));
    let kind = kind.as_str().to_ascii_lowercase();
    let is_of_kind = |folder: &str| {
        let folder = folder.to_ascii_lowercase();
        folder.strip_suffix('s').unwrap_or(&folder) == kind
    };
    yaml_stem(file_name).is_some_and(|stem| stem.eq_ignore_ascii_case(name))
        || folders.split('/').any(is_of_kind)
}

/// Returns true if `file` may be the manifest of an executable custom tool and not a resource file.
pub(crate) fn may_be_tool_manifest(file: &str) -> bool {
    file.rsplit('/').next().and_then(yaml_stem) == Some("tool")
}

/// Returns true if `.gitignore` files exclude the path. `ignores` are ordered from the outermost to
/// the innermost.
fn is_ignored(ignores: &[Arc<Gitignore>], path: &Path, kind: FileKind) -> bool {
    // The innermost file with a matching pattern decides, as in git.
    let decision = ignores
        .iter()
        .rev()
        .map(|ignore| ignore.matched(path, kind == FileKind::Directory));
    matches!(
        decision.into_iter().find(|found| !found.is_none()),
        Some(Match::Ignore(_))
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::MemoryFiles;

    #[test]
    fn a_gitignore_with_too_many_patterns_is_reported() {
        let pattern = format!("{}\n", "a*".repeat(50));
        let fitting = pattern.repeat(1_000);
        let problems = |nested: &str| {
            let files = MemoryFiles::new()
                .file("/p/.gitignore", fitting.as_str())
                .file("/p/a/.gitignore", fitting.as_str())
                .file("/p/agents/.gitignore", nested)
                .file("/p/agents/a.yaml", "");
            discover_files(&files, Path::new("/p")).diagnostics
        };
        assert!(problems("# none\nb*\n").is_empty());
        for nested in [fitting.clone(), "# a comment\n".repeat(100_000)] {
            let problems = problems(&nested);
            assert!(
                matches!(problems.as_slice(), [only] if only.code == Code::FILE_TOO_LARGE
                    && only.file.as_deref() == Some("agents/.gitignore")),
                "{problems:?}"
            );
        }
    }

    fn found(files: &MemoryFiles) -> Vec<String> {
        discover_files(files, Path::new("/p")).files
    }

    #[test]
    fn resource_files_are_found_in_path_order() {
        let files = MemoryFiles::new()
            .file("/p/goondan.yaml", "")
            .file("/p/tools/weather.yaml", "")
            .file("/p/team/agents/a.yml", "")
            .file("/p/team/Agents.yaml", "")
            .file("/p/team/notes.yaml", "")
            .file("/p/tools/weather/data.yaml", "")
            .file("/p/models/M.YAML", "")
            .file("/p/tools/readme.md", "");
        assert_eq!(
            discover_files(&files, Path::new("/p")).unread,
            ["team/notes.yaml", "tools/weather/data.yaml"]
        );
        assert_eq!(
            found(&files),
            [
                "goondan.yaml",
                "models/M.YAML",
                "team/Agents.yaml",
                "team/agents/a.yml",
                "tools/weather.yaml"
            ]
        );
    }

    #[test]
    fn an_unread_file_is_suspected_by_its_name_or_directory() {
        for (file, expected) in [
            ("models/deep/x.yaml", true),
            ("model/x.yaml", true),
            ("other/Main.yml", true),
            ("agents/deep/x.yaml", false),
            ("data.yaml", false),
        ] {
            assert_eq!(
                seems_to_define(file, Kind::Model, "main"),
                expected,
                "{file}"
            );
        }
    }

    #[test]
    fn unread_resource_files_with_other_names_are_listed() {
        let resource = "# team\napiVersion: goondan.ai/v1\nkind: Agent\n";
        let files = MemoryFiles::new()
            .file("/p/goondan.yaml", "")
            .file("/p/team.yaml", resource)
            .file("/p/config/more.yml", resource)
            .file("/p/agents.yaml", resource)
            .file("/p/deploy.yaml", "apiVersion: v1\nkind: Pod\n")
            .file("/p/tests/a.case.yaml", resource)
            .file("/p/other/goondan.yaml", "")
            .file("/p/other/team.yaml", resource);
        let unread = unread_resource_files(&files, Path::new("/p"));
        assert_eq!(unread, ["config/more.yml", "team.yaml"]);
    }

    #[test]
    fn hidden_build_and_ignored_directories_are_skipped() {
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
    fn the_gitignore_of_the_surrounding_repository_applies() {
        let files = MemoryFiles::new()
            .directory("/r/.git")
            .file("/r/.gitignore", "/p/old/\n")
            .file("/r/p/goondan.yaml", "")
            .file("/r/p/old/agents.yaml", "");
        assert_eq!(
            discover_files(&files, Path::new("/r/p")).files,
            ["goondan.yaml"]
        );
    }

    #[test]
    fn links_are_followed_only_to_files_inside_the_bundle() {
        let files = MemoryFiles::new()
            .file("/p/shared/one.txt", "")
            .link("/p/tools.yaml", "shared/one.txt")
            .link("/p/agents.yaml", "/outside.yaml")
            .file("/outside.yaml", "")
            .link("/p/models.yaml", "nowhere")
            .link("/p/loop", "/p");
        let found = discover_files(&files, Path::new("/p"));
        assert_eq!(found.files, ["tools.yaml"]);
        let codes: Vec<_> = found
            .diagnostics
            .iter()
            .map(|problem| problem.code)
            .collect();
        assert_eq!(codes, [Code::PATH_ESCAPE, Code::PARSE_ERROR]);
    }
}
