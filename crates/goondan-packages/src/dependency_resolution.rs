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
    /// Returns true if the package may get a new version.
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
struct DependencyRequirement {
    /// Name of the dependent.
    by: String,
    /// True if the project itself is the dependent.
    is_root: bool,
    dependency: ManifestDependency,
    source: PackageSource,
    settings: FetchSettings,
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
    settings: &FetchSettings,
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
        known_candidates: Vec::new(),
    };
    for _ in 0..MAX_RESOLUTION_ROUNDS {
        if let Some(chosen) = work.try_selection(root, settings).await? {
            return Ok(build_lock(chosen));
        }
    }
    Err(PackageError::new(
        Code::PACKAGE_VERSION_CONFLICT,
        "No combination of versions satisfies all packages.",
    )
    .suggest("write exact versions in the project's Package document"))
}

/// Creates the lock file for the chosen packages.
fn build_lock(chosen: BTreeMap<String, SelectedPackage>) -> PackageLock {
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
    /// Requirements that earlier rounds found only after selecting the package.
    extra: BTreeMap<String, Vec<DependencyRequirement>>,
    fetched: BTreeMap<String, (LockedPackage, PackageManifest, bool)>,
    /// Requested versions, by package name and source.
    known_candidates: Vec<(String, PackageSource, Vec<CandidateVersion>)>,
}

