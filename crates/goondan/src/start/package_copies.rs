//! Copies of the installed packages whose code runs. A program in a sandbox may write in the project,
//! but not in the state root.

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use goondan_core::package_copies::set_copy;
use goondan_core::private_files;
use goondan_spec::bundle::ResourceOrigin;
use goondan_spec::content_hash;
use goondan_spec::files::FileKind;
use goondan_spec::installed_packages::InstalledPackage;
use goondan_spec::kinds::{ConnectorEntry, ExtensionEntry, ToolEntry};
use goondan_spec::{Bundle, Code, Diagnostic, FileAccess, OsFiles, reason, regular_file};

use crate::workspace::StateRoot;

/// Directory of the copies in the state root. The name of a copy is its content hash.
const COPIES_DIR: &str = "cache/package-code";

/// Copies each installed package that runs code into the state root, and runs its code from the copy.
/// Reuses an existing copy whose content hash matches the lock file.
///
/// # Errors
/// Fails with `PACKAGE_INTEGRITY` if package files do not match the lock file, or if a copy can't be
/// written.
pub(crate) async fn copy_packages(
    bundle: &Bundle,
    state_root: &StateRoot,
) -> Result<(), Diagnostic> {
    let packages: Vec<InstalledPackage> = bundle
        .packages()
        .iter()
        .filter(|package| has_code(bundle, package))
        .cloned()
        .collect();
    if packages.is_empty() {
        return Ok(());
    }
    let (root, copies) = (bundle.root().to_owned(), state_root.0.join(COPIES_DIR));
    let copying = tokio::task::spawn_blocking(move || {
        packages
            .iter()
            .try_for_each(|package| copy_package(&root, package, &copies))
    });
    copying.await.unwrap_or_else(|error| {
        Err(Diagnostic::new(
            Code::PACKAGE_INTEGRITY,
            format!("The packages can't be copied: {error}."),
        ))
    })
}

/// Returns true if a resource of the package runs code of the package.
fn has_code(bundle: &Bundle, package: &InstalledPackage) -> bool {
    let is_in = |origin: Option<&ResourceOrigin>| {
        origin
            .and_then(|(file, _)| bundle.package_of(file))
            .is_some_and(|of| of == package)
    };
    let mut tools = bundle.tools().values();
    let mut extensions = bundle.extensions().values();
    let mut connectors = bundle.connectors().values();
    let has_tool_code = |entry: &ToolEntry| match entry {
        ToolEntry::Library(_) | ToolEntry::Executable(_) => true,
        ToolEntry::Module(_) | ToolEntry::Mcp(_) => true,
        ToolEntry::Builtin(_) | ToolEntry::Embedded | ToolEntry::A2a(_) => false,
    };
    tools.any(|tool| is_in(tool.origin.as_ref()) && has_tool_code(&tool.spec.entry))
        || extensions.any(|extension| {
            is_in(extension.origin.as_ref())
                && !matches!(extension.spec.entry, ExtensionEntry::Builtin(_))
        })
        || connectors.any(|connector| {
            is_in(connector.origin.as_ref())
                && !matches!(connector.spec.entry, ConnectorEntry::Builtin(_))
        })
}

/// Makes sure that there is a copy of the package with the content of the lock file.
fn copy_package(root: &Path, package: &InstalledPackage, copies: &Path) -> Result<(), Diagnostic> {
    let folder = root.join(&package.folder);
    let copy = copies.join(&package.contents);
    let problem = |what: &str, cause: &str| {
        let message = format!(
            "The package `{}` in `{}` {what}: {cause}.",
            package.name, package.folder
        );
        Diagnostic::new(Code::PACKAGE_INTEGRITY, message)
    };
    let has_content = |folder: &Path| {
        let found = content_hash::contents(&OsFiles, folder);
        found.is_ok_and(|found| found == package.contents)
    };
    if !has_content(&copy) {
        let new = NewCopy::of(&copy);
        let unwritable = |error: io::Error| problem("can't be copied", &reason(&error));
        private_files::create_directory(copies).map_err(unwritable)?;
        copy_directory(&folder, &new.0).map_err(unwritable)?;
        if !has_content(&new.0) {
            let error = problem("was changed", "its files do not match `goondan.lock.yaml`");
            return Err(error.suggest("run `gdn package install`"));
        }
        // Another process may have made the same copy.
        if !has_content(&copy) {
            match fs::remove_dir_all(&copy) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(unwritable(error));
                }
                _ => {}
            }
            match fs::rename(&new.0, &copy) {
                Err(error) if !has_content(&copy) => return Err(unwritable(error)),
                _ => {}
            }
        }
    }
    set_copy(&folder, &copy);
    Ok(())
}

/// Directory of a copy that is not complete yet. Dropping it removes the directory.
struct NewCopy(PathBuf);

impl NewCopy {
    fn of(copy: &Path) -> NewCopy {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        NewCopy(copy.with_extension(format!("new-{}-{number}", std::process::id())))
    }
}

impl Drop for NewCopy {
    fn drop(&mut self) {
        // After the rename in `copy_package`, this directory no longer exists.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Copies the files below a directory with their modes. Links are not followed.
fn copy_directory(from: &Path, to: &Path) -> io::Result<()> {
    let mut todo = vec![(from.to_owned(), to.to_owned())];
    let mut entries = 0;
    while let Some((from, to)) = todo.pop() {
        private_files::create_directory(&to)?;
        for (name, kind) in OsFiles.list_directory(&from)? {
            entries += 1;
            let (from, to) = (from.join(&name), to.join(&name));
            match kind {
                _ if entries > content_hash::MAX_PACKAGE_ENTRIES => {
                    return Err(io::Error::other("it has too many files"));
                }
                FileKind::Directory => todo.push((from, to)),
                FileKind::File => copy_file(&from, &to)?,
                FileKind::Other | FileKind::NonUnicodeName => {
                    return Err(io::Error::other("it contains a link or a special file"));
                }
            }
        }
    }
    Ok(())
}

/// Copies a regular file. The copy is private, and executable if the file is.
fn copy_file(from: &Path, to: &Path) -> io::Result<()> {
    let source = regular_file::open_unlinked(from)?;
    let metadata = source.metadata()?;
    let mut copy = private_files::options()
        .write(true)
        .create_new(true)
        .open(to)?;
    io::copy(&mut source.take(content_hash::MAX_PACKAGE_BYTES), &mut copy)?;
    make_executable(&copy, &metadata)
}

#[cfg(unix)]
fn make_executable(copy: &fs::File, source: &fs::Metadata) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    if source.permissions().mode() & 0o111 == 0 {
        return Ok(());
    }
    copy.set_permissions(fs::Permissions::from_mode(0o700))
}

#[cfg(not(unix))]
fn make_executable(_: &fs::File, _: &fs::Metadata) -> io::Result<()> {
    Ok(())
}
