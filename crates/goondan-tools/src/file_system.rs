//! `file-system`: reads, writes and lists files of the working directory.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::sync::Arc;

use goondan_core::ports::tool::{HandlerError, ToolContext, ToolOutput};
use goondan_spec::kinds::{PATH_FORMAT, Permission};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::builtin_tool::BuiltinTool;
use crate::errors::{self, lossy_path, run_blocking};
use crate::file_changes::{
    FileChangeLock, MAX_GUARDED_FILE_BYTES, StaleWriteGuard, read_text, replace,
};
use crate::fs::with_warning;
use crate::output_capture::without_cut_end;
use crate::paths::{FileRoot, FileToolSettings, ResolvedPath};
use crate::state_directory;
use crate::tool_operation::{ToolExport, ToolOperation, titled_output};
use goondan_core::nofollow_fs::{DirectoryEntryKind, DirectoryHandle};

/// Maximum number of entries in one list.
const MAX_DIRECTORY_ENTRIES: usize = 10_000;

pub(crate) const BUILTIN: BuiltinTool = BuiltinTool {
    name: "file-system",
    about: "Reads, writes and lists files inside the working directory.",
    config: FileToolSettings::CONFIG_KEYS,
    error_message_limit: Some(2000),
    open: |opening| {
        let roots: Arc<FileToolSettings> = Arc::new(opening.config()?);
        Ok(vec![
            ToolExport::new::<ReadTextFile>("read", &roots)
                .with_permission(Permission::Read)
                .read_only(),
            ToolExport::new::<WriteTextFile>("write", &roots)
                .with_permission(Permission::Write)
                .with_optional_permission(Permission::Read),
            ToolExport::new::<ListDirectory>("list", &roots)
                .with_permission(Permission::Read)
                .read_only(),
            ToolExport::new::<MakeDirectory>("mkdir", &roots).with_permission(Permission::Write),
        ])
    },
    ..BuiltinTool::DEFAULT_ROW
};

/// Read a text file.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ReadTextFile {
    /// The file, relative to the working directory.
    #[schemars(length(min = 1), extend("format" = PATH_FORMAT))]
    path: String,
    /// Maximum bytes to read.
    #[serde(default = "default_max_bytes")]
    #[schemars(range(min = 1, max = 10_000_000))]
    max_bytes: u32,
}

impl ToolOperation for ReadTextFile {
    type Shared = FileToolSettings;

    async fn run(
        self,
        ctx: &ToolContext,
        roots: &FileToolSettings,
    ) -> Result<ToolOutput, HandlerError> {
        let (root, guard) = (roots.file_root(ctx)?, roots.stale_write_guard(ctx));
        run_blocking(move || {
            let resolved = root.resolve(&self.path)?;
            read(&root, &guard, &resolved, self.max_bytes)
        })
        .await
    }
}

/// Reads the beginning of a file, at most `max_bytes`.
fn read(
    root: &FileRoot,
    guard: &StaleWriteGuard,
    resolved: &ResolvedPath,
    max_bytes: u32,
) -> Result<ToolOutput, HandlerError> {
    let (file, metadata) = root.open(resolved)?;
    // The guard compares whole files. Its version must come from the same read as the output,
    // because the file can change between two.
    let is_guarded = metadata.len() <= MAX_GUARDED_FILE_BYTES as u64;
    let limit = if is_guarded {
        max_bytes.max(MAX_GUARDED_FILE_BYTES as u32)
    } else {
        max_bytes
    };
    let mut bytes = Vec::new();
    file.take(u64::from(limit) + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| errors::io_error(format_args!("read `{}`", resolved.given), &error))?;
    if is_guarded {
        guard.note_read(&resolved.path, &bytes);
    }
    let truncated = bytes.len() > max_bytes as usize;
    let kept = if truncated {
        without_cut_end(&bytes[..max_bytes as usize])
    } else {
        &bytes
    };
    let output = json!({
        "path": lossy_path(&resolved.path),
        "size": metadata.len(),
        "truncated": truncated,
        "content": String::from_utf8_lossy(kept),
    });
    Ok(titled_output(format!("Read {}", resolved.given), output))
}

