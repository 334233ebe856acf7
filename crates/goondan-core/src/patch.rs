//! The lines of a patch that name files. The tool that applies patches reads them with [`header`], so a policy sees
//! every file that it touches.

/// What a line of a patch says about a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Header {
    /// It is made.
    Add,
    /// It is removed.
    Delete,
    /// It is changed.
    Update,
    /// This is its new name.
    Move,
}

const HEADERS: [(&str, Header); 4] = [
    ("*** Add File:", Header::Add),
    ("*** Delete File:", Header::Delete),
    ("*** Update File:", Header::Update),
    ("*** Move to:", Header::Move),
];

/// The header that a line is, wherever it stands, with the path in it.
pub fn header(line: &str) -> Option<(Header, &str)> {
    let line = line.trim();
    HEADERS
        .iter()
        .find_map(|(prefix, header)| Some((*header, line.strip_prefix(prefix)?.trim())))
}

/// Every path that a patch may be about, one that is no patch or only looks like a header included.
pub fn paths(patch: &str) -> impl Iterator<Item = &str> {
    patch.lines().filter_map(header).map(|(_, path)| path)
}
