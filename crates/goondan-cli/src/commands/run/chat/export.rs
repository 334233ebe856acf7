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

/// Writes the conversation `id` to `file`, or to a new file in the current directory. Masks the
/// secrets of the project in the directory `project_root`. Returns the path.
pub(super) async fn export_conversation(
    workspace: PathBuf,
    project_root: PathBuf,
    id: InstanceId,
    file: Option<&str>,
) -> Result<PathBuf, CliError> {
    let path = match file {
        Some(file) => PathBuf::from(file),
        None => PathBuf::from(default_file_name(&id)),
    };
    tokio::task::spawn_blocking(move || write_file(workspace, &project_root, &id, path))
        .await
        .map_err(std::io::Error::other)?
}

/// Maximum characters of a default file name, without its extension.
const MAX_NAME_CHARS: usize = 80;

/// Returns a file name from the instance id. Replaces characters that are special in paths with
/// `-`.
fn default_file_name(id: &InstanceId) -> String {
    let mut name = String::new();
    for c in id.to_string().chars().take(MAX_NAME_CHARS) {
        let is_plain = c.is_alphanumeric() || matches!(c, '-' | '_');
        name.push(if is_plain { c } else { '-' });
    }
    name + ".jsonl"
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
    let was_found = workspace
        .export(id, &mask, &mut writer)
        .and_then(|found| writer.flush().map(|()| found));
    drop(writer);
    if !was_found.map_err(failed)? {
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