/// Write a text file. Missing parent directories are created.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WriteTextFile {
    /// The file, relative to the working directory.
    #[schemars(length(min = 1), extend("format" = PATH_FORMAT))]
    path: String,
    /// The content.
    #[schemars(length(min = 1))]
    content: String,
    /// Append to the file instead of replacing it.
    #[serde(default)]
    append: bool,
}

impl ToolOperation for WriteTextFile {
    type Shared = FileToolSettings;

    async fn run(
        self,
        ctx: &ToolContext,
        roots: &FileToolSettings,
    ) -> Result<ToolOutput, HandlerError> {
        let (root, guard) = (roots.file_root(ctx)?, roots.stale_write_guard(ctx));
        run_blocking(move || {
            let resolved = root.resolve(&self.path)?;
            let _lock = FileChangeLock::acquire_to_write([&resolved])?;
            root.create_parents(&resolved)?;
            let guard = if self.append {
                guard.for_append()
            } else {
                guard
            };
            let before = guarded_text(&root, &resolved);
            let warning = match &before {
                Some(before) => guard.check(&resolved, before)?,
                None => None,
            };
            let size = if self.append {
                append(&root, &resolved, self.content.as_bytes())?
            } else {
                replace(&root, &resolved, self.content.as_bytes())?;
                self.content.len() as u64
            };
            match before.filter(|_| self.append) {
                Some(before) => guard.note_written(&resolved.path, &(before + &self.content)),
                // The contents after the append are known only if the file is new.
                None if self.append && size != self.content.len() as u64 => {}
                None => guard.note_written(&resolved.path, &self.content),
            }
            let output = json!({
                "path": lossy_path(&resolved.path), "size": size, "written": true, "append": self.append,
            });
            let output = with_warning(output, warning);
            Ok(titled_output(format!("Wrote {}", resolved.given), output))
        })
        .await
    }
}

/// Returns the text of a file that the stale-write guard compares; `None` if the file is missing, too
/// large or not text.
fn guarded_text(root: &FileRoot, resolved: &ResolvedPath) -> Option<String> {
    let is_guarded = resolved.path.metadata().ok()?.len() <= MAX_GUARDED_FILE_BYTES as u64;
    is_guarded.then(|| read_text(root, resolved).ok())?
}

/// Appends to a file. Returns its new size in bytes.
fn append(root: &FileRoot, resolved: &ResolvedPath, content: &[u8]) -> Result<u64, HandlerError> {
    let mut file = root.open_to_append(resolved)?;
    file.write_all(content)
        .and_then(|()| file.metadata())
        .map(|metadata| metadata.len())
        .map_err(|error| errors::io_error(format_args!("append to `{}`", resolved.given), &error))
}

/// List a directory.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ListDirectory {
    /// The directory, relative to the working directory.
    #[serde(default = "default_path")]
    #[schemars(length(min = 1), extend("format" = PATH_FORMAT))]
    path: String,
    /// Include subdirectory contents.
    #[serde(default)]
    recursive: bool,
    /// List directories.
    #[serde(default = "default_true")]
    include_dirs: bool,
    /// List files.
    #[serde(default = "default_true")]
    include_files: bool,
}

impl ToolOperation for ListDirectory {
    type Shared = FileToolSettings;

    async fn run(
        self,
        ctx: &ToolContext,
        roots: &FileToolSettings,
    ) -> Result<ToolOutput, HandlerError> {
        let root = roots.file_root(ctx)?;
        run_blocking(move || {
            let resolved = root.resolve(&self.path)?;
            let mut entries = Vec::new();
            root.open_directory(&resolved)
                .and_then(|directory| self.collect(&directory, &resolved.path, &mut entries))
                .map_err(|error| errors::io_error(format_args!("list `{}`", self.path), &error))?;
            entries.sort_by(|left, right| left.path.cmp(&right.path));
            Ok(self.report_entries(&resolved, entries))
        })
        .await
    }
}

