//! Rules of ignore files, such as `.gitignore`, for walks over directories that an agent or the
//! author of a package can write.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::regular_file;

/// Limit of an ignore file in bytes. A larger one is ignored.
pub(crate) const MAX_IGNORE_FILE_BYTES: u64 = 1024 * 1024;
/// Limit of the patterns of all ignore files of a search in bytes, with the following weights. The
/// patterns of further files are ignored.
pub(crate) const MAX_IGNORE_PATTERN_BYTES: usize = 2 * 1024 * 1024;
/// Weight of the bytes of a pattern with wildcards, which needs much more memory than another one.
const WILDCARD_PATTERN_WEIGHT: usize = 8;
/// Minimum length of a pattern in the sum of all patterns, in bytes.
const MIN_PATTERN_BYTES: usize = 64;

/// Sum of the patterns of the ignore files of a search.
#[derive(Debug, Default)]
pub(crate) struct IgnorePatterns {
    bytes: usize,
}

impl IgnorePatterns {
    /// Parses an ignore file whose rules apply to paths below `directory`. `None` if the patterns of
    /// the search exceed the limit with it.
    pub(crate) fn parse(&mut self, directory: &Path, text: &[u8]) -> Option<Gitignore> {
        let text = String::from_utf8_lossy(text);
        let bytes: usize = text.lines().map(pattern_weight).sum();
        if self.bytes + bytes > MAX_IGNORE_PATTERN_BYTES {
            return None;
        }
        self.bytes += bytes;
        let mut builder = GitignoreBuilder::new(directory);
        for line in text.lines() {
            // A pattern that is invalid in git also ignores nothing.
            let _ = builder.add_line(None, line);
        }
        builder.build().ok()
    }
}

/// Returns the weight of a line; zero for a line without a pattern.
fn pattern_weight(line: &str) -> usize {
    match line.trim() {
        line if line.is_empty() || line.starts_with('#') => 0,
        line if line.contains(['*', '?', '[', '{']) => {
            line.len().max(MIN_PATTERN_BYTES / WILDCARD_PATTERN_WEIGHT) * WILDCARD_PATTERN_WEIGHT
        }
        line => line.len().max(MIN_PATTERN_BYTES),
    }
}

/// Rules of the ignore files in a directory and below it. Each file is read when it is first needed.
#[derive(Debug)]
pub struct IgnoreFiles {
    top: PathBuf,
    names: &'static [&'static str],
    by_path: RwLock<HashMap<PathBuf, Option<Arc<Gitignore>>>>,
    patterns: Mutex<IgnorePatterns>,
    left_out: OnceLock<PathBuf>,
}

impl IgnoreFiles {
    /// Creates the rules of the files with one of `names` in `top` and below it. A name is relative
    /// to a directory. An earlier name has precedence.
    pub fn new(top: &Path, names: &'static [&'static str]) -> Self {
        IgnoreFiles {
            top: top.to_owned(),
            names,
            by_path: RwLock::default(),
            patterns: Mutex::default(),
            left_out: OnceLock::new(),
        }
    }

    /// Returns the first file whose rules do not apply, because it is too large, or because the
    /// files have too many patterns.
    pub fn left_out(&self) -> Option<&Path> {
        self.left_out.get().map(PathBuf::as_path)
    }

    /// Returns true if a rule excludes `path`. The innermost file with a matching rule decides.
    pub fn excludes(&self, path: &Path, is_directory: bool) -> bool {
        let decision = self
            .names
            .iter()
            .find_map(|name| self.decision_of(name, path, is_directory));
        decision.unwrap_or(false)
    }

    /// Returns the decision of the files with one name; `None` if no rule matches.
    fn decision_of(&self, name: &str, path: &Path, is_directory: bool) -> Option<bool> {
        let directories = path.ancestors().skip(1);
        let mut inside = directories.take_while(|directory| directory.starts_with(&self.top));
        inside.find_map(|directory| {
            let rules = self.rules_of(directory, name)?;
            match rules.matched(path, is_directory) {
                Match::None => None,
                Match::Ignore(_) => Some(true),
                Match::Whitelist(_) => Some(false),
            }
        })
    }

    fn rules_of(&self, directory: &Path, name: &str) -> Option<Arc<Gitignore>> {
        let path = directory.join(name);
        let known_rules = self.by_path.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(rules) = known_rules.get(&path) {
            return rules.clone();
        }
        drop(known_rules);
        let rules = read(directory, &path).and_then(|text| {
            let mut patterns = self.patterns.lock().unwrap_or_else(PoisonError::into_inner);
            let rules = text.ok().and_then(|text| patterns.parse(directory, &text));
            if rules.is_none() {
                let _ = self.left_out.set(path.clone());
            }
            rules.map(Arc::new)
        });
        let mut known_rules = self.by_path.write().unwrap_or_else(PoisonError::into_inner);
        known_rules.insert(path, rules.clone());
        rules
    }
}

