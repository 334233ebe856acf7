//! What is known of the program that lines start (`bin/witness.rs`): where it writes its notes, and in which words.

use std::path::{Path, PathBuf};
use std::{fs, io};

/// The file of its notes, in the folder in which a line begins. No pattern matches it: it is hidden.
pub(crate) const NOTES: &str = ".notes";

/// Returns the file with the path of that directory. It is in the program's own library directory,
/// which the program may read in a sandbox.
pub(crate) fn place_file(program: &Path) -> Option<PathBuf> {
    let prefix = program.parent()?.parent()?;
    Some(prefix.join("lib").join(program.file_name()?).join("place"))
}

/// Lets `program` write its notes in `work`.
///
/// # Errors
/// Fails if the path of `work` cannot be written.
pub(crate) fn lay(program: &Path, work: &Path) -> io::Result<()> {
    let file = place_file(program).ok_or_else(|| io::Error::other("no prefix"))?;
    if let Some(directory) = file.parent() {
        fs::create_dir_all(directory)?;
    }
    fs::write(file, work.to_string_lossy().as_bytes())
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
