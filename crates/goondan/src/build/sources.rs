//! The files that a tool is made from.

use std::path::{Component, Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};
use goondan_spec::kinds::ToolBuild;

/// A folder that holds one of these is where something is built from.
const PROJECT_FILES: [&str; 6] = [
    "Cargo.toml",
    "Makefile",
    "CMakeLists.txt",
    "meson.build",
    "build.zig",
    "go.mod",
];
/// Folders that hold what was made.
const MADE_FOLDERS: [&str; 4] = ["target", "node_modules", "zig-out", "zig-cache"];
/// Files that were made.
const MADE_FILES: [&str; 10] = [
    "so", "dylib", "dll", "o", "obj", "a", "d", "rlib", "rmeta", "lock",
];
/// Files that belong to the bundle rather than to its tools.
const BUNDLE_FILES: [&str; 4] = ["yaml", "yml", "md", "jsonl"];

/// Tells which files a tool is made from.
#[derive(Debug, Clone)]
pub(super) enum Sources {
    /// Those that a glob matches: the folder that it starts from, and what has to match below it.
    Stated(Vec<(PathBuf, GlobMatcher)>),
    /// Everything below a folder that looks like a source.
    Below {
        /// Absolute.
        folder: PathBuf,
        /// The file that is made, without prefix and suffix of the platform.
        entry: PathBuf,
    },
}

impl Sources {
    /// The sources of a tool in the project at `root`, which is absolute.
    pub(super) fn of(root: &Path, plan: &ToolBuild) -> Self {
        let folder = plan
            .build
            .cwd
            .as_ref()
            .map(|cwd| plain(root, Path::new(cwd)));
        if plan.build.sources.is_empty() {
            let entry = plain(root, Path::new(&plan.entry));
            return Sources::Below {
                folder: folder.unwrap_or_else(|| around(root, &entry)),
                entry,
            };
        }
        let start = folder.unwrap_or_else(|| root.to_owned());
        Sources::Stated(
            plan.build
                .sources
                .iter()
                .filter_map(|glob| stated(&start, glob))
                .collect(),
        )
    }

    /// Whether `path` (absolute, without dots) is one of them.
    pub(super) fn contain(&self, path: &Path) -> bool {
        match self {
            Sources::Stated(globs) => globs.iter().any(|(folder, glob)| {
                path.strip_prefix(folder)
                    .is_ok_and(|relative| glob.is_match(relative))
            }),
            Sources::Below { folder, entry } => {
                path != entry && path.strip_prefix(folder).is_ok_and(looks_like_a_source)
            }
        }
    }

    /// The folders below which they lie.
    pub(super) fn folders(&self) -> Vec<&Path> {
        match self {
            Sources::Stated(globs) => globs.iter().map(|(folder, _)| folder.as_path()).collect(),
            Sources::Below { folder, .. } => vec![folder],
        }
    }
}

/// A glob may begin with `../`: a library may be made from something beside the project.
fn stated(start: &Path, glob: &str) -> Option<(PathBuf, GlobMatcher)> {
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
    // A glob that is none was refused when the project was read.
    let glob = GlobBuilder::new(rest)
        .literal_separator(true)
        .build()
        .ok()?;
    Some((folder, glob.compile_matcher()))
}

/// The nearest folder around the entry, the project's own at the outermost, that something is built from.
fn around(root: &Path, entry: &Path) -> PathBuf {
    let nearest = entry.parent().unwrap_or(root);
    let is_project = |folder: &&Path| PROJECT_FILES.iter().any(|file| folder.join(file).is_file());
    let within = nearest
        .ancestors()
        .take_while(|folder| folder.starts_with(root));
    within
        .into_iter()
        .find(is_project)
        .unwrap_or(nearest)
        .to_owned()
}

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
    let of_an_editor = name.starts_with('.') || name.starts_with('#') || name.ends_with('~');
    let made = folders
        .iter()
        .any(|folder| folder.starts_with('.') || MADE_FOLDERS.contains(&folder.as_str()));
    !of_an_editor && !made && !MADE_FILES.contains(&extension) && !BUNDLE_FILES.contains(&extension)
}

/// `path` from `root` on, without dots.
pub(super) fn plain(root: &Path, path: &Path) -> PathBuf {
    let mut whole = PathBuf::new();
    for component in root.join(path).components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                whole.pop();
            }
            part => whole.push(part),
        }
    }
    whole
}

/// Everything below `folder` that may be a source: files, and the folders that hold them. What others made is not entered,
/// nor is anything below `ignored`.
pub(super) fn walk(folder: &Path, ignored: &Path, found: &mut SourceTree) {
    if folder.starts_with(ignored) || !found.folders.insert(folder.to_owned()) {
        return;
    }
    // What can't be read holds no sources that a build could read.
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        match entry.file_type() {
            // Links to folders are not entered, so no walk is endless.
            Ok(kind) if kind.is_dir() => {
                if !name.starts_with('.') && !MADE_FOLDERS.contains(&&*name) {
                    walk(&entry.path(), ignored, found);
                }
            }
            Ok(_) => found.files.push(entry.path()),
            Err(_) => {}
        }
    }
}

/// Files that may be sources, and the folders that they lie in.
#[derive(Debug, Default)]
pub(crate) struct SourceTree {
    /// Absolute.
    pub(crate) files: Vec<PathBuf>,
    /// Absolute.
    pub(crate) folders: std::collections::BTreeSet<PathBuf>,
}
