//! Selects one version of each package that satisfies all dependents.

use std::collections::{BTreeMap, VecDeque};

use goondan_spec::Code;
use goondan_spec::lock::{Lock, Locked};
use semver::Version;

use crate::cache::{Cache, Opened, open};
use crate::error::{PackageError, Result};
use crate::integrity;
use crate::manifest::{Dependency, Manifest};
use crate::sources::{Candidate, Pin, Reach, Source};

/// Maximum number of rounds of version selection.
const MOST_ROUNDS: usize = 32;
/// Maximum number of packages in a project.
pub const MAX_PACKAGES: usize = 500;

/// The packages to update regardless of the lock file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Update {
    /// No package in the lock file.
    #[default]
    Nothing,
    Of(Vec<String>),
    All,
}

impl Update {
    fn covers(&self, name: &str) -> bool {
        match self {
            Update::Nothing => false,
            Update::Of(names) => names.iter().any(|known| known == name),
            Update::All => true,
        }
    }
}

/// A dependency with its dependent.
#[derive(Debug, Clone)]
struct Demand {
    by: String,
    is_root: bool,
    dependency: Dependency,
    source: Source,
    reach: Reach,
}

/// A fetched package.
struct Have {
    version: Version,
    source: Source,
    locked: Locked,
    manifest: Manifest,
    inner: Reach,
}

/// Selects the packages that `root` needs. Fetched archives are stored in `cache`.
///
/// # Errors
///
/// Fails if a package cannot be fetched, or if no version satisfies all dependents.
pub async fn resolve(
    root: &Manifest,
    reach: &Reach,
    lock: &Lock,
    update: &Update,
    cache: &Cache,
) -> Result<Lock> {
    let mut work = Work {
        lock,
        update,
        cache,
        extra: BTreeMap::new(),
        fetched: BTreeMap::new(),
        offers: Vec::new(),
    };
    for _ in 0..MOST_ROUNDS {
        if let Some(chosen) = work.round(root, reach).await? {
            return Ok(locked(chosen));
        }
    }
    Err(PackageError::new(
        Code::PACKAGE_VERSION_CONFLICT,
        "No set of versions suits all packages.",
    )
    .suggest("state exact versions in the project's Package document"))
}

fn locked(chosen: BTreeMap<String, Have>) -> Lock {
    let version = |name: &str| {
        chosen
            .get(name)
            .map(|have| have.version.to_string())
            .unwrap_or_default()
    };
    let entries = chosen.iter().map(|(name, have)| {
        let wanted = have.manifest.dependencies.iter();
        let dependencies = wanted
            .map(|one| (one.name.clone(), version(&one.name)))
            .collect();
        (
            format!("{name}@{}", have.version),
            Locked {
                dependencies,
                ..have.locked.clone()
            },
        )
    });
    Lock::new(entries.collect())
}

struct Work<'w> {
    lock: &'w Lock,
    update: &'w Update,
    cache: &'w Cache,
    /// Demands found in earlier rounds after a package was selected.
    extra: BTreeMap<String, Vec<Demand>>,
    fetched: BTreeMap<String, (Locked, Manifest, bool)>,
    offers: Vec<(String, Source, Vec<Candidate>)>,
}

