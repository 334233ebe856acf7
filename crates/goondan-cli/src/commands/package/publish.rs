//! `gdn package pack` and `gdn package publish`.

use std::path::{Path, PathBuf};

use clap::Args;
use goondan::internal::untrusted_text;
use goondan::spec::Code;
use goondan_packages::archive::{self, PackedArchive};
use goondan_packages::sources::registry::PackageDescription;
use goondan_packages::sources::{oci, registry};
use goondan_packages::{PackageManifest, PackageSource, integrity};
use serde_json::json;

use super::install::folder;
use crate::exit::{CliError, CommandExit};
use crate::input_files;
use crate::output::{CommandOutput, style};
use crate::packages::{access_settings, package_error};
use crate::project;
use crate::project_path::{ProjectPathArg, ProjectPathOption};

/// Arguments of `gdn package pack`.
#[derive(Debug, Args)]
pub(crate) struct PackagePackArgs {
    #[command(flatten)]
    project: ProjectPathArg,
    /// Write the archive to this file [default: NAME-VERSION.tgz in this directory]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Arguments of `gdn package publish`.
#[derive(Debug, Args)]
pub(crate) struct PackagePublishArgs {
    /// The target: `oci://host/name`, or the URL of a Goondan registry [default: the registry]
    #[arg(value_name = "TARGET")]
    target: Option<String>,
    #[command(flatten)]
    project: ProjectPathOption,
    /// Set this tag to the published version
    #[arg(long, value_name = "TAG", default_value = "latest")]
    tag: String,
    /// Check and pack, without publishing
    #[arg(long)]
    dry_run: bool,
}

/// Checks the project and writes its archive.
pub(super) fn pack(args: &PackagePackArgs, output: &CommandOutput) -> Result<(), CliError> {
    let root = folder(&args.project.find(output)?);
    let for_others = false;
    let (manifest, packed) = check_and_pack(&root, for_others)?;
    let version = manifest
        .version
        .as_ref()
        .map(ToString::to_string)
        .unwrap_or_default();
    let name = manifest.name.trim_start_matches('@').replace('/', "-");
    let path = args
        .output
        .clone()
        .unwrap_or_else(|| PathBuf::from(format!("{name}-{version}.tgz")));
    std::fs::write(&path, &packed.archive)
        .map_err(|error| input_files::unwritable_file_error(&path, &error))?;
    print_package(
        &manifest,
        &packed,
        output,
        json!({ "file": path.to_string_lossy() }),
        &format!("Wrote {}", path.display()),
    )
}

/// Checks, packs and publishes the project. A dry run only prints the target.
pub(super) async fn publish(
    args: &PackagePublishArgs,
    output: &CommandOutput,
) -> Result<(), CliError> {
    let root = folder(&args.project.find(output)?);
    let for_others = true;
    let (manifest, packed) = check_and_pack(&root, for_others)?;
    let registry_url = args
        .target
        .as_deref()
        .filter(|target| target.starts_with("http"));
    let fetch_settings = access_settings(Some(&root), Some(&manifest), registry_url);
    let target = match &args.target {
        Some(target) if registry_url.is_none() => PackageSource::parse(target, &fetch_settings),
        _ => PackageSource::of_registry(&fetch_settings),
    };
    let target = target.map_err(package_error)?;
    let (Some(version), description) = (
        &manifest.version,
        manifest.description.as_deref().unwrap_or_default(),
    ) else {
        return Err(without_version());
    };
    let description_of_package = PackageDescription {
        name: &manifest.name,
        version,
        description,
        restricted: manifest.restricted,
        tag: &args.tag,
    };
    if args.dry_run {
        let target_report = json!({ "target": target.to_string(), "published": false });
        return print_package(
            &manifest,
            &packed,
            output,
            target_report,
            &format!("Would publish to {target}"),
        );
    }
    let published = match &target {
        PackageSource::Oci(reference) => oci::publish(
            reference,
            description_of_package,
            &packed.archive,
            &fetch_settings.credentials,
        )
        .await
        .map_err(package_error)?,
        PackageSource::Registry(url) => {
            let dependencies = &manifest.dependencies;
            let publication = registry::publish(
                url.as_str(),
                description_of_package,
                dependencies,
                &packed.archive,
                &fetch_settings.credentials,
            );
            publication.await.map_err(package_error)?;
            url.to_string()
        }
        PackageSource::File(_) | PackageSource::Git(_) => {
            return Err(
                CliError::usage(format!("A package cannot be published to {target}."))
                    .suggest("Publish to `oci://host/name`. For git, push a tag such as `v1.0.0`."),
            );
        }
    };
    print_package(
        &manifest,
        &packed,
        output,
        json!({ "target": published, "published": true }),
        &format!("Published to {published}"),
    )
}

/// Packs the package in `root`. Fails if the project is invalid. With `for_others`, also fails if
/// the package depends on a directory of this machine.
fn check_and_pack(
    root: &Path,
    for_others: bool,
) -> Result<(PackageManifest, PackedArchive), CliError> {
    let manifest = PackageManifest::read(root).map_err(package_error)?;
    if manifest.version.is_none() {
        return Err(without_version());
    }
    let project = project::load(root)?;
    if project.bundle.is_none() {
        let count = project
            .diagnostics
            .iter()
            .filter(|problem| problem.is_error())
            .count();
        let errors = if count == 1 { "error" } else { "errors" };
        let message = format!("The package was not packed, because it has {count} {errors}.");
        return Err(
            CliError::new(CommandExit::Validation, Code::SCHEMA_INVALID, message)
                .suggest("List the errors with `gdn validate`."),
        );
    }
    if for_others {
        let local_dependency = manifest.dependencies.iter().find(|dependency| {
            dependency
                .source
                .as_deref()
                .is_some_and(|at| at.starts_with("file:"))
        });
        if let Some(local_dependency) = local_dependency {
            let message = format!(
                "The package depends on `{}` in a directory of this machine.",
                local_dependency.name
            );
            return Err(
                CliError::new(CommandExit::Validation, Code::PACKAGE_SOURCE, message)
                    .suggest("Publish that package first, and depend on its published version."),
            );
        }
    }
    let packed = archive::pack(root).map_err(package_error)?;
    Ok((manifest, packed))
}

/// Returns the error of a package without a version.
fn without_version() -> CliError {
    CliError::new(
        CommandExit::Validation,
        Code::SCHEMA_INVALID,
        "The Package document has no `spec.version`.",
    )
    .suggest("Add one, such as `version: 1.0.0`.")
}

/// Prints the content of the archive. `further_fields` are added to the JSON report. `outcome`
/// states what happened to the archive.
fn print_package(
    manifest: &PackageManifest,
    packed: &PackedArchive,
    output: &CommandOutput,
    further_fields: serde_json::Value,
    outcome: &str,
) -> Result<(), CliError> {
    let version = manifest
        .version
        .as_ref()
        .map(ToString::to_string)
        .unwrap_or_default();
    let integrity = integrity::hash_archive(&packed.archive);
    if output.json {
        let files: Vec<&str> = packed.files.iter().map(|(name, _)| name.as_str()).collect();
        let mut report = json!({
            "name": manifest.name, "version": version, "integrity": integrity, "size": packed.archive.len(), "files": files,
        });
        if !packed.unbundled.is_empty() {
            let unbundled = packed
                .unbundled
                .iter()
                .map(|(file, dependencies)| (file.clone(), json!(dependencies)));
            report["unbundled"] = serde_json::Value::Object(unbundled.collect());
        }
        if let (Some(report), serde_json::Value::Object(further_fields)) =
            (report.as_object_mut(), further_fields)
        {
            report.extend(further_fields);
        }
        return output.json_pretty(&report);
    }
    for (name, size) in &packed.files {
        output.note(&format!("  {size:>9}  {name}"))?;
    }
    let yellow = style::WARNING;
    for (file, dependencies) in &packed.unbundled {
        output.note(&format!(
            "{yellow}warning{yellow:#}: {} depends on {}, which is not installed with the \
                package.\n  Bundle the dependency into the handler files, such as with `esbuild \
                --bundle --platform=node`, and move it to `devDependencies`.",
            untrusted_text::line(file),
            untrusted_text::line(dependencies.join(", "))
        ))?;
    }
    let good = style::GOOD;
    output.line(&format!(
        "{good}{} {version}{good:#}: {outcome}",
        manifest.name
    ))?;
    output.note(&format!(
        "{} files, {} bytes, {integrity}",
        packed.files.len(),
        packed.archive.len()
    ))
}
