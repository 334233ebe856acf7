//! Files with several hard links. A program in a sandbox can give a protected file another name.

use std::path::{Path, PathBuf};

use goondan_core::protected_names::ProtectionReason;
use goondan_spec::secret_files::SecretFiles;

/// Returns the path if the file has several hard links. The reason is [`ProtectionReason::Secrets`]
/// if one of `secrets` can be the same file. Accesses the file system.
#[cfg(unix)]
pub(super) fn protection(
    path: &Path,
    secrets: &SecretFiles,
) -> Option<(PathBuf, ProtectionReason)> {
    use std::os::unix::fs::MetadataExt as _;
    let metadata = path.symlink_metadata().ok()?;
    if !metadata.is_file() || metadata.nlink() < 2 {
        return None;
    }
    let reason = if secrets.contains_link(&metadata) {
        ProtectionReason::Secrets
    } else {
        ProtectionReason::HardLinks
    };
    Some((path.to_owned(), reason))
}

#[cfg(not(unix))]
pub(super) fn protection(_: &Path, _: &SecretFiles) -> Option<(PathBuf, ProtectionReason)> {
    None
}