/// Reads an ignore file; an error if it is too large. `None` if it is missing, or reached through a
/// link, which could lead to a secret.
fn read(directory: &Path, path: &Path) -> Option<io::Result<Vec<u8>>> {
    let file = regular_file::open_unlinked(path).ok()?;
    let parent = path.parent()?;
    if parent != directory {
        let below = parent.strip_prefix(directory).ok()?;
        let expected = directory.canonicalize().ok()?.join(below);
        if parent.canonicalize().ok()? != expected {
            return None;
        }
    }
    Some(regular_file::read_all(file, MAX_IGNORE_FILE_BYTES))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const NAMES: &[&str] = &[".ignore", ".gitignore", ".git/info/exclude"];

    #[test]
    fn the_innermost_rule_of_the_first_name_decides() {
        let directory = tempfile::tempdir().unwrap();
        let top = directory.path();
        fs::create_dir_all(top.join("sub")).unwrap();
        fs::create_dir_all(top.join(".git/info")).unwrap();
        fs::write(top.join(".gitignore"), "*.log\n/only\n").unwrap();
        fs::write(top.join("sub/.gitignore"), "!keep.log\n").unwrap();
        fs::write(top.join(".ignore"), "!shown.log\n").unwrap();
        fs::write(top.join(".git/info/exclude"), "local\n").unwrap();
        let rules = IgnoreFiles::new(top, NAMES);
        let excluded = |path: &str| rules.excludes(&top.join(path), false);
        for path in ["a.log", "sub/a.log", "only", "local", "sub/local"] {
            assert!(excluded(path), "{path}");
        }
        for path in [
            "sub/keep.log",
            "shown.log",
            "sub/shown.log",
            "sub/only",
            "a",
        ] {
            assert!(!excluded(path), "{path}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn links_devices_and_large_ignore_files_are_skipped() {
        use std::os::unix::fs::symlink;
        let directory = tempfile::tempdir().unwrap();
        let (top, outside) = (
            directory.path().join("top"),
            directory.path().join("secret"),
        );
        fs::create_dir_all(top.join(".git")).unwrap();
        fs::create_dir_all(&outside).unwrap();
        fs::write(outside.join("exclude"), "a\n").unwrap();
        symlink(outside.join("exclude"), top.join(".ignore")).unwrap();
        symlink("/dev/zero", top.join(".gitignore")).unwrap();
        symlink(&outside, top.join(".git/info")).unwrap();
        let rules = IgnoreFiles::new(&top, NAMES);
        assert!(!rules.excludes(&top.join("a"), false));
        fs::create_dir(top.join("large")).unwrap();
        let large = "a\n".repeat(600_000);
        fs::write(top.join("large/.gitignore"), large).unwrap();
        assert!(rules.left_out().is_none());
        assert!(!rules.excludes(&top.join("large/a"), false));
        assert_eq!(rules.left_out(), Some(&*top.join("large/.gitignore")));
    }

    #[test]
    fn patterns_beyond_the_limit_of_a_search_are_not_applied() {
        let directory = tempfile::tempdir().unwrap();
        let top = directory.path();
        let many = format!("{}\n", "a*".repeat(50)).repeat(1_000);
        for name in ["first", "second", "third"] {
            fs::create_dir(top.join(name)).unwrap();
            fs::write(top.join(name).join(".gitignore"), format!("log\n{many}")).unwrap();
        }
        fs::write(top.join(".gitignore"), "# a comment\n".repeat(50_000)).unwrap();
        let rules = IgnoreFiles::new(top, NAMES);
        assert!(rules.excludes(&top.join("first/log"), false));
        assert!(rules.excludes(&top.join("second/log"), false));
        assert!(!rules.excludes(&top.join("third/log"), false));
        assert_eq!(rules.left_out(), Some(&*top.join("third/.gitignore")));
    }
}