impl PackageResolver<'_> {
    /// Selects packages from the root down. Returns `None` if a later requirement rejects a
    /// selected version, so that the selection must start again.
    async fn try_selection(
        &mut self,
        root: &PackageManifest,
        settings: &FetchSettings,
    ) -> Result<Option<BTreeMap<String, SelectedPackage>>> {
        let mut queue: VecDeque<DependencyRequirement> =
            manifest_requirements("the project", true, root, settings)?.into();
        let mut requirements_so_far: BTreeMap<String, Vec<DependencyRequirement>> = BTreeMap::new();
        let mut chosen: BTreeMap<String, SelectedPackage> = BTreeMap::new();
        while let Some(requirement) = queue.pop_front() {
            let name = requirement.dependency.name.clone();
            if name == root.name {
                let message = format!(
                    "`{}` depends on `{name}`, which depends on it.",
                    requirement.by
                );
                return Err(PackageError::new(Code::CYCLE, message)
                    .suggest("remove one of the dependencies"));
            }
            requirements_so_far
                .entry(name.clone())
                .or_default()
                .push(requirement.clone());
            if let Some(selected) = chosen.get(&name) {
                let is_satisfied = requirement.dependency.wanted.matches(&selected.version)
                    && self.accepts_source(&requirement, selected, &requirements_so_far[&name]);
                if is_satisfied {
                    continue;
                }
                let extra_requirements = self.extra.entry(name.clone()).or_default();
                if extra_requirements.iter().any(|one| {
                    one.by == requirement.by && one.dependency.range == requirement.dependency.range
                }) {
                    return Err(version_conflict_error(&name, &requirements_so_far[&name]));
                }
                extra_requirements.push(requirement);
                return Ok(None);
            }
            if chosen.len() >= MAX_PACKAGES {
                let message = format!("The project needs more than {MAX_PACKAGES} packages.");
                return Err(PackageError::new(Code::PACKAGE_VERSION_CONFLICT, message));
            }
            let mut requirements = requirements_so_far[&name].clone();
            requirements.extend(self.extra.get(&name).into_iter().flatten().cloned());
            let selected = self.choose_version(&name, &requirements).await?;
            queue.extend(manifest_requirements(
                &format!("{name}@{}", selected.version),
                false,
                &selected.manifest,
                &selected.inner,
            )?);
            chosen.insert(name, selected);
        }
        Ok(Some(chosen))
    }

    /// Returns true if a requirement accepts the selected source. A source that the project states
    /// has precedence.
    fn accepts_source(
        &self,
        requirement: &DependencyRequirement,
        selected: &SelectedPackage,
        all: &[DependencyRequirement],
    ) -> bool {
        requirement.source == selected.source
            || all
                .iter()
                .any(|one| one.is_root && one.source == selected.source)
    }

    /// Chooses and fetches the version of the package `name` that meets all `requirements` (at
    /// least one): the locked version if possible, else the newest.
    ///
    /// # Errors
    /// Fails if no version meets all requirements, or if the requirements name different sources
    /// and none of them is the project's.
    async fn choose_version(
        &mut self,
        name: &str,
        requirements: &[DependencyRequirement],
    ) -> Result<SelectedPackage> {
        let Some(source_requirement) = source_requirement(requirements) else {
            return Err(version_conflict_error(name, requirements));
        };
        let meets_all = |version: &Version| {
            requirements
                .iter()
                .all(|requirement| requirement.dependency.wanted.matches(version))
        };
        if let Some(locked) = self.reusable_lock_entry(name, source_requirement, &meets_all) {
            return self.fetch_locked(source_requirement, locked).await;
        }
        let candidates = self.candidates(name, source_requirement).await?;
        // The version of some candidates is known only after the download.
        let mut acceptable: Vec<&CandidateVersion> = candidates
            .iter()
            .filter(|candidate| candidate.version.as_ref().is_none_or(&meets_all))
            .collect();
        acceptable.sort_by(|a, b| b.version.cmp(&a.version));
        let Some(newest) = acceptable.first() else {
            let existing = candidates
                .iter()
                .filter_map(|candidate| candidate.version.clone());
            return Err(no_version_error(name, requirements, existing.collect()));
        };
        let package = self.fetch(name, source_requirement, newest).await?;
        if !meets_all(&package.version) {
            let existing = vec![package.version];
            return Err(no_version_error(name, requirements, existing));
        }
        Ok(package)
    }

    /// Returns the locked package if it still satisfies all dependents. Local directories never
    /// qualify, because they may have changed.
    fn reusable_lock_entry(
        &self,
        name: &str,
        requirement: &DependencyRequirement,
        meets_all: &dyn Fn(&Version) -> bool,
    ) -> Option<LockedPackage> {
        if self.update.covers(name) || matches!(requirement.source, PackageSource::File(_)) {
            return None;
        }
        let locked = self.lock.find(name)?;
        let version = Version::parse(&locked.version).ok()?;
        let is_reusable = meets_all(&version)
            && locked.source == requirement.dependency.source
            && locked.contents.is_some();
        is_reusable.then(|| locked.clone())
    }

    /// Returns the versions of the package `name` in the source of `requirement`. Requests them
    /// only once.
    async fn candidates(
        &mut self,
        name: &str,
        requirement: &DependencyRequirement,
    ) -> Result<Vec<CandidateVersion>> {
        let known_candidates = self
            .known_candidates
            .iter()
            .find(|(package, source, _)| package == name && *source == requirement.source);
        if let Some((_, _, candidates)) = known_candidates {
            return Ok(candidates.clone());
        }
        let candidates = requirement
            .source
            .candidates(name, &requirement.settings)
            .await?;
        self.known_candidates.push((
            name.to_owned(),
            requirement.source.clone(),
            candidates.clone(),
        ));
        Ok(candidates)
    }

    /// Fetches the package version of the lock file, from the cache if possible.
    async fn fetch_locked(
        &mut self,
        requirement: &DependencyRequirement,
        locked: LockedPackage,
    ) -> Result<SelectedPackage> {
        let archive = fetch_locked(
            &requirement.dependency.name,
            &locked,
            &requirement.settings,
            self.cache,
            false,
        )
        .await?;
        let opened = open(&archive, &self.cache.work())?;
        to_selected_package(requirement, &opened, locked, false)
    }

    /// Fetches a version; reuses an earlier download. Fails if the archive contains another
    /// package.
    async fn fetch(
        &mut self,
        name: &str,
        requirement: &DependencyRequirement,
        candidate: &CandidateVersion,
    ) -> Result<SelectedPackage> {
        let key = format!("{candidate:?}");
        if let Some((locked, manifest, is_folder)) = self.fetched.get(&key) {
            let version = Version::parse(&locked.version)
                .map_err(|error| PackageError::source(error.to_string()))?;
            let inner = inner_settings(requirement, *is_folder);
            let (locked, manifest) = (locked.clone(), manifest.clone());
            return Ok(SelectedPackage {
                version,
                source: requirement.source.clone(),
                locked,
                manifest,
                inner,
            });
        }
        let fetched = candidate.fetch(&requirement.settings).await?;
        let opened = open(&fetched.archive, &self.cache.work())?;
        if opened.manifest.name != name {
            let message = format!(
                "{} contains the package `{}`, not `{name}`.",
                requirement.source, opened.manifest.name
            );
            return Err(PackageError::source(message)
                .suggest("correct the name or the source of the dependency"));
        }
        let Some(version) = &opened.manifest.version else {
            let message = format!(
                "The package `{name}` from {} has no `spec.version`.",
                requirement.source
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
                requirement.source
            );
            return Err(PackageError::source(message));
        }
        self.cache.put(&opened.contents, &fetched.archive)?;
        let locked = LockedPackage {
            version: version.to_string(),
            resolved: fetched.resolved,
            source: requirement.dependency.source.clone(),
            integrity: fetched
                .is_archive
                .then(|| integrity::hash_archive(&fetched.archive)),
            contents: Some(opened.contents.clone()),
            dependencies: BTreeMap::new(),
        };
        let is_folder = !fetched.is_archive && matches!(requirement.source, PackageSource::File(_));
        self.fetched
            .insert(key, (locked.clone(), opened.manifest.clone(), is_folder));
        to_selected_package(requirement, &opened, locked, is_folder)
    }
}

