//! Source files of the build of a tool.

use std::path::{Component, Path, PathBuf};

use crate::kinds::ToolBuild;
use globset::{GlobBuilder, GlobMatcher};

/// Files that identify the root directory of a build.
const BUILD_ROOT_FILES: [&str; 6] = [
    "Cargo.toml",
    "Makefile",
    "CMakeLists.txt",
    "meson.build",
    "build.zig",
    "go.mod",
];
/// Directories with build output.
pub const OUTPUT_DIRECTORIES: [&str; 4] = ["target", "node_modules", "zig-out", "zig-cache"];
/// File extensions of build output.
const OUTPUT_EXTENSIONS: [&str; 10] = [
    "so", "dylib", "dll", "o", "obj", "a", "d", "rlib", "rmeta", "lock",
];
/// File extensions that belong to the bundle and not to a tool's sources.
const BUNDLE_EXTENSIONS: [&str; 4] = ["yaml", "yml", "md", "jsonl"];

/// Rule that decides which files are sources of a tool.
#[derive(Debug, Clone)]
pub enum BuildSourceRule {
    /// Declared globs: the start directory of each one, and the pattern below it.
    Stated(Vec<(PathBuf, GlobMatcher)>),
    /// All files in a directory that look like sources.
    Below {
        /// Absolute path.
        folder: PathBuf,
        /// Path of the built file, without the prefix and suffix of the platform.
        entry: PathBuf,
    },
}

impl BuildSourceRule {
    /// Returns the sources of a tool in the project at `root`, which must be absolute.
    pub fn of(root: &Path, plan: &ToolBuild) -> Self {
        let folder = plan
            .build
            .cwd
            .as_ref()
            .map(|cwd| join_lexically(root, Path::new(cwd)));
        if plan.build.sources.is_empty() {
            let entry = join_lexically(root, Path::new(&plan.entry));
            return BuildSourceRule::Below {
                folder: folder.unwrap_or_else(|| build_directory(root, &entry)),
                entry,
            };
        }
        let start = folder.unwrap_or_else(|| root.to_owned());
        BuildSourceRule::Stated(
            plan.build
                .sources
                .iter()
                .filter_map(|glob| start_and_matcher(&start, glob))
                .collect(),
        )
    }

    /// Returns true if `path` is a source. The path must be absolute and without dots.
    pub fn contains(&self, path: &Path) -> bool {
        match self {
            BuildSourceRule::Stated(globs) => globs.iter().any(|(folder, glob)| {
                path.strip_prefix(folder)
                    .is_ok_and(|relative| glob.is_match(relative))
            }),
            BuildSourceRule::Below { folder, entry } => {
                path != entry && path.strip_prefix(folder).is_ok_and(looks_like_a_source)
            }
        }
    }

    /// Returns the directories that contain the sources.
    pub fn folders(&self) -> Vec<&Path> {
        match self {
            BuildSourceRule::Stated(globs) => {
                globs.iter().map(|(folder, _)| folder.as_path()).collect()
            }
            BuildSourceRule::Below { folder, .. } => vec![folder],
        }
    }
}

/// Returns the directory in which a glob starts, and the matcher for paths below it; `None` for an
/// invalid glob. A glob may start with `../`, because a library can be built from a sibling
/// directory of the project.
fn start_and_matcher(start: &Path, glob: &str) -> Option<(PathBuf, GlobMatcher)> {
    let (mut folder, mut rest) = (start.to_owned(), glob);
    loop {
        if let Some(after) = rest.strip_prefix("./") {
            rest = after;
        } else if let Some(after) = rest.strip_prefix("../") {
            folder.pop();
            rest = after;
        } else {
            break;
        }
    }
    // Invalid globs are already rejected when the project is loaded.
    let glob = GlobBuilder::new(rest)
        .literal_separator(true)
        .build()
        .ok()?;
    Some((folder, glob.compile_matcher()))
}

/// Returns the nearest build directory around the entry, at most the project directory.
fn build_directory(root: &Path, entry: &Path) -> PathBuf {
    let nearest = entry.parent().unwrap_or(root);
    let is_project = |folder: &&Path| {
        BUILD_ROOT_FILES
            .iter()
            .any(|file| folder.join(file).is_file())
    };
    let within = nearest
        .ancestors()
        .take_while(|folder| folder.starts_with(root));
    within
        .into_iter()
        .find(is_project)
        .unwrap_or(nearest)
        .to_owned()
}

/// Returns true if a path may be a source: no build output, no editor file, and no file of the
/// bundle.
fn looks_like_a_source(relative: &Path) -> bool {
    let text = |component: Component<'_>| component.as_os_str().to_string_lossy().into_owned();
    let parts: Vec<String> = relative.components().map(text).collect();
    let Some((name, folders)) = parts.split_last() else {
        return false;
    };
    let extension = Path::new(name)
        .extension()
        .and_then(|extension| extension.to_str())
        .unwrap_or_default();
    let is_editor_file = name.starts_with('.') || name.starts_with('#') || name.ends_with('~');
    let is_in_output_directory = folders
        .iter()
        .any(|folder| folder.starts_with('.') || OUTPUT_DIRECTORIES.contains(&folder.as_str()));
    !is_editor_file
        && !is_in_output_directory
        && !OUTPUT_EXTENSIONS.contains(&extension)
        && !BUNDLE_EXTENSIONS.contains(&extension)
}

/// Joins `root` and `path`, and resolves `.` and `..` without accessing the file system.
pub fn join_lexically(root: &Path, path: &Path) -> PathBuf {
    let mut joined = PathBuf::new();
    for component in root.join(path).components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                joined.pop();
            }
            part => joined.push(part),
        }
    }
    joined
}