impl Work<'_> {
    /// Selects packages from the root down; `None` if a new demand requires another round.
    async fn round(
        &mut self,
        root: &Manifest,
        reach: &Reach,
    ) -> Result<Option<BTreeMap<String, Have>>> {
        let mut queue: VecDeque<Demand> = demands("the project", true, root, reach)?.into();
        let mut now: BTreeMap<String, Vec<Demand>> = BTreeMap::new();
        let mut chosen: BTreeMap<String, Have> = BTreeMap::new();
        while let Some(demand) = queue.pop_front() {
            let name = demand.dependency.name.clone();
            if name == root.name {
                let message = format!("`{}` depends on `{name}`, which depends on it.", demand.by);
                return Err(PackageError::new(Code::CYCLE, message)
                    .suggest("remove one of the dependencies"));
            }
            now.entry(name.clone()).or_default().push(demand.clone());
            if let Some(have) = chosen.get(&name) {
                let suits = demand.dependency.wanted.matches(&have.version)
                    && self.agrees(&demand, have, &now[&name]);
                if suits {
                    continue;
                }
                let known = self.extra.entry(name.clone()).or_default();
                if known.iter().any(|one| {
                    one.by == demand.by && one.dependency.range == demand.dependency.range
                }) {
                    return Err(conflict(&name, &now[&name]));
                }
                known.push(demand);
                return Ok(None);
            }
            if chosen.len() >= MAX_PACKAGES {
                let message = format!("The project needs more than {MAX_PACKAGES} packages.");
                return Err(PackageError::new(Code::PACKAGE_VERSION_CONFLICT, message));
            }
            let mut all = now[&name].clone();
            all.extend(self.extra.get(&name).into_iter().flatten().cloned());
            let have = self.choose(&name, &all).await?;
            queue.extend(demands(
                &format!("{name}@{}", have.version),
                false,
                &have.manifest,
                &have.inner,
            )?);
            chosen.insert(name, have);
        }
        Ok(Some(chosen))
    }

    /// Returns true if a demand accepts the selected source. A source that the project states has
    /// precedence.
    fn agrees(&self, demand: &Demand, have: &Have, all: &[Demand]) -> bool {
        demand.source == have.source
            || all
                .iter()
                .any(|one| one.is_root && one.source == have.source)
    }

    async fn choose(&mut self, name: &str, all: &[Demand]) -> Result<Have> {
        let first = all.iter().find(|demand| demand.is_root).unwrap_or(&all[0]);
        if !first.is_root && all.iter().any(|demand| demand.source != first.source) {
            return Err(conflict(name, all));
        }
        let suits = |version: &Version| {
            all.iter()
                .all(|demand| demand.dependency.wanted.matches(version))
        };
        if let Some(kept) = self.kept(name, first, &suits) {
            return self.fetch_locked(first, kept).await;
        }
        let offered = self.offers(name, first).await?;
        let mut fit: Vec<&Candidate> = offered
            .iter()
            .filter(|one| one.version.as_ref().is_none_or(&suits))
            .collect();
        fit.sort_by(|a, b| b.version.cmp(&a.version));
        let versions = || {
            offered
                .iter()
                .filter_map(|one| one.version.clone())
                .collect()
        };
        let Some(candidate) = fit.first() else {
            return Err(nothing_fits(name, all, versions()));
        };
        let have = self.fetch(name, first, candidate).await?;
        match suits(&have.version) {
            true => Ok(have),
            false => Err(nothing_fits(name, all, vec![have.version])),
        }
    }

    /// Returns the locked package if it still satisfies all dependents. Local directories never
    /// qualify, because they may have changed.
    fn kept(&self, name: &str, first: &Demand, suits: &dyn Fn(&Version) -> bool) -> Option<Locked> {
        let locked = self.lock.find(name).filter(|_| !self.update.covers(name))?;
        let version = Version::parse(&locked.version)
            .ok()
            .filter(|version| suits(version));
        let is_same =
            locked.source == first.dependency.source && !matches!(first.source, Source::File(_));
        (version.is_some() && is_same && locked.contents.is_some()).then(|| locked.clone())
    }

    async fn offers(&mut self, name: &str, demand: &Demand) -> Result<Vec<Candidate>> {
        let known = self
            .offers
            .iter()
            .find(|(of, source, _)| of == name && *source == demand.source);
        if let Some((.., offers)) = known {
            return Ok(offers.clone());
        }
        let offers = demand.source.candidates(name, &demand.reach).await?;
        self.offers
            .push((name.to_owned(), demand.source.clone(), offers.clone()));
        Ok(offers)
    }

    async fn fetch_locked(&mut self, demand: &Demand, locked: Locked) -> Result<Have> {
        let archive = fetch_locked(
            &demand.dependency.name,
            &locked,
            &demand.reach,
            self.cache,
            false,
        )
        .await?;
        let opened = open(&archive, &self.cache.work())?;
        have(demand, &opened, locked, false)
    }

    async fn fetch(&mut self, name: &str, demand: &Demand, candidate: &Candidate) -> Result<Have> {
        let key = format!("{candidate:?}");
        if let Some((locked, manifest, is_folder)) = self.fetched.get(&key) {
            let version = Version::parse(&locked.version)
                .map_err(|error| PackageError::source(error.to_string()))?;
            let inner = inner(demand, *is_folder);
            let (locked, manifest) = (locked.clone(), manifest.clone());
            return Ok(Have {
                version,
                source: demand.source.clone(),
                locked,
                manifest,
                inner,
            });
        }
        let fetched = candidate.fetch(&demand.reach).await?;
        let opened = open(&fetched.archive, &self.cache.work())?;
        if opened.manifest.name != name {
            let message = format!(
                "{} has the package `{}`, and not `{name}`.",
                demand.source, opened.manifest.name
            );
            return Err(PackageError::source(message)
                .suggest("correct the name or the source of the dependency"));
        }
        let Some(version) = &opened.manifest.version else {
            let message = format!(
                "The package `{name}` from {} has no `spec.version`.",
                demand.source
            );
            return Err(PackageError::source(message).suggest("add one to its Package document"));
        };
        if candidate
            .version
            .as_ref()
            .is_some_and(|offered| offered != version)
        {
            let message = format!(
                "{} offers another version of `{name}` than {version}, which it is.",
                demand.source
            );
            return Err(PackageError::source(message));
        }
        self.cache.put(&opened.contents, &fetched.archive)?;
        let locked = Locked {
            version: version.to_string(),
            resolved: fetched.resolved,
            source: demand.dependency.source.clone(),
            integrity: fetched.is_archive.then(|| integrity::of(&fetched.archive)),
            contents: Some(opened.contents.clone()),
            dependencies: BTreeMap::new(),
        };
        let is_folder = !fetched.is_archive && matches!(demand.source, Source::File(_));
        self.fetched
            .insert(key, (locked.clone(), opened.manifest.clone(), is_folder));
        have(demand, &opened, locked, is_folder)
    }
}

