//! First line of a JSON Lines file: its format and version.
//!
//! | version | layout |
//! |---|---|
//! | 1 | no header; records with or without a checksum |
//! | 2 | header; each record has a sequence number, counted from 1, and a checksum |
//!
//! A file of version 1 stays in version 1 until it is rewritten or emptied.

use std::fmt;
use std::io;
use std::path::Path;

use serde::Deserialize;

use super::checksum;

/// The version that is written, and the newest one that is read.
pub const FORMAT_VERSION: u32 = 2;

/// First bytes of every header.
const HEADER_START: &[u8] = br#"{"format":"gdn-"#;

/// Upper bound for the length of a header in bytes.
pub(super) const MAX_HEADER_BYTES: usize = 256;

/// The file was written by a newer program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewerFormat {
    /// Version in the header.
    pub found: u32,
}

impl fmt::Display for NewerFormat {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "the file has format version {}, and this gdn reads at most version {FORMAT_VERSION}. \
                A newer gdn wrote it. Run `gdn self update`, then repeat the command",
            self.found
        )
    }
}

impl std::error::Error for NewerFormat {}

impl NewerFormat {
    /// Returns true if `error` is a [`NewerFormat`].
    pub fn is_cause(error: &io::Error) -> bool {
        error
            .get_ref()
            .is_some_and(|inner| inner.is::<NewerFormat>())
    }
}

/// Content of a header.
#[derive(Deserialize)]
struct FormatHeader<'a> {
    #[serde(borrow)]
    format: std::borrow::Cow<'a, str>,
    version: u32,
}

/// State of a line that begins like a header.
pub(super) enum FoundHeader {
    Intact,
    /// Description of the damage.
    Damaged(String),
}

/// Returns the format name of the file at `path`, such as `gdn-inbox` for `inbox.jsonl`.
fn format_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    format!("gdn-{}", name.split('.').next().unwrap_or_default())
}

/// Appends the header of the file at `path`.
pub(super) fn add_header(bytes: &mut Vec<u8>, path: &Path) {
    let start = bytes.len();
    let name = format_name(path);
    bytes.extend_from_slice(
        format!(r#"{{"format":"{name}","version":{FORMAT_VERSION}}}"#).as_bytes(),
    );
    checksum::seal(bytes, start, None);
    bytes.push(b'\n');
}

/// Checks a line of the file at `path`; `None` if it is not a header.
///
/// # Errors
/// Fails with [`NewerFormat`] if a newer program wrote the file.
pub(super) fn read_header(line: &[u8], path: &Path) -> io::Result<Option<FoundHeader>> {
    if !line.starts_with(HEADER_START) {
        return Ok(None);
    }
    let damaged = |problem: &str| Ok(Some(FoundHeader::Damaged(problem.to_owned())));
    if line.last() != Some(&b'\n') {
        return damaged("the header was cut off");
    }
    if !checksum::is_intact(line) {
        return damaged("the header was changed: its checksum does not match");
    }
    let Ok(header) = serde_json::from_slice::<FormatHeader<'_>>(line) else {
        return damaged("the header can't be read");
    };
    if header.version > FORMAT_VERSION {
        let newer = NewerFormat {
            found: header.version,
        };
        return Err(io::Error::new(io::ErrorKind::Unsupported, newer));
    }
    let expected = format_name(path);
    if header.format != expected {
        return damaged(&format!(
            "the header is that of another file: `{}` instead of `{expected}`",
            header.format
        ));
    }
    Ok(Some(FoundHeader::Intact))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the problem of a damaged inbox header; `None` if the header is intact or `line` is
    /// not a header.
    fn header_problem(line: &[u8]) -> Option<String> {
        let header = read_header(line, Path::new("/w/inbox.jsonl")).unwrap();
        match header {
            Some(FoundHeader::Damaged(problem)) => Some(problem),
            Some(FoundHeader::Intact) | None => None,
        }
    }

    #[test]
    fn a_header_contains_the_format_and_its_version() {
        let mut header = Vec::new();
        add_header(&mut header, Path::new("/w/inbox.jsonl"));
        let text = String::from_utf8(header.clone()).unwrap();
        assert!(text.starts_with(r#"{"format":"gdn-inbox","version":2,"crc":""#));
        assert_eq!(header_problem(&header), None);
        let mut other = Vec::new();
        add_header(&mut other, Path::new("/w/messages/runtime-events.jsonl.1"));
        assert!(
            header_problem(&other)
                .unwrap()
                .contains("`gdn-runtime-events`")
        );
        let mut changed = header.clone();
        let digit = text.find("2,").unwrap();
        changed[digit] = b'1';
        assert!(header_problem(&changed).unwrap().contains("checksum"));
        assert!(header_problem(&header[..30]).unwrap().contains("cut off"));
    }

    #[test]
    fn a_newer_version_is_refused_with_an_update_command() {
        let line = b"{\"format\":\"gdn-inbox\",\"version\":3,\"other\":[]}\n";
        let error = read_header(line, Path::new("/w/inbox.jsonl"))
            .err()
            .unwrap();
        assert!(NewerFormat::is_cause(&error));
        assert_eq!(
            error.to_string(),
            "the file has format version 3, and this gdn reads at most version 2. A newer gdn wrote \
                it. Run `gdn self update`, then repeat the command"
        );
    }
}
