//! `kind: Package`.

/// What this project is called and depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Package {
    /// A semantic version; needed to publish.
    pub version: Option<String>,
    /// For people.
    pub description: Option<String>,
    /// `public` (the default) or `restricted`.
    pub restricted: bool,
    /// What it depends on.
    pub dependencies: Vec<Dependency>,
    /// Another registry than the default one.
    pub registry: Option<String>,
}

/// A package that this one depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dependency {
    /// `@scope/name` or `name`.
    pub name: String,
    /// A version range.
    pub version: String,
}
