//! Text of others, made fit for a terminal.

/// How many characters of somebody's text fit into a line about it.
const LINE: usize = 120;

/// `text` without the control characters that could do something to a terminal; line breaks and tabs stay.
pub(crate) fn printable(text: &str) -> String {
    text.chars().filter(|&c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
}

/// The first line's worth of `text`, without control characters: it goes to a terminal.
pub(crate) fn shorten(text: &str) -> String {
    let printable = |c: char| if c.is_control() { ' ' } else { c };
    let mut shown: String = text.chars().take(LINE).map(printable).collect();
    if text.chars().nth(LINE).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_to_a_terminal_is_short_and_harmless() {
        assert_eq!(shorten("a\u{1b}[31m\nb"), "a [31m b");
        let long = shorten(&"ä".repeat(500));
        assert_eq!(long.chars().count(), LINE + 1);
        assert!(long.ends_with('…'));
    }
}
