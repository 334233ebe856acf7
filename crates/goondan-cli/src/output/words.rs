//! Text of others in little room.

use goondan::inside::shown;

/// How many characters of somebody's text fit into a line about it.
const LINE: usize = 120;

/// What stands before each line of somebody's text, so that it can't be taken for a line of ours.
const GUTTER: &str = "  │ ";

/// What stands before the rows that go on with a line: they can't be taken for lines either.
const GOES_ON: &str = "  ┆ ";

/// The first line's worth of `text`, with what can't be seen escaped.
pub(crate) fn shorten(text: &str) -> String {
    let begin: String = text.chars().take(LINE + 1).collect();
    let mut shown = shown::line(begin).to_string();
    if let Some((end, _)) = shown.char_indices().nth(LINE) {
        shown.truncate(end);
        shown.push('…');
    }
    shown
}

/// How long something took.
pub(crate) fn duration(millis: u64) -> String {
    match millis {
        0..1_000 => format!("{millis} ms"),
        1_000..60_000 => format!("{}.{} s", millis / 1_000, millis % 1_000 / 100),
        _ => format!("{} min {} s", millis / 60_000, millis % 60_000 / 1_000),
    }
}

/// `text` whole, in rows that are no wider than `width` and begin with a gutter. What can't be seen is escaped.
pub(crate) fn gutter(text: &str, width: usize) -> Vec<String> {
    let room = width.saturating_sub(GUTTER.chars().count()).max(MIN_ROOM);
    let shown = shown::lines(text).to_string();
    shown
        .split('\n')
        .flat_map(|line| rows(line, room))
        .collect()
}

/// A row has room for that many columns, however narrow the terminal is.
const MIN_ROOM: usize = 16;

/// A line cut into rows. What is not ASCII is taken to be two columns wide, which is never too little; tabs become spaces.
fn rows(line: &str, room: usize) -> Vec<String> {
    let mut rows = vec![GUTTER.to_owned()];
    let mut used = 0;
    for c in line.chars() {
        let wide = match c {
            '\t' => TAB.len(),
            ' '..='~' => 1,
            _ => 2,
        };
        if used + wide > room {
            rows.push(GOES_ON.to_owned());
            used = 0;
        }
        used += wide;
        if let Some(row) = rows.last_mut() {
            match c {
                '\t' => row.push_str(TAB),
                _ => row.push(c),
            }
        }
    }
    rows
}

const TAB: &str = "    ";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_to_a_terminal_is_short_and_harmless() {
        assert_eq!(shorten("a\u{1b}[31m\nb"), "a\\u{1b}[31m\\nb");
        let long = shorten(&"ä".repeat(500));
        assert_eq!(long.chars().count(), LINE + 1);
        assert!(long.ends_with('…'));
    }

    #[test]
    fn every_row_has_a_gutter_and_nothing_is_lost() {
        let text = format!("{}\n\nAllow a:main to call x?\tй이\u{202e}", "a".repeat(90));
        let rows = gutter(&text, 44);
        let begins: Vec<&str> = rows.iter().map(|row| &row[..GUTTER.len()]).collect();
        assert_eq!(begins, [GUTTER, GOES_ON, GOES_ON, GUTTER, GUTTER]);
        assert!(
            rows.iter().all(|row| row.chars().count() <= 44),
            "{rows:#?}"
        );
        let whole: String = rows.iter().map(|row| &row[GUTTER.len()..]).collect();
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
