//! Selects one version of each package that satisfies all dependents.

use std::collections::{BTreeMap, VecDeque};

use goondan_spec::Code;
use goondan_spec::lock::{LockedPackage, PackageLock};
use semver::Version;

use crate::cache::{PackageCache, UnpackedPackage, open};
use crate::error::{PackageError, Result};
use crate::integrity;
use crate::manifest::{ManifestDependency, PackageManifest};
use crate::sources::{CandidateVersion, ExactLocation, FetchSettings, PackageSource};

/// Maximum number of rounds of version selection.
const MAX_RESOLUTION_ROUNDS: usize = 32;
/// Maximum number of packages in a project.
pub const MAX_PACKAGES: usize = 500;

/// The packages to update regardless of the lock file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum UpdateSelection {
    /// No package in the lock file.
    #[default]
    Nothing,
    Of(Vec<String>),
    All,
}

impl UpdateSelection {
    /// Returns whether the package may get a new version.
    fn covers(&self, name: &str) -> bool {
        match self {
            UpdateSelection::Nothing => false,
            UpdateSelection::Of(names) => names.iter().any(|known| known == name),
            UpdateSelection::All => true,
        }
    }
}

/// A dependency with its dependent.
#[derive(Debug, Clone)]
struct DependencyDemand {
    by: String,
    is_root: bool,
    dependency: ManifestDependency,
    source: PackageSource,
    reach: FetchSettings,
}

/// A fetched package.
struct SelectedPackage {
    version: Version,
    source: PackageSource,
    locked: LockedPackage,
    manifest: PackageManifest,
    inner: FetchSettings,
}

/// Selects the packages that `root` needs. Fetched archives are stored in `cache`.
///
/// # Errors
///
/// Fails if a package cannot be fetched, or if no version satisfies all dependents.
pub async fn resolve(
    root: &PackageManifest,
    reach: &FetchSettings,
    lock: &PackageLock,
    update: &UpdateSelection,
    cache: &PackageCache,
) -> Result<PackageLock> {
    let mut work = PackageResolver {
        lock,
        update,
        cache,
        extra: BTreeMap::new(),
        fetched: BTreeMap::new(),
        offers: Vec::new(),
    };
    for _ in 0..MAX_RESOLUTION_ROUNDS {
        if let Some(chosen) = work.round(root, reach).await? {
            return Ok(lock_of(chosen));
        }
    }
    Err(PackageError::new(
        Code::PACKAGE_VERSION_CONFLICT,
        "No combination of versions satisfies all packages.",
    )
    .suggest("write exact versions in the project's Package document"))
}

/// Creates the lock file for the chosen packages.
fn lock_of(chosen: BTreeMap<String, SelectedPackage>) -> PackageLock {
    let version = |name: &str| {
        chosen
            .get(name)
            .map(|package| package.version.to_string())
            .unwrap_or_default()
    };
    let entries = chosen.iter().map(|(name, package)| {
        let wanted = package.manifest.dependencies.iter();
        let dependencies = wanted
            .map(|one| (one.name.clone(), version(&one.name)))
            .collect();
        (
            format!("{name}@{}", package.version),
            LockedPackage {
                dependencies,
                ..package.locked.clone()
            },
        )
    });
    PackageLock::new(entries.collect())
}

struct PackageResolver<'w> {
    lock: &'w PackageLock,
    update: &'w UpdateSelection,
    cache: &'w PackageCache,
    /// Demands found in earlier rounds after a package was selected.
    extra: BTreeMap<String, Vec<DependencyDemand>>,
    fetched: BTreeMap<String, (LockedPackage, PackageManifest, bool)>,
    offers: Vec<(String, PackageSource, Vec<CandidateVersion>)>,
}

