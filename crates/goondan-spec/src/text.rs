//! Text helpers for diagnostic messages: similar words, lists, excerpts and line ends.

/// Maximum word length for similarity checks, in bytes. A longer word is not a misspelling, and the
/// cost is quadratic.
const MAX_WORD_BYTES: usize = 200;
/// Maximum number of compared candidates.
const MAX_CANDIDATES: usize = 512;

/// Returns the candidate most similar to `word`, if any is similar enough.
pub fn closest<'c, C: AsRef<str>>(word: &str, candidates: &'c [C]) -> Option<&'c str> {
    if word.len() > MAX_WORD_BYTES {
        return None;
    }
    let word = word.to_lowercase();
    let allowed = (word.chars().count() / 3).max(1);
    candidates
        .iter()
        .take(MAX_CANDIDATES)
        .map(AsRef::as_ref)
        .filter(|candidate| candidate.len().abs_diff(word.len()) <= allowed)
        .map(|candidate| {
            (
                strsim::osa_distance(&word, &candidate.to_lowercase()),
                candidate,
            )
        })
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Formats alternatives in back quotes: `a`, `a or b`, `a, b or c`.
pub(crate) fn format_alternatives<C: AsRef<str>>(words: &[C]) -> String {
    let quoted: Vec<String> = words
        .iter()
        .map(|word| format!("`{}`", word.as_ref()))
        .collect();
    match quoted.split_last() {
        None => String::new(),
        Some((only, [])) => only.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
    }
}

/// Formats at most `limit` words in back quotes, with the number of omitted ones.
pub(crate) fn format_list<C: AsRef<str>>(words: &[C], limit: usize) -> String {
    let quoted_words: Vec<String> = words
        .iter()
        .take(limit)
        .map(|word| format!("`{}`", word.as_ref()))
        .collect();
    match words.len().saturating_sub(limit) {
        0 => quoted_words.join(", "),
        more => format!("{} and {more} more", quoted_words.join(", ")),
    }
}

/// Returns the line end of the line at byte `at`, or of the line before if it has none.
pub fn line_end_at(text: &str, at: usize) -> &'static str {
    let end = text[at..].find('\n').map(|found| at + found);
    match end.or_else(|| text[..at].rfind('\n')) {
        Some(end) if text[..end].ends_with('\r') => "\r\n",
        _ => "\n",
    }
}

/// Replaces each `\n` in `new` with `line_end`, the line end of the text that `new` is added to.
pub fn with_line_end(new: &str, line_end: &str) -> String {
    new.replace('\n', line_end)
}

/// Cuts `text` to `limit` characters.
pub(crate) fn excerpt(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

/// Describes an I/O error as the end of a sentence, without the OS error number.
pub fn reason(error: &std::io::Error) -> String {
    use std::io::ErrorKind;
    match error.kind() {
        ErrorKind::InvalidData => "it is not UTF-8 text".to_owned(),
        ErrorKind::NotFound => "there is no such file or directory".to_owned(),
        ErrorKind::PermissionDenied => "permission denied".to_owned(),
        ErrorKind::IsADirectory => "it is a directory".to_owned(),
        ErrorKind::NotADirectory => "a part of its path is not a directory".to_owned(),
        ErrorKind::AlreadyExists => "it already exists".to_owned(),
        ErrorKind::ReadOnlyFilesystem => "the file system is read-only".to_owned(),
        ErrorKind::StorageFull => "the disk is full".to_owned(),
        ErrorKind::InvalidFilename => "the name is too long".to_owned(),
        ErrorKind::AddrInUse => "another program already uses this port or socket".to_owned(),
        _ => {
            let message = error.to_string();
            let message = message.split(" (os error").next().unwrap_or_default();
            let message = message
                .strip_prefix("Too many levels of symbolic links")
                .map_or(message, |_| LINK_LOOP_REASON);
            let mut letters = message.chars();
            letters
                .next()
                .map(|first| first.to_lowercase().chain(letters).collect())
                .unwrap_or_default()
        }
    }
}

const LINK_LOOP_REASON: &str = "a link leads back to itself";

/// Describes a regex error in one line. The parser's message is a multi-line diagram.
pub fn pattern_fault(error: &impl std::fmt::Display) -> String {
    let text = error.to_string();
    let last = text
        .lines()
        .rev()
        .find_map(|line| line.strip_prefix("error: "));
    last.map_or_else(
        || text.split_whitespace().collect::<Vec<_>>().join(" "),
        str::to_owned,
    )
}

/// Formats a count, such as `1 error` or `2 errors`.
pub(crate) fn count(number: usize, noun: &str) -> String {
    if number == 1 {
        format!("1 {noun}")
    } else {
        format!("{number} {noun}s")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn io_errors_have_readable_reasons() {
        for (number, words) in [
            (2, "there is no such file or directory"),
            (13, "permission denied"),
            (5, "input/output error"),
        ] {
            assert_eq!(reason(&std::io::Error::from_raw_os_error(number)), words);
        }
        #[cfg(target_os = "linux")]
        assert_eq!(
            reason(&std::io::Error::from_raw_os_error(40)),
            LINK_LOOP_REASON
        );
    }

    #[test]
    fn the_closest_name_is_found() {
        let names = ["agents", "bash", "fs", "json-query"];
        assert_eq!(closest("bsh", &names), Some("bash"));
        assert_eq!(closest("Bash", &names), Some("bash"));
        assert_eq!(closest("telegram", &names), None);
        assert_eq!(closest("modle", &["model", "mode"]), Some("model"));
    }

    #[test]
    fn lists_and_excerpts_are_formatted() {
        assert_eq!(format_alternatives(&["a", "b", "c"]), "`a`, `b` or `c`");
        assert_eq!(format_list(&["a", "b", "c"], 2), "`a`, `b` and 1 more");
        assert_eq!(excerpt("éabc", 2), "éa…");
    }
}
