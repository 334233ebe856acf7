//! Markdown as blocks. All text is kept: HTML and images appear as text, tables as aligned columns.

use pulldown_cmark::{
    CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd, TextMergeStream,
};

use super::{BlockKind, LINK_SCHEMES, MAX_LINK_BYTES, TextBlock, TextSpan, TextStyle};

/// Text of a horizontal rule.
const RULE: &str = "———";
/// Maximum characters of a row of aligned columns. Wider tables appear as one list per row.
const MAX_TABLE_COLUMNS: usize = 64;
/// Maximum bytes of the language of a code block.
const MAX_LANGUAGE_BYTES: usize = 30;

/// Parses Markdown. Text without any visible content is one paragraph with the text as written.
pub(super) fn blocks(markdown: &str) -> Vec<TextBlock> {
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut builder = BlockBuilder::default();
    for event in TextMergeStream::new(Parser::new_ext(markdown, options)) {
        builder.add(event);
    }
    builder.end_block();
    if builder.blocks.is_empty() && !markdown.trim().is_empty() {
        builder.push_text(markdown.trim());
        builder.end_block();
    }
    builder.blocks
}

/// Blocks that are complete, and the state of the open one.
#[derive(Default)]
struct BlockBuilder {
    blocks: Vec<TextBlock>,
    current: TextBlock,
    /// Number of open elements of each style.
    bold: usize,
    italic: usize,
    struck: usize,
    quotes: usize,
    /// Next number of each open list; `None` for bullets.
    lists: Vec<Option<u64>>,
    /// Marker of an item whose first block has not begun.
    marker: Option<String>,
    links: Vec<OpenLink>,
    table: Option<OpenTable>,
}

/// Open link or image.
struct OpenLink {
    url: String,
    /// Position in the text of the block.
    begin: usize,
}

/// Rows of a table; the first row contains the headings.
#[derive(Default)]
struct OpenTable {
    rows: Vec<Vec<String>>,
}

