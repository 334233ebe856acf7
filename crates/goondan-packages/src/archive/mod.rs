//! Archives of packages: `.tgz` with everything in one folder, as npm makes them.

mod names;
mod pack;
mod unpack;

pub use pack::{Packed, pack, pack_as_is};
pub use unpack::{from_tar, unpack};

/// The largest archive that is made, fetched or opened, in bytes.
pub const MAX_ARCHIVE: usize = 256 * 1024 * 1024;
/// The folder in an archive that holds everything.
const TOP: &str = "package";

#[cfg(test)]
mod tests;
