//! Header lines of a patch. The tool that applies patches reads them with [`header`], so a policy
//! check sees every file that the tool changes.

/// Operation of a patch header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatchHeader {
    /// Creates the file.
    Add,
    /// Deletes the file.
    Delete,
    /// Changes the file.
    Update,
    /// Renames the file to this path.
    Move,
}

const HEADER_PREFIXES: [(&str, PatchHeader); 4] = [
    ("*** Add File:", PatchHeader::Add),
    ("*** Delete File:", PatchHeader::Delete),
    ("*** Update File:", PatchHeader::Update),
    ("*** Move to:", PatchHeader::Move),
];

/// Parses a line as a header, anywhere in a patch. Returns the operation and the path.
pub fn header(line: &str) -> Option<(PatchHeader, &str)> {
    let line = line.trim();
    HEADER_PREFIXES
        .iter()
        .find_map(|(prefix, header)| Some((*header, line.strip_prefix(prefix)?.trim())))
}

/// Returns every path that a patch can affect. Includes lines that only look like headers, and
/// input that is not a valid patch.
pub fn paths(patch: &str) -> impl Iterator<Item = &str> {
    patch.lines().filter_map(header).map(|(_, path)| path)
}
