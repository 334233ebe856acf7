//! Package archives: `.tgz` files with everything in one directory, like npm's.

mod entry_names;
mod pack;
mod unpack;

use goondan_spec::content_hash::{MAX_PACKAGE_BYTES, MAX_PACKAGE_ENTRIES};

pub use pack::{PackedArchive, pack, pack_as_is};
pub use unpack::{from_tar, unpack};

/// Maximum size of an archive in bytes.
pub const MAX_ARCHIVE_BYTES: usize = 256 * 1024 * 1024;

/// Maximum size of an unpacked tar in bytes: all permitted files, including the overhead of the
/// format.
pub const MAX_TAR_BYTES: u64 = MAX_PACKAGE_BYTES + MAX_PACKAGE_ENTRIES as u64 * 4 * TAR_ENTRY_BYTES;

/// Minimum size of a tar entry in bytes.
const TAR_ENTRY_BYTES: u64 = 512;

/// Name of the directory that contains all files of an archive.
const ARCHIVE_TOP_DIR: &str = "package";

#[cfg(test)]
mod tests;