/// Returns the locked archive, from the cache or from its source.
///
/// # Errors
///
/// Fails if the archive cannot be fetched, or differs from the lock file.
pub async fn fetch_locked(
    name: &str,
    locked: &Locked,
    reach: &Reach,
    cache: &Cache,
    offline: bool,
) -> Result<Vec<u8>> {
    let contents = locked.contents.clone().unwrap_or_default();
    let whose = format!("`{name}` {}", locked.version);
    match cache.open(&contents, locked.integrity.as_deref(), &whose) {
        Ok(Some((archive, _))) => return Ok(archive),
        Err(error) if offline => return Err(error),
        Ok(None) if offline => {
            return Err(
                PackageError::source(format!("The package {whose} is not in the cache."))
                    .suggest("run `gdn package install` without `--offline`"),
            );
        }
        // A modified archive is fetched again.
        Ok(None) | Err(_) => {}
    }
    let fetched = Pin::parse(&locked.resolved, reach)?.fetch(reach).await?;
    if let Some(stated) = &locked.integrity {
        integrity::check(&fetched.archive, stated, &whose)?;
    }
    let opened = open(&fetched.archive, &cache.work())?;
    if opened.contents != contents {
        let message =
            format!("The files of the package {whose} are not those that the lock file states.");
        return Err(
            PackageError::new(Code::PACKAGE_INTEGRITY, message).suggest(format!(
                "find out what has changed; `gdn package update {name}` accepts it"
            )),
        );
    }
    cache.put(&contents, &fetched.archive)?;
    Ok(fetched.archive)
}

fn have(demand: &Demand, opened: &Opened, locked: Locked, is_folder: bool) -> Result<Have> {
    let version =
        Version::parse(&locked.version).map_err(|error| PackageError::source(error.to_string()))?;
    let manifest = opened.manifest.clone();
    Ok(Have {
        version,
        source: demand.source.clone(),
        locked,
        manifest,
        inner: inner(demand, is_folder),
    })
}

/// Returns the access for a package's own dependencies. Only a local directory may refer to other
/// local paths.
fn inner(demand: &Demand, is_folder: bool) -> Reach {
    let folder = match &demand.source {
        Source::File(path) if is_folder => Some(path.clone()),
        _ => None,
    };
    Reach {
        folder,
        ..demand.reach.clone()
    }
}

fn demands(by: &str, is_root: bool, manifest: &Manifest, reach: &Reach) -> Result<Vec<Demand>> {
    let demand = |dependency: &Dependency| {
        let source = match &dependency.source {
            Some(source) => Source::parse(source, reach)?,
            None => Source::of_registry(reach)?,
        };
        let (dependency, reach) = (dependency.clone(), reach.clone());
        Ok(Demand {
            by: by.to_owned(),
            is_root,
            dependency,
            source,
            reach,
        })
    };
    manifest.dependencies.iter().map(demand).collect()
}

fn conflict(name: &str, all: &[Demand]) -> PackageError {
    let who: Vec<String> = all
        .iter()
        .map(|demand| {
            format!(
                "{} needs {} from {}",
                demand.by, demand.dependency.range, demand.source
            )
        })
        .collect();
    let message = format!(
        "The versions of `{name}` do not go together: {}.",
        who.join("; ")
    );
    PackageError::new(Code::PACKAGE_VERSION_CONFLICT, message)
        .suggest("use versions of these packages that agree, or name the source in the project's Package document")
}

fn nothing_fits(name: &str, all: &[Demand], mut versions: Vec<Version>) -> PackageError {
    if all.len() > 1 && !versions.is_empty() {
        return conflict(name, all);
    }
    versions.sort_by(|a, b| b.cmp(a));
    let versions: Vec<String> = versions.iter().take(8).map(ToString::to_string).collect();
    let there = if versions.is_empty() {
        "there is none".to_owned()
    } else {
        format!("there is {}", versions.join(", "))
    };
    let wanted = &all[0];
    let message = format!(
        "{} has no version of `{name}` that `{}` allows; {there}.",
        wanted.source, wanted.dependency.range
    );
    PackageError::source(message).suggest("correct the version of the dependency")
}
