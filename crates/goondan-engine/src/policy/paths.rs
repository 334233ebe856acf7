//! Paths in arguments, as a policy compares them: by what they lead to, not by how they are spelled.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use goondan_spec::kinds::{Action, MarkedArguments, PATCHED};
use goondan_spec::pattern::{self, Atom};
use serde_json::Value;

use super::decide::Fit;
use goondan_core::JsonObject;
use goondan_core::patch;
use goondan_core::path_style::PathStyle;
use goondan_core::real_path::real_path;

/// The path arguments of a call, by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathArguments {
    paths: BTreeMap<String, Paths>,
    style: PathStyle,
}

impl Default for PathArguments {
    fn default() -> Self {
        PathArguments {
            paths: BTreeMap::new(),
            style: PathStyle::HERE,
        }
    }
}

/// What one argument names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Paths {
    each: Vec<Places>,
    /// They are judged one by one: the argument is a list, or a patch.
    is_list: bool,
    /// What is below them counts, too.
    is_tree: bool,
}

/// Where one path leads. Each place has one or two names: seen from the working folder, and absolute.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Places {
    /// As the caller wrote it.
    given: String,
    /// By its text alone.
    folded: Vec<String>,
    /// With symbolic links followed. Empty where that is not known.
    real: Vec<String>,
    /// Nobody can tell by its text what it leads to.
    is_odd: bool,
    /// What it is called where somebody else works. That only restricts.
    elsewhere: Vec<String>,
}

impl Places {
    /// What it is called wherever.
    fn all(&self) -> impl Iterator<Item = &String> {
        self.folded.iter().chain(&self.real).chain(&self.elsewhere)
    }
}

impl PathArguments {
    /// By their text alone.
    pub fn of(marked: &MarkedArguments, arguments: &JsonObject) -> Self {
        Self::in_style(PathStyle::HERE, marked, arguments)
    }

    /// By their text alone, on a system of that style.
    pub fn in_style(style: PathStyle, marked: &MarkedArguments, arguments: &JsonObject) -> Self {
        Self::collect(style, marked, arguments, |given| Places {
            given: given.to_owned(),
            folded: vec![name(style, &fold(Path::new(&*style.unify(given))))],
            real: Vec::new(),
            is_odd: style.is_odd(given),
            elsewhere: Vec::new(),
        })
    }

    /// Also by what they lead to, seen from the working folder of a call. This asks the file system.
    pub fn within(folder: &Path, marked: &MarkedArguments, arguments: &JsonObject) -> Self {
        let real_folder = real_path(folder).unwrap_or_else(|_| folder.to_owned());
        let style = PathStyle::HERE;
        Self::collect(style, marked, arguments, |given| {
            let whole = real_folder.join(given);
            let real = if given.contains('\0') {
                None
            } else {
                real_path(&whole).ok()
            };
            Places {
                given: given.to_owned(),
                folded: names(style, &real_folder, &fold(&whole)),
                real: real
                    .map(|real| names(style, &real_folder, &real))
                    .unwrap_or_default(),
                is_odd: style.is_odd(given),
                elsewhere: Vec::new(),
            }
        })
    }

    /// The same paths for the rules of an agent that works in `folder`: what these allow, they allow as seen from there; what
    /// they restrict, they restrict in the folder of the call, too. Without a folder only absolute patterns allow.
    pub fn seen_from(&self, folder: Option<&Path>) -> Self {
        let seen = |known: &Vec<String>| -> Vec<String> {
            let absolute = known.iter().map(Path::new).find(|path| path.is_absolute());
            absolute.map_or_else(Vec::new, |path| match folder {
                Some(folder) => names(self.style, folder, path),
                None => vec![name(self.style, path)],
            })
        };
        let mut paths = self.paths.clone();
        for places in paths.values_mut().flat_map(|paths| &mut paths.each) {
            let (folded, real) = (seen(&places.folded), seen(&places.real));
            places.elsewhere = [&*places.folded, &*places.real].concat();
            (places.folded, places.real) = (folded, real);
        }
        PathArguments {
            paths,
            style: self.style,
        }
    }

    /// Whether all that an argument names lies below the working folder of the call, or is it. What is not there does.
    pub(super) fn is_inside(&self, name: &str) -> bool {
        let leaves = |name: &String| {
            name == ".." || name.starts_with("../") || Path::new(name).is_absolute()
        };
        let is_inside = |one: &Places| {
            let inside =
                |names: &Vec<String>| names.iter().chain(&one.elsewhere).any(|name| !leaves(name));
            !one.is_odd
                && [&one.folded, &one.real]
                    .into_iter()
                    .all(|names| names.is_empty() || inside(names))
        };
        self.paths
            .get(name)
            .is_none_or(|paths| paths.each.iter().all(is_inside))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    fn collect(
        style: PathStyle,
        marked: &MarkedArguments,
        arguments: &JsonObject,
        places: impl Fn(&str) -> Places,
    ) -> Self {
        let mut all: BTreeMap<String, Paths> = BTreeMap::new();
        let texts = |names: &'_ [String]| -> Vec<(String, &Value)> {
            names
                .iter()
                .filter_map(|name| Some((name.clone(), arguments.get(name)?)))
                .collect()
        };
        for (name, value) in texts(&marked.paths) {
            let paths = all.entry(name).or_default();
            paths.is_list |= value.is_array();
            let items = value
                .as_array()
                .map_or(std::slice::from_ref(value), Vec::as_slice);
            paths
                .each
                .extend(items.iter().filter_map(Value::as_str).map(&places));
        }
        for (name, value) in texts(&marked.trees) {
            let paths = all.entry(name).or_default();
            paths.is_tree = true;
            paths.each.extend(value.as_str().map(&places));
        }
        for (_, value) in texts(&marked.patches) {
            let paths = all.entry(PATCHED.to_owned()).or_default();
            paths.is_list = true;
            paths.each.extend(
                value
                    .as_str()
                    .into_iter()
                    .flat_map(patch::paths)
                    .map(&places),
            );
        }
        all.retain(|_, paths| !paths.each.is_empty());
        PathArguments { paths: all, style }
    }

