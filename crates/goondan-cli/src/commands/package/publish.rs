//! `gdn package pack` and `gdn package publish`.

use std::path::{Path, PathBuf};

use clap::Args;
use goondan::inside::shown;
use goondan::spec::Code;
use goondan_packages::archive::{self, Packed};
use goondan_packages::sources::registry::About;
use goondan_packages::sources::{oci, registry};
use goondan_packages::{Manifest, Source, integrity};
use serde_json::json;

use super::install::folder;
use crate::exit::{CliError, Exit};
use crate::output::{Output, style};
use crate::packages::{reach, refused};
use crate::place::{ProjectOption, ProjectPath};
use crate::project;
use crate::reading;

/// Arguments of `gdn package pack`.
#[derive(Debug, Args)]
pub(crate) struct PackArgs {
    #[command(flatten)]
    project: ProjectPath,
    /// Write the archive to this file [default: NAME-VERSION.tgz in this folder]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Arguments of `gdn package publish`.
#[derive(Debug, Args)]
pub(crate) struct PublishArgs {
    /// Where to: `oci://host/name`, or the address of a registry of Goondan [default: the registry]
    #[arg(value_name = "TARGET")]
    target: Option<String>,
    #[command(flatten)]
    project: ProjectOption,
    /// Let this tag lead to the version, too
    #[arg(long, value_name = "TAG", default_value = "latest")]
    tag: String,
    /// Check and pack, and publish nothing
    #[arg(long)]
    dry_run: bool,
}

pub(super) fn pack(args: &PackArgs, output: &Output) -> Result<(), CliError> {
    let root = folder(&args.project.find(output)?);
    let (manifest, packed) = checked(&root, false)?;
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
    std::fs::write(&path, &packed.archive).map_err(|error| reading::unwritable(&path, &error))?;
    told(
        &manifest,
        &packed,
        output,
        json!({ "file": path }),
        &format!("Wrote {}", path.display()),
    )
}

pub(super) async fn publish(args: &PublishArgs, output: &Output) -> Result<(), CliError> {
    let root = folder(&args.project.find(output)?);
    let (manifest, packed) = checked(&root, true)?;
    let stated = args
        .target
        .as_deref()
        .filter(|target| target.starts_with("http"));
    let reach = reach(Some(&root), Some(&manifest), stated);
    let target = match &args.target {
        Some(target) if stated.is_none() => Source::parse(target, &reach),
        _ => Source::of_registry(&reach),
    };
    let target = target.map_err(refused)?;
    let (Some(version), description) = (
        &manifest.version,
        manifest.description.as_deref().unwrap_or_default(),
    ) else {
        return Err(without_version());
    };
    let about = About {
        name: &manifest.name,
        version,
        description,
        restricted: manifest.restricted,
        tag: &args.tag,
    };
    if args.dry_run {
        let to = json!({ "target": target.to_string(), "published": false });
        return told(
            &manifest,
            &packed,
            output,
            to,
            &format!("Would publish to {target}"),
        );
    }
    let published = match &target {
        Source::Oci(reference) => {
            oci::publish(reference, about, &packed.archive, &reach.credentials)
                .await
                .map_err(refused)?
        }
        Source::Registry(url) => {
            let dependencies = &manifest.dependencies;
            let done = registry::publish(
                url.as_str(),
                about,
                dependencies,
                &packed.archive,
                &reach.credentials,
            );
            done.await.map_err(refused)?;
            url.to_string()
        }
        Source::File(_) | Source::Git(_) => {
            return Err(
                CliError::usage(format!("A package cannot be published to {target}."))
                    .suggest("Publish to `oci://host/name`. For git, push a tag such as `v1.0.0`."),
            );
        }
    };
    told(
        &manifest,
        &packed,
        output,
        json!({ "target": published, "published": true }),
        &format!("Published to {published}"),
    )
}

/// The package in `root`, packed, if it is one that others can use.
fn checked(root: &Path, for_others: bool) -> Result<(Manifest, Packed), CliError> {
    let manifest = Manifest::read(root).map_err(refused)?;
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
        let message = format!("The package is not valid, so it was not packed: {count} {errors}.");
        return Err(
            CliError::new(Exit::Validation, Code::SCHEMA_INVALID, message)
                .suggest("See them with `gdn validate`."),
        );
    }
    if for_others {
        let local = manifest.dependencies.iter().find(|one| {
            one.source
                .as_deref()
                .is_some_and(|at| at.starts_with("file:"))
        });
        if let Some(local) = local {
            let message = format!(
                "The package depends on `{}` in a folder of this machine.",
                local.name
            );
            return Err(
                CliError::new(Exit::Validation, Code::PACKAGE_SOURCE, message)
                    .suggest("Publish that package, too, and depend on where it is then."),
            );
        }
    }
    let packed = archive::pack(root).map_err(refused)?;
    Ok((manifest, packed))
}

fn without_version() -> CliError {
    CliError::new(
        Exit::Validation,
        Code::SCHEMA_INVALID,
        "The Package document has no `spec.version`.",
    )
    .suggest("Add one, such as `version: 1.0.0`.")
}

fn told(
    manifest: &Manifest,
    packed: &Packed,
    output: &Output,
    more: serde_json::Value,
    done: &str,
) -> Result<(), CliError> {
    let version = manifest
        .version
        .as_ref()
        .map(ToString::to_string)
        .unwrap_or_default();
    let integrity = integrity::of(&packed.archive);
    if output.json {
        let files: Vec<&str> = packed.files.iter().map(|(name, _)| name.as_str()).collect();
        let mut report = json!({
            "name": manifest.name, "version": version, "integrity": integrity, "size": packed.archive.len(), "files": files,
        });
        if !packed.unbundled.is_empty() {
            let unbundled = packed
                .unbundled
                .iter()
                .map(|(file, wanted)| (file.clone(), json!(wanted)));
            report["unbundled"] = serde_json::Value::Object(unbundled.collect());
        }
        if let (Some(report), serde_json::Value::Object(more)) = (report.as_object_mut(), more) {
            report.extend(more);
        }
        return output.json_pretty(&report);
    }
    for (name, size) in &packed.files {
        output.note(&format!("  {size:>9}  {name}"))?;
    }
    let yellow = style::WARNING;
    for (file, wanted) in &packed.unbundled {
        output.note(&format!(
            "{yellow}warning{yellow:#}: {} depends on {}, and nothing installs that where the package is used.\n  Bundle it \
             into the modules, such as with `esbuild --bundle --platform=node`, and move it to `devDependencies`.",
            shown::line(file),
            shown::line(wanted.join(", "))
        ))?;
    }
    let good = style::GOOD;
    output.line(&format!(
        "{good}{} {version}{good:#}: {done}",
        manifest.name
    ))?;
    output.note(&format!(
        "{} files, {} bytes, {integrity}",
        packed.files.len(),
        packed.archive.len()
    ))
}
