//! An installed package.

/// Package that a project uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstalledPackage {
    /// Package name.
    pub name: String,
    /// Exact version.
    pub version: String,
    /// Directory, relative to the project.
    pub folder: String,
    /// Content hash of its files, `sha256-…`.
    pub contents: String,
    /// Resolved source, as in the lock file.
    pub resolved: String,
}
