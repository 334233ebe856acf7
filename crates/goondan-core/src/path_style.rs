//! Path spelling rules of each operating system, and which paths denote the same file. Pure
//! functions of strings, so the rules of one system are tested on all.

use std::borrow::Cow;

/// Path rules of an operating system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathStyle {
    /// Case-sensitive. A directory can be case-insensitive (vfat, `casefold`), which its path does
    /// not show.
    Unix,
    /// Usually case-insensitive.
    Mac,
    /// Usually case-insensitive; `\` separates like `/`, and one file has many names.
    Windows,
}

/// Device names on Windows, with any extension.
const WINDOWS_DEVICE_NAMES: [&str; 7] = ["con", "prn", "aux", "nul", "conin$", "conout$", "clock$"];

impl PathStyle {
    /// Rules of the system that this program was built for.
    pub const NATIVE: PathStyle = match () {
        () if cfg!(windows) => PathStyle::Windows,
        () if cfg!(target_vendor = "apple") => PathStyle::Mac,
        () => PathStyle::Unix,
    };

    /// Returns `path` with `/` as separator and without the parts of names that the system ignores.
    /// These are prefixes that disable rules, streams, and trailing dots and spaces.
    pub fn unify(self, path: &str) -> Cow<'_, str> {
        if self != PathStyle::Windows {
            return Cow::Borrowed(path);
        }
        let path = self.separated(path);
        let path = match ["//?/UNC/", "//?/", "//./"]
            .iter()
            .find_map(|prefix| Some((prefix, path.strip_prefix(prefix)?)))
        {
            Some((&"//?/UNC/", rest)) => format!("//{rest}"),
            Some((_, rest)) => rest.to_owned(),
            None => path.into_owned(),
        };
        let parts = path
            .split('/')
            .enumerate()
            .map(|(number, part)| windows_part(part, number == 0));
        Cow::Owned(parts.collect::<Vec<_>>().join("/"))
    }

    /// Returns `text` with `/` as the separator. Text in a style that already uses `/` is
    /// unchanged.
    pub fn separated(self, text: &str) -> Cow<'_, str> {
        if self == PathStyle::Windows && text.contains('\\') {
            Cow::Owned(text.replace('\\', "/"))
        } else {
            Cow::Borrowed(text)
        }
    }

    /// Returns `text` so that names of the same file are equal. Names of different files can also
    /// be equal, so use this to restrict access, never to allow it.
    pub fn case_folded(self, text: &str) -> Cow<'_, str> {
        match self {
            PathStyle::Unix => Cow::Borrowed(text),
            PathStyle::Mac | PathStyle::Windows => Cow::Owned(text.to_uppercase().to_lowercase()),
        }
    }

    /// Returns true if the path does not show its target: another spelling of a file, a stream, or
    /// a device.
    pub fn is_ambiguous(self, path: &str) -> bool {
        if self != PathStyle::Windows {
            return false;
        }
        let path = self.separated(path);
        let is_raw = path.starts_with("//?/") || path.starts_with("//./");
        is_raw
            || path
                .split('/')
                .enumerate()
                .any(|(number, part)| is_ambiguous_part(part, number == 0 && path.contains('/')))
    }
}

/// Returns a part of a path as Windows interprets it.
fn windows_part(part: &str, is_first: bool) -> &str {
    if part == "." || part == ".." || (is_first && is_drive(part)) {
        return part;
    }
    let behind_drive = if is_first && part.get(1..2) == Some(":") {
        2
    } else {
        0
    };
    let end = part[behind_drive..]
        .find(':')
        .map_or(part.len(), |at| behind_drive + at);
    part[..end].trim_end_matches(['.', ' '])
}

/// Returns true for a Windows drive such as `c:`.
fn is_drive(part: &str) -> bool {
    part.len() == 2 && part.ends_with(':') && part.starts_with(|c: char| c.is_ascii_alphabetic())
}

/// Returns true if Windows may read this part of a path as another name, a device or a stream.
fn is_ambiguous_part(part: &str, may_be_drive: bool) -> bool {
    if part.is_empty() || part == "." || part == ".." || (may_be_drive && is_drive(part)) {
        return false;
    }
    let forbidden =
        |c: char| c.is_control() || matches!(c, ':' | '<' | '>' | '"' | '|' | '?' | '*');
    part.ends_with(['.', ' ']) || part.contains(forbidden) || is_short_name(part) || is_device(part)
}

