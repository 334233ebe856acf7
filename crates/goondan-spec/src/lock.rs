//! The lock file, which pins package versions and the hashes of their contents.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Deserialize;

use crate::yaml::{self, YamlError};

/// File name of the lock file in a project.
pub const LOCK_FILE: &str = "goondan.lock.yaml";
/// The only supported format version.
const LOCKFILE_VERSION: u32 = 1;
const LOCKFILE_HEADER: &str = "# Written by `gdn package`. Keep it in git, and do not edit it.\n";

/// Parsed lock file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PackageLock {
    lockfile_version: u32,
    /// Locked packages, by `name@version`.
    #[serde(default)]
    pub packages: BTreeMap<String, LockedPackage>,
}

/// Locked package.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LockedPackage {
    /// Exact version.
    pub version: String,
    /// Resolved source: a reference with a digest, a commit or an archive URL.
    pub resolved: String,
    /// Requested source, if it is not the project's registry.
    #[serde(default)]
    pub source: Option<String>,
    /// Hash of the archive, `sha512-…`. `None` if there was no archive.
    #[serde(default)]
    pub integrity: Option<String>,
    /// Hash of the installed files, `sha256-…`.
    #[serde(default)]
    pub contents: Option<String>,
    /// Exact versions of its dependencies.
    #[serde(default)]
    pub dependencies: BTreeMap<String, String>,
}

impl PackageLock {
    /// Creates a lock of the current format version.
    pub fn new(packages: BTreeMap<String, LockedPackage>) -> Self {
        PackageLock {
            lockfile_version: LOCKFILE_VERSION,
            packages,
        }
    }

    /// Parses a lock file.
    ///
    /// # Errors
    /// Fails if the text is not YAML or does not match the format.
    pub fn parse(text: &str) -> Result<PackageLock, YamlError> {
        yaml::from_str(text)
    }

    /// Returns true if this program supports the format version.
    pub fn is_known(&self) -> bool {
        self.lockfile_version == LOCKFILE_VERSION
    }

    /// Returns the package `name`. Returns `None` for several versions of it, because gdn never
    /// writes such a file.
    pub fn find(&self, name: &str) -> Option<&LockedPackage> {
        let has_name = |key: &str| key.rsplit_once('@').is_some_and(|(known, _)| known == name);
        let mut entries = self
            .packages
            .iter()
            .filter(|(key, _)| has_name(key))
            .map(|(_, locked)| locked);
        let first = entries.next()?;
        entries.next().is_none().then_some(first)
    }

    /// Formats the lock file. The output is deterministic.
    pub fn render(&self) -> String {
        let mut text = format!("{LOCKFILE_HEADER}lockfileVersion: {LOCKFILE_VERSION}\n");
        text.push_str(if self.packages.is_empty() {
            "packages: {}\n"
        } else {
            "packages:\n"
        });
        for (key, locked) in &self.packages {
            let plain = [
                ("version", Some(&locked.version)),
                ("source", locked.source.as_ref()),
            ];
            let rest = [
                ("resolved", Some(&locked.resolved)),
                ("integrity", locked.integrity.as_ref()),
                ("contents", locked.contents.as_ref()),
            ];
            // Writing to a string cannot fail.
            let _ = writeln!(text, "  {}:", quote_string(key));
            for (key, value) in plain.into_iter().chain(rest) {
                if let Some(value) = value {
                    let _ = writeln!(text, "    {key}: {}", quote_string(value));
                }
            }
            if !locked.dependencies.is_empty() {
                text.push_str("    dependencies:\n");
            }
            for (name, version) in &locked.dependencies {
                let _ = writeln!(
                    text,
                    "      {}: {}",
                    quote_string(name),
                    quote_string(version)
                );
            }
        }
        text
    }
}

/// Quotes a string so that JSON and YAML both read it.
fn quote_string(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_lock_file_is_read_back() {
        let locked = LockedPackage {
            version: "1.2.3".into(),
            resolved: "oci://host/a/b@sha256:00".into(),
            source: Some("oci://host/a/b: #\"\\ \u{202e}".into()),
            integrity: Some("sha512-AA==".into()),
            contents: Some("sha256-00".into()),
            dependencies: BTreeMap::from([("@a/c".into(), "0.1.0".into())]),
        };
        let lock = PackageLock::new(BTreeMap::from([("@a/b@1.2.3".to_owned(), locked.clone())]));
        let again = PackageLock::parse(&lock.render()).unwrap();
        assert_eq!(again, lock);
        assert_eq!(again.find("@a/b"), Some(&locked));
        assert_eq!(again.find("@a/b@1.2.3"), None);
        assert_eq!(
            PackageLock::parse(&PackageLock::new(BTreeMap::new()).render())
                .unwrap()
                .packages
                .len(),
            0
        );
    }

    #[test]
    fn a_lock_file_without_content_hashes_is_read() {
        let text = "lockfileVersion: 1\npackages:\n  \"@goondan/base@1.0.0\":\n    version: \
            \"1.0.0\"\n    \
                    resolved: \"https://r/x.tgz\"\n    integrity: \"sha512-AA\"\n    \
            dependencies:\n      \"@a/b\": \"0.5.2\"\n";
        let lock = PackageLock::parse(text).unwrap();
        assert_eq!(lock.find("@goondan/base").unwrap().contents, None);
        assert!(
            lock.is_known()
                && PackageLock::parse("packages: {}").is_err()
                && PackageLock::parse("[").is_err()
        );
    }

    #[test]
    fn a_package_with_two_versions_is_not_found() {
        let lock = PackageLock::parse(
            "lockfileVersion: 1\npackages: {a@1.0.0: {version: 1.0.0, resolved: x}, a@2.0.0: \
            {version: 2.0.0, resolved: x}}",
        );
        assert_eq!(lock.unwrap().find("a"), None);
    }
}
