//! Hashes of archives, in the Subresource Integrity format of npm and browsers.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use goondan_spec::Code;
use sha2::{Digest as _, Sha512};

use crate::error::{PackageError, Result};

/// Returns the SHA-512 hash of an archive in the form `sha512-…`, with the digest in Base64.
pub fn hash_archive(archive: &[u8]) -> String {
    format!("sha512-{}", STANDARD.encode(Sha512::digest(archive)))
}

/// Checks that `archive` has the hash `expected`. `package` names the package in the error.
///
/// # Errors
///
/// Fails if the hash differs, or if `expected` is not SHA-512: a weaker hash proves nothing.
pub fn check_archive(archive: &[u8], expected: &str, package: &str) -> Result<()> {
    let actual = hash_archive(archive);
    if actual == expected {
        return Ok(());
    }
    let problem = if expected.starts_with("sha512-") {
        format!("The archive of {package} has the hash {actual}, but {expected} was expected.")
    } else {
        format!("The expected hash of the archive of {package} is not SHA-512: `{expected}`.")
    };
    Err(PackageError::new(Code::PACKAGE_INTEGRITY, problem).suggest(
        "find out who changed the archive; `gdn package update` accepts the current archive",
    ))
}