impl BlockBuilder {
    fn add(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => {
                self.push_text(&text)
            }
            Event::Code(text) | Event::InlineMath(text) | Event::DisplayMath(text) => {
                let style = TextStyle {
                    is_code: true,
                    ..self.style()
                };
                self.push(&text, style);
            }
            Event::SoftBreak | Event::HardBreak => self.push("\n", TextStyle::default()),
            Event::Rule => {
                self.end_block();
                self.push_text(RULE);
                self.end_block();
            }
            Event::TaskListMarker(is_done) => self.push_text(if is_done { "☑ " } else { "☐ " }),
            Event::FootnoteReference(name) => self.push_text(&format!("[^{name}]")),
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Emphasis => self.italic += 1,
            Tag::Strong => self.bold += 1,
            Tag::Strikethrough => self.struck += 1,
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => self.links.push(OpenLink {
                // A platform would read a backtick as the start of code.
                url: dest_url.replace('`', "%60"),
                begin: self.current.text().len(),
            }),
            Tag::BlockQuote(_) => {
                self.end_block();
                self.quotes += 1;
            }
            Tag::List(first) => {
                self.end_block();
                self.lists.push(first);
            }
            Tag::Item => {
                self.end_block();
                self.marker = Some(self.next_marker());
            }
            Tag::Table(_) => {
                self.end_block();
                self.table = Some(OpenTable::default());
            }
            Tag::TableHead | Tag::TableRow => {
                self.table
                    .iter_mut()
                    .for_each(|table| table.rows.push(Vec::new()));
            }
            Tag::TableCell => self.current = TextBlock::default(),
            Tag::Heading { level, .. } => self.begin_block(BlockKind::Heading(level_number(level))),
            Tag::CodeBlock(kind) => self.begin_block(BlockKind::Code(language(&kind))),
            _ => self.begin_block(BlockKind::Paragraph),
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Emphasis => self.italic = self.italic.saturating_sub(1),
            TagEnd::Strong => self.bold = self.bold.saturating_sub(1),
            TagEnd::Strikethrough => self.struck = self.struck.saturating_sub(1),
            TagEnd::Link | TagEnd::Image => self.end_link(),
            TagEnd::BlockQuote(_) => {
                self.end_block();
                self.quotes = self.quotes.saturating_sub(1);
            }
            TagEnd::List(_) => {
                self.end_block();
                self.lists.pop();
                self.marker = None;
            }
            TagEnd::Table => self.end_table(),
            TagEnd::TableHead | TagEnd::TableRow => {}
            TagEnd::TableCell => self.end_cell(),
            _ => self.end_block(),
        }
    }

    fn style(&self) -> TextStyle {
        TextStyle {
            is_bold: self.bold > 0,
            is_italic: self.italic > 0,
            is_struck: self.struck > 0,
            is_code: false,
        }
    }

    /// Returns the marker of the next item. In a numbered list, also advances the number.
    fn next_marker(&mut self) -> String {
        match self.lists.last_mut() {
            Some(Some(number)) => {
                let current = *number;
                *number = current.saturating_add(1);
                format!("{current}. ")
            }
            _ => "• ".to_owned(),
        }
    }

    /// Begins a block of `kind` unless text has begun one.
    fn begin_block(&mut self, kind: BlockKind) {
        self.end_block();
        self.current.kind = kind;
    }

    /// Ends the open block. A block without text is dropped.
    fn end_block(&mut self) {
        let mut block = std::mem::take(&mut self.current);
        match block.kind {
            BlockKind::Code(_) => trim_last_newline(&mut block),
            _ => trim_end(&mut block),
        }
        if block.text().trim().is_empty() {
            return;
        }
        block.marker = self.marker.take();
        block.is_tight = !self.lists.is_empty() && block.marker.is_some();
        block.indent = self
            .lists
            .len()
            .saturating_sub(usize::from(block.marker.is_some()));
        block.is_quote = self.quotes > 0;
        self.blocks.push(block);
    }

    /// Adds text in the current style. URLs in it are links.
    fn push_text(&mut self, text: &str) {
        let style = self.style();
        if matches!(self.current.kind, BlockKind::Code(_)) || !self.links.is_empty() {
            return self.push(text, style);
        }
        let mut rest = text;
        while let Some((before, url, after)) = next_url(rest) {
            self.push(before, style);
            self.current.spans.push(TextSpan {
                text: url.to_owned(),
                style,
                link: Some(url.to_owned()),
            });
            rest = after;
        }
        self.push(rest, style);
    }

    fn push(&mut self, text: &str, style: TextStyle) {
        if text.is_empty() {
            return;
        }
        let link = self.links.first().map(|link| link.url.clone());
        let link = link.filter(|url| is_link(url));
        match self.current.spans.last_mut() {
            Some(last) if last.style == style && last.link == link => last.text.push_str(text),
            _ => self.current.spans.push(TextSpan {
                text: text.to_owned(),
                style,
                link,
            }),
        }
    }

    /// Ends a link. A URL that the platforms would not open follows its text.
    fn end_link(&mut self) {
        let Some(link) = self.links.pop() else { return };
        let text = self.current.text();
        let label = text.get(link.begin..).unwrap_or_default();
        if link.url.is_empty() || link.url.starts_with("data:") || label == link.url {
            return;
        }
        if label.trim().is_empty() {
            self.push_text(&link.url);
        } else if !is_link(&link.url) || self.table.is_some() || !self.links.is_empty() {
            self.push(&format!(" ({})", link.url), self.style());
        }
    }

    fn end_cell(&mut self) {
        let cell = std::mem::take(&mut self.current).text();
        let row = self.table.as_mut().and_then(|table| table.rows.last_mut());
        row.into_iter()
            .for_each(|row| row.push(cell.trim().replace('\n', " ")));
    }

    fn end_table(&mut self) {
        let table = self.table.take().unwrap_or_default();
        match table.aligned() {
            Some(text) => {
                self.begin_block(BlockKind::Code(String::new()));
                self.push(&text, TextStyle::default());
                self.end_block();
            }
            None => table.lists().into_iter().for_each(|row| {
                self.current.spans = row;
                self.end_block();
            }),
        }
    }
}

