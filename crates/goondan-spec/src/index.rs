//! Who exists: the names of all resources, and what a reference to one of them means (rule L7).

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::installed::Installed;
use crate::meta::{BASE_PACKAGE, Kind, ObjectRef, ResourceId};
use crate::text::closest;

/// How many neighbours in sort order are compared on either side of a misspelt name, where there are many names.
const NEIGHBOURS: usize = 64;

/// The names of all resources of all packages, known before any `spec` is read.
#[derive(Debug, Default)]
pub(crate) struct Index {
    /// In the order in which a reference without a package looks at them, behind the referring package.
    packages: Vec<Package>,
    /// Which packages each package depends on. One that is not here may refer to all.
    reach: BTreeMap<Option<String>, BTreeSet<String>>,
    /// Packages that are asked for and are not there, which is told elsewhere.
    absent: BTreeSet<String>,
    /// A part of the project could not be read, which is told elsewhere; nobody knows what it defines.
    partial: bool,
}

#[derive(Debug, Default)]
struct Package {
    name: Option<String>,
    names: HashMap<Kind, BTreeSet<String>>,
}

/// Why a reference leads nowhere.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Miss {
    /// Nobody defines it.
    NotFound,
    /// The package that it insists on is not there.
    NoSuchPackage,
    /// It may be in a package that is not there, which was told already.
    Absent,
    /// Several packages define it.
    Ambiguous(Vec<String>),
}

