//! Markup of Discord: a part of Markdown, with a backslash before each literal marker.

use super::{BlockKind, MarkupFormat, TextBlock, TextSpan, marked_line, separated_backticks};

/// Discord's Markdown.
pub const DISCORD: MarkupFormat = MarkupFormat {
    render,
    max_size: 2_000,
    char_size: |_| 1,
};

/// Depth of the smallest heading.
const MAX_HEADING_LEVEL: usize = 3;

fn render(block: &TextBlock) -> String {
    match &block.kind {
        BlockKind::Code(language) => {
            format!("```{language}\n{}\n```", separated_backticks(&block.text()))
        }
        BlockKind::Heading(level) => heading(block, *level).lines("> ", "  ", line),
        BlockKind::Paragraph => with_list_marker(block).lines("> ", "  ", line),
    }
}

/// Returns a heading as a single line with its marker.
fn heading(block: &TextBlock, level: usize) -> TextBlock {
    let mut block = with_list_marker(block);
    for span in &mut block.spans {
        span.text = span.text.replace('\n', " ");
    }
    let signs = "#".repeat(level.min(MAX_HEADING_LEVEL));
    let marker = block.marker.unwrap_or_default();
    block.marker = Some(format!("{marker}{signs} "));
    block
}

/// Uses the bullets of Discord.
fn with_list_marker(block: &TextBlock) -> TextBlock {
    let mut block = block.clone();
    block.marker = block.marker.map(|marker| marker.replace('•', "-"));
    block
}

fn line(spans: &[TextSpan]) -> String {
    let line = marked_line(spans, mark);
    let digits = line.len() - line.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    match line.chars().nth(digits) {
        // Discord shows these as a heading, a list or a quote.
        Some('#' | '-' | '+' | '•') if digits == 0 => format!("\\{line}"),
        Some('.') if digits > 0 => format!("{}\\{}", &line[..digits], &line[digits..]),
        _ => line,
    }
}

/// Renders a span. A URL as its own text needs no markup.
fn mark(span: &TextSpan, text: &str) -> String {
    let style = span.style;
    let is_code = style.is_code && !text.contains('`');
    let is_bare_url = span.link.as_deref() == Some(text);
    let mut marked = match is_code || is_bare_url {
        true => text.to_owned(),
        false => escaped(text),
    };
    if is_code {
        marked = format!("`{marked}`");
    }
    if let Some(url) = &span.link {
        marked = match is_bare_url {
            true => format!("<{marked}>"),
            false => format!(
                "[{marked}]({})",
                url.replace('(', "%28").replace(')', "%29")
            ),
        };
    }
    for (has_mark, mark) in [
        (style.is_struck, "~~"),
        (style.is_italic, "*"),
        (style.is_bold, "**"),
    ] {
        if has_mark {
            marked = format!("{mark}{marked}{mark}");
        }
    }
    marked
}

/// Puts a backslash before each character that Discord would read as markup.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if matches!(
            character,
            '\\' | '*' | '_' | '~' | '`' | '|' | '<' | '>' | '[' | ']'
        ) {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}
