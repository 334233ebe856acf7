//! Paths in arguments, as a policy compares them: by what they lead to, not by how they are spelled.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use goondan_spec::kinds::{Action, MarkedArguments};
use goondan_spec::pattern;
use serde_json::Value;

use crate::JsonObject;
use crate::real_path::real_path;

/// The path arguments of a call, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PathArguments(BTreeMap<String, Places>);

/// Where one path leads. Each place has one or two names: seen from the working folder, and absolute.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Places {
    /// As the caller wrote it.
    given: String,
    /// By its text alone.
    folded: Vec<String>,
    /// With symbolic links followed. Empty where that is not known.
    real: Vec<String>,
}

impl PathArguments {
    /// By their text alone.
    pub fn of(marked: &MarkedArguments, arguments: &JsonObject) -> Self {
        Self::collect(marked, arguments, |given| Places {
            given: given.to_owned(),
            folded: vec![name(&fold(Path::new(given)))],
            real: Vec::new(),
        })
    }

    /// Also by what they lead to, seen from the working folder of a call. This asks the file system.
    pub fn within(folder: &Path, marked: &MarkedArguments, arguments: &JsonObject) -> Self {
        let real_folder = real_path(folder).unwrap_or_else(|_| folder.to_owned());
        Self::collect(marked, arguments, |given| {
            let whole = real_folder.join(given);
            let real = if given.contains('\0') { None } else { real_path(&whole).ok() };
            Places {
                given: given.to_owned(),
                folded: names(&real_folder, &fold(&whole)),
                real: real.map(|real| names(&real_folder, &real)).unwrap_or_default(),
            }
        })
    }

    fn collect(marked: &MarkedArguments, arguments: &JsonObject, places: impl Fn(&str) -> Places) -> Self {
        let texts = marked.paths.iter().filter_map(|name| Some((name, arguments.get(name).and_then(Value::as_str)?)));
        PathArguments(texts.map(|(name, given)| (name.clone(), places(given))).collect())
    }

    /// Whether a rule's pattern is about the argument `name`; nothing where that is no path. What allows must match
    /// wherever the path leads; for what restricts, any spelling of it will do.
    pub(super) fn fit(&self, name: &str, expected: &str, action: Action) -> Option<bool> {
        let places = self.0.get(name)?;
        let expected = expected.strip_prefix("./").unwrap_or(expected);
        let any = |names: &[String]| names.iter().any(|name| pattern::matches(expected, name));
        Some(match action {
            Action::Allow => any(&places.folded) && (places.real.is_empty() || any(&places.real)),
            Action::Ask | Action::Deny => {
                pattern::matches(expected, &places.given) || any(&places.folded) || any(&places.real)
            }
        })
    }
}

/// The names of an absolute path.
fn names(folder: &Path, path: &Path) -> Vec<String> {
    match path.strip_prefix(folder) {
        Ok(below) => vec![name(below), name(path)],
        Err(_) => vec![name(path)],
    }
}

fn name(path: &Path) -> String {
    if path.as_os_str().is_empty() { ".".to_owned() } else { path.to_string_lossy().into_owned() }
}

/// A path without `.`, without `..` where there is something to go back from, without doubled or trailing slashes.
fn fold(path: &Path) -> PathBuf {
    let mut done = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => match done.components().next_back() {
                Some(Component::Normal(_)) => {
                    done.pop();
                }
                Some(Component::RootDir | Component::Prefix(_)) => {}
                _ => done.push(".."),
            },
            other => done.push(other),
        }
    }
    done
}
