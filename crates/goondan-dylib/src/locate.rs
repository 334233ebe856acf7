//! Finds the library file that the `entry` of a resource names.

use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::path::{Path, PathBuf};

use goondan_core::package_copies::code_path;

use crate::failure::LibraryFailure;

/// Library suffixes of all platforms, because an entry may come from another platform.
const LIBRARY_SUFFIXES: [&str; 3] = [".so", ".dylib", ".dll"];

/// Returns the library file of `entry`: the file itself, or its name with this platform's prefix
/// and suffix, with `-` or `_`.
pub(crate) fn library(bundle_root: &Path, entry: &str) -> Result<PathBuf, LibraryFailure> {
    let entry_path = code_path(&bundle_root.join(entry));
    let candidates = candidates(&entry_path);
    candidates
        .iter()
        .find(|candidate| candidate.is_file())
        .cloned()
        .ok_or_else(|| {
            let looked_for = candidates
                .iter()
                .filter_map(|path| file_name(path))
                .collect();
            LibraryFailure::Missing {
                entry: entry.to_owned(),
                looked_for,
            }
        })
}

/// Returns the paths at which the library may be, in the order of preference.
fn candidates(entry_path: &Path) -> Vec<PathBuf> {
    let Some(name) = file_name(entry_path) else {
        return Vec::new();
    };
    let mut paths = Vec::new();
    if LIBRARY_SUFFIXES.iter().any(|suffix| name.ends_with(suffix)) {
        paths.push(entry_path.to_owned());
    }
    let bare = bare_name(&name);
    for stem in [bare.clone(), bare.replace('-', "_")] {
        for file in [
            format!("{DLL_PREFIX}{stem}{DLL_SUFFIX}"),
            format!("{stem}{DLL_SUFFIX}"),
        ] {
            let path = entry_path.with_file_name(file);
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
    }
    paths
}

/// Removes prefix and suffix: `libtext_utils.so` → `text_utils`. A name without a suffix is
/// unchanged.
fn bare_name(name: &str) -> String {
    match LIBRARY_SUFFIXES
        .iter()
        .find_map(|suffix| name.strip_suffix(suffix))
    {
        Some(stem) => stem.strip_prefix("lib").unwrap_or(stem).to_owned(),
        None => name.to_owned(),
    }
}

/// Returns the last part of `path`; `None` if it has none.
fn file_name(path: &Path) -> Option<String> {
    path.file_name()
        .map(|name| name.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_an_entry_finds_the_library_of_this_platform() {
        let root = tempfile::tempdir().expect("a folder");
        let file = root
            .path()
            .join(format!("{DLL_PREFIX}text_utils{DLL_SUFFIX}"));
        std::fs::write(&file, b"").expect("written");
        for entry in [
            "text-utils",
            "./text-utils",
            "text_utils",
            "libtext_utils.so",
            "libtext-utils.dylib",
            "text_utils.dll",
        ] {
            let found = library(root.path(), entry).map_err(|failure| failure.to_string());
            assert_eq!(
                found.and_then(|path| path.canonicalize().map_err(|e| e.to_string())),
                Ok(file.canonicalize().expect("the file exists"))
            );
        }
    }

    #[test]
    fn the_error_for_a_missing_library_names_the_searched_file() {
        let root = tempfile::tempdir().expect("a folder");
        let failure = library(root.path(), "tools/nope").expect_err("missing");
        assert!(failure.to_string().contains("tools/nope"));
        assert!(
            failure
                .suggestion()
                .is_some_and(|text| text.contains(&format!("{DLL_PREFIX}nope{DLL_SUFFIX}")))
        );
    }
}
