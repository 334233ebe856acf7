//! Validates names in archives: they must denote the same file on every system, inside of the
//! target directory.

use unicode_normalization::UnicodeNormalization as _;

/// Maximum length of a file or directory name in bytes.
const MAX_NAME_BYTES: usize = 200;
/// Maximum length of a path in bytes.
const MAX_PATH_BYTES: usize = 1024;
/// Device names of Windows. An extension does not change their meaning.
const WINDOWS_DEVICE_NAMES: [&str; 8] = [
    "con", "prn", "aux", "nul", "conin$", "conout$", "clock$", "$mft",
];
/// Device names of Windows that end in a digit.
const NUMBERED_DEVICE_PREFIXES: [&str; 2] = ["com", "lpt"];

/// Splits a path in an archive into its parts.
///
/// # Errors
///
/// Fails with the reason, as the end of a sentence, if the path must not be unpacked.
pub(crate) fn parts(path: &[u8]) -> Result<Vec<&str>, &'static str> {
    let text = std::str::from_utf8(path).map_err(|_| "its name is not UTF-8 text")?;
    if text.len() > MAX_PATH_BYTES {
        return Err("its path is too long");
    }
    if text.starts_with('/') {
        return Err("its path is absolute");
    }
    let text = text.strip_prefix("./").unwrap_or(text);
    let text = text.strip_suffix('/').unwrap_or(text);
    if text.is_empty() || text == "." {
        return Ok(Vec::new());
    }
    let parts: Vec<&str> = text.split('/').collect();
    parts.iter().try_for_each(|part| check(part))?;
    if parts.len() > goondan_spec::content_hash::MAX_PACKAGE_DEPTH {
        return Err("it is nested too deeply");
    }
    Ok(parts)
}

/// Returns why a part of a path is not portable, as the end of a sentence.
fn check(part: &str) -> Result<(), &'static str> {
    let is_odd = |c: char| c.is_control() || matches!(c, '<' | '>' | '"' | '|' | '?' | '*');
    match part {
        "" => Err("its path has an empty part"),
        "." | ".." => Err("its path contains `.` or `..`, which may lead out of the directory"),
        _ if part.len() > MAX_NAME_BYTES => Err("its name is too long"),
        _ if part.contains('\\') => {
            Err("its name has a backslash, which separates directories on Windows")
        }
        _ if part.contains(':') => {
            Err("its name has a colon, which names a drive or a stream on Windows")
        }
        _ if part.contains(is_odd) => {
            Err("its name has a character that some systems do not allow")
        }
        _ if part.ends_with(['.', ' ']) => {
            Err("its name ends in a dot or a space, which Windows drops")
        }
        _ if is_repository_data(part) => {
            Err("that directory contains settings with which git or Mercurial runs programs")
        }
        _ if is_device(part) => Err("its name is the name of a device on Windows"),
        _ => Ok(()),
    }
}

/// Returns true for the data directory of a repository, in each spelling that a file system takes
/// for the same name.
fn is_repository_data(part: &str) -> bool {
    // macOS ignores these characters in names.
    let is_ignored = |c: char| matches!(c, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}');
    let name: String = part.chars().filter(|c| !is_ignored(*c)).collect();
    let name = name.to_lowercase();
    [".git", "git~1", ".hg", "hg~1"].contains(&name.as_str())
}

/// Returns true if Windows reserves the name for a device, such as `con` or `com1.txt`.
fn is_device(part: &str) -> bool {
    let stem = part
        .split('.')
        .next()
        .unwrap_or(part)
        .trim_end()
        .to_lowercase();
    let digit = NUMBERED_DEVICE_PREFIXES
        .iter()
        .find_map(|name| stem.strip_prefix(name));
    let is_numbered = digit.is_some_and(|rest| {
        rest.chars().count() == 1 && rest.contains(|c| "0123456789¹²³".contains(c))
    });
    WINDOWS_DEVICE_NAMES.contains(&stem.as_str()) || is_numbered
}

/// Returns a key that is equal for paths that a file system can take for the same: they differ in
/// case (`ß` is `SS` in upper case), or in the code points of a letter (`é` has one or two).
pub(crate) fn key(parts: &[&str]) -> String {
    let path = parts.join("/");
    // Upper case first, because several lower-case forms have the same upper case.
    let upper = path.nfd().flat_map(char::to_uppercase);
    upper.flat_map(char::to_lowercase).nfd().collect()
}

#[cfg(test)]
mod tests {
    use super::{key, parts};

    #[test]
    fn repository_data_directories_are_rejected_in_every_spelling() {
        for name in [".git", ".GIT", "git~1", ".g\u{200c}it", ".hg"] {
            let path = format!("package/sub/{name}/config");
            assert!(parts(path.as_bytes()).is_err(), "{name}");
        }
        assert!(parts(b"package/.gitignore").is_ok());
        assert!(parts(b"package/git/config").is_ok());
    }

    #[test]
    fn equivalent_file_names_have_the_same_key() {
        for (one, other) in [
            ("a.txt", "A.TXT"),
            ("caf\u{e9}", "cafe\u{301}"),
            ("CAF\u{c9}", "cafe\u{301}"),
            ("straße", "STRASSE"),
            ("\u{fb01}le", "file"),
            ("ς", "Σ"),
            ("\u{212a}", "k"),
        ] {
            assert_eq!(key(&["d", one]), key(&["D", other]), "{one} {other}");
        }
        assert_ne!(key(&["cafe"]), key(&["caf\u{e9}"]));
    }
}