/// Returns true if a name is a short name such as `PROGRA~1`, an alias of a longer name.
fn is_short_name(part: &str) -> bool {
    part.split('~')
        .skip(1)
        .any(|behind| behind.starts_with(|c: char| c.is_ascii_digit()))
}

/// Returns true for a Windows device name such as `nul` or `com1.txt`.
fn is_device(part: &str) -> bool {
    let name = part
        .split('.')
        .next()
        .unwrap_or_default()
        .trim_end()
        .to_lowercase();
    let numbered = |prefix: &str| {
        let number = name
            .strip_prefix(prefix)
            .map(|rest| rest.chars().collect::<Vec<_>>());
        number.is_some_and(|number| matches!(number[..], ['0'..='9' | '¹' | '²' | '³']))
    };
    WINDOWS_DEVICE_NAMES.contains(&name.as_str()) || numbered("com") || numbered("lpt")
}

#[cfg(test)]
mod tests {
    use super::PathStyle::{Mac, Unix, Windows};

    #[test]
    fn windows_spellings_of_one_file_are_unified() {
        for (given, expected) in [
            (r"keep\a", "keep/a"),
            (r"keep/.\a", "keep/./a"),
            (r"\\?\C:\keep\a", "C:/keep/a"),
            (r"\\.\C:\keep\a", "C:/keep/a"),
            (r"\\?\UNC\server\share\a", "//server/share/a"),
            (r"\\server\share\a", "//server/share/a"),
            ("keep/a::$DATA", "keep/a"),
            ("keep/a:stream", "keep/a"),
            ("keep::$INDEX_ALLOCATION/a", "keep/a"),
            ("keep./a. . ", "keep/a"),
            ("keep /a", "keep/a"),
            (r"..\keep", "../keep"),
            ("C:/keep", "C:/keep"),
        ] {
            assert_eq!(Windows.unify(given), expected, "{given}");
            assert_eq!(
                (Unix.unify(given), Mac.unify(given)),
                (given.into(), given.into())
            );
        }
    }

    #[test]
    fn special_windows_names_are_ambiguous_only_on_windows() {
        for ambiguous in [
            r"\\?\C:\a",
            r"\\.\pipe\x",
            "a::$DATA",
            "a:b",
            "C:a",
            "C:",
            "a.",
            "a ",
            "x/a./b",
            "CON",
            "nul",
            "NUL.txt",
            "aux .c",
            "COM1",
            "lpt9.log",
            "com¹",
            "dir/con/a",
            "KEEPIT~1",
            "progra~1.old/x",
            "a\u{7}b",
            "a?b",
            "a|b",
        ] {
            assert!(Windows.is_ambiguous(ambiguous), "{ambiguous}");
            assert!(
                !Unix.is_ambiguous(ambiguous) && !Mac.is_ambiguous(ambiguous),
                "{ambiguous}"
            );
        }
        for plain in [
            "a",
            "a/b.txt",
            r"a\b",
            r"C:\a\b",
            "C:/a",
            "..",
            "../a",
            ".",
            "./.env",
            "console",
            "com",
            "com10",
            "a~b",
            r"\\server\share\a",
        ] {
            assert!(!Windows.is_ambiguous(plain), "{plain}");
        }
    }

    #[test]
    fn letter_case_is_folded_on_macos_and_windows() {
        for (a, b) in [
            ("KEEP/a", "keep/A"),
            ("Straße", "STRASSE"),
            ("\u{212a}eep", "keep"),
        ] {
            assert_eq!(Mac.case_folded(a), Mac.case_folded(b));
            assert_eq!(Windows.case_folded(a), Windows.case_folded(b));
            assert_ne!(Unix.case_folded(a), Unix.case_folded(b));
        }
    }

    #[test]
    fn unusual_paths_cause_no_panic() {
        for text in [
            "", ":", "::", "/:/", "ä:", "😀:x", "//?/", r"\\", "~", "~9", ". .", " ",
        ] {
            for style in [Unix, Mac, Windows] {
                let _ = (
                    style.unify(text),
                    style.is_ambiguous(text),
                    style.case_folded(text),
                );
            }
        }
    }
}
