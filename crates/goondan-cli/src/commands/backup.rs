//! `gdn backup` and `gdn restore`: copy the conversations of a workspace to an archive or a
//! directory, and back.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use clap::Args;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use goondan::internal::private_files;
use goondan::spec::{Code, reason};
use goondan::{StateRoot, Workspace};
use serde::{Deserialize, Serialize};

use crate::commands::{quoted, restored_grants};
use crate::exit::CliError;
use crate::instances::{self, ScopeArgs};
use crate::output::CommandOutput;

/// File in a backup that names its workspace.
const MANIFEST: &str = "backup.json";

/// Version of the manifest.
const MANIFEST_VERSION: u32 = 1;

/// End of the name of a backup in one file.
const ARCHIVE_EXTENSION: &str = ".tar.gz";

const BACKUP_EXAMPLES: &str = "\
Examples:
  gdn backup monday                  Copy this project's state into the directory monday
  gdn backup monday.tar.gz           Copy it into one file
  gdn backup monday --workspace ID   Copy another workspace";

const RESTORE_EXAMPLES: &str = "\
Examples:
  gdn restore monday.tar.gz                    Restore the workspace of a backup
  gdn restore monday --workspace newsroom-2    Restore it under another ID";

/// Arguments of `gdn backup`.
#[derive(Debug, Args)]
#[command(after_help = BACKUP_EXAMPLES)]
pub(crate) struct BackupArgs {
    /// New directory, or new file with the ending .tar.gz
    #[arg(value_name = "DEST")]
    target: PathBuf,
    #[command(flatten)]
    scope: ScopeArgs,
}

/// Arguments of `gdn restore`.
#[derive(Debug, Args)]
#[command(after_help = RESTORE_EXAMPLES)]
pub(crate) struct RestoreArgs {
    /// Directory or file that `gdn backup` wrote
    #[arg(value_name = "SOURCE")]
    source: PathBuf,
    /// Restore into this workspace [default: the backup's workspace]
    #[arg(long, value_name = "ID")]
    workspace: Option<String>,
}

/// Description of a backup.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct BackupManifest {
    version: u32,
    workspace: String,
}

/// Copies a workspace while its swarm may run.
pub(crate) fn back_up(
    args: &BackupArgs,
    state_root: &StateRoot,
    output: &CommandOutput,
) -> Result<(), CliError> {
    let scope = args.scope.scope(false, state_root, output)?;
    let workspace = only_workspace(instances::workspaces(state_root, &scope)?)?;
    if args.target.exists() {
        return Err(exists(&args.target));
    }
    let written = if is_archive(&args.target) {
        write_archive(&workspace, &args.target)
    } else {
        write_directory(&workspace, &args.target)
    };
    let conversations = written.map_err(|error| {
        let message = format!("`{}` can't be backed up: {}.", workspace.id, reason(&error));
        CliError::failure(Code::BACKUP_ERROR, message)
    })?;
    output.note(&format!(
        "Backed up `{}` with {conversations} conversation(s) to {}. Restore it with `gdn restore {}`.",
        workspace.id,
        args.target.display(),
        quoted(&args.target.to_string_lossy())
    ))
}

/// Creates a workspace from a backup. An existing workspace is not changed.
pub(crate) fn restore(
    args: &RestoreArgs,
    state_root: &StateRoot,
    output: &CommandOutput,
) -> Result<(), CliError> {
    let failed = |error: io::Error| {
        let message = format!(
            "{} can't be restored: {}.",
            args.source.display(),
            reason(&error)
        );
        CliError::failure(Code::BACKUP_ERROR, message)
    };
    let original = read_manifest(&args.source)
        .map_err(failed)?
        .map(|manifest| manifest.workspace);
    let id = args
        .workspace
        .clone()
        .or_else(|| original.clone())
        .or_else(|| {
            // A repaired copy has no manifest; its directory has the ID as its name.
            let name = args.source.file_name()?.to_str()?;
            Some(name.to_owned())
        });
    let workspace = state_root.workspace(&id.unwrap_or_default());
    if workspace.dir.exists() {
        let message = format!("The workspace `{}` exists already.", workspace.id);
        return Err(
            CliError::failure(Code::BACKUP_ERROR, message).suggest(format!(
                "Move {} away, or choose another ID with `--workspace`.",
                workspace.dir.display()
            )),
        );
    }
    let keeps_owner = original.is_none_or(|original| original == workspace.id);
    create_workspace(&workspace, &args.source, keeps_owner, state_root).map_err(failed)?;
    output.note(&format!("Restored the workspace `{}`.", workspace.id))
}

