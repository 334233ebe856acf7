//! Goes through the files below a folder as ripgrep does: `.gitignore` is honoured, hidden files are left out, symbolic
//! links are not followed.

use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};
use goondan_runtime::ports::tool::ToolError;
use ignore::gitignore::Gitignore;
use ignore::{DirEntry, WalkBuilder};

use crate::errors;
use crate::paths::Root;

/// The regular files below `folder` (or `folder` itself, if it is one), in the order of their paths. `.gitignore` files
/// count from the root on: one above it, say in the home directory, has nothing to do with the work.
pub(super) fn files(root: &Root, folder: &Path) -> impl Iterator<Item = PathBuf> {
    let ignored: Vec<Gitignore> =
        between(root, folder).map(|folder| Gitignore::new(folder.join(".gitignore")).0).collect();
    let kept = move |entry: &DirEntry| {
        let is_folder = entry.file_type().is_some_and(|kind| kind.is_dir());
        entry.depth() == 0 || !ignored.iter().any(|rules| rules.matched(entry.path(), is_folder).is_ignore())
    };
    WalkBuilder::new(folder)
        .require_git(false)
        .parents(false)
        .sort_by_file_path(Path::cmp)
        .filter_entry(kept)
        .build()
        .filter_map(Result::ok)
        .filter(|entry| entry.file_type().is_some_and(|kind| kind.is_file()))
        .map(DirEntry::into_path)
}

/// The folders from the root down to, and without, `folder`.
fn between<'a>(root: &'a Root, folder: &'a Path) -> impl Iterator<Item = &'a Path> {
    folder.ancestors().skip(1).take_while(|above| above.starts_with(root.folder()))
}

/// A glob over paths below a folder. Without a slash it looks at the name alone.
pub(super) struct PathGlob {
    matcher: GlobMatcher,
    name_alone: bool,
}

impl PathGlob {
    /// Reads a glob such as `*.{rs,toml}` or `src/**/*.rs`.
    pub(super) fn new(glob: &str) -> Result<PathGlob, ToolError> {
        let pattern = glob.strip_prefix("./").unwrap_or(glob);
        let built = GlobBuilder::new(pattern).literal_separator(true).build();
        let matcher = built
            .map_err(|error| errors::invalid(format!("the glob `{glob}` is wrong: {}", error.kind())))?
            .compile_matcher();
        Ok(PathGlob { matcher, name_alone: !pattern.contains('/') })
    }

    /// Whether a path, relative to the folder of the search, fits.
    pub(super) fn fits(&self, path: &Path) -> bool {
        if self.name_alone {
            return path.file_name().is_some_and(|name| self.matcher.is_match(name));
        }
        self.matcher.is_match(path)
    }
}
