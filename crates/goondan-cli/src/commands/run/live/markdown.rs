//! Streamed answer: complete lines, with some Markdown rendered.
//!
//! Control characters are escaped first, so the output contains only gdn's own styles.

use goondan::internal::untrusted_text::{KeptCharacters, TextEscaper};

use crate::output::style;

/// Model text that arrives in pieces.
#[derive(Debug)]
pub(super) struct StreamedAnswer {
    escaper: TextEscaper,
    /// Incomplete last line.
    line: String,
    /// Fence of the open code block.
    fence: Option<String>,
    /// Styles are available. Without them Markdown stays unchanged.
    has_styles: bool,
}

impl StreamedAnswer {
    /// Creates an empty answer. Without styles, Markdown stays unchanged.
    pub(super) fn new(has_styles: bool) -> Self {
        StreamedAnswer {
            escaper: TextEscaper::new(KeptCharacters::Writing),
            line: String::new(),
            fence: None,
            has_styles,
        }
    }

    /// Adds text and returns the completed lines, each with its line break.
    pub(super) fn push(&mut self, text: &str) -> String {
        let text = self.escaper.escape(text);
        let mut lines = String::new();
        for piece in text.split_inclusive('\n') {
            self.line.push_str(piece);
            if piece.ends_with('\n') {
                let line = std::mem::take(&mut self.line);
                lines.push_str(&self.render_line(line.trim_end_matches('\n')));
                lines.push('\n');
            }
        }
        lines
    }

    /// Returns the incomplete line.
    pub(super) fn partial(&self) -> &str {
        &self.line
    }

    /// Ends the answer and returns the last line.
    pub(super) fn end(&mut self) -> String {
        let line = std::mem::take(&mut self.line);
        let rendered = if line.is_empty() {
            line
        } else {
            self.render_line(&line) + "\n"
        };
        *self = StreamedAnswer::new(self.has_styles);
        rendered
    }

    /// Renders a complete line, and tracks whether a code block is open.
    fn render_line(&mut self, line: &str) -> String {
        if !self.has_styles {
            return line.to_owned();
        }
        let (faint, code) = (style::FAINT, style::NAME);
        let trimmed = line.trim_start();
        match (&self.fence, fence(trimmed)) {
            (Some(open_fence), Some(fence_text))
                if fence_text.starts_with(open_fence.as_str())
                    && trimmed.trim_end() == fence_text =>
            {
                self.fence = None;
                format!("{faint}{line}{faint:#}")
            }
            (Some(_), _) => format!("{code}{line}{code:#}"),
            (None, Some(fence_text)) => {
                self.fence = Some(fence_text.to_owned());
                format!("{faint}{line}{faint:#}")
            }
            (None, None) => render_paragraph(line),
        }
    }
}

/// Returns the fence that begins or ends a code block.
fn fence(begin: &str) -> Option<&str> {
    ['`', '~'].into_iter().find_map(|mark| {
        let length = begin.len() - begin.trim_start_matches(mark).len();
        (length >= 3).then(|| &begin[..length])
    })
}

/// Renders a line outside of code blocks: a heading, a rule, a quote, a list item or text.
fn render_paragraph(line: &str) -> String {
    let (bold, faint) = (style::HEADING, style::FAINT);
    let trimmed = line.trim_start();
    let indent = &line[..line.len() - trimmed.len()];
    let title = trimmed.trim_start_matches('#');
    let depth = trimmed.len() - title.len();
    if (1..=6).contains(&depth) && title.starts_with(' ') {
        return format!("{bold}{}{bold:#}", title.trim());
    }
    let is_rule = trimmed.len() >= 3
        && ['-', '*', '_']
            .iter()
            .any(|mark| trimmed.trim_end().chars().all(|c| c == *mark));
    if is_rule || trimmed.starts_with('>') {
        return format!("{faint}{line}{faint:#}");
    }
    for mark in ["- ", "* ", "+ "] {
        if let Some(item) = trimmed.strip_prefix(mark) {
            return format!("{indent}• {}", render_inline(item));
        }
    }
    format!("{indent}{}", render_inline(trimmed))
}