/// Returns the requirement whose source and settings are used: the project's requirement, or any
/// requirement if all name one source. Returns `None` if they name different sources.
fn source_requirement(requirements: &[DependencyRequirement]) -> Option<&DependencyRequirement> {
    if let Some(of_project) = requirements.iter().find(|one| one.is_root) {
        return Some(of_project);
    }
    let first = requirements.first()?;
    let is_unanimous = requirements.iter().all(|one| one.source == first.source);
    is_unanimous.then_some(first)
}

/// Returns the locked archive, from the cache or from its source.
///
/// # Errors
///
/// Fails if the archive cannot be fetched, or differs from the lock file.
pub async fn fetch_locked(
    name: &str,
    locked: &LockedPackage,
    settings: &FetchSettings,
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
    let fetched = ExactLocation::parse(&locked.resolved, settings)?
        .fetch(settings)
        .await?;
    if let Some(stated) = &locked.integrity {
        integrity::check_archive(&fetched.archive, stated, &whose)?;
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

/// Describes the unpacked package as the selected version for `requirement`.
fn to_selected_package(
    requirement: &DependencyRequirement,
    opened: &UnpackedPackage,
    locked: LockedPackage,
    is_folder: bool,
) -> Result<SelectedPackage> {
    let version =
        Version::parse(&locked.version).map_err(|error| PackageError::source(error.to_string()))?;
    let manifest = opened.manifest.clone();
    Ok(SelectedPackage {
        version,
        source: requirement.source.clone(),
        locked,
        manifest,
        inner: inner_settings(requirement, is_folder),
    })
}

/// Returns the access for a package's own dependencies. Only a local directory may refer to other
/// local paths.
fn inner_settings(requirement: &DependencyRequirement, is_folder: bool) -> FetchSettings {
    let folder = match &requirement.source {
        PackageSource::File(path) if is_folder => Some(path.clone()),
        _ => None,
    };
    FetchSettings {
        folder,
        ..requirement.settings.clone()
    }
}

/// Returns the dependencies of a manifest with their sources. `by` is the name of the package or
/// project.
fn manifest_requirements(
    by: &str,
    is_root: bool,
    manifest: &PackageManifest,
    settings: &FetchSettings,
) -> Result<Vec<DependencyRequirement>> {
    let requirement = |dependency: &ManifestDependency| {
        let source = match &dependency.source {
            Some(source) => PackageSource::parse(source, settings)?,
            None => PackageSource::of_registry(settings)?,
        };
        let (dependency, settings) = (dependency.clone(), settings.clone());
        Ok(DependencyRequirement {
            by: by.to_owned(),
            is_root,
            dependency,
            source,
            settings,
        })
    };
    manifest.dependencies.iter().map(requirement).collect()
}

/// Creates the error for requirements that no common version meets.
fn version_conflict_error(name: &str, all: &[DependencyRequirement]) -> PackageError {
    let requirements: Vec<String> = all
        .iter()
        .map(|requirement| {
            format!(
                "{} needs {} from {}",
                requirement.by, requirement.dependency.range, requirement.source
            )
        })
        .collect();
    let message = format!(
        "The required versions of `{name}` conflict: {}.",
        requirements.join("; ")
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
    all: &[DependencyRequirement],
    mut versions: Vec<Version>,
) -> PackageError {
    if all.len() > 1 && !versions.is_empty() {
        return version_conflict_error(name, all);
    }
    versions.sort_by(|a, b| b.cmp(a));
    let versions: Vec<String> = versions.iter().take(8).map(ToString::to_string).collect();
    let available = if versions.is_empty() {
        "it has no versions".to_owned()
    } else {
        format!("it has {}", versions.join(", "))
    };
    let requirement = &all[0];
    let message = format!(
        "{} has no version of `{name}` that `{}` allows; {available}.",
        requirement.source, requirement.dependency.range
    );
    PackageError::source(message).suggest("correct the version of the dependency")
}
