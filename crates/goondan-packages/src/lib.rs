//! Packages of swarms: packing, sources, version selection and installation.
//!
//! All fetched contents are untrusted until their hash matches the lock file. An installation runs
//! no code of a package. `goondan-spec` reads installed packages, and the trust rules decide if
//! their code may run.
//!
//! The crate does not depend on swarms, terminals or command-line arguments.

#![allow(missing_docs, reason = "internal crate")]

pub mod archive;
pub mod cache;
pub mod credentials;
pub mod dependency_resolution;
pub mod error;
mod http;
pub mod install;
pub mod integrity;
pub mod manifest;
pub mod package_checkout;
pub mod sources;

pub use cache::PackageCache;
pub use credentials::RegistryCredentials;
pub use dependency_resolution::UpdateSelection;
pub use error::PackageError;
pub use install::{InstallOptions, InstallResult, install};
pub use manifest::{ManifestDependency, PackageManifest};
pub use package_checkout::{InspectedPackage, PackageCheckout, checkout, inspect_newest};
pub use sources::{FetchSettings, PackageSource};
