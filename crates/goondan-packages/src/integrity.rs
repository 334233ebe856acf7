//! Hashes of archives, in the Subresource Integrity format of npm and browsers.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use goondan_spec::Code;
use sha2::{Digest as _, Sha512};

use crate::error::{PackageError, Result};

/// Returns the hash of an archive in the form `sha512-…`.
pub fn of(archive: &[u8]) -> String {
    format!("sha512-{}", STANDARD.encode(Sha512::digest(archive)))
}

/// Compares `archive` with the stated hash.
///
/// # Errors
///
/// Fails if the hash differs. Also fails if it is not SHA-512, because a weaker hash is no proof.
pub fn check(archive: &[u8], stated: &str, whose: &str) -> Result<()> {
    let actual = of(archive);
    if actual == stated {
        return Ok(());
    }
    let problem = match stated.starts_with("sha512-") {
        true => {
            format!("The archive of {whose} has the hash {actual}, but {stated} was expected.")
        }
        false => format!("The expected hash of the archive of {whose} is not SHA-512: `{stated}`."),
    };
    Err(PackageError::new(Code::PACKAGE_INTEGRITY, problem).suggest(
        "find out who changed the archive; `gdn package update` accepts the current archive",
    ))
}