impl OpenTable {
    /// Returns the rows with aligned columns; `None` if they are too wide for a message.
    fn aligned(&self) -> Option<String> {
        let columns = self.rows.first().map_or(0, Vec::len);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        if widths.iter().sum::<usize>() + 3 * columns > MAX_TABLE_COLUMNS {
            return None;
        }
        let line = |row: &Vec<String>| {
            let cells = row.iter().zip(&widths);
            let cells = cells.map(|(cell, width)| format!("{cell:width$}"));
            cells.collect::<Vec<_>>().join(" | ").trim_end().to_owned()
        };
        let mut lines: Vec<String> = self.rows.iter().map(line).collect();
        let rule: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
        lines.insert(1.min(lines.len()), rule.join("-|-"));
        Some(lines.join("\n"))
    }

    /// Returns a block per row, with a line per cell.
    fn lists(&self) -> Vec<Vec<TextSpan>> {
        let Some((headings, rows)) = self.rows.split_first() else {
            return Vec::new();
        };
        let bold = TextStyle {
            is_bold: true,
            ..TextStyle::default()
        };
        let plain = |text: String, style| TextSpan {
            text,
            style,
            link: None,
        };
        let cell = |(heading, cell): (&String, &String)| {
            [
                plain(heading.clone(), bold),
                plain(format!(": {cell}\n"), TextStyle::default()),
            ]
        };
        let row = |row: &Vec<String>| headings.iter().zip(row).flat_map(cell).collect();
        match rows.is_empty() {
            true => vec![vec![plain(headings.join(" | "), bold)]],
            false => rows.iter().map(row).collect(),
        }
    }
}

/// Returns true if platforms show `url` as a link.
fn is_link(url: &str) -> bool {
    let is_plain =
        |c: char| !c.is_whitespace() && !c.is_control() && !matches!(c, '<' | '>' | '|' | '"');
    url.len() <= MAX_LINK_BYTES
        && url.chars().all(is_plain)
        && LINK_SCHEMES.iter().any(|scheme| {
            url.strip_prefix(scheme)
                .is_some_and(|rest| !rest.is_empty())
        })
}

/// Returns the text before the next URL, the URL, and the text after it.
fn next_url(text: &str) -> Option<(&str, &str, &str)> {
    let begin = ["https://", "http://"]
        .iter()
        .filter_map(|scheme| text.find(scheme))
        .min()?;
    let (before, rest) = text.split_at(begin);
    let is_end = |c: char| {
        c.is_whitespace() || c.is_control() || matches!(c, '<' | '>' | '"' | '|' | '`' | '*')
    };
    let url = &rest[..rest.find(is_end).unwrap_or(rest.len())];
    let url = url.trim_end_matches(['.', ',', ';', ':', '!', '?', ')', ']', '\'', '~', '_']);
    is_link(url).then(|| (before, url, &rest[url.len()..]))
}

/// Returns the language of a code block.
fn language(kind: &CodeBlockKind<'_>) -> String {
    let CodeBlockKind::Fenced(info) = kind else {
        return String::new();
    };
    let name = info.split_whitespace().next().unwrap_or_default();
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '#' | '_' | '.');
    match name.len() <= MAX_LANGUAGE_BYTES && name.chars().all(is_name) {
        true => name.to_owned(),
        false => String::new(),
    }
}

fn level_number(level: HeadingLevel) -> usize {
    level as usize
}

/// Removes the white space at the end of a block.
fn trim_end(block: &mut TextBlock) {
    while let Some(last) = block.spans.last_mut() {
        last.text.truncate(last.text.trim_end().len());
        if !last.text.is_empty() {
            break;
        }
        block.spans.pop();
    }
}

/// Removes the newline before the end of a code block.
fn trim_last_newline(block: &mut TextBlock) {
    if let Some(last) = block.spans.last_mut()
        && last.text.ends_with('\n')
    {
        last.text.pop();
    }
}