struct ListedEntry {
    name: String,
    path: std::path::PathBuf,
    /// Size of a file in bytes; `None` for a directory.
    size: Option<u64>,
}

impl ListDirectory {
    /// Adds the entries of `directory`, whose path is `above`, up to one more than [`MAX_DIRECTORY_ENTRIES`]. Unreadable
    /// subdirectories count as empty. Links, special files, and state directories are skipped.
    fn collect(
        &self,
        directory: &DirectoryHandle,
        above: &Path,
        entries: &mut Vec<ListedEntry>,
    ) -> std::io::Result<()> {
        for (name, metadata) in directory.entries()? {
            let path = above.join(&name);
            if state_directory::is_protected(&path) {
                continue;
            }
            if metadata.kind == DirectoryEntryKind::Folder {
                if self.include_dirs {
                    entries.push(ListedEntry {
                        name: name.to_string_lossy().into_owned(),
                        path: path.clone(),
                        size: None,
                    });
                }
                if self.recursive && entries.len() <= MAX_DIRECTORY_ENTRIES {
                    let _ = directory
                        .open_subdirectory(&name)
                        .and_then(|below| self.collect(&below, &path, entries));
                }
            } else if metadata.kind == DirectoryEntryKind::File && self.include_files {
                entries.push(ListedEntry {
                    name: name.to_string_lossy().into_owned(),
                    path,
                    size: Some(metadata.size),
                });
            }
            if entries.len() > MAX_DIRECTORY_ENTRIES {
                break;
            }
        }
        Ok(())
    }

    /// Returns the first entries as JSON for the model.
    fn report_entries(&self, resolved: &ResolvedPath, mut listed: Vec<ListedEntry>) -> ToolOutput {
        let truncated = listed.len() > MAX_DIRECTORY_ENTRIES;
        listed.truncate(MAX_DIRECTORY_ENTRIES);
        let entries: Vec<Value> = listed.into_iter().map(entry_json).collect();
        let title = format!("Listed {} ({})", resolved.given, entries.len());
        let mut output = json!({"path": lossy_path(&resolved.path), "recursive": self.recursive, "count": entries.len(), "entries": entries});
        if truncated {
            output["truncated"] = json!(true);
        }
        titled_output(title, output)
    }
}

/// Returns the JSON of an entry for the model.
fn entry_json(entry: ListedEntry) -> Value {
    match entry.size {
        Some(size) => {
            json!({"name": entry.name, "path": lossy_path(&entry.path), "type": "file", "size": size})
        }
        None => json!({"name": entry.name, "path": lossy_path(&entry.path), "type": "dir"}),
    }
}

/// Create a directory.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct MakeDirectory {
    /// The directory, relative to the working directory.
    #[schemars(length(min = 1), extend("format" = PATH_FORMAT))]
    path: String,
    /// Create parent directories; succeed if it exists.
    #[serde(default = "default_true")]
    recursive: bool,
}

impl ToolOperation for MakeDirectory {
    type Shared = FileToolSettings;

    async fn run(
        self,
        ctx: &ToolContext,
        roots: &FileToolSettings,
    ) -> Result<ToolOutput, HandlerError> {
        let root = roots.file_root(ctx)?;
        run_blocking(move || {
            let resolved = root.resolve(&self.path)?;
            let existed = resolved.path.is_dir();
            if self.recursive {
                root.create_folders(&resolved)?;
            } else {
                root.in_folder(
                    &resolved,
                    &format!("create the directory `{}`", resolved.given),
                    DirectoryHandle::make_folder,
                )?;
            }
            let output =
                json!({"path": lossy_path(&resolved.path), "created": !existed, "recursive": self.recursive});
            Ok(titled_output(format!("Created {}", resolved.given), output))
        })
        .await
    }
}

fn default_max_bytes() -> u32 {
    100_000
}

fn default_path() -> String {
    ".".to_owned()
}

fn default_true() -> bool {
    true
}
