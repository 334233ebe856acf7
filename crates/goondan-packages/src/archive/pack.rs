//! Packs a package reproducibly: equal files result in equal bytes on every system and at any time.

use std::fs::{self, Metadata};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flate2::{Compression, GzBuilder};
use goondan_spec::content_hash::{MAX_PACKAGE_BYTES, MAX_PACKAGE_ENTRIES};
use goondan_spec::ignore_files::IgnoreFiles;
use goondan_spec::{OsFiles, regular_file, repository_around};
use ignore::WalkBuilder;
use tar::{Builder, EntryType, Header};

use super::{ARCHIVE_TOP_DIR, MAX_ARCHIVE_BYTES, entry_names};
use crate::error::{PackageError, Result};

/// File with exclusion rules in the form of a `.gitignore`. They have precedence over those of git.
const IGNORE_FILE: &str = ".goondanignore";
/// Directories that can be recreated.
const SKIPPED_DIRS: [&str; 2] = ["node_modules", "target"];
/// Common names of files with keys, which packages must not contain.
const KEY_FILE_NAMES: [&str; 5] = [
    "id_rsa",
    "id_ed25519",
    "credentials.json",
    "secrets.yaml",
    "service-account.json",
];

/// An archive and its contents.
#[derive(Debug, Clone)]
pub struct PackedArchive {
    /// The `.tgz` file.
    pub archive: Vec<u8>,
    /// Files in order, relative to the package, with their sizes in bytes.
    pub files: Vec<(String, u64)>,
    /// Files named `package.json` with their dependencies, which an installation does not install.
    pub unbundled: Vec<(String, Vec<String>)>,
}

/// Packs the project in `folder`, without hidden files, files that git ignores, and build or
/// installation output.
///
/// # Errors
///
/// Fails if a file is not permitted in a package, or cannot be read.
pub fn pack(folder: &Path) -> Result<PackedArchive> {
    pack_files(folder, true)
}

/// Packs all files in `folder`.
///
/// # Errors
///
/// Fails like [`pack`].
pub fn pack_as_is(folder: &Path) -> Result<PackedArchive> {
    pack_files(folder, false)
}

/// Packs a directory into a reproducible archive. `by_rules`: applies the ignore rules of the
/// package.
fn pack_files(folder: &Path, by_rules: bool) -> Result<PackedArchive> {
    let files = find(folder, by_rules)?;
    let mut builder = Builder::new(
        GzBuilder::new()
            .mtime(0)
            .operating_system(255)
            .write(Vec::new(), Compression::new(9)),
    );
    let mut listed = Vec::new();
    let mut bytes = 0;
    let mut unbundled = Vec::new();
    for (name, path) in files {
        let content = regular_file::read(&path, MAX_PACKAGE_BYTES)
            .map_err(|error| PackageError::io("read", &path, &error))?;
        let metadata =
            fs::metadata(&path).map_err(|error| PackageError::io("read", &path, &error))?;
        bytes += content.len() as u64;
        if bytes > MAX_PACKAGE_BYTES {
            return Err(PackageError::archive(format!(
                "The package is larger than {} MiB.",
                MAX_PACKAGE_BYTES / 1024 / 1024
            )));
        }
        let required_name = if name.rsplit('/').next() == Some("package.json") {
            dependencies(&content)
        } else {
            Vec::new()
        };
        if !required_name.is_empty() {
            unbundled.push((name.clone(), required_name));
        }
        append_file(&mut builder, &name, &content, &metadata)
            .map_err(|error| PackageError::io("packed", &path, &error))?;
        listed.push((name, content.len() as u64));
    }
    let archive = builder.into_inner().and_then(|mut gzip| {
        gzip.flush()?;
        gzip.finish()
    });
    let archive = archive.map_err(|error| PackageError::io("packed", folder, &error))?;
    if archive.len() > MAX_ARCHIVE_BYTES {
        return Err(PackageError::archive(format!(
            "The archive is larger than {} MiB.",
            MAX_ARCHIVE_BYTES / 1024 / 1024
        )));
    }
    Ok(PackedArchive {
        archive,
        files: listed,
        unbundled,
    })
}

/// Returns the runtime dependencies in a `package.json`.
fn dependencies(text: &[u8]) -> Vec<String> {
    let read: serde_json::Value = serde_json::from_slice(text).unwrap_or_default();
    let dependency_map = read
        .get("dependencies")
        .and_then(serde_json::Value::as_object);
    dependency_map
        .into_iter()
        .flat_map(|map| map.keys().cloned())
        .collect()
}

