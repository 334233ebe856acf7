//! The lock file: which versions of which packages a project uses, and what tells their content from any other.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Deserialize;

use crate::yaml::{self, YamlError};

/// Its name in the project.
pub const LOCK_FILE: &str = "goondan.lock.yaml";
/// The only form that this program writes and reads.
const VERSION: u32 = 1;
/// What is written above it.
const HEADING: &str = "# Written by `gdn package`. Keep it in git, and do not edit it.\n";

/// The packages of a project.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Lock {
    lockfile_version: u32,
    /// By `name@version`.
    #[serde(default)]
    pub packages: BTreeMap<String, Locked>,
}

/// One package, as it was chosen.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Locked {
    /// The exact version.
    pub version: String,
    /// Where exactly it came from: with a digest, a commit or the address of an archive.
    pub resolved: String,
    /// What was asked for, where that is not the registry of the project.
    #[serde(default)]
    pub source: Option<String>,
    /// `sha512-…` of the archive; none where there was no archive.
    #[serde(default)]
    pub integrity: Option<String>,
    /// `sha256-…` of the installed files.
    #[serde(default)]
    pub contents: Option<String>,
    /// The exact versions of what it depends on.
    #[serde(default)]
    pub dependencies: BTreeMap<String, String>,
}

impl Lock {
    /// A lock with these packages.
    pub fn new(packages: BTreeMap<String, Locked>) -> Self {
        Lock {
            lockfile_version: VERSION,
            packages,
        }
    }

    /// Reads a lock file.
    ///
    /// # Errors
    /// It is no YAML, or does not have the form.
    pub fn parse(text: &str) -> Result<Lock, YamlError> {
        yaml::from_str(text)
    }

    /// Whether this program knows the form of the file.
    pub fn is_known(&self) -> bool {
        self.lockfile_version == VERSION
    }

    /// The package called `name`: a project has one version of each. A file with several was not written by us.
    pub fn find(&self, name: &str) -> Option<&Locked> {
        let of_name = |key: &str| key.rsplit_once('@').is_some_and(|(known, _)| known == name);
        let mut found = self
            .packages
            .iter()
            .filter(|(key, _)| of_name(key))
            .map(|(_, locked)| locked);
        let first = found.next()?;
        found.next().is_none().then_some(first)
    }

    /// The text of the file: the same for the same packages.
    pub fn render(&self) -> String {
        let mut text = format!("{HEADING}lockfileVersion: {VERSION}\n");
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
            // Writing into a text does not fail.
            let _ = writeln!(text, "  {}:", quoted(key));
            for (key, value) in plain.into_iter().chain(rest) {
                if let Some(value) = value {
                    let _ = writeln!(text, "    {key}: {}", quoted(value));
                }
            }
            if !locked.dependencies.is_empty() {
                text.push_str("    dependencies:\n");
            }
            for (name, version) in &locked.dependencies {
                let _ = writeln!(text, "      {}: {}", quoted(name), quoted(version));
            }
        }
        text
    }
}

/// Text in double quotes, as JSON and YAML both read it.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let locked = Locked {
            version: "1.2.3".into(),
            resolved: "oci://host/a/b@sha256:00".into(),
            source: Some("oci://host/a/b: #\"\\ \u{202e}".into()),
            integrity: Some("sha512-AA==".into()),
            contents: Some("sha256-00".into()),
            dependencies: BTreeMap::from([("@a/c".into(), "0.1.0".into())]),
        };
        let lock = Lock::new(BTreeMap::from([("@a/b@1.2.3".to_owned(), locked.clone())]));
        let again = Lock::parse(&lock.render()).unwrap();
        assert_eq!(again, lock);
        assert_eq!(again.find("@a/b"), Some(&locked));
        assert_eq!(again.find("@a/b@1.2.3"), None);
        assert_eq!(
            Lock::parse(&Lock::new(BTreeMap::new()).render())
                .unwrap()
                .packages
                .len(),
            0
        );
    }

    #[test]
    fn a_lock_of_the_original_is_read() {
        let text = "lockfileVersion: 1\npackages:\n  \"@goondan/base@1.0.0\":\n    version: \"1.0.0\"\n    \
                    resolved: \"https://r/x.tgz\"\n    integrity: \"sha512-AA\"\n    dependencies:\n      \"@a/b\": \"0.5.2\"\n";
        let lock = Lock::parse(text).unwrap();
        assert_eq!(lock.find("@goondan/base").unwrap().contents, None);
        assert!(
            lock.is_known() && Lock::parse("packages: {}").is_err() && Lock::parse("[").is_err()
        );
    }

    #[test]
    fn two_versions_of_a_package_are_none() {
        let lock = Lock::parse(
            "lockfileVersion: 1\npackages: {a@1.0.0: {version: 1.0.0, resolved: x}, a@2.0.0: {version: 2.0.0, resolved: x}}",
        );
        assert_eq!(lock.unwrap().find("a"), None);
    }
}
