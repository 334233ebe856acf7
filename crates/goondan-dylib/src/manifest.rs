//! Validates a library's manifest, and compares it with the Tool resource.

use std::collections::BTreeSet;

use goondan_abi::wire::{self, Manifest};
use goondan_spec::kinds::{ExportSpec, Permission, Tool};

use crate::failure::{LibraryFailure, ManifestFault};

/// Returns the exports of `manifest` if they are valid and include all those that `tool` names.
pub(crate) fn exports(
    manifest: &Manifest,
    tool: &Tool,
    name: &str,
) -> Result<Vec<ExportSpec>, LibraryFailure> {
    let names: BTreeSet<&str> = manifest
        .exports
        .iter()
        .map(|export| export.name.as_str())
        .collect();
    if names.is_empty() {
        return Err(fault(name, ManifestFault::NoExports));
    }
    if names.len() != manifest.exports.len() {
        return Err(fault(name, ManifestFault::SameName));
    }
    for export in &manifest.exports {
        check(export).map_err(|cause| fault(name, cause))?;
    }
    if let Some(missing) = tool
        .exports
        .iter()
        .find(|export| !names.contains(export.name.as_str()))
    {
        let has = names.into_iter().map(str::to_owned).collect();
        return Err(LibraryFailure::NoExport {
            name: name.to_owned(),
            export: missing.name.clone(),
            has,
        });
    }
    Ok(manifest.exports.iter().map(spec).collect())
}

/// Returns the error of a library with an invalid manifest.
fn fault(name: &str, cause: ManifestFault) -> LibraryFailure {
    LibraryFailure::WrongManifest {
        name: name.to_owned(),
        cause,
    }
}

/// Checks that an export is valid.
fn check(export: &wire::Export) -> Result<(), ManifestFault> {
    let name = &export.name;
    let starts = name.starts_with(|first: char| first.is_ascii_alphabetic());
    let is_valid = name
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    if !starts || !is_valid || name.contains("__") || name.len() > 63 {
        return Err(ManifestFault::Name(name.clone()));
    }
    if export
        .parameters
        .get("type")
        .and_then(serde_json::Value::as_str)
        != Some("object")
    {
        return Err(ManifestFault::Parameters(name.clone()));
    }
    Ok(())
}

fn spec(export: &wire::Export) -> ExportSpec {
    ExportSpec {
        name: export.name.clone(),
        description: export.description.clone(),
        parameters: export.parameters.clone(),
        permissions: export.permissions.iter().map(permission).collect(),
        optional_permissions: export.optional_permissions.iter().map(permission).collect(),
        read_only: export.read_only,
        idempotent: export.idempotent,
        ..ExportSpec::default()
    }
}

fn permission(permission: &wire::Permission) -> Permission {
    match permission {
        wire::Permission::Read => Permission::Read,
        wire::Permission::Write => Permission::Write,
        wire::Permission::Execute => Permission::Execute,
        wire::Permission::Network => Permission::Network,
    }
}