impl Index {
    /// Adds a resource. False where it was there already.
    pub(crate) fn insert(&mut self, id: &ResourceId) -> bool {
        let place = self
            .packages
            .iter()
            .position(|package| package.name == id.package)
            .unwrap_or_else(|| {
                self.packages.push(Package {
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

    /// From now on, packages see only those that they depend on.
    pub(crate) fn restrict(&mut self, installed: &Installed) {
        (self.reach, self.absent) = (installed.reach.clone(), installed.absent.clone());
    }

    /// Notes whether a part of the project could not be read.
    pub(crate) fn set_partial(&mut self, partial: bool) {
        self.partial = partial;
    }

    /// Whether `reference`, which leads nowhere, may be to something in the part that could not be read: it names no package,
    /// and nothing that is known looks like it.
    pub(crate) fn may_be_unread(&self, reference: &ObjectRef) -> bool {
        let is_open = self.partial && reference.package.is_none();
        is_open && self.closest(reference).is_none() && self.other_kind(reference).is_none()
    }

    fn reaches(&self, from: Option<&str>, package: Option<&str>) -> bool {
        let Some(reach) = self.reach.get(&from.map(str::to_owned)) else {
            return true;
        };
        from == package || package.is_some_and(|name| name == BASE_PACKAGE || reach.contains(name))
    }

    fn lacks_some(&self, from: Option<&str>) -> bool {
        let reach = self.reach.get(&from.map(str::to_owned));
        reach.is_some_and(|reach| reach.iter().any(|name| self.absent.contains(name)))
    }

    /// What `reference`, written in package `from`, means: the referring package first, then the built-in one, then a
    /// unique match.
    pub(crate) fn resolve(
        &self,
        reference: &ObjectRef,
        from: Option<&str>,
    ) -> Result<ResourceId, Miss> {
        let id = |package: Option<&str>| ResourceId {
            package: package.map(str::to_owned),
            kind: reference.kind,
            name: reference.name.clone(),
        };
        if let Some(wanted) = reference.package.as_deref() {
            if self.absent.contains(wanted) && self.reaches(from, Some(wanted)) {
                return Err(Miss::Absent);
            }
            return match self
                .package(Some(wanted))
                .filter(|_| self.reaches(from, Some(wanted)))
            {
                Some(package) if package.has(reference) => Ok(id(Some(wanted))),
                Some(_) => Err(Miss::NotFound),
                None => Err(Miss::NoSuchPackage),
            };
        }
        let near = [from, Some(BASE_PACKAGE)];
        let first = near.into_iter().find(|name| {
            self.package(*name)
                .is_some_and(|package| package.has(reference))
        });
        if let Some(package) = first {
            return Ok(id(package));
        }
        let others: Vec<Option<&str>> = self
            .packages
            .iter()
            .filter(|package| package.has(reference) && self.reaches(from, package.name.as_deref()))
            .map(|package| package.name.as_deref())
            .collect();
        match others[..] {
            [] if self.lacks_some(from) => Err(Miss::Absent),
            [] => Err(Miss::NotFound),
            [only] => Ok(id(only)),
            _ => Err(Miss::Ambiguous(
                others
                    .iter()
                    .map(|name| name.unwrap_or("this project").to_owned())
                    .collect(),
            )),
        }
    }

    /// At most `limit` names of a kind, sorted, in all packages or in one; and how many there are.
    pub(crate) fn names(
        &self,
        kind: Kind,
        package: Option<&str>,
        limit: usize,
    ) -> (Vec<&str>, usize) {
        let sets = || self.sets(kind, package);
        let mut names: Vec<&str> = sets()
            .flat_map(|names| names.iter().take(limit))
            .map(String::as_str)
            .collect();
        names.sort_unstable();
        names.truncate(limit);
        (names, sets().map(BTreeSet::len).sum())
    }

    /// The name that `reference` most likely meant. Of a large set only its neighbours in sort order are compared, so
    /// that ten thousand wrong names among ten thousand right ones stay cheap.
    pub(crate) fn closest(&self, reference: &ObjectRef) -> Option<String> {
        let word = &reference.name;
        let mut near = Vec::new();
        for names in self.sets(reference.kind, reference.package.as_deref()) {
            if names.len() <= 4 * NEIGHBOURS {
                near.extend(names.iter());
            } else {
                near.extend(names.range::<String, _>(..word).rev().take(NEIGHBOURS));
                near.extend(names.range::<String, _>(word..).take(NEIGHBOURS));
            }
        }
        closest(word, &near).map(str::to_owned)
    }

    fn sets(&self, kind: Kind, package: Option<&str>) -> impl Iterator<Item = &BTreeSet<String>> {
        let wanted =
            move |candidate: &&Package| package.is_none() || candidate.name.as_deref() == package;
        self.packages
            .iter()
            .filter(wanted)
            .filter_map(move |package| package.names.get(&kind))
    }

    /// Another kind that has a resource of that name.
    pub(crate) fn other_kind(&self, reference: &ObjectRef) -> Option<Kind> {
        let has = |kind: &Kind| {
            self.packages.iter().any(|package| {
                package.has(&ObjectRef {
                    kind: *kind,
                    ..reference.clone()
                })
            })
        };
        Kind::ALL
            .into_iter()
            .filter(|kind| *kind != reference.kind)
            .find(has)
    }

    /// The names of all packages that have one.
    pub(crate) fn packages(&self) -> Vec<&str> {
        self.packages
            .iter()
            .filter_map(|package| package.name.as_deref())
            .collect()
    }

    fn package(&self, name: Option<&str>) -> Option<&Package> {
        self.packages
            .iter()
            .find(|package| package.name.as_deref() == name)
    }
}

impl Package {
    fn has(&self, reference: &ObjectRef) -> bool {
        self.names
            .get(&reference.kind)
            .is_some_and(|names| names.contains(&reference.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(resources: &[(Option<&str>, &str)]) -> Index {
        let mut index = Index::default();
        for (package, name) in resources {
            index.insert(&ResourceId {
                package: package.map(str::to_owned),
                kind: Kind::Tool,
                name: (*name).to_owned(),
            });
        }
        index
    }

    fn resolve(index: &Index, package: Option<&str>, name: &str) -> Result<Option<String>, Miss> {
        let reference = ObjectRef {
            package: package.map(str::to_owned),
            kind: Kind::Tool,
            name: name.to_owned(),
        };
        index.resolve(&reference, None).map(|id| id.package)
    }

    #[test]
    fn the_referring_package_comes_first_then_the_base() {
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
            Err(Miss::NoSuchPackage)
        );
        assert_eq!(resolve(&index, Some("@x/a"), "own"), Err(Miss::NotFound));
    }

    #[test]
    fn elsewhere_the_match_must_be_unique() {
        let index = index(&[
            (Some("@x/a"), "one"),
            (Some("@x/a"), "two"),
            (Some("@x/b"), "two"),
        ]);
        assert_eq!(resolve(&index, None, "one"), Ok(Some("@x/a".into())));
        assert_eq!(
            resolve(&index, None, "two"),
            Err(Miss::Ambiguous(vec!["@x/a".into(), "@x/b".into()]))
        );
        assert_eq!(resolve(&index, None, "three"), Err(Miss::NotFound));
    }

    #[test]
    fn among_many_names_neighbours_are_compared() {
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
        assert_eq!(index.closest(&reference), Some("tool-05000".into()));
    }
}
