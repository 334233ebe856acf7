//! Hashes of archives, in the form that npm and browsers use.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use goondan_spec::Code;
use sha2::{Digest as _, Sha512};

use crate::error::{PackageError, Result};

/// `sha512-…` of an archive.
pub fn of(archive: &[u8]) -> String {
    format!("sha512-{}", STANDARD.encode(Sha512::digest(archive)))
}

/// Makes sure that `archive` is the one that was stated.
///
/// # Errors
/// It is another one, or what was stated is no SHA-512: a weaker hash proves nothing.
pub fn check(archive: &[u8], stated: &str, whose: &str) -> Result<()> {
    let found = of(archive);
    if found == stated {
        return Ok(());
    }
    let problem = match stated.starts_with("sha512-") {
        true => {
            format!(
                "The archive of {whose} is not the one that was stated: it is {found}, and should be {stated}."
            )
        }
        false => format!("The archive of {whose} has no SHA-512 hash, but `{stated}`."),
    };
    Err(PackageError::new(Code::PACKAGE_INTEGRITY, problem)
        .suggest("find out who changed it; `gdn package update` accepts what the source has now"))
}
