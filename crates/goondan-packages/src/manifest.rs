//! The manifest of a package: the first document of its `goondan.yaml`.

use std::path::{Path, PathBuf};

use goondan_spec::meta::BASE_PACKAGE;
use goondan_spec::{Code, Kind, check_name, regular_file, yaml};
use semver::{Version, VersionReq};
use serde::Deserialize;

use crate::error::{PackageError, Result};

/// Possible paths of a manifest, by descending precedence.
const MANIFEST_PATHS: [&str; 3] = ["dist/goondan.yaml", "goondan.yaml", "goondan.yml"];
/// Maximum size of a manifest in bytes.
const MAX_MANIFEST_BYTES: u64 = 1024 * 1024;

/// The manifest of a package.
#[derive(Debug, Clone)]
pub struct PackageManifest {
    pub name: String,
    pub version: Option<Version>,
    pub description: Option<String>,
    /// True if only users permitted by the registry may install the package.
    pub restricted: bool,
    /// Dependencies without the built-in package.
    pub dependencies: Vec<ManifestDependency>,
    /// URL of the package's registry.
    pub registry: Option<String>,
}

/// A dependency on another package.
#[derive(Debug, Clone)]
pub struct ManifestDependency {
    pub name: String,
    /// The version range as written.
    pub range: String,
    /// The parsed version range.
    pub wanted: VersionReq,
    /// The source; `None` for the registry.
    pub source: Option<String>,
}

#[derive(Deserialize)]
struct ManifestDocument {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    metadata: ManifestMetadata,
    #[serde(default)]
    spec: Option<ManifestSpec>,
}

#[derive(Default, Deserialize)]
struct ManifestMetadata {
    #[serde(default)]
    name: String,
}

#[derive(Default, Deserialize)]
struct ManifestSpec {
    version: Option<String>,
    description: Option<String>,
    access: Option<String>,
    dependencies: Option<Vec<WrittenDependency>>,
    registry: Option<RegistrySettings>,
}

#[derive(Deserialize)]
struct WrittenDependency {
    name: String,
    version: String,
    source: Option<String>,
}

#[derive(Deserialize)]
struct RegistrySettings {
    url: String,
}

impl PackageManifest {
    /// Returns the file in `folder` that begins with the Package document.
    pub fn find(folder: &Path) -> Option<PathBuf> {
        MANIFEST_PATHS
            .iter()
            .map(|name| folder.join(name))
            .find(|path| path.is_file())
    }

    /// Reads the manifest of the package in `folder`.
    ///
    /// # Errors
    ///
    /// Fails if the manifest is missing or invalid.
    pub fn read(folder: &Path) -> Result<PackageManifest> {
        let path = PackageManifest::find(folder).ok_or_else(|| {
            PackageError::source(format!("There is no goondan.yaml in {}.", folder.display()))
        })?;
        let length = path.metadata().map_or(0, |metadata| metadata.len());
        if length > MAX_MANIFEST_BYTES {
            return Err(PackageError::source(format!(
                "{} is larger than 1 MiB.",
                path.display()
            )));
        }
        let text = regular_file::read_text(&path, MAX_MANIFEST_BYTES)
            .map_err(|error| PackageError::io("read", &path, &error))?;
        PackageManifest::parse(&text).map_err(|error| PackageError {
            message: format!("{}: {}", path.display(), error.message),
            ..error
        })
    }

    /// Parses a manifest.
    ///
    /// # Errors
    ///
    /// Fails if the first document is not a valid Package.
    pub fn parse(text: &str) -> Result<PackageManifest> {
        let documents: Vec<serde_json::Value> = yaml::documents_from_str(text)
            .map_err(|error| invalid_manifest_error(format!("This is not YAML: {error}.")))?;
        let first = documents.into_iter().next().unwrap_or_default();
        let no_package =
            || invalid_manifest_error("The first document is not a Package.".to_owned());
        if first.get("kind").and_then(serde_json::Value::as_str) != Some("Package") {
            return Err(no_package());
        }
        let document: ManifestDocument = serde_json::from_value(first).map_err(|error| {
            invalid_manifest_error(format!("The Package document is not valid: {error}."))
        })?;
        if document.kind != "Package" {
            return Err(no_package());
        }
        check_name(&document.metadata.name, Kind::Package).map_err(|why| {
            invalid_manifest_error(format!("The package name is not valid: {why}."))
        })?;
        let spec = document.spec.unwrap_or_default();
        let version = spec
            .version
            .map(|version| Version::parse(&version))
            .transpose();
        let dependencies = spec
            .dependencies
            .unwrap_or_default()
            .into_iter()
            .filter(|written| written.name != BASE_PACKAGE);
        Ok(PackageManifest {
            name: document.metadata.name,
            version: version.map_err(|error| {
                invalid_manifest_error(format!("The version is not valid: {error}."))
            })?,
            description: spec.description,
            restricted: spec.access.as_deref() == Some("restricted"),
            dependencies: dependencies
                .map(ManifestDependency::from_written)
                .collect::<Result<_>>()?,
            registry: spec.registry.map(|registry| registry.url),
        })
    }
}

impl ManifestDependency {
    /// Checks the name and the version range of a dependency.
    fn from_written(written: WrittenDependency) -> Result<ManifestDependency> {
        let WrittenDependency {
            name,
            version,
            source,
        } = written;
        check_name(&name, Kind::Package).map_err(|why| {
            invalid_manifest_error(format!(
                "The name of the dependency `{name}` is not valid: {why}."
            ))
        })?;
        let version_range = VersionReq::parse(&version).map_err(|error| {
            invalid_manifest_error(format!(
                "The version of the dependency `{name}`, `{version}`, is not valid: {error}."
            ))
        })?;
        Ok(ManifestDependency {
            name,
            range: version,
            wanted: version_range,
            source,
        })
    }
}

fn invalid_manifest_error(message: String) -> PackageError {
    PackageError::new(Code::SCHEMA_INVALID, message).suggest("run `gdn validate` in the package")
}
