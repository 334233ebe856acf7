//! Loads a directory of YAML into a validated [`Bundle`], or reports every diagnostic at once.
//!
//! A load runs these stages:
//! `source text → YAML node tree with spans → typed kinds → resolved references → Bundle`.
//! Each stage appends to one list of [`Diagnostic`]s and returns what it could build. One place
//! decides whether the result is a `Bundle`. Only this crate can construct a `Bundle`, so later
//! code never validates again.
//!
//! This crate deliberately does not depend on tokio, the network or dynamic libraries. The caller
//! passes the built-in tools as a [`BasePackage`] and file access as a [`FileAccess`] implementation.
//!
//! Start reading at [`load`].

mod base_package;
pub mod build_sources;
pub mod bundle;
pub mod codes;
pub mod command_line;
pub mod computed_imports;
pub mod content_hash;
mod custom_tool;
mod decode;
mod decode_cache;
mod decoded_resources;
mod dependency_cycles;
pub mod diagnostic;
mod diagnostic_sink;
pub mod diff;
pub mod discover;
mod document_split;
mod duration_text;
pub mod entry;
pub mod env_files;
mod envelope;
mod expansion;
mod field_advice;
mod field_advisor;
mod field_names;
pub mod files;
pub mod fix;
mod foreign_terms;
pub mod ignore_files;
pub mod import_names;
mod imports;
mod index;
mod installed_package;
pub mod installed_packages;
pub mod kinds;
mod lint;
mod load;
pub mod lock;
pub mod manifest_edit;
pub mod meta;
mod node;
mod only_field;
pub mod outline;
mod packages;
mod parallel;
mod parameters;
mod parsed_file;
mod paths;
pub mod pattern;
mod references;
pub mod regular_file;
mod relative_paths;
pub mod render;
pub mod repair;
mod resource;
mod resource_link;
pub mod schema;
pub mod schema_expansion;
pub mod secret_files;
pub mod sent_schema;
mod short_form;
pub mod snapshot;
pub mod source;
mod swarm_selection;
mod text;
pub mod untrusted_text;
pub mod value;
mod value_source;
pub mod yaml;

pub use crate::base_package::BasePackage;
pub use crate::resource::Resource;
pub use bundle::Bundle;
pub use codes::Code;
pub use custom_tool::{CustomParameter, CustomTool, ParameterType};
pub use diagnostic::{Diagnostic, Severity};
pub use diff::{AgentChange, AgentEffect, ReloadPlan, diff};
pub use discover::unread_resource_files;
pub use duration_text::DurationText;
pub use envelope::check_name;
pub use field_names::{RenamedField, renamed_fields};
pub use files::{FileAccess, MemoryFiles, OsFiles};
pub use fix::Fix;
pub use load::{LoadInput, LoadResult, load, load_again, load_expanded, load_with_outline};
pub use meta::{Kind, ObjectRef, ResourceId};
pub use outline::BundleOutline;
pub use parameters::check_schema;
pub use parsed_file::KnownFiles;
pub use paths::repository_around;
pub use snapshot::{AgentPart, BundleSnapshot, Fingerprint, Fingerprints, SnapshotBasis};
pub use source::SourceTexts;
pub use text::{closest, line_end_at, pattern_fault, reason, with_line_end};
pub use value::{Environment, Secret, TextOrSource, ValueSource};

/// JSON object, as used for tool arguments and free-form fields.
pub type JsonObject = serde_json::Map<String, serde_json::Value>;
