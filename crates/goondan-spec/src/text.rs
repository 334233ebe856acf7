//! Small helpers for the words of diagnostics.

/// A longer word is no misspelling of anything that we know, and comparing takes time by the square of its length.
const LONGEST_WORD: usize = 200;
/// How many candidates are compared.
const MOST_CANDIDATES: usize = 512;

/// The candidate that `word` was most likely meant to be, if any is close.
pub fn closest<'c, C: AsRef<str>>(word: &str, candidates: &'c [C]) -> Option<&'c str> {
    if word.len() > LONGEST_WORD {
        return None;
    }
    let word = word.to_lowercase();
    let allowed = (word.chars().count() / 3).max(1);
    candidates
        .iter()
        .take(MOST_CANDIDATES)
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

/// `a`, `a or b`, `a, b or c`, each in back quotes.
pub(crate) fn alternatives<C: AsRef<str>>(words: &[C]) -> String {
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

/// At most `limit` words in back quotes, with the number of those left out.
pub(crate) fn list<C: AsRef<str>>(words: &[C], limit: usize) -> String {
    let shown: Vec<String> = words
        .iter()
        .take(limit)
        .map(|word| format!("`{}`", word.as_ref()))
        .collect();
    match words.len().saturating_sub(limit) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// `text` cut to `limit` characters, for quoting what a person wrote.
pub(crate) fn excerpt(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

/// Why a file can't be used, as the end of a sentence; without the number that the system has for it.
pub fn reason(error: &std::io::Error) -> String {
    use std::io::ErrorKind;
    match error.kind() {
        ErrorKind::InvalidData => "it is not UTF-8 text".to_owned(),
        ErrorKind::NotFound => "there is no such file or folder".to_owned(),
        ErrorKind::PermissionDenied => "permission denied".to_owned(),
        ErrorKind::IsADirectory => "it is a folder".to_owned(),
        ErrorKind::NotADirectory => "a part of its path is not a folder".to_owned(),
        ErrorKind::AlreadyExists => "it exists already".to_owned(),
        ErrorKind::ReadOnlyFilesystem => "the file system is read-only".to_owned(),
        ErrorKind::StorageFull => "the disk is full".to_owned(),
        ErrorKind::InvalidFilename => "the name is too long".to_owned(),
        ErrorKind::AddrInUse => "another program listens there".to_owned(),
        _ => {
            let words = error.to_string();
            let words = words.split(" (os error").next().unwrap_or_default();
            let words = words
                .strip_prefix("Too many levels of symbolic links")
                .map_or(words, |_| LOOP);
            let mut letters = words.chars();
            letters
                .next()
                .map(|first| first.to_lowercase().chain(letters).collect())
                .unwrap_or_default()
        }
    }
}

const LOOP: &str = "a link leads back to itself";

/// Why a text is not a regular expression, as a part of a sentence. What checks it draws a picture of several lines.
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

/// `1 error`, `2 errors`.
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
    fn a_reason_is_in_words() {
        for (number, words) in [
            (2, "there is no such file or folder"),
            (13, "permission denied"),
            (5, "input/output error"),
        ] {
            assert_eq!(reason(&std::io::Error::from_raw_os_error(number)), words);
        }
        #[cfg(target_os = "linux")]
        assert_eq!(reason(&std::io::Error::from_raw_os_error(40)), LOOP);
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
    fn words_are_listed() {
        assert_eq!(alternatives(&["a", "b", "c"]), "`a`, `b` or `c`");
        assert_eq!(list(&["a", "b", "c"], 2), "`a`, `b` and 1 more");
        assert_eq!(excerpt("éabc", 2), "éa…");
    }
}
