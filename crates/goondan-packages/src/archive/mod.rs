//! Archives of packages: `.tgz` with everything in one folder, as npm makes them.

mod names;
mod pack;
mod unpack;

use goondan_spec::contents::{MAX_BYTES, MAX_ENTRIES};

pub use pack::{Packed, pack, pack_as_is};
pub use unpack::{from_tar, unpack};

/// The largest archive that is made, fetched or opened, in bytes.
pub const MAX_ARCHIVE: usize = 256 * 1024 * 1024;

/// The largest tar that is unpacked, in bytes: all files that a package may have, with what a tar adds to them.
pub const MAX_TAR: u64 = MAX_BYTES + MAX_ENTRIES as u64 * 4 * HEADER;

/// An entry of a tar takes that many bytes at least.
const HEADER: u64 = 512;

/// The folder in an archive that holds everything.
const TOP: &str = "package";

#[cfg(test)]
mod tests;
