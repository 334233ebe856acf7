//! Discovery of test cases.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};

use goondan::spec::reason;

use crate::case::CaseError;
use crate::case::read::{FileCases, LocatedCase, read};

/// Suffix of file names with test cases.
const CASE_FILE_SUFFIX: &str = ".case.yaml";

/// Reads all test cases in `paths`, sorted by path. A path is a file of any name or a directory,
/// which is searched for `*.case.yaml` files.
///
/// Reports an error for a path without test cases, an unreadable file, and a name that two test
/// cases share.
pub fn discover(paths: &[PathBuf]) -> FileCases {
    let mut cases = FileCases::default();
    let mut files = BTreeSet::new();
    for path in paths {
        match files_at(path) {
            Ok(some) if some.is_empty() => {
                cases.errors.push(error(
                    path,
                    format!("there is no *{CASE_FILE_SUFFIX} file in this directory or below it"),
                ));
            }
            Ok(some) => files.extend(some),
            Err(cause) => cases
                .errors
                .push(error(path, format!("can't be read: {}", reason(&cause)))),
        }
    }
    for file in files {
        match std::fs::read_to_string(&file) {
            Ok(text) => {
                let read = read(&file, &text);
                cases.cases.extend(read.cases);
                cases.errors.extend(read.errors);
            }
            Err(cause) => cases
                .errors
                .push(error(&file, format!("can't be read: {}", reason(&cause)))),
        }
    }
    refuse_duplicates(&mut cases);
    cases
}

/// Creates an error about a whole file.
fn error(path: &Path, message: String) -> CaseError {
    CaseError {
        file: path.to_owned(),
        line: 0,
        column: 0,
        message,
    }
}

/// Returns the file at `path`, or all test case files below the directory at `path`.
fn files_at(path: &Path) -> io::Result<Vec<PathBuf>> {
    if !std::fs::metadata(path)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    let mut folders = vec![path.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() && !is_skipped(&entry.file_name().to_string_lossy()) {
                folders.push(entry.path());
            } else if kind.is_file()
                && entry
                    .file_name()
                    .to_string_lossy()
                    .ends_with(CASE_FILE_SUFFIX)
            {
                files.push(entry.path());
            }
        }
    }
    Ok(files)
}

/// Skips directories with generated or third-party files. Symbolic links to directories are not
/// followed, so there are no cycles.
fn is_skipped(name: &str) -> bool {
    name.starts_with('.') || matches!(name, "target" | "node_modules")
}

/// Keeps the first test case of each name and reports the others.
fn refuse_duplicates(found: &mut FileCases) {
    let mut first: HashMap<String, (PathBuf, usize)> = HashMap::new();
    let mut keep = Vec::with_capacity(found.cases.len());
    for located in found.cases.drain(..) {
        let LocatedCase { file, line, case } = &located;
        match first.get(&case.case) {
            None => {
                first.insert(case.case.clone(), (file.clone(), *line));
                keep.push(located);
            }
            Some((other, at)) => {
                let message = format!(
                    "a case named `{}` already exists in {}:{at}",
                    case.case,
                    other.display()
                );
                found.errors.push(CaseError {
                    file: file.clone(),
                    line: *line,
                    column: 1,
                    message,
                });
            }
        }
    }
    found.cases = keep;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(name: &str) -> String {
        format!("case: {name}\nfiles: {{goondan.yaml: x}}\n")
    }

    #[test]
    fn directories_are_searched_and_duplicate_names_are_errors() {
        let dir = tempfile::tempdir().unwrap();
        let put = |path: &str, text: String| {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        put("b.case.yaml", format!("{}---\n{}", case("b1"), case("b2")));
        put("a/deep/a.case.yaml", case("a1"));
        put("c.case.yaml", case("b2"));
        put("other.yaml", case("not-a-case-file"));
        put("target/t.case.yaml", case("built"));
        put(".git/g.case.yaml", case("hidden"));
        let found = discover(&[dir.path().to_owned(), dir.path().join("b.case.yaml")]);
        let names: Vec<&str> = found
            .cases
            .iter()
            .map(|located| &*located.case.case)
            .collect();
        assert_eq!(names, ["a1", "b1", "b2"]);
        assert_eq!(found.errors.len(), 1);
        assert!(
            found.errors[0]
                .to_string()
                .contains("c.case.yaml:1:1: a case named `b2` already exists in")
        );
    }

    #[test]
    fn a_path_without_cases_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let found = discover(&[dir.path().to_owned(), dir.path().join("nowhere")]);
        assert!(found.cases.is_empty());
        let messages: Vec<String> = found
            .errors
            .iter()
            .map(|error| error.message.clone())
            .collect();
        assert_eq!(
            messages[0],
            "there is no *.case.yaml file in this directory or below it"
        );
        assert!(
            messages[1].starts_with("can't be read: "),
            "{}",
            messages[1]
        );
    }
}
