//! Packages of swarms: how they are packed, where they come from, which versions are chosen, and how they get into a project.
//!
//! Everything that comes from elsewhere is a stranger's, until its hash says that it is what the lock file states. Installing
//! runs nothing of a package. How installed packages are read is the business of `goondan-spec`, and whether their code may
//! run is that of trust.
//!
//! It deliberately does not know swarms, terminals and arguments.

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
