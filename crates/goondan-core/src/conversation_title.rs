//! Titles of conversations, as users write them.

/// Maximum length of a title, in characters.
pub const MAX_TITLE_CHARS: usize = 200;

/// Returns a title in one line and cut to [`MAX_TITLE_CHARS`]; `None` for a blank text.
pub fn title_of(text: &str) -> Option<String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let title: String = words.join(" ").chars().take(MAX_TITLE_CHARS).collect();
    (!title.is_empty()).then_some(title)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_one_short_line() {
        let long = "b".repeat(MAX_TITLE_CHARS + 1);
        for (text, title) in [
            (" Bees\n\tfly ", Some("Bees fly")),
            (" \r\n", None),
            ("", None),
            (&long, Some(&long[1..])),
        ] {
            assert_eq!(title_of(text).as_deref(), title, "{text:?}");
        }
    }
}
