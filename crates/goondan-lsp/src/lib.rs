//! Language server for the YAML of a project.
//!
//! ```text
//! messages ──► server ──► open documents ──► outline of the project ──► diagnostics
//!  (wire)        │          (over the disk)    (goondan-spec)
//!                └──► cursor (by indentation) ──► shape (by schema) ──► completion, hover
//! ```
//!
//! Diagnostics, references and renames use the loader's result, so they agree with `gdn validate`.
//! Completion and hover use the indentation of the lines, because text is rarely valid YAML while
//! it is being edited.
//!
//! This crate deliberately does not depend on execution, the built-in tools and the environment. A
//! [`LspHost`] provides them, together with the files. The server formats nothing and writes no files:
//! the editor applies all edits.
//!
//! Start reading at [`LanguageServer::receive`].

mod actions;
mod completion;
mod cursor;
mod diagnostics;
mod documents;
mod folding;
mod hover;
mod links;
mod messages;
mod project;
mod rename;
mod scan;
mod schema_lookup;
mod server;
mod symbols;
mod templates;
mod text;
mod tokens;
mod transport;
mod uri;

use std::path::Path;
use std::sync::Arc;

use goondan_spec::{BasePackage, Bundle, Diagnostic, FileAccess};

pub use server::{LanguageServer, SessionEnd, serve};
pub use transport::WireError;

/// Services that the surrounding program provides to the server.
pub trait LspHost {
    /// Returns the files of this machine.
    fn files(&self) -> &dyn FileAccess;
    /// Returns the built-in package.
    fn base_package(&self) -> &BasePackage;
    /// Returns further diagnostics of a project that loads without errors.
    fn check(&self, root: &Path, bundle: &Arc<Bundle>) -> Vec<Diagnostic>;
    /// Returns the names of the variables that are available to the project at `root`.
    fn variables(&self, root: &Path) -> Vec<String>;
}
