//! Path arguments. Policies compare the targets of paths, not their spelling.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use goondan_spec::kinds::{MarkedArguments, PATCHED_PATH_ARGUMENT, PermissionAction};
use goondan_spec::pattern::{self, PatternAtom};
use serde_json::Value;

use super::decide::RuleMatch;
use goondan_core::JsonObject;
use goondan_core::patch_headers;
use goondan_core::path_style::PathStyle;
use goondan_core::real_path::real_path;

/// Path arguments of a call, by argument name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathArguments {
    paths: BTreeMap<String, ArgumentPaths>,
    style: PathStyle,
}

impl Default for PathArguments {
    fn default() -> Self {
        PathArguments {
            paths: BTreeMap::new(),
            style: PathStyle::NATIVE,
        }
    }
}

/// Paths of one argument.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct ArgumentPaths {
    each: Vec<PathTargets>,
    /// Each path is decided separately: the argument is a list or a patch.
    is_list: bool,
    /// Files below the paths also count.
    is_tree: bool,
}

/// Targets of one path. Each target has one or two names: relative to the working directory and
/// absolute.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PathTargets {
    /// Path as the caller wrote it.
    given: String,
    /// Names without resolving symbolic links.
    folded: Vec<String>,
    /// Names with symbolic links resolved. Empty if unknown.
    real: Vec<String>,
    /// The text does not determine the target.
    is_odd: bool,
    /// Names relative to the working directory of another agent. Used only for restrictions.
    elsewhere: Vec<String>,
}

impl PathTargets {
    fn all_names(&self) -> impl Iterator<Item = &String> {
        self.folded.iter().chain(&self.real).chain(&self.elsewhere)
    }
}

impl PathArguments {
    /// Parses the paths without accessing the file system.
    pub fn of(marked: &MarkedArguments, arguments: &JsonObject) -> Self {
        Self::in_style(PathStyle::NATIVE, marked, arguments)
    }

    /// Parses the paths without accessing the file system, for the given path style.
    pub fn in_style(style: PathStyle, marked: &MarkedArguments, arguments: &JsonObject) -> Self {
        Self::collect(style, marked, arguments, |given| PathTargets {
            given: given.to_owned(),
            folded: vec![name(
                style,
                &normalize_path(Path::new(&*style.unify(given))),
            )],
            real: Vec::new(),
            is_odd: style.is_ambiguous(given),
            elsewhere: Vec::new(),
        })
    }

    /// Resolves the paths relative to the working directory of a call. Accesses the file system.
    pub fn within(folder: &Path, marked: &MarkedArguments, arguments: &JsonObject) -> Self {
        let real_folder = real_path(folder).unwrap_or_else(|_| folder.to_owned());
        let style = PathStyle::NATIVE;
        Self::collect(style, marked, arguments, |given| {
            let path = real_folder.join(given);
            let real = if given.contains('\0') {
                None
            } else {
                real_path(&path).ok()
            };
            PathTargets {
                given: given.to_owned(),
                folded: names(style, &real_folder, &normalize_path(&path)),
                real: real
                    .map(|real| names(style, &real_folder, &real))
                    .unwrap_or_default(),
                is_odd: style.is_ambiguous(given),
                elsewhere: Vec::new(),
            }
        })
    }

    /// Returns the paths for the rules of an agent with the working directory `folder`.
    ///
    /// Allowing rules apply as seen from there. Restricting rules also apply in the directory of
    /// the call. Without a directory, only absolute patterns can allow.
    pub fn seen_from(&self, folder: Option<&Path>) -> Self {
        let relative_targets = |targets: &Vec<String>| -> Vec<String> {
            let absolute = targets
                .iter()
                .map(Path::new)
                .find(|path| path.is_absolute());
            absolute.map_or_else(Vec::new, |path| match folder {
                Some(folder) => names(self.style, folder, path),
                None => vec![name(self.style, path)],
            })
        };
        let mut paths = self.paths.clone();
        for places in paths.values_mut().flat_map(|paths| &mut paths.each) {
            let (folded, real) = (
                relative_targets(&places.folded),
                relative_targets(&places.real),
            );
            places.elsewhere = [&*places.folded, &*places.real].concat();
            (places.folded, places.real) = (folded, real);
        }
        PathArguments {
            paths,
            style: self.style,
        }
    }

