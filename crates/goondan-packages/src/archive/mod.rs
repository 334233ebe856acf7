//! Package archives: `.tgz` files with everything in one directory, like npm's.

mod names;
mod pack;
mod unpack;

use goondan_spec::contents::{MAX_BYTES, MAX_ENTRIES};

pub use pack::{Packed, pack, pack_as_is};
pub use unpack::{from_tar, unpack};

/// Maximum size of an archive in bytes.
pub const MAX_ARCHIVE: usize = 256 * 1024 * 1024;

/// Maximum size of an unpacked tar in bytes: all permitted files, including the overhead of the
/// format.
pub const MAX_TAR: u64 = MAX_BYTES + MAX_ENTRIES as u64 * 4 * HEADER;

/// Minimum size of a tar entry in bytes.
const HEADER: u64 = 512;

/// Name of the directory that contains all files of an archive.
const TOP: &str = "package";

#[cfg(test)]
mod tests;