/// Renders code, bold and italic text. Unpaired markers stay unchanged.
fn render_inline(text: &str) -> String {
    let mut rendered = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['`', '*', '\\']) {
        rendered.push_str(&rest[..at]);
        rest = &rest[at..];
        let (length, rendered_span) = render_span(rest);
        rendered.push_str(&rendered_span);
        rest = &rest[length..];
    }
    rendered + rest
}

/// Renders the start of `rest`. Returns its length in bytes, and the result.
fn render_span(rest: &str) -> (usize, String) {
    let (bold, code, stressed) = (style::HEADING, style::NAME, anstyle::Style::new().italic());
    let between = |mark: &str| {
        let inner = rest.strip_prefix(mark)?;
        let end = inner.find(mark)?;
        let inner = &inner[..end];
        let is_one =
            !inner.is_empty() && (mark == "`" || inner.trim() == inner && !inner.contains('`'));
        is_one.then(|| (end + 2 * mark.len(), inner))
    };
    if let Some((length, inner)) = between("`") {
        return (length, format!("{code}{inner}{code:#}"));
    }
    if let Some((length, inner)) = between("**") {
        return (length, format!("{bold}{inner}{bold:#}"));
    }
    match between("*") {
        Some((length, inner)) if !rest.starts_with("**") => {
            (length, format!("{stressed}{inner}{stressed:#}"))
        }
        _ => {
            let marks = rest.len() - rest.trim_start_matches(['`', '*']).len();
            // A backslash escapes the next marker; both are shown.
            let length = if marks == 0 {
                1 + rest[1..].chars().next().map_or(0, char::len_utf8)
            } else {
                marks
            };
            (length, rest[..length].to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use goondan::internal::untrusted_text::is_visible;
    use proptest::prelude::*;

    use super::*;
    use crate::output::screen::escape_terminal_text;

    fn rendered(text: &str) -> String {
        let mut answer = StreamedAnswer::new(true);
        let lines = answer.push(text);
        lines + &answer.end()
    }

    #[test]
    fn a_little_of_markdown_is_drawn() {
        let (b, c, r) = ("\u{1b}[1m", "\u{1b}[36m", "\u{1b}[0m");
        assert_eq!(rendered("## Title\n"), format!("{b}Title{r}\n"));
        assert_eq!(rendered("- a **b** `c`"), format!("• a {b}b{r} {c}c{r}\n"));
        assert_eq!(rendered("2 * 3 * 4 and **open"), "2 * 3 * 4 and **open\n");
        assert_eq!(rendered("a \\*b\\* #no"), "a \\*b\\* #no\n");
        let block = rendered("```rust\nlet a = *b*;\n# no title\n```\n**x**\n");
        assert_eq!(
            block,
            format!(
                "\u{1b}[2m```rust{r}\n{c}let a = *b*;{r}\n{c}# no \
                title{r}\n\u{1b}[2m```{r}\n{b}x{r}\n"
            )
        );
        let mut plain = StreamedAnswer::new(false);
        assert_eq!(plain.push("# a **b**\n"), "# a **b**\n");
    }

    proptest! {
        #[test]
        fn pieces_make_no_difference_and_nothing_gets_through(
            text in "[a`*#\\-> \n\u{1b}\u{202e}\\\\~é🙂\\[2Jm]{0,60}", at in 0_usize..60,
        ) {
            let at = text.char_indices().nth(at).map_or(text.len(), |(at, _)| at);
            let mut answer = StreamedAnswer::new(true);
            let pieces = answer.push(&text[..at]) + &answer.push(&text[at..]) + &answer.end();
            prop_assert_eq!(&pieces, &rendered(&text));
            prop_assert_eq!(&escape_terminal_text(&pieces), &pieces, "the wall finds nothing to \
                do");
            let plain = anstream::adapter::strip_str(&pieces).to_string();
            prop_assert!(plain.chars().all(|c| is_visible(c) || c == '\n'));
        }
    }
}