    /// Returns true if all paths of an argument are in the working directory of the call. A
    /// missing argument counts as inside.
    pub(super) fn is_inside(&self, name: &str) -> bool {
        let leaves_directory = |name: &String| {
            name == ".." || name.starts_with("../") || Path::new(name).is_absolute()
        };
        let is_inside = |path: &PathTargets| {
            let has_inner_name = |names: &Vec<String>| {
                names
                    .iter()
                    .chain(&path.elsewhere)
                    .any(|name| !leaves_directory(name))
            };
            !path.is_odd
                && [&path.folded, &path.real]
                    .into_iter()
                    .all(|names| names.is_empty() || has_inner_name(names))
        };
        self.paths
            .get(name)
            .is_none_or(|paths| paths.each.iter().all(is_inside))
    }

    /// Returns true if there are no path arguments.
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    /// Collects the path arguments of a call; `targets_of` returns the targets of a path.
    fn collect(
        style: PathStyle,
        marked: &MarkedArguments,
        arguments: &JsonObject,
        targets_of: impl Fn(&str) -> PathTargets,
    ) -> Self {
        let mut paths_by_argument: BTreeMap<String, ArgumentPaths> = BTreeMap::new();
        let texts = |names: &'_ [String]| -> Vec<(String, &Value)> {
            names
                .iter()
                .filter_map(|name| Some((name.clone(), arguments.get(name)?)))
                .collect()
        };
        for (name, value) in texts(&marked.paths) {
            let paths = paths_by_argument.entry(name).or_default();
            paths.is_list |= value.is_array();
            let items = value
                .as_array()
                .map_or(std::slice::from_ref(value), Vec::as_slice);
            paths
                .each
                .extend(items.iter().filter_map(Value::as_str).map(&targets_of));
        }
        for (name, value) in texts(&marked.trees) {
            let paths = paths_by_argument.entry(name).or_default();
            paths.is_tree = true;
            paths.each.extend(value.as_str().map(&targets_of));
        }
        for (_, value) in texts(&marked.patches) {
            let paths = paths_by_argument
                .entry(PATCHED_PATH_ARGUMENT.to_owned())
                .or_default();
            paths.is_list = true;
            paths.each.extend(
                value
                    .as_str()
                    .into_iter()
                    .flat_map(patch_headers::paths)
                    .map(&targets_of),
            );
        }
        paths_by_argument.retain(|_, paths| !paths.each.is_empty());
        PathArguments {
            paths: paths_by_argument,
            style,
        }
    }

    /// Returns the number of paths in the arguments of a call.
    pub fn count(marked: &MarkedArguments, arguments: &JsonObject) -> usize {
        let values = |names: &[String]| -> Vec<&Value> {
            names
                .iter()
                .filter_map(|name| arguments.get(name))
                .collect()
        };
        let path_counts = values(&marked.paths)
            .into_iter()
            .map(|value| value.as_array().map_or(1, Vec::len));
        let patched = values(&marked.patches)
            .into_iter()
            .filter_map(Value::as_str);
        path_counts.sum::<usize>()
            + marked.trees.len()
            + patched
                .map(|text| patch_headers::paths(text).count())
                .sum::<usize>()
    }

    /// Returns every path: argument name, text, and possible absolute targets. There are no targets
    /// if the working directory is unknown.
    pub fn absolute(&self) -> impl Iterator<Item = (&str, &str, Vec<&Path>)> {
        let argument_places = self
            .paths
            .iter()
            .flat_map(|(name, paths)| paths.each.iter().map(move |places| (name, places)));
        argument_places.map(|(name, places)| {
            let names = places.folded.iter().chain(&places.real).map(Path::new);
            (
                name.as_str(),
                places.given.as_str(),
                names.filter(|path| path.is_absolute()).collect(),
            )
        })
    }

    /// Returns the paths that contain symbolic links, with their targets: relative to the working
    /// directory if they are inside, else absolute. The target is empty if it cannot be resolved.
    pub(super) fn linked_paths(&self) -> impl Iterator<Item = (&str, &str)> {
        let argument_paths = self.paths.values().flat_map(|paths| &paths.each);
        argument_paths
            .filter(|path| path.real != path.folded)
            .map(|path| {
                let is_inside = |name: &&String| !name.starts_with("..");
                let target = path.real.iter().find(is_inside);
                (
                    path.given.as_str(),
                    target.map(String::as_str).unwrap_or_default(),
                )
            })
    }

    /// Returns the paths to decide separately: argument name, index and text.
    pub(super) fn listed_paths(&self) -> impl Iterator<Item = (&str, usize, &str)> {
        let lists = self.paths.iter().filter(|(_, paths)| paths.is_list);
        lists.flat_map(|(name, paths)| {
            paths
                .each
                .iter()
                .enumerate()
                .map(|(number, places)| (name.as_str(), number, places.given.as_str()))
        })
    }

    /// Matches a rule's pattern with the argument `name`, or with its path number `number`; `None`
    /// if it is not a path argument.
    ///
    /// An allowing pattern must match the targets of all paths. A restricting pattern applies if it
    /// matches any spelling of one path.
    pub(super) fn match_pattern(
        &self,
        name: &str,
        number: Option<usize>,
        expected: &str,
        action: PermissionAction,
    ) -> Option<RuleMatch> {
        let (paths, style) = (self.paths.get(name)?, self.style);
        let expected = &self::name(
            style,
            &normalize_path(Path::new(&*style.separated(expected))),
        );
        let chosen = match number {
            Some(number) => paths.each.get(number..=number)?,
            None => &paths.each,
        };
        Some(match action {
            PermissionAction::Allow => {
                let matches_any =
                    |names: &[String]| names.iter().any(|name| pattern::matches(expected, name));
                let is_sure = |path: &PathTargets| {
                    matches_any(&path.folded) && (path.real.is_empty() || matches_any(&path.real))
                };
                if chosen.iter().all(|path| is_sure(path) && !path.is_odd) {
                    RuleMatch::Yes
                } else {
                    RuleMatch::No
                }
            }
            // Case sensitivity depends on the file system: restricting rules ignore case where the
            // file system may.
            PermissionAction::Ask | PermissionAction::Deny => {
                let expected = &*style.case_folded(expected);
                let matches_name =
                    |name: &str| pattern::matches(expected, &style.case_folded(name));
                let is_about = |path: &PathTargets| {
                    matches_name(&path.given) || path.all_names().any(|name| matches_name(name))
                };
                let is_above = |path: &PathTargets| {
                    path.all_names()
                        .any(|folder| may_be_below(&style.case_folded(folder), expected))
                };
                match () {
                    () if chosen.iter().any(is_about) => RuleMatch::Yes,
                    () if chosen.iter().any(|path| path.is_odd) => RuleMatch::Perhaps,
                    () if paths.is_tree && chosen.iter().any(is_above) => RuleMatch::Perhaps,
                    () => RuleMatch::No,
                }
            }
        })
    }
}