/// Copies a backup to the directory of a new workspace. The directory gets its name when it is
/// complete. With `keeps_owner`, the workspace still belongs to its project. Without it, the
/// workspace belongs to the first project that uses it.
fn create_workspace(
    workspace: &Workspace,
    source: &Path,
    keeps_owner: bool,
    state_root: &StateRoot,
) -> io::Result<()> {
    state_root.prepare_or_warn();
    // Every directory next to the workspace is a workspace, so the draft is elsewhere.
    let draft = tempfile::Builder::new()
        .prefix(".restore-")
        .tempdir_in(&state_root.0)?;
    let copy = Workspace {
        id: workspace.id.clone(),
        dir: draft.path().join("workspace"),
    };
    if source.is_dir() {
        copy_directory(source, &copy.dir)?
    } else {
        unpack(source, &copy.dir)?
    }
    remove_if_there(&copy.dir.join(MANIFEST))?;
    restored_grants::remove(&copy)?;
    check_files(&copy.dir, 0, false, &remove_special_mode_bits)?;
    if !keeps_owner {
        copy.disown()?;
    }
    if let Some(workspaces) = workspace.dir.parent() {
        private_files::create_directory(workspaces)?;
    }
    fs::rename(&copy.dir, &workspace.dir)
}

/// Returns the only workspace that exists.
fn only_workspace(workspaces: Vec<Workspace>) -> Result<Workspace, CliError> {
    let mut existing: Vec<Workspace> = workspaces
        .into_iter()
        .filter(|workspace| workspace.dir.is_dir())
        .collect();
    match existing.len() {
        1 => Ok(existing.remove(0)),
        0 => Err(
            CliError::failure(Code::WORKSPACE_NOT_FOUND, "The project has no state yet.").suggest(
                "Name another project with `--project`, or a workspace with `--workspace`.",
            ),
        ),
        _ => {
            let ids: Vec<&str> = existing.iter().map(|workspace| &*workspace.id).collect();
            let message = "A backup contains one workspace, and there are several.";
            Err(CliError::usage(message).suggest(format!(
                "Add `--workspace` with one of: {}.",
                ids.join(", ")
            )))
        }
    }
}

fn exists(path: &Path) -> CliError {
    let message = format!("{} exists already.", path.display());
    CliError::failure(Code::BACKUP_ERROR, message).suggest("Choose another name.")
}

fn is_archive(path: &Path) -> bool {
    path.to_string_lossy().ends_with(ARCHIVE_EXTENSION)
}

/// Copies the workspace into a new directory, which gets its name when it is complete. Returns the
/// number of conversations.
fn write_directory(workspace: &Workspace, target: &Path) -> io::Result<usize> {
    let target = std::path::absolute(target)?;
    let draft = draft_beside(&target)?;
    let copy = draft.path().join("backup");
    let conversations = copy_workspace(workspace, &copy)?;
    fs::rename(&copy, &target)?;
    Ok(conversations)
}

/// Copies the workspace into a new archive, and returns the number of conversations.
fn write_archive(workspace: &Workspace, target: &Path) -> io::Result<usize> {
    let target = std::path::absolute(target)?;
    let draft = draft_beside(&target)?;
    let copy = draft.path().join("backup");
    let conversations = copy_workspace(workspace, &copy)?;
    let archive = draft.path().join("archive");
    let file = private_files::options()
        .write(true)
        .create_new(true)
        .open(&archive)?;
    let mut builder = tar::Builder::new(GzEncoder::new(file, Compression::default()));
    builder.follow_symlinks(false);
    builder.append_dir_all(".", &copy)?;
    builder.into_inner()?.finish()?.sync_all()?;
    fs::rename(&archive, &target)?;
    Ok(conversations)
}

/// Creates a temporary directory in the directory of `target`.
fn draft_beside(target: &Path) -> io::Result<tempfile::TempDir> {
    let parent = target.parent().unwrap_or(Path::new("."));
    tempfile::Builder::new()
        .prefix(".backup-")
        .tempdir_in(parent)
}

fn copy_workspace(workspace: &Workspace, copy: &Path) -> io::Result<usize> {
    let report = workspace.back_up_to(copy)?;
    let manifest = BackupManifest {
        version: MANIFEST_VERSION,
        workspace: workspace.id.clone(),
    };
    private_files::write(&copy.join(MANIFEST), &serde_json::to_vec_pretty(&manifest)?)?;
    Ok(report.conversations)
}

