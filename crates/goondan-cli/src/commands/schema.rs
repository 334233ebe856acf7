//! `gdn schema`: prints the JSON Schemas of the resource kinds.

use std::path::{Path, PathBuf};

use clap::Args;
use goondan::internal::schemas;
use serde_json::Value;

use crate::exit::CliError;
use crate::output::CommandOutput;
use goondan::spec::reason;

/// Name of the schema for a document of any kind.
const ANY_KIND: &str = "goondan";

/// File name suffix of schemas.
const SCHEMA_FILE_SUFFIX: &str = ".schema.json";

const EXAMPLES: &str = "\
Examples:
  gdn schema                     Print the schema of a document of any kind
  gdn schema agent               Print the schema of one kind
  gdn schema --out schemas       Write all schemas as files";

/// Arguments of `gdn schema`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SchemaArgs {
    /// The kind, such as `Agent` [default: any kind]
    #[arg(value_name = "KIND")]
    kind: Option<String>,
    /// Write all schemas into this directory
    #[arg(long, value_name = "DIR", conflicts_with = "kind")]
    out: Option<PathBuf>,
}

/// Prints one schema, or writes all schemas to a directory.
pub(crate) fn run(args: &SchemaArgs, output: &CommandOutput) -> Result<(), CliError> {
    match &args.out {
        Some(folder) => write_all(folder, output),
        None => print_schema(args.kind.as_deref().unwrap_or(ANY_KIND), output),
    }
}

/// Prints the schema of a kind. Fails and lists the kinds if it is unknown.
fn print_schema(kind: &str, output: &CommandOutput) -> Result<(), CliError> {
    let schemas = schemas();
    let is_requested =
        |name: &str| name.strip_suffix(SCHEMA_FILE_SUFFIX) == Some(&kind.to_ascii_lowercase());
    match schemas.iter().find(|(name, _)| is_requested(name)) {
        Some((_, schema)) => output.json_pretty(schema),
        None => {
            let kinds: Vec<&str> = schemas
                .iter()
                .filter_map(|(name, _)| name.strip_suffix(SCHEMA_FILE_SUFFIX))
                .collect();
            Err(CliError::usage(format!("There is no schema for `{kind}`."))
                .suggest(format!("Use one of: {}.", kinds.join(", "))))
        }
    }
}

/// Writes the schemas of all kinds and prints their paths.
fn write_all(folder: &Path, output: &CommandOutput) -> Result<(), CliError> {
    for (name, schema) in schemas() {
        let path = folder.join(&name);
        write(&path, &schema).map_err(|error| {
            CliError::configuration(format!(
                "`{}` can't be written: {error}.",
                path.display(),
                error = reason(&error)
            ))
            .suggest("Choose a directory that you may write to.")
        })?;
        output.foreign(&format!("{}\n", path.display()))?;
    }
    Ok(())
}

/// Writes a schema and creates its directory.
fn write(path: &Path, schema: &Value) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(path, format!("{schema:#}\n"))
}
