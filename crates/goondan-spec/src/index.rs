//! Index of all resource names, and the resolution of references (rule L7).

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::discover::seems_to_define;
use crate::meta::{BASE_PACKAGE, Kind, ObjectRef, ResourceId};
use crate::text::closest;

/// Number of neighbors in sort order that are compared on each side of a misspelled name in a large
/// set.
const COMPARED_NEIGHBORS: usize = 64;

/// Names of all resources of all packages, collected before any `spec` is read.
#[derive(Debug, Default)]
pub(crate) struct ResourceIndex {
    /// In search order for references without a package. The referring package is searched first.
    packages: Vec<PackageResourceNames>,
    /// Dependencies of each package. A package without an entry may refer to all packages.
    reach: BTreeMap<Option<String>, BTreeSet<String>>,
    /// Packages that are declared but not installed. `installed_packages.rs` reports them.
    absent: BTreeSet<String>,
    /// Set if a part of the project could not be read, so its resources are unknown.
    partial: bool,
    /// YAML files of the project that contain no resources, because of their places or names.
    unread_files: Vec<String>,
}

#[derive(Debug, Default)]
struct PackageResourceNames {
    name: Option<String>,
    names: HashMap<Kind, BTreeSet<String>>,
}

/// Reason for an unresolved reference.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum UnresolvedReference {
    /// No visible package defines the resource.
    NotFound,
    /// The named package does not exist, or the referring package does not depend on it.
    NoSuchPackage,
    /// The resource may be in a package that is not installed. That is already reported.
    Absent,
    /// Several packages define the resource.
    Ambiguous(Vec<String>),
}

impl ResourceIndex {
    /// Adds a resource. Returns false if it is already there.
    pub(crate) fn insert(&mut self, id: &ResourceId) -> bool {
        let place = self
            .packages
            .iter()
            .position(|package| package.name == id.package)
            .unwrap_or_else(|| {
                self.packages.push(PackageResourceNames {
                    name: id.package.clone(),
                    names: HashMap::new(),
                });
                self.packages.len() - 1
            });
        self.packages[place]
            .names
            .entry(id.kind)
            .or_default()
            .insert(id.name.clone())
    }

    /// Limits each package to its dependencies in `reach`. Packages in `absent` are not installed.
    pub(crate) fn restrict_reach(
        &mut self,
        reach: BTreeMap<Option<String>, BTreeSet<String>>,
        absent: BTreeSet<String>,
    ) {
        (self.reach, self.absent) = (reach, absent);
    }

    /// Sets whether some documents could not be read, so that missing names are not reported.
    pub(crate) fn set_partial(&mut self, partial: bool) {
        self.partial = partial;
    }

    /// Sets the YAML files that were not read.
    pub(crate) fn set_unread_files(&mut self, files: Vec<String>) {
        self.unread_files = files;
    }

    /// Returns the files that were not read and seem to define the resource of `reference`.
    pub(crate) fn unread_files_for(&self, reference: &ObjectRef) -> Vec<&str> {
        let seems_to_define = |file: &&str| seems_to_define(file, reference.kind, &reference.name);
        let files = self.unread_files.iter().map(String::as_str);
        files.filter(seems_to_define).collect()
    }

    /// Returns true if an unresolved `reference` may be defined in the unreadable part of the
    /// project. Requires that it names no package and resembles no known name.
    pub(crate) fn may_be_unread(&self, reference: &ObjectRef) -> bool {
        let is_open = self.partial && reference.package.is_none();
        is_open && self.closest_name(reference).is_none() && self.other_kind(reference).is_none()
    }

    /// Returns true if the package `from` depends on `package`, so that it may refer to its
    /// resources. `None` is the project.
    fn depends_on(&self, from: Option<&str>, package: Option<&str>) -> bool {
        let Some(reach) = self.reach.get(&from.map(str::to_owned)) else {
            return true;
        };
        from == package || package.is_some_and(|name| name == BASE_PACKAGE || reach.contains(name))
    }