impl PackageResolver<'_> {
    /// Selects packages from the root down; `None` if a new demand requires another round.
    async fn round(
        &mut self,
        root: &PackageManifest,
        reach: &FetchSettings,
    ) -> Result<Option<BTreeMap<String, SelectedPackage>>> {
        let mut queue: VecDeque<DependencyDemand> =
            demands("the project", true, root, reach)?.into();
        let mut now: BTreeMap<String, Vec<DependencyDemand>> = BTreeMap::new();
        let mut chosen: BTreeMap<String, SelectedPackage> = BTreeMap::new();
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
                    && self.accepts_source(&demand, have, &now[&name]);
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
    fn accepts_source(
        &self,
        demand: &DependencyDemand,
        have: &SelectedPackage,
        all: &[DependencyDemand],
    ) -> bool {
        demand.source == have.source
            || all
                .iter()
                .any(|one| one.is_root && one.source == have.source)
    }

    /// Chooses the version of a package that meets all demands: the locked version if possible,
    /// else the newest. Fails if no version fits.
    async fn choose(&mut self, name: &str, all: &[DependencyDemand]) -> Result<SelectedPackage> {
        let first = all.iter().find(|demand| demand.is_root).unwrap_or(&all[0]);
        if !first.is_root && all.iter().any(|demand| demand.source != first.source) {
            return Err(conflict(name, all));
        }
        let suits = |version: &Version| {
            all.iter()
                .all(|demand| demand.dependency.wanted.matches(version))
        };
        if let Some(locked) = self.reusable_lock_entry(name, first, &suits) {
            return self.fetch_locked(first, locked).await;
        }
        let candidates = self.offers(name, first).await?;
        let mut fitting: Vec<&CandidateVersion> = candidates
            .iter()
            .filter(|candidate| candidate.version.as_ref().is_none_or(&suits))
            .collect();
        fitting.sort_by(|a, b| b.version.cmp(&a.version));
        let versions = || {
            candidates
                .iter()
                .filter_map(|candidate| candidate.version.clone())
                .collect()
        };
        let Some(candidate) = fitting.first() else {
            return Err(no_version_error(name, all, versions()));
        };
        let package = self.fetch(name, first, candidate).await?;
        match suits(&package.version) {
            true => Ok(package),
            false => Err(no_version_error(name, all, vec![package.version])),
        }
    }

    /// Returns the locked package if it still satisfies all dependents. Local directories never
    /// qualify, because they may have changed.
    fn reusable_lock_entry(
        &self,
        name: &str,
        first: &DependencyDemand,
        suits: &dyn Fn(&Version) -> bool,
    ) -> Option<LockedPackage> {
        let locked = self.lock.find(name).filter(|_| !self.update.covers(name))?;
        let version = Version::parse(&locked.version)
            .ok()
            .filter(|version| suits(version));
        let is_same = locked.source == first.dependency.source
            && !matches!(first.source, PackageSource::File(_));
        (version.is_some() && is_same && locked.contents.is_some()).then(|| locked.clone())
    }

    /// Returns the versions that the source of `demand` offers; requests each source once.
    async fn offers(
        &mut self,
        name: &str,
        demand: &DependencyDemand,
    ) -> Result<Vec<CandidateVersion>> {
        let cached = self
            .offers
            .iter()
            .find(|(of, source, _)| of == name && *source == demand.source);
        if let Some((.., offers)) = cached {
            return Ok(offers.clone());
        }
        let offers = demand.source.candidates(name, &demand.reach).await?;
        self.offers
            .push((name.to_owned(), demand.source.clone(), offers.clone()));
        Ok(offers)
    }

    /// Fetches the package version of the lock file, from the cache if possible.
    async fn fetch_locked(
        &mut self,
        demand: &DependencyDemand,
        locked: LockedPackage,
    ) -> Result<SelectedPackage> {
        let archive = fetch_locked(
            &demand.dependency.name,
            &locked,
            &demand.reach,
            self.cache,
            false,
        )
        .await?;
        let opened = open(&archive, &self.cache.work())?;
        selected(demand, &opened, locked, false)
    }

    /// Fetches a version; reuses an earlier download. Fails if the archive contains another
    /// package.
    async fn fetch(
        &mut self,
        name: &str,
        demand: &DependencyDemand,
        candidate: &CandidateVersion,
    ) -> Result<SelectedPackage> {
        let key = format!("{candidate:?}");
        if let Some((locked, manifest, is_folder)) = self.fetched.get(&key) {
            let version = Version::parse(&locked.version)
                .map_err(|error| PackageError::source(error.to_string()))?;
            let inner = inner(demand, *is_folder);
            let (locked, manifest) = (locked.clone(), manifest.clone());
            return Ok(SelectedPackage {
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
                "{} contains the package `{}`, not `{name}`.",
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
            return Err(
                PackageError::source(message).suggest("add `spec.version` to its Package document")
            );
        };
        if candidate
            .version
            .as_ref()
            .is_some_and(|offered| offered != version)
        {
            let message = format!(
                "{} lists a version of `{name}` that differs from {version}, the version in its \
                archive.",
                demand.source
            );
            return Err(PackageError::source(message));
        }
        self.cache.put(&opened.contents, &fetched.archive)?;
        let locked = LockedPackage {
            version: version.to_string(),
            resolved: fetched.resolved,
            source: demand.dependency.source.clone(),
            integrity: fetched.is_archive.then(|| integrity::of(&fetched.archive)),
            contents: Some(opened.contents.clone()),
            dependencies: BTreeMap::new(),
        };
        let is_folder = !fetched.is_archive && matches!(demand.source, PackageSource::File(_));
        self.fetched
            .insert(key, (locked.clone(), opened.manifest.clone(), is_folder));
        selected(demand, &opened, locked, is_folder)
    }
}

/// Returns the locked archive, from the cache or from its source.
///
/// # Errors
///
/// Fails if the archive cannot be fetched, or differs from the lock file.
pub async fn fetch_locked(
    name: &str,
    locked: &LockedPackage,
    reach: &FetchSettings,
    cache: &PackageCache,
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
    let fetched = ExactLocation::parse(&locked.resolved, reach)?
        .fetch(reach)
        .await?;
    if let Some(stated) = &locked.integrity {
        integrity::check(&fetched.archive, stated, &whose)?;
    }
    let opened = open(&fetched.archive, &cache.work())?;
    if opened.contents != contents {
        let message = format!("The files of the package {whose} do not match the lock file.");
        return Err(
            PackageError::new(Code::PACKAGE_INTEGRITY, message).suggest(format!(
                "find out what has changed; `gdn package update {name}` accepts the change"
            )),
        );
    }
    cache.put(&contents, &fetched.archive)?;
    Ok(fetched.archive)
}

/// Describes the unpacked package as the selected version for `demand`.
fn selected(
    demand: &DependencyDemand,
    opened: &UnpackedPackage,
    locked: LockedPackage,
    is_folder: bool,
) -> Result<SelectedPackage> {
    let version =
        Version::parse(&locked.version).map_err(|error| PackageError::source(error.to_string()))?;
    let manifest = opened.manifest.clone();
    Ok(SelectedPackage {
        version,
        source: demand.source.clone(),
        locked,
        manifest,
        inner: inner(demand, is_folder),
    })
}

/// Returns the access for a package's own dependencies. Only a local directory may refer to other
/// local paths.
fn inner(demand: &DependencyDemand, is_folder: bool) -> FetchSettings {
    let folder = match &demand.source {
        PackageSource::File(path) if is_folder => Some(path.clone()),
        _ => None,
    };
    FetchSettings {
        folder,
        ..demand.reach.clone()
    }
}

/// Returns the dependencies of a manifest with their sources. `by` is the name of the package or
/// project.
fn demands(
    by: &str,
    is_root: bool,
    manifest: &PackageManifest,
    reach: &FetchSettings,
) -> Result<Vec<DependencyDemand>> {
    let demand = |dependency: &ManifestDependency| {
        let source = match &dependency.source {
            Some(source) => PackageSource::parse(source, reach)?,
            None => PackageSource::of_registry(reach)?,
        };
        let (dependency, reach) = (dependency.clone(), reach.clone());
        Ok(DependencyDemand {
            by: by.to_owned(),
            is_root,
            dependency,
            source,
            reach,
        })
    };
    manifest.dependencies.iter().map(demand).collect()
}

/// Creates the error for demands that no common version meets.
fn conflict(name: &str, all: &[DependencyDemand]) -> PackageError {
    let demands: Vec<String> = all
        .iter()
        .map(|demand| {
            format!(
                "{} needs {} from {}",
                demand.by, demand.dependency.range, demand.source
            )
        })
        .collect();
    let message = format!(
        "The required versions of `{name}` conflict: {}.",
        demands.join("; ")
    );
    PackageError::new(Code::PACKAGE_VERSION_CONFLICT, message).suggest(
        "use versions of these packages that agree, or set the source in the project's Package \
        document",
    )
}

/// Creates the error for a package without a fitting version; lists up to eight versions that
/// exist.
fn no_version_error(
    name: &str,
    all: &[DependencyDemand],
    mut versions: Vec<Version>,
) -> PackageError {
    if all.len() > 1 && !versions.is_empty() {
        return conflict(name, all);
    }
    versions.sort_by(|a, b| b.cmp(a));
    let versions: Vec<String> = versions.iter().take(8).map(ToString::to_string).collect();
    let available = if versions.is_empty() {
        "it has no versions".to_owned()
    } else {
        format!("it has {}", versions.join(", "))
    };
    let demand = &all[0];
    let message = format!(
        "{} has no version of `{name}` that `{}` allows; {available}.",
        demand.source, demand.dependency.range
    );
    PackageError::source(message).suggest("correct the version of the dependency")
}