/// Appends a file with normalized metadata: only the executable bit of the mode is kept.
fn append_file(
    builder: &mut Builder<impl Write>,
    name: &str,
    content: &[u8],
    metadata: &Metadata,
) -> std::io::Result<()> {
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::Regular);
    header.set_size(content.len() as u64);
    header.set_mode(if is_program(metadata) { 0o755 } else { 0o644 });
    header.set_mtime(0);
    header.set_uid(0);
    header.set_gid(0);
    builder.append_data(&mut header, format!("{ARCHIVE_TOP_DIR}/{name}"), content)
}

/// Returns true if the owner may execute the file.
#[cfg(unix)]
fn is_program(metadata: &Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    metadata.permissions().mode() & 0o100 != 0
}

#[cfg(not(unix))]
fn is_program(_: &Metadata) -> bool {
    false
}

/// Returns the files of a package, sorted by name.
fn find(folder: &Path, by_rules: bool) -> Result<Vec<(String, PathBuf)>> {
    let mut walk = WalkBuilder::new(folder);
    walk.standard_filters(false).follow_links(false);
    let mut rules = None;
    if by_rules {
        walk.hidden(true);
        let top = folder.canonicalize();
        let top = top.map_err(|error| PackageError::io("read", folder, &error))?;
        let above = repository_around(&OsFiles, &top).unwrap_or(&top);
        let ignores = Arc::new(IgnoreFiles::new(above, &[IGNORE_FILE, ".gitignore"]));
        rules = Some(Arc::clone(&ignores));
        let start = folder.to_owned();
        walk.filter_entry(move |entry| {
            let is_folder = entry.file_type().is_some_and(|kind| kind.is_dir());
            let is_skipped =
                || is_folder && SKIPPED_DIRS.iter().any(|name| entry.file_name() == *name);
            let relative = entry.path().strip_prefix(&start).unwrap_or(entry.path());
            entry.depth() == 0
                || !(is_skipped() || ignores.excludes(&top.join(relative), is_folder))
        });
    }
    let mut files = Vec::new();
    for entry in walk.build() {
        let entry = entry.map_err(|error| {
            PackageError::archive(format!("The package cannot be read: {error}."))
        })?;
        let kind = entry.file_type();
        if kind.is_some_and(|kind| kind.is_dir()) {
            continue;
        }
        let relative = entry.path().strip_prefix(folder).unwrap_or(entry.path());
        let parts: Option<Vec<&str>> = relative.iter().map(|part| part.to_str()).collect();
        let name = parts.map(|parts| parts.join("/")).unwrap_or_default();
        let shown_path = relative.display();
        if !kind.is_some_and(|kind| kind.is_file()) {
            let message = format!(
                "`{shown_path}` is neither a file nor a directory. A package must not contain links."
            );
            return Err(PackageError::archive(message).suggest(format!(
                "replace it with a regular file, or list it in `{IGNORE_FILE}`"
            )));
        }
        if let Err(why) = entry_names::parts(name.as_bytes()) {
            return Err(
                PackageError::archive(format!("`{shown_path}` cannot be packed: {why}."))
                    .suggest("rename it"),
            );
        }
        if by_rules && is_key_file(entry.file_name().to_str().unwrap_or_default()) {
            let message =
                format!("`{shown_path}` looks like a key file, so no archive was created.");
            return Err(PackageError::archive(message)
                .suggest(format!("list it in `{IGNORE_FILE}`, or rename it")));
        }
        files.push((name, entry.path().to_owned()));
        if files.len() > MAX_PACKAGE_ENTRIES {
            return Err(PackageError::archive(format!(
                "The package has more than {MAX_PACKAGE_ENTRIES} files."
            )));
        }
    }
    if let Some(path) = rules.as_ref().and_then(|rules| rules.left_out()) {
        let message = format!(
            "`{}` is too large, so it is unclear which files the package contains.",
            path.strip_prefix(folder).unwrap_or(path).display()
        );
        return Err(PackageError::archive(message).suggest("shorten its list of patterns"));
    }
    files.sort();
    if files.is_empty() {
        return Err(PackageError::archive(format!(
            "There is nothing to pack in {}.",
            folder.display()
        )));
    }
    Ok(files)
}

/// Returns true if the file name suggests a private key.
fn is_key_file(name: &str) -> bool {
    let name = name.to_lowercase();
    KEY_FILE_NAMES.contains(&name.as_str())
        || [".pem", ".key", ".p12", ".pfx"]
            .iter()
            .any(|ending| name.ends_with(ending))
}
