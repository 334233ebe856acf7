//! What is known of the program that lines start (`bin/witness.rs`): where it writes its notes, and in which words.

use std::path::Path;
use std::{fs, io};

/// The file of its notes, in the folder in which a line begins. No pattern matches it: it is hidden.
pub(crate) const NOTES: &str = ".notes";

/// The file beside the program that says where that folder is.
pub(crate) const PLACE: &str = "place";

/// Lets the programs in `bin` write their notes in `work`.
///
/// # Errors
/// Where that can't be written down.
pub(crate) fn lay(bin: &Path, work: &Path) -> io::Result<()> {
    fs::write(bin.join(PLACE), work.to_string_lossy().as_bytes())
}

/// What shells and `gdn` say of files and folders that are not there. Each has its own words.
const COMPLAINTS: [&str; 5] = [
    "cannot ",
    "can't ",
    "No such file",
    "no such directory",
    "not found",
];

/// `text` with every complaint in the same words.
pub(crate) fn calm(text: &str) -> String {
    let calm = |line: &str| match COMPLAINTS.iter().any(|complaint| line.contains(complaint)) {
        true => format!("complaint{}", if line.ends_with('\n') { "\n" } else { "" }),
        false => line.to_owned(),
    };
    text.split_inclusive('\n').map(calm).collect()
}
