//! Settings of version control around a directory. Almost every program can start git, and git runs
//! programs that these settings name.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use goondan_core::code_directory::REPOSITORY_DIRECTORIES;
use goondan_core::loaded_files::paths_in_settings;

/// Programs of version control, and programs that start one in the working directory.
const VERSION_CONTROL_PROGRAMS: [&str; 14] = [
    "bzr", "fossil", "gh", "git", "git-lfs", "gitk", "glab", "hg", "hub", "jj", "lazygit", "sl",
    "svn", "tig",
];

/// Limit of files that settings name.
const MAX_NAMED_FILES: usize = 200;

/// Returns true if a word is a program of version control, with or without a directory.
pub(in crate::policy) fn is_version_control(word: &str) -> bool {
    let name = word.rsplit(['/', '\\']).next().unwrap_or_default();
    let name = name.to_lowercase();
    let name = name.strip_suffix(".exe").unwrap_or(&name);
    VERSION_CONTROL_PROGRAMS.contains(&name)
}

/// Returns the settings of the repositories around `folder`: the directories of version control
/// without the data of commits, attributes, and the files that settings name. Accesses the file
/// system.
pub(super) fn repository_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = BTreeSet::new();
    for around in folder.ancestors() {
        let repositories = REPOSITORY_DIRECTORIES.map(|name| around.join(name));
        let mut has_repository = false;
        for repository in repositories.into_iter().filter(|path| path.exists()) {
            has_repository = true;
            add_repository(repository, around, &mut files);
        }
        for name in [".gitattributes", ".gitmodules"] {
            files.extend(Some(around.join(name)).filter(|path| path.is_file()));
        }
        if is_bare_repository(around) {
            for name in ["HEAD", "config", "hooks"] {
                files.extend(Some(around.join(name)).filter(|path| path.exists()));
            }
        }
        if has_repository {
            break;
        }
    }
    files.into_iter().collect()
}

/// Returns true if git takes a directory for a repository, although its name is not `.git`.
fn is_bare_repository(folder: &Path) -> bool {
    let mut markers = ["HEAD", "objects", "refs"].iter();
    markers.all(|marker| folder.join(marker).exists())
}

/// Adds a directory of version control, or the file of a linked worktree and the repository that it
/// names. `around`: directory of the worktree.
fn add_repository(repository: PathBuf, around: &Path, files: &mut BTreeSet<PathBuf>) {
    add_named_files(&repository.join("config"), around, files);
    if repository.is_file() {
        let mut named_paths = paths_in_settings(&repository, around);
        named_paths.retain(|path| path.is_dir() && path != around);
        let common = named_paths.iter().flat_map(|path| {
            let common = paths_in_settings(&path.join("commondir"), path);
            common.into_iter().filter(|path| path.is_dir())
        });
        let common: Vec<PathBuf> = common.collect();
        for path in named_paths.iter().chain(&common) {
            add_named_files(&path.join("config"), around, files);
            for name in [
                "config",
                "config.worktree",
                "hooks",
                "info",
                "commondir",
                "modules",
            ] {
                files.extend(Some(path.join(name)).filter(|path| path.exists()));
            }
        }
    }
    files.insert(repository);
}

/// Adds the files that settings name, such as an external diff, and the files that included settings
/// name.
fn add_named_files(settings: &Path, around: &Path, files: &mut BTreeSet<PathBuf>) {
    let mut todo = vec![settings.to_owned()];
    let mut named_paths = BTreeSet::new();
    while let Some(file) = todo.pop().filter(|_| named_paths.len() < MAX_NAMED_FILES) {
        let folder = file.parent().unwrap_or(around);
        let paths = [around, folder].map(|folder| paths_in_settings(&file, folder));
        let paths = paths.into_iter().flatten().filter(|path| path.is_file());
        todo.extend(paths.filter(|path| named_paths.insert(path.clone())));
    }
    files.extend(named_paths);
}
