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
pub mod checkout;
pub mod credentials;
pub mod error;
mod http;
pub mod install;
pub mod integrity;
pub mod manifest;
pub mod resolve;
pub mod sources;

pub use cache::Cache;
pub use checkout::{Checkout, Found, checkout, look};
pub use credentials::Credentials;
pub use error::PackageError;
pub use install::{Options, Outcome, install};
pub use manifest::{Dependency, Manifest};
pub use resolve::Update;
pub use sources::{Reach, Source};
