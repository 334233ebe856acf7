//! Formatted text of chat platforms: Markdown becomes the markup of a platform, in messages that each
//! contain complete markup.
//!
//! The crate sends nothing. Connections and tools send the messages.

mod discord;
mod parser;
mod slack;
mod splitter;
mod telegram;

pub use self::discord::DISCORD;
pub use self::slack::{SLACK, escaped as escaped_mrkdwn};
pub use self::splitter::messages;
pub use self::telegram::{TELEGRAM, escaped as escaped_html};

/// Invisible character that separates two markers.
const ZERO_WIDTH_SPACE: char = '\u{200b}';
/// Characters that begin a URL which a platform shows as a link.
const LINK_SCHEMES: [&str; 3] = ["https://", "http://", "mailto:"];
/// Maximum bytes of a URL behind other text. A longer URL appears as text.
const MAX_LINK_BYTES: usize = 500;
/// Maximum levels of indentation.
const MAX_INDENT: usize = 6;

/// Markup of a platform.
pub struct MarkupFormat {
    render: fn(&TextBlock) -> String,
    /// Maximum size of a message.
    max_size: usize,
    /// Size of a character in the unit of `max_size`.
    char_size: fn(char) -> usize,
}

/// Paragraph, heading, list item or code block.
#[derive(Debug, Clone, Default)]
struct TextBlock {
    kind: BlockKind,
    /// Number of list items around the block, without the item that it begins.
    indent: usize,
    /// Bullet or number of the list item that the block begins.
    marker: Option<String>,
    is_quote: bool,
    /// No empty line separates the block from the block before.
    is_tight: bool,
    spans: Vec<TextSpan>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum BlockKind {
    #[default]
    Paragraph,
    /// Heading of a level from 1 to 6.
    Heading(usize),
    /// Code block of a language; the language is empty if the author states none.
    Code(String),
}

/// Text with one style.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct TextSpan {
    text: String,
    style: TextStyle,
    /// URL of a link, with one of the [`LINK_SCHEMES`].
    link: Option<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct TextStyle {
    is_bold: bool,
    is_italic: bool,
    is_struck: bool,
    is_code: bool,
}

impl TextSpan {
    /// Returns true if the span is text without style or link.
    fn is_plain(&self) -> bool {
        self.style == TextStyle::default() && self.link.is_none()
    }

    /// Returns the white space at the beginning, the text, and the white space at the end. Markers
    /// of a platform must touch the text.
    fn trimmed(&self) -> (&str, &str, &str) {
        let rest = self.text.trim_start();
        let core = rest.trim_end();
        let before = &self.text[..self.text.len() - rest.len()];
        (before, core, &rest[core.len()..])
    }
}

impl TextBlock {
    /// Returns the text without styles.
    fn text(&self) -> String {
        self.spans.iter().map(|span| span.text.as_str()).collect()
    }

    /// Returns the lines of the block, each with its prefix. `indent` is the white space of a level.
    fn lines(&self, quote: &str, indent: &str, line: fn(&[TextSpan]) -> String) -> String {
        let levels = self.indent.min(MAX_INDENT);
        let first = indent.repeat(levels) + self.marker.as_deref().unwrap_or_default();
        let next = indent.repeat(levels + usize::from(self.marker.is_some()));
        let quote = if self.is_quote { quote } else { "" };
        let lines = self.span_lines().into_iter().enumerate();
        let lines = lines.map(|(number, spans)| {
            let prefix = if number == 0 { &first } else { &next };
            format!("{quote}{prefix}{}", line(&spans))
        });
        lines.collect::<Vec<String>>().join("\n")
    }

    /// Returns the spans of each line.
    fn span_lines(&self) -> Vec<Vec<TextSpan>> {
        let mut lines = vec![Vec::new()];
        for span in &self.spans {
            for (number, text) in span.text.split('\n').enumerate() {
                if number > 0 {
                    lines.push(Vec::new());
                }
                let part = TextSpan {
                    text: text.to_owned(),
                    ..span.clone()
                };
                lines
                    .last_mut()
                    .into_iter()
                    .for_each(|line| line.push(part.clone()));
            }
        }
        lines
    }
}

/// Renders the spans of a line for platforms with markers around text. `mark` renders one span. Two
/// spans with markers must not touch, and a marker must not touch a letter.
fn marked_line(spans: &[TextSpan], mark: fn(&TextSpan, &str) -> String) -> String {
    let mut line = String::new();
    let mut was_plain = true;
    for span in spans {
        let (before, core, after) = span.trimmed();
        line.push_str(before);
        if !core.is_empty() {
            let last = line.chars().next_back();
            let touches = last.is_some_and(|last| !last.is_whitespace());
            let is_separate = match (was_plain, span.is_plain()) {
                (true, true) => true,
                (true, false) => matches!(last, Some('(' | '"' | '\'')),
                (false, true) => core.starts_with(['.', ',', ';', ':', '!', '?', ')', '"', '\'']),
                (false, false) => false,
            };
            if touches && !is_separate {
                line.push(ZERO_WIDTH_SPACE);
            }
            line.push_str(&mark(span, core));
            was_plain = span.is_plain();
        }
        line.push_str(after);
    }
    line
}

/// Separates backticks, so that they do not end a code block.
fn separated_backticks(code: &str) -> String {
    code.replace("``", &format!("`{ZERO_WIDTH_SPACE}`"))
}

#[cfg(test)]
mod tests;
