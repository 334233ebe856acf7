//! Export of the current conversation to a file, like `gdn conversation export`.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use goondan::Workspace;
use goondan::ids::InstanceId;
use goondan::models::CassetteMask;
use goondan::spec::Code;

use crate::exit::CliError;
use goondan::spec::reason;

/// Writes the conversation to `file`, or to a new file in the current directory.
/// Returns the path. Secrets of the project in `root` are masked.
pub(super) async fn write(
    workspace: PathBuf,
    root: PathBuf,
    id: InstanceId,
    file: Option<&str>,
) -> Result<PathBuf, CliError> {
    let path = file.map_or_else(|| PathBuf::from(file_name(&id)), PathBuf::from);
    tokio::task::spawn_blocking(move || write_file(workspace, &root, &id, path))
        .await
        .map_err(std::io::Error::other)?
}

/// Returns a file name without characters that are special in paths.
fn file_name(id: &InstanceId) -> String {
    let plain = |c: char| {
        if c.is_alphanumeric() || matches!(c, '-' | '_') {
            c
        } else {
            '-'
        }
    };
    format!(
        "{}.jsonl",
        id.to_string()
            .chars()
            .take(80)
            .map(plain)
            .collect::<String>()
    )
}

/// Exports to a temporary file, and renames it to `path`. Fails if `path` exists or the
/// conversation is empty.
fn write_file(
    dir: PathBuf,
    root: &Path,
    id: &InstanceId,
    path: PathBuf,
) -> Result<PathBuf, CliError> {
    let failed = |error: std::io::Error| {
        CliError::failure(
            Code::INTERNAL_ERROR,
            format!(
                "The conversation can't be written to {}: {error}.",
                path.display(),
                error = reason(&error)
            ),
        )
    };
    let environment = goondan::environment(root, None)
        .map_err(|diagnostic| CliError::configuration(diagnostic.message))?;
    let mask = CassetteMask::of_environment(&environment);
    let workspace = Workspace {
        id: String::new(),
        dir,
    };
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
    let mut writer = BufWriter::new(file.as_file_mut() as &mut File);
    let is_there = workspace
        .export(id, &mask, &mut writer)
        .and_then(|is_there| writer.flush().map(|()| is_there));
    drop(writer);
    if !is_there.map_err(failed)? {
        return Err(CliError::failure(
            Code::INSTANCE_NOT_FOUND,
            format!("The conversation {id} is empty."),
        )
        .suggest(
            "Send an input first. For conversations in a database, use `gdn conversation export`.",
        ));
    }
    // An existing file is never overwritten.
    file.persist_noclobber(&path)
        .map_err(|error| failed(error.error))?;
    Ok(path)
}
