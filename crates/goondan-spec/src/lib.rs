//! Turns a folder of YAML into a validated [`Bundle`], or into every diagnostic at once.
//!
//! The road is `source text → YAML node tree with spans → typed kinds → resolved references → Bundle`.
//! Each stage appends to one list of [`Diagnostic`]s and returns what it could make; one place decides.
//! A `Bundle` can only be made here, so the code behind it never checks again.
//!
//! This crate deliberately does not know: tokio, the network, libraries, which built-in tools exist (the
//! caller hands in a [`BasePackage`]) and where files come from (the caller hands in a [`Files`]).
//!
//! Start reading at [`load`].

pub mod bundle;
pub mod diagnostic;
pub mod files;
pub mod kinds;
pub mod meta;
pub mod value;

pub use bundle::{BasePackage, Bundle, Resource};
pub use diagnostic::{Code, Diagnostic, Severity};
pub use files::Files;
pub use meta::{Kind, ObjectRef, ResourceId};
pub use value::{Environment, Secret, ValueSource};

/// A JSON object, as tools take it and free-form fields hold it.
pub type JsonObject = serde_json::Map<String, serde_json::Value>;
