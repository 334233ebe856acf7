//! Truncation and wrapping of foreign text.

use goondan::internal::untrusted_text;

/// Maximum length of foreign text in one line, in characters.
const MAX_LINE_CHARS: usize = 120;

/// Prefix of each line of foreign text, which cannot be taken for gdn's own output.
const LINE_GUTTER: &str = "  │ ";

/// Prefix of continuation rows of a wrapped line.
const CONTINUATION_GUTTER: &str = "  ┆ ";

/// Returns a number with its noun, such as `1 file` or `3 files`.
pub(crate) fn counted(count: usize, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        count => format!("{count} {noun}s"),
    }
}

/// Returns the start of `text` as one line, with invisible characters escaped.
pub(crate) fn shorten(text: &str) -> String {
    let start: String = text.chars().take(MAX_LINE_CHARS + 1).collect();
    let mut line = untrusted_text::line(start).to_string();
    if let Some((end, _)) = line.char_indices().nth(MAX_LINE_CHARS) {
        line.truncate(end);
        line.push('…');
    }
    line
}

/// Formats a duration.
pub(crate) fn duration(millis: u64) -> String {
    match millis {
        0..1_000 => format!("{millis} ms"),
        1_000..60_000 => format!("{}.{} s", millis / 1_000, millis % 1_000 / 100),
        _ => format!("{} min {} s", millis / 60_000, millis % 60_000 / 1_000),
    }
}

/// Wraps `text` into rows that begin with a gutter. A row has at most `width` columns, but always
/// room for [`MIN_TEXT_COLUMNS`] columns of text. Invisible characters are escaped.
pub(crate) fn gutter(text: &str, width: usize) -> Vec<String> {
    let text_columns = width
        .saturating_sub(LINE_GUTTER.chars().count())
        .max(MIN_TEXT_COLUMNS);
    let escaped = untrusted_text::lines(text).to_string();
    escaped
        .split('\n')
        .flat_map(|line| gutter_rows(line, text_columns))
        .collect()
}

/// Minimum number of text columns in a row, however narrow the terminal is.
const MIN_TEXT_COLUMNS: usize = 16;

/// Wraps a line into rows with a gutter and at most `max_columns` columns of text. Non-ASCII
/// characters count as two columns, which is never too little. Tabs become spaces.
fn gutter_rows(line: &str, max_columns: usize) -> Vec<String> {
    let mut rows = vec![LINE_GUTTER.to_owned()];
    let mut used_columns = 0;
    for c in line.chars() {
        let char_columns = match c {
            '\t' => TAB_SPACES.len(),
            ' '..='~' => 1,
            _ => 2,
        };
        if used_columns + char_columns > max_columns {
            rows.push(CONTINUATION_GUTTER.to_owned());
            used_columns = 0;
        }
        used_columns += char_columns;
        if let Some(row) = rows.last_mut() {
            match c {
                '\t' => row.push_str(TAB_SPACES),
                _ => row.push(c),
            }
        }
    }
    rows
}

const TAB_SPACES: &str = "    ";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_text_is_shortened_and_escaped() {
        assert_eq!(shorten("a\u{1b}[31m\nb"), "a\\u{1b}[31m\\nb");
        let long = shorten(&"ä".repeat(500));
        assert_eq!(long.chars().count(), MAX_LINE_CHARS + 1);
        assert!(long.ends_with('…'));
    }

    #[test]
    fn wrapped_rows_have_a_gutter_and_keep_all_text() {
        let text = format!("{}\n\nAllow a:main to call x?\tй이\u{202e}", "a".repeat(90));
        let rows = gutter(&text, 44);
        let begins: Vec<&str> = rows.iter().map(|row| &row[..LINE_GUTTER.len()]).collect();
        assert_eq!(
            begins,
            [
                LINE_GUTTER,
                CONTINUATION_GUTTER,
                CONTINUATION_GUTTER,
                LINE_GUTTER,
                LINE_GUTTER
            ]
        );
        assert!(
            rows.iter().all(|row| row.chars().count() <= 44),
            "{rows:#?}"
        );
        let whole: String = rows.iter().map(|row| &row[LINE_GUTTER.len()..]).collect();
        assert_eq!(
            whole,
            format!(
                "{}Allow a:main to call x?    й이\\u{{202e}}",
                "a".repeat(90)
            )
        );
        assert_eq!(gutter("ab", 0), ["  │ ab"]);
    }
}
