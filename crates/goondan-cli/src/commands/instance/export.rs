//! `gdn instance export`.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use goondan::StateRoot;
use goondan::inside::shown;
use goondan::models::Mask;
use goondan::spec::Code;

use crate::complete;
use crate::exit::CliError;
use crate::instances::{self, Found, Scope, ScopeArgs};
use crate::output::Output;

/// Arguments of `gdn instance export`.
#[derive(Debug, Args)]
pub(super) struct ExportArgs {
    /// The conversation as `agent:key`, or its agent or key alone if that is unique
    #[arg(value_name = "INSTANCE", add = complete::instances(), required_unless_present = "all", conflicts_with = "all")]
    name: Option<String>,
    /// Write all conversations of the project
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    scope: ScopeArgs,
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Writes conversations. A running swarm may go on meanwhile.
pub(super) fn run(args: &ExportArgs, state_root: &StateRoot, output: &Output) -> Result<(), CliError> {
    let scope = args.scope.scope(false, state_root, output)?;
    let found = chosen(args, &scope, state_root)?;
    let mask = Mask::of_environment(&environment(&scope)?);
    match &args.output {
        None if Output::stdout_is_terminal() => {
            let mut text = Vec::new();
            write_all(&found, &mask, &mut text)?;
            output.json_text(&String::from_utf8_lossy(&text))
        }
        None => write_all(&found, &mask, &mut BufWriter::new(io::stdout().lock())),
        Some(path) => {
            let written = write_file(&found, &mask, path);
            written
                .map_err(|error| CliError { message: format!("{} ({})", error.message, path.display()), ..error })?;
            let exported = found.iter().map(Found::name).collect::<Vec<_>>().join(", ");
            output.note(&format!("Exported {} to {}.", shown::line(exported), shown::line(path.display())))
        }
    }
}

fn chosen(args: &ExportArgs, scope: &Scope, state_root: &StateRoot) -> Result<Vec<Found>, CliError> {
    let Some(name) = &args.name else {
        let found = instances::all(state_root, scope)?;
        // Names are unique in a workspace alone.
        let mut names: Vec<String> = found.iter().map(Found::name).collect();
        names.sort_unstable();
        return match names.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(CliError::usage(format!("Several workspaces have an instance `{}`.", pair[0]))
                .suggest("Choose a workspace with `--workspace`; `gdn instance list` shows which there are.")),
            None if found.is_empty() => Err(CliError::failure(
                Code::INSTANCE_NOT_FOUND,
                format!("There are no instances{}.", instances::of(scope)),
            )),
            None => Ok(found),
        };
    };
    Ok(vec![instances::named(state_root, scope, name)?.ok_or_else(|| instances::unknown(scope, name))?])
}

/// What the process and the `.env` files of the project (else of this folder) say: values of variables that are named like
/// secrets are masked.
fn environment(scope: &Scope) -> Result<goondan::spec::Environment, CliError> {
    let folder = if let Scope::Project(root, _) = scope { root } else { Path::new(".") };
    goondan::environment(folder, None).map_err(|diagnostic| CliError::configuration(diagnostic.message))
}

/// The file is there as a whole or not at all.
fn write_file(found: &[Found], mask: &Mask, path: &Path) -> Result<(), CliError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    let mut writer = BufWriter::new(file.as_file_mut() as &mut File);
    write_all(found, mask, &mut writer)?;
    drop(writer);
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

fn write_all(found: &[Found], mask: &Mask, out: &mut dyn Write) -> Result<(), CliError> {
    for found in found {
        if !found.workspace.export(&found.summary.id, mask, out)? {
            return Err(instances::unknown(&Scope::Workspace(found.workspace.id.clone()), &found.name()));
        }
    }
    Ok(out.flush()?)
}
