//! Turns a folder of YAML into a validated [`Bundle`], or into every diagnostic at once.
//!
//! A load goes through these stages: `source text → YAML node tree with spans → typed kinds → resolved references → Bundle`.
//! Each stage appends to one list of [`Diagnostic`]s and returns what it could make; one place decides.
//! A `Bundle` can only be made here, so the code behind it never checks again.
//!
//! This crate deliberately does not know: tokio, the network, libraries, which built-in tools exist (the
//! caller hands in a [`BasePackage`]) and where files come from (the caller hands in a [`Files`]).
//!
//! Start reading at [`load`].

pub mod bundle;
pub mod codes;
pub mod command_line;
pub mod contents;
mod custom_tool;
mod cycles;
mod decode;
pub mod diagnostic;
pub mod diff;
pub mod discover;
mod entry;
pub mod env_files;
mod envelope;
pub mod files;
mod findings;
pub mod fix;
mod imports;
mod index;
pub mod installed;
mod kept;
pub mod kinds;
mod lint;
mod load;
pub mod lock;
pub mod manifest_edit;
pub mod meta;
mod node;
pub mod outline;
mod packages;
mod parallel;
mod parameters;
mod paths;
pub mod pattern;
mod read;
mod references;
pub mod render;
pub mod repair;
pub mod schema;
pub mod sent_schema;
pub mod shown;
pub mod snapshot;
pub mod source;
mod split;
mod swarms;
mod text;
pub mod value;
mod value_source;
pub mod yaml;

pub use bundle::{BasePackage, Bundle, Resource};
pub use codes::Code;
pub use custom_tool::{CustomParameter, CustomTool, ParameterType};
pub use diagnostic::{Diagnostic, Severity};
pub use diff::{AgentChange, AgentEffect, ReloadPlan, diff};
pub use envelope::check_name;
pub use files::{Files, MemoryFiles, OsFiles};
pub use fix::Fix;
pub use load::{LoadInput, Loaded, load, load_again, survey};
pub use meta::{Kind, ObjectRef, ResourceId};
pub use outline::Outline;
pub use parameters::check_schema;
pub use paths::repository_around;
pub use read::KnownFiles;
pub use snapshot::{AgentPart, Basis, Fingerprint, Fingerprints, Snapshot};
pub use source::Sources;
pub use text::{closest, pattern_fault, reason};
pub use value::{Environment, Secret, TextOrSource, ValueSource};

/// A JSON object, as tools take it and free-form fields hold it.
pub type JsonObject = serde_json::Map<String, serde_json::Value>;