/// Copies a backup or a repaired copy. No process writes to it.
fn copy_directory(source: &Path, copy: &Path) -> io::Result<()> {
    check_is_backup(source)?;
    // A link among the directories of conversations would lead the copy to other files.
    check_files(source, 0, false, &|_, _| Ok(()))?;
    let source = Workspace {
        id: String::new(),
        dir: source.to_owned(),
    };
    source.back_up_to(copy).map(drop)
}

/// Unpacks an archive. Entries outside of the target are refused.
fn unpack(source: &Path, copy: &Path) -> io::Result<()> {
    private_files::create_directory(copy)?;
    let mut archive = tar::Archive::new(GzDecoder::new(File::open(source)?));
    archive.set_preserve_permissions(true);
    archive.unpack(copy)?;
    check_is_backup(copy)
}

/// Fails if a directory contains no workspace.
fn check_is_backup(directory: &Path) -> io::Result<()> {
    if directory.join("instances").is_dir() {
        Ok(())
    } else {
        Err(io::Error::other("it is not a backup"))
    }
}

/// Reads the manifest of a backup; `None` if the backup has none.
fn read_manifest(source: &Path) -> io::Result<Option<BackupManifest>> {
    let bytes = if source.is_dir() {
        read_if_there(&source.join(MANIFEST))?
    } else {
        read_from_archive(source, Path::new(MANIFEST))?
    };
    let Some(bytes) = bytes else { return Ok(None) };
    let manifest: BackupManifest = serde_json::from_slice(&bytes)
        .map_err(|error| io::Error::other(format!("its {MANIFEST} is not valid: {error}")))?;
    if manifest.version > MANIFEST_VERSION {
        return Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "a newer gdn wrote the backup. Run `gdn self update`, then repeat the command",
        ));
    }
    Ok(Some(manifest))
}

/// Reads a file; `None` if it does not exist.
fn read_if_there(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        read => read.map(Some),
    }
}

/// Reads the file with a name from an archive; `None` if the archive does not contain the file.
fn read_from_archive(source: &Path, name: &Path) -> io::Result<Option<Vec<u8>>> {
    let mut archive = tar::Archive::new(GzDecoder::new(File::open(source)?));
    for entry in archive.entries()? {
        let mut entry = entry?;
        let path = entry.path()?;
        if path.strip_prefix(".").unwrap_or(&path) == name {
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes)?;
            return Ok(Some(bytes));
        }
    }
    Ok(None)
}

/// Number of directories between a workspace and the working directory of a conversation:
/// `instances/AGENT:KEY/workdir`.
const WORKDIR_DEPTH: usize = 2;

/// Checks the files of a workspace or a backup, `depth` directories below its root. `gdn` creates no
/// links among its own files, so a link there would lead reads or writes elsewhere. Links in a working
/// directory belong to tools. Calls `on_file` for each file and directory.
fn check_files(
    directory: &Path,
    depth: usize,
    is_workdir: bool,
    on_file: &dyn Fn(&Path, &fs::Metadata) -> io::Result<()>,
) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let metadata = path.symlink_metadata()?;
        if metadata.is_symlink() && is_workdir {
            continue;
        }
        if metadata.is_symlink() {
            return Err(io::Error::other(format!(
                "the backup contains the link `{}`, which `gdn backup` does not write",
                path.display()
            )));
        }
        on_file(&path, &metadata)?;
        if metadata.is_dir() {
            let is_workdir = is_workdir || (depth == WORKDIR_DEPTH && path.ends_with("workdir"));
            check_files(&path, depth + 1, is_workdir, on_file)?;
        }
    }
    Ok(())
}

/// Removes the setuid, setgid and sticky bits of a file. A program with a setuid bit in a foreign
/// backup would run with the rights of the user who restores it.
#[cfg(unix)]
fn remove_special_mode_bits(path: &Path, metadata: &fs::Metadata) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    const SPECIAL_BITS: u32 = 0o7000;
    const PERMISSION_BITS: u32 = 0o777;
    let mode = metadata.permissions().mode();
    if mode & SPECIAL_BITS == 0 {
        return Ok(());
    }
    fs::set_permissions(path, fs::Permissions::from_mode(mode & PERMISSION_BITS))
}

#[cfg(not(unix))]
fn remove_special_mode_bits(_: &Path, _: &fs::Metadata) -> io::Result<()> {
    Ok(())
}

/// Removes a file; does nothing if there is none.
///
/// # Errors
/// Fails if the file exists and cannot be removed.
pub(crate) fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