    /// Returns true if a dependency of the package `from` is not installed.
    fn lacks_some(&self, from: Option<&str>) -> bool {
        let reach = self.reach.get(&from.map(str::to_owned));
        reach.is_some_and(|reach| reach.iter().any(|name| self.absent.contains(name)))
    }

    /// Resolves `reference` as seen from package `from`: first in that package, then in the
    /// built-in package. In any other package, the name must be unique.
    pub(crate) fn resolve(
        &self,
        reference: &ObjectRef,
        from: Option<&str>,
    ) -> Result<ResourceId, UnresolvedReference> {
        let id = |package: Option<&str>| ResourceId {
            package: package.map(str::to_owned),
            kind: reference.kind,
            name: reference.name.clone(),
        };
        if let Some(package_name) = reference.package.as_deref() {
            if self.absent.contains(package_name) && self.depends_on(from, Some(package_name)) {
                return Err(UnresolvedReference::Absent);
            }
            return match self
                .package(Some(package_name))
                .filter(|_| self.depends_on(from, Some(package_name)))
            {
                Some(package) if package.has_resource(reference) => Ok(id(Some(package_name))),
                Some(_) => Err(UnresolvedReference::NotFound),
                None => Err(UnresolvedReference::NoSuchPackage),
            };
        }
        let near_packages = [from, Some(BASE_PACKAGE)];
        let first = near_packages.into_iter().find(|name| {
            self.package(*name)
                .is_some_and(|package| package.has_resource(reference))
        });
        if let Some(package) = first {
            return Ok(id(package));
        }
        let other_packages: Vec<Option<&str>> = self
            .packages
            .iter()
            .filter(|package| {
                package.has_resource(reference) && self.depends_on(from, package.name.as_deref())
            })
            .map(|package| package.name.as_deref())
            .collect();
        match other_packages[..] {
            [] if self.lacks_some(from) => Err(UnresolvedReference::Absent),
            [] => Err(UnresolvedReference::NotFound),
            [only] => Ok(id(only)),
            _ => Err(UnresolvedReference::Ambiguous(
                other_packages
                    .iter()
                    .map(|name| name.unwrap_or("this project").to_owned())
                    .collect(),
            )),
        }
    }

    /// Returns at most `limit` sorted names of a kind and their total number, for one package or
    /// all.
    pub(crate) fn names(
        &self,
        kind: Kind,
        package: Option<&str>,
        limit: usize,
    ) -> (Vec<&str>, usize) {
        let sets = || self.name_sets(kind, package);
        let mut names: Vec<&str> = sets()
            .flat_map(|names| names.iter().take(limit))
            .map(String::as_str)
            .collect();
        names.sort_unstable();
        names.truncate(limit);
        (names, sets().map(BTreeSet::len).sum())
    }

    /// Returns the name most similar to `reference`.
    ///
    /// In a large set, only neighbors in sort order are compared. This keeps ten thousand wrong
    /// names among ten thousand right ones cheap.
    pub(crate) fn closest_name(&self, reference: &ObjectRef) -> Option<String> {
        let word = &reference.name;
        let mut near_names = Vec::new();
        for names in self.name_sets(reference.kind, reference.package.as_deref()) {
            if names.len() <= 4 * COMPARED_NEIGHBORS {
                near_names.extend(names.iter());
            } else {
                near_names.extend(
                    names
                        .range::<String, _>(..word)
                        .rev()
                        .take(COMPARED_NEIGHBORS),
                );
                near_names.extend(names.range::<String, _>(word..).take(COMPARED_NEIGHBORS));
            }
        }
        closest(word, &near_names).map(str::to_owned)
    }

    /// Returns the resource names of a kind for each package, or only for `package`.
    fn name_sets(
        &self,
        kind: Kind,
        package: Option<&str>,
    ) -> impl Iterator<Item = &BTreeSet<String>> {
        let is_selected = move |candidate: &&PackageResourceNames| {
            package.is_none() || candidate.name.as_deref() == package
        };
        self.packages
            .iter()
            .filter(is_selected)
            .filter_map(move |package| package.names.get(&kind))
    }

