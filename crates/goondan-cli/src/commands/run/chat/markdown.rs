//! Streamed answer: complete lines, with some Markdown rendered.
//!
//! Control characters are escaped first, so the output contains only gdn's own styles.

use goondan::internal::untrusted_text::{KeptCharacters, TextEscaper};

use super::wrapped_text::wrap_line;
use crate::output::style;
use crate::output::width::width;

/// Model text that arrives in pieces.
#[derive(Debug)]
pub(super) struct StreamedAnswer {
    escaper: TextEscaper,
    /// Incomplete last line.
    line: String,
    /// Fence of the open code block.
    fence: Option<String>,
    /// Rows of a table whose end has not arrived.
    table: Vec<String>,
    /// Styles are available. Without them Markdown stays unchanged.
    has_styles: bool,
    /// Width of the terminal. Longer lines are wrapped between words.
    columns: usize,
}

impl StreamedAnswer {
    /// Creates an empty answer. Without styles, Markdown stays unchanged.
    pub(super) fn new(has_styles: bool, columns: usize) -> Self {
        StreamedAnswer {
            escaper: TextEscaper::new(KeptCharacters::Writing),
            line: String::new(),
            fence: None,
            table: Vec::new(),
            has_styles,
            columns,
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
                lines.push_str(&self.complete_line(line.trim_end_matches('\n')));
            }
        }
        lines
    }

    /// Sets the width for later lines.
    pub(super) fn resize(&mut self, columns: usize) {
        self.columns = columns;
    }

    /// Returns the incomplete line.
    pub(super) fn partial(&self) -> &str {
        &self.line
    }

    /// Ends the answer and returns the last line.
    pub(super) fn end(&mut self) -> String {
        let line = std::mem::take(&mut self.line);
        let mut rendered = if line.is_empty() {
            line
        } else {
            self.complete_line(&line)
        };
        rendered.push_str(&self.end_table());
        *self = StreamedAnswer::new(self.has_styles, self.columns);
        rendered
    }

    /// Returns a complete line with its line break. The rows of a table wait for its end.
    fn complete_line(&mut self, line: &str) -> String {
        if self.has_styles && self.fence.is_none() && line.trim_start().starts_with('|') {
            self.table.push(line.to_owned());
            return String::new();
        }
        self.end_table() + &self.render_line(line) + "\n"
    }

    /// Returns the table that has ended.
    fn end_table(&mut self) -> String {
        let rows = std::mem::take(&mut self.table);
        if rows.is_empty() {
            return String::new();
        }
        let lines = render_table(&rows, self.columns).unwrap_or_else(|| {
            let line = |row: &String| wrap_line(&render_paragraph(row), self.columns);
            rows.iter().map(line).collect()
        });
        lines.join("\n") + "\n"
    }

    /// Renders a complete line, and tracks whether a code block is open.
    fn render_line(&mut self, line: &str) -> String {
        if !self.has_styles {
            return line.to_owned();
        }
        let (faint, code) = (style::FAINT, style::NAME);
        let trimmed = line.trim_start();
        match (&self.fence, fence_marks(trimmed)) {
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
            (None, None) => wrap_line(&render_paragraph(line), self.columns),
        }
    }
}

/// Minimum number of equal marks that begin or end a code block.
const MIN_FENCE_LENGTH: usize = 3;

