//! Conversion between paths and URIs.

use std::path::{Path, PathBuf};

use gen_lsp_types::Uri;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// Characters that are percent-encoded in a URI.
const ESCAPED_URI_CHARS: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'/')
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');

/// Returns the path of a `file` URI.
pub(crate) fn path(uri: &str) -> Option<PathBuf> {
    let rest = uri.strip_prefix("file://")?;
    let rest = rest.strip_prefix("localhost").unwrap_or(rest);
    let path = percent_decode_str(rest.split(['?', '#']).next()?)
        .decode_utf8()
        .ok()?;
    if !path.starts_with('/') || path.contains('\0') {
        return None;
    }
    // `/C:/x` is a Windows path.
    let drive = path.as_bytes().get(2) == Some(&b':') && path.as_bytes()[1].is_ascii_alphabetic();
    Some(PathBuf::from(if drive && cfg!(windows) {
        &path[1..]
    } else {
        &path
    }))
}

/// Returns the `file:` URI of a path.
pub(crate) fn from_path(path: &Path) -> Uri {
    let path = path
        .to_string_lossy()
        .replace(std::path::MAIN_SEPARATOR, "/");
    let slash = if path.starts_with('/') { "" } else { "/" };
    Uri(format!(
        "file://{slash}{}",
        utf8_percent_encode(&path, ESCAPED_URI_CHARS)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_survive_a_round_trip_through_uris() {
        for text in ["/a/goondan.yaml", "/a b/é#?%.yaml", "/"] {
            assert_eq!(
                path(from_path(Path::new(text)).as_ref()).as_deref(),
                Some(Path::new(text))
            );
        }
        assert_eq!(from_path(Path::new("/a b")).as_ref(), "file:///a%20b");
        for other in [
            "untitled:1",
            "http://x/y",
            "file://host",
            "file:///%ff",
            "file:///a%00",
            "",
        ] {
            assert_eq!(path(other), None, "{other}");
        }
    }
}