    /// Returns another kind that has a resource of this name.
    pub(crate) fn other_kind(&self, reference: &ObjectRef) -> Option<Kind> {
        let has_kind = |kind: &Kind| {
            self.packages.iter().any(|package| {
                package.has_resource(&ObjectRef {
                    kind: *kind,
                    ..reference.clone()
                })
            })
        };
        Kind::ALL
            .into_iter()
            .filter(|kind| *kind != reference.kind)
            .find(has_kind)
    }

    /// Returns the names of all packages.
    pub(crate) fn packages(&self) -> Vec<&str> {
        self.packages
            .iter()
            .filter_map(|package| package.name.as_deref())
            .collect()
    }

    /// Returns the names in a package; `None` if the package is unknown.
    fn package(&self, name: Option<&str>) -> Option<&PackageResourceNames> {
        self.packages
            .iter()
            .find(|package| package.name.as_deref() == name)
    }
}

impl PackageResourceNames {
    /// Returns true if the package defines the referenced resource.
    fn has_resource(&self, reference: &ObjectRef) -> bool {
        self.names
            .get(&reference.kind)
            .is_some_and(|names| names.contains(&reference.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(resources: &[(Option<&str>, &str)]) -> ResourceIndex {
        let mut index = ResourceIndex::default();
        for (package, name) in resources {
            index.insert(&ResourceId {
                package: package.map(str::to_owned),
                kind: Kind::Tool,
                name: (*name).to_owned(),
            });
        }
        index
    }

    fn resolve(
        index: &ResourceIndex,
        package: Option<&str>,
        name: &str,
    ) -> Result<Option<String>, UnresolvedReference> {
        let reference = ObjectRef {
            package: package.map(str::to_owned),
            kind: Kind::Tool,
            name: name.to_owned(),
        };
        index.resolve(&reference, None).map(|id| id.package)
    }

    #[test]
    fn the_referring_package_takes_precedence_over_the_base() {
        let index = index(&[
            (Some("@x/a"), "bash"),
            (Some("@goondan/base"), "bash"),
            (None, "own"),
        ]);
        assert_eq!(resolve(&index, None, "own"), Ok(None));
        assert_eq!(
            resolve(&index, None, "bash"),
            Ok(Some("@goondan/base".into()))
        );
        assert_eq!(
            resolve(&index, Some("@x/a"), "bash"),
            Ok(Some("@x/a".into()))
        );
        assert_eq!(
            resolve(&index, Some("@x/none"), "bash"),
            Err(UnresolvedReference::NoSuchPackage)
        );
        assert_eq!(
            resolve(&index, Some("@x/a"), "own"),
            Err(UnresolvedReference::NotFound)
        );
    }

    #[test]
    fn a_match_in_other_packages_must_be_unique() {
        let index = index(&[
            (Some("@x/a"), "one"),
            (Some("@x/a"), "two"),
            (Some("@x/b"), "two"),
        ]);
        assert_eq!(resolve(&index, None, "one"), Ok(Some("@x/a".into())));
        assert_eq!(
            resolve(&index, None, "two"),
            Err(UnresolvedReference::Ambiguous(vec![
                "@x/a".into(),
                "@x/b".into()
            ]))
        );
        assert_eq!(
            resolve(&index, None, "three"),
            Err(UnresolvedReference::NotFound)
        );
    }

    #[test]
    fn the_closest_name_is_found_among_many_names() {
        let names: Vec<String> = (0..10_000)
            .map(|number| format!("tool-{number:05}"))
            .collect();
        let index = index(
            &names
                .iter()
                .map(|name| (None, name.as_str()))
                .collect::<Vec<_>>(),
        );
        let reference = ObjectRef {
            package: None,
            kind: Kind::Tool,
            name: "tool-05000x".into(),
        };
        assert_eq!(index.closest_name(&reference), Some("tool-05000".into()));
    }
}
