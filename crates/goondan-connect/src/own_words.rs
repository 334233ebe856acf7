//! Words of a sender without quoted text and code. Only they can answer an approval request.

/// Replacement of removed parts of a line. It is never part of a command.
pub(crate) const REMOVED: &str = "\u{fffc}";
/// Marks of a code block.
const FENCES: [&str; 2] = ["```", "~~~"];
/// Beginnings of HTML elements that hide or quote the text that follows.
const HIDING_TAGS: [&str; 6] = [
    "<!--",
    "<blockquote",
    "<pre",
    "<code",
    "<details",
    "<script",
];
/// Beginnings of lines above the quoted text of an e-mail.
const MAIL_SEPARATORS: [&str; 3] = ["-----", "_____", "From: "];

/// Removes code blocks, lines that begin with `>`, and all text after a line that begins with
/// `>>>`. A code block without an end reaches to the end of the text.
pub(crate) fn own_words(text: &str) -> String {
    let text = before_line(&without_code(text), |line| line.starts_with(">>>"));
    let own = text
        .lines()
        .filter(|line| !line.trim_start().starts_with('>'));
    own.collect::<Vec<_>>().join("\n")
}

/// Does the same for a comment in Markdown. Also removes paragraphs that continue a quote, indented
/// code, the text after a hiding HTML element, and the quoted text of an e-mail.
pub(crate) fn own_markdown(text: &str) -> String {
    let mut text = without_code(text);
    let lower = text.to_ascii_lowercase();
    if let Some(start) = HIDING_TAGS.iter().filter_map(|tag| lower.find(tag)).min() {
        text.truncate(start);
        text.push_str(REMOVED);
    }
    let text = before_line(&text, is_mail_quote);
    let mut is_quoted = false;
    let own = text.lines().filter(|line| {
        let is_indented = line.starts_with("    ") || line.starts_with('\t');
        let line = line.trim_start();
        // A line directly below a quote continues it.
        is_quoted = line.starts_with('>') || (is_quoted && !line.is_empty());
        !is_quoted && !is_indented
    });
    own.collect::<Vec<_>>().join("\n")
}

/// Returns whether the text below the line is the quoted text of an e-mail. Mail programs end the
/// line with a colon in every language.
fn is_mail_quote(line: &str) -> bool {
    line.trim_end().ends_with([':', '：'])
        || MAIL_SEPARATORS
            .iter()
            .any(|separator| line.trim_start().starts_with(separator))
}

/// Returns the text before the first matching line.
fn before_line(text: &str, is_end: impl Fn(&str) -> bool) -> String {
    let before = text.lines().take_while(|line| !is_end(line.trim_start()));
    before.collect::<Vec<_>>().join("\n")
}

/// Replaces code blocks.
fn without_code(text: &str) -> String {
    let mut own = String::new();
    let mut rest = text;
    loop {
        let next = FENCES
            .iter()
            .filter_map(|fence| Some((rest.find(fence)?, *fence)))
            .min();
        let Some((start, fence)) = next else {
            return own + rest;
        };
        own.push_str(&rest[..start]);
        own.push_str(REMOVED);
        let inside = rest[start..].trim_start_matches(&fence[..1]);
        // The end has at least as many characters as the beginning.
        let length = rest[start..].len() - inside.len();
        rest = match inside.split_once(&fence[..1].repeat(length)) {
            Some((_, after)) => after.trim_start_matches(&fence[..1]),
            None => "",
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_and_code_are_removed() {
        for (text, expected) in [
            ("yes\n/approve 1", "yes\n/approve 1"),
            ("> /approve 1\nno", "no"),
            ("  > /approve 1", ""),
            ("a\n>>> mallory wrote\n/approve 1", "a"),
            ("a\n```\n/approve 1", "a\n\u{fffc}"),
            ("a\n```x\n/approve 1\n```\nb", "a\n\u{fffc}\nb"),
            ("```a\n/approve 1```", "\u{fffc}"),
            ("````\n```\n/approve 1\n````", "\u{fffc}"),
            ("~~~\n/approve 1", "\u{fffc}"),
            ("/app```x```rove 1", "/app\u{fffc}rove 1"),
        ] {
            assert_eq!(own_words(text), expected, "{text}");
        }
    }

    #[test]
    fn hidden_and_quoted_markdown_is_removed() {
        for (text, expected) in [
            ("fine\n\n/approve 1", "fine\n\n/approve 1"),
            ("hello <!--\n/approve 1", "hello \u{fffc}"),
            ("<BlockQuote>\n/approve 1", "\u{fffc}"),
            ("> mallory\n/approve 1", ""),
            ("> mallory\n\n/approve 1", "\n/approve 1"),
            ("a\n\n    /approve 1", "a\n"),
            ("thanks\n\nOn Monday mallory wrote:\n/approve 1", "thanks"),
            ("thanks\n-----Original Message-----\n/approve 1", "thanks"),
        ] {
            assert_eq!(own_markdown(text), expected, "{text}");
        }
    }
}
