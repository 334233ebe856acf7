//! The language server: what an editor is told about the YAML of a project while somebody writes it.
//!
//! ```text
//! messages ──► server ──► open documents ──► survey of the project ──► diagnostics
//!  (wire)        │          (over the disk)    (goondan-spec)
//!                └──► cursor (by indentation) ──► shape (by schema) ──► completion, hover
//! ```
//!
//! Diagnostics, references and renames go by what the loader made of the project, so they say what `gdn validate` says. What is
//! asked while somebody types goes by the indentation of the lines, because such a text is seldom YAML.
//!
//! This crate deliberately does not know: how anything runs, which tools are built in, and what the environment holds. All of
//! that, and the files, it asks a [`Host`]. It formats nothing, and it writes no file: edits are the editor's to make.
//!
//! Start reading at [`Server::receive`].

mod actions;
mod completion;
mod cursor;
mod documents;
mod folding;
mod hover;
mod links;
mod messages;
mod project;
mod publish;
mod rename;
mod scan;
mod server;
mod shape;
mod symbols;
mod templates;
mod text;
mod tokens;
mod uri;
mod wire;

use std::path::Path;
use std::sync::Arc;

use goondan_spec::{BasePackage, Bundle, Diagnostic, Files};

pub use server::{End, Server, serve};
pub use wire::WireError;

/// What the server is told by the program around it.
pub trait Host {
    /// The files of this machine.
    fn files(&self) -> &dyn Files;
    /// The built-in package.
    fn base(&self) -> &BasePackage;
    /// What is wrong with a project that loads, beyond what the loader finds.
    fn check(&self, root: &Path, bundle: &Arc<Bundle>) -> Vec<Diagnostic>;
    /// The names of the variables that the project at `root` sees.
    fn variables(&self, root: &Path) -> Vec<String>;
}