/// Returns true if a pattern may match a file below a directory.
fn may_be_below(folder: &str, expected: &str) -> bool {
    if folder == "." {
        return !expected.starts_with('/') && !expected.starts_with("..");
    }
    let below = format!("{}/", folder.trim_end_matches('/'));
    pattern::may_match(
        expected,
        &[pattern::atoms(&below), vec![PatternAtom::Any]].concat(),
    )
}

/// Returns the names of an absolute path: relative to the directory, using `..` if it is outside,
/// and absolute.
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
    let relative_path: PathBuf = up.chain(path.components().skip(shared)).collect();
    vec![name(style, &relative_path), name(style, path)]
}

/// Returns true if two components are equal; ignores case except on Unix.
fn is_same(style: PathStyle, a: Component<'_>, b: Component<'_>) -> bool {
    let folded = |part: Component<'_>| {
        style
            .case_folded(&part.as_os_str().to_string_lossy())
            .into_owned()
    };
    a == b || (style != PathStyle::Unix && folded(a) == folded(b))
}

/// Returns a path as text with the separators of rules; `.` for an empty path.
fn name(style: PathStyle, path: &Path) -> String {
    if path.as_os_str().is_empty() {
        ".".to_owned()
    } else {
        style.separated(&path.to_string_lossy()).into_owned()
    }
}

/// Removes `.`, resolvable `..`, and doubled or trailing slashes.
fn normalize_path(path: &Path) -> PathBuf {
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