    /// How many paths the arguments of a call name.
    pub fn count(marked: &MarkedArguments, arguments: &JsonObject) -> usize {
        let values = |names: &[String]| -> Vec<&Value> {
            names
                .iter()
                .filter_map(|name| arguments.get(name))
                .collect()
        };
        let listed = values(&marked.paths)
            .into_iter()
            .map(|value| value.as_array().map_or(1, Vec::len));
        let patched = values(&marked.patches)
            .into_iter()
            .filter_map(Value::as_str);
        listed.sum::<usize>()
            + marked.trees.len()
            + patched
                .map(|text| patch::paths(text).count())
                .sum::<usize>()
    }

    /// Every path: its argument, how it is written, and where it may lead. Nothing where the working folder is not known.
    pub fn absolute(&self) -> impl Iterator<Item = (&str, &str, Vec<&Path>)> {
        let all = self
            .paths
            .iter()
            .flat_map(|(name, paths)| paths.each.iter().map(move |places| (name, places)));
        all.map(|(name, places)| {
            let names = places.folded.iter().chain(&places.real).map(Path::new);
            (
                name.as_str(),
                places.given.as_str(),
                names.filter(|path| path.is_absolute()).collect(),
            )
        })
    }

    /// The paths that are judged one by one: the argument, its number there, and how it is written.
    pub(super) fn listed(&self) -> impl Iterator<Item = (&str, usize, &str)> {
        let lists = self.paths.iter().filter(|(_, paths)| paths.is_list);
        lists.flat_map(|(name, paths)| {
            paths
                .each
                .iter()
                .enumerate()
                .map(|(number, places)| (name.as_str(), number, places.given.as_str()))
        })
    }

    /// Whether a rule's pattern is about the argument `name`, or with a `number` about that one of its paths; nothing
    /// where that is no path. What allows must match wherever all of the paths lead; for what restricts, any spelling of
    /// one of them will do.
    pub(super) fn fit(
        &self,
        name: &str,
        number: Option<usize>,
        expected: &str,
        action: Action,
    ) -> Option<Fit> {
        let (paths, style) = (self.paths.get(name)?, self.style);
        let expected = &self::name(style, &fold(Path::new(&*style.separated(expected))));
        let chosen = match number {
            Some(number) => paths.each.get(number..=number)?,
            None => &paths.each,
        };
        Some(match action {
            Action::Allow => {
                let any =
                    |names: &[String]| names.iter().any(|name| pattern::matches(expected, name));
                let is_sure =
                    |one: &Places| any(&one.folded) && (one.real.is_empty() || any(&one.real));
                if chosen.iter().all(|one| is_sure(one) && !one.is_odd) {
                    Fit::Yes
                } else {
                    Fit::No
                }
            }
            // Whether letters count is the file system's to say: what restricts takes both for the same where they may be.
            Action::Ask | Action::Deny => {
                let expected = &*style.folded(expected);
                let is = |name: &str| pattern::matches(expected, &style.folded(name));
                let is_about = |one: &Places| is(&one.given) || one.all().any(|name| is(name));
                let is_above = |one: &Places| {
                    one.all()
                        .any(|folder| may_be_below(&style.folded(folder), expected))
                };
                match () {
                    () if chosen.iter().any(is_about) => Fit::Yes,
                    () if chosen.iter().any(|one| one.is_odd) => Fit::Perhaps,
                    () if paths.is_tree && chosen.iter().any(is_above) => Fit::Perhaps,
                    () => Fit::No,
                }
            }
        })
    }
}

/// Whether a pattern may be about something below a folder.
fn may_be_below(folder: &str, expected: &str) -> bool {
    if folder == "." {
        return !expected.starts_with('/') && !expected.starts_with("..");
    }
    let below = format!("{}/", folder.trim_end_matches('/'));
    pattern::may_match(
        expected,
        &[pattern::atoms(&below), vec![Atom::Any]].concat(),
    )
}

/// The names of an absolute path: as it is seen from the folder, with `..` where it lies outside, and absolute.
fn names(style: PathStyle, folder: &Path, path: &Path) -> Vec<String> {
    let shared = folder
        .components()
        .zip(path.components())
        .take_while(|(a, b)| is_same(style, *a, *b))
        .count();
    let up = folder
        .components()
        .skip(shared)
        .map(|_| Component::ParentDir);
    let seen: PathBuf = up.chain(path.components().skip(shared)).collect();
    vec![name(style, &seen), name(style, path)]
}

fn is_same(style: PathStyle, a: Component<'_>, b: Component<'_>) -> bool {
    let folded = |part: Component<'_>| {
        style
            .folded(&part.as_os_str().to_string_lossy())
            .into_owned()
    };
    a == b || (style != PathStyle::Unix && folded(a) == folded(b))
}

fn name(style: PathStyle, path: &Path) -> String {
    if path.as_os_str().is_empty() {
        ".".to_owned()
    } else {
        style.separated(&path.to_string_lossy()).into_owned()
    }
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