/// Returns the marks at the beginning of `line` that begin or end a code block, such as three
/// backticks; `None` for another line.
fn fence_marks(line: &str) -> Option<&str> {
    for mark in ['`', '~'] {
        let after_marks = line.trim_start_matches(mark);
        let length = line.len() - after_marks.len();
        if length >= MIN_FENCE_LENGTH {
            return Some(&line[..length]);
        }
    }
    None
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

/// Renders a table with aligned columns, or as a list if it is too wide. Returns `None` for rows
/// that are not a table.
fn render_table(rows: &[String], columns: usize) -> Option<Vec<String>> {
    let [head, rule, body @ ..] = rows else {
        return None;
    };
    let is_rule =
        |cell: &String| cell.contains('-') && cell.chars().all(|c| matches!(c, '-' | ':'));
    if !cells(rule).iter().all(is_rule) {
        return None;
    }
    let render = |row: &String| cells(row).iter().map(|cell| render_inline(cell)).collect();
    let head: Vec<String> = render(head);
    let body: Vec<Vec<String>> = body.iter().map(render).collect();
    let widths: Vec<usize> = (0..head.len())
        .map(|column| {
            let cells = body.iter().filter_map(|row| row.get(column));
            cells
                .chain(head.get(column))
                .map(|cell| shown_width(cell))
                .max()
                .unwrap_or(0)
        })
        .collect();
    let (bold, faint) = (style::HEADING, style::FAINT);
    if widths.iter().sum::<usize>() + 3 * widths.len() > columns {
        let cell = |(head, cell): (&String, &String)| {
            wrap_line(&format!("{bold}{head}:{bold:#} {cell}"), columns)
        };
        let rows = body.iter().enumerate().flat_map(|(number, row)| {
            let gap = (number > 0).then(String::new);
            gap.into_iter().chain(head.iter().zip(row).map(cell))
        });
        return Some(rows.collect());
    }
    let line = |row: &[String]| {
        let cells = row.iter().zip(&widths);
        let cells = cells.map(|(cell, width)| {
            format!(
                "{cell}{}",
                " ".repeat(width.saturating_sub(shown_width(cell)))
            )
        });
        cells
            .collect::<Vec<_>>()
            .join(&format!(" {faint}│{faint:#} "))
            .trim_end()
            .to_owned()
    };
    let rule: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
    let mut lines = vec![
        format!("{bold}{}{bold:#}", line(&head)),
        format!("{faint}{}{faint:#}", rule.join("─┼─")),
    ];
    lines.extend(body.iter().map(|row| line(row)));
    Some(lines)
}

/// Returns the cells of a table row.
fn cells(row: &str) -> Vec<String> {
    let row = row.trim();
    let row = row.strip_prefix('|').unwrap_or(row);
    let row = row.strip_suffix('|').unwrap_or(row);
    let mut cells = vec![String::new()];
    let mut is_escaped = false;
    for character in row.chars() {
        match (character, cells.last_mut()) {
            ('|', _) if !is_escaped => cells.push(String::new()),
            (character, Some(cell)) => cell.push(character),
            (_, None) => {}
        }
        is_escaped = character == '\\' && !is_escaped;
    }
    cells
        .into_iter()
        .map(|cell| cell.trim().to_owned())
        .collect()
}

/// Returns the columns of text with styles.
fn shown_width(text: &str) -> usize {
    width(&anstream::adapter::strip_str(text).to_string())
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
        let mut answer = StreamedAnswer::new(true, 40);
        let lines = answer.push(text);
        lines + &answer.end()
    }

    #[test]
    fn basic_markdown_is_rendered() {
        let b = "\u{1b}[1m";
        let c = "\u{1b}[36m";
        let r = "\u{1b}[0m";
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
        let mut plain = StreamedAnswer::new(false, 40);
        assert_eq!(plain.push("# a **b**\n"), "# a **b**\n");
    }

    #[test]
    fn tables_are_aligned_and_wide_tables_are_lists() {
        let shown = |text: &str| anstream::adapter::strip_str(&rendered(text)).to_string();
        assert_eq!(
            shown("| name | n |\n|:--|--:|\n| **a** | 10 |\n| b \\| c |\nend"),
            "name   │ n\n───────┼───\na      │ 10\nb \\| c\nend\n"
        );
        let wide = "long words in a cell of a table";
        assert_eq!(
            shown(&format!(
                "| a | b |\n|---|---|\n| {wide} | 1 |\n| 2 | {wide} |\n"
            )),
            format!("a: {wide}\nb: 1\n\na: 2\nb: {wide}\n")
        );
        assert_eq!(shown("| no\n| table"), "| no\n| table\n");
    }

    #[test]
    fn words_are_not_broken() {
        let text =
            "- these are **several words** that need more than one line of a narrow terminal";
        let shown = anstream::adapter::strip_str(&rendered(text)).to_string();
        assert_eq!(
            shown,
            "• these are several words that need more\n  than one line of a narrow terminal\n"
        );
    }

    proptest! {
        #[test]
        fn split_answers_render_equally_without_terminal_sequences(
            text in "[a|`*#\\-> \n\u{1b}\u{202e}\\\\~é🙂\\[2Jm]{0,60}", at in 0_usize..60,
        ) {
            let at = text.char_indices().nth(at).map_or(text.len(), |(at, _)| at);
            let mut answer = StreamedAnswer::new(true, 40);
            let pieces = answer.push(&text[..at]) + &answer.push(&text[at..]) + &answer.end();
            prop_assert_eq!(&pieces, &rendered(&text));
            prop_assert_eq!(&escape_terminal_text(&pieces), &pieces, "nothing is left to escape");
            let plain = anstream::adapter::strip_str(&pieces).to_string();
            prop_assert!(plain.chars().all(|c| is_visible(c) || c == '\n'));
        }
    }
}
