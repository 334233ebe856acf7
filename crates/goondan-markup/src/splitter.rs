//! Messages of a limited size: blocks stay together, and a block that is too long is split.

use super::{BlockKind, MarkupFormat, TextBlock, TextSpan, parser};

/// Returns the messages of a Markdown text, in the markup of a platform. Splits at paragraphs, else
/// at lines or words. Each part of a code block is a code block.
pub fn messages(markdown: &str, format: &MarkupFormat) -> Vec<String> {
    let mut builder = MessageBuilder {
        format,
        messages: Vec::new(),
        current: String::new(),
    };
    parser::blocks(markdown)
        .into_iter()
        .for_each(|block| builder.add(block));
    builder.end_message();
    builder.messages
}

struct MessageBuilder<'f> {
    format: &'f MarkupFormat,
    messages: Vec<String>,
    current: String,
}

impl MessageBuilder<'_> {
    /// Adds a block to the current message, or to as many further messages as it needs.
    fn add(&mut self, block: TextBlock) {
        let mut remaining = Some(block);
        while let Some(block) = remaining.take() {
            let gap = match (self.current.is_empty(), block.is_tight) {
                (true, _) => "",
                (false, true) => "\n",
                (false, false) => "\n\n",
            };
            let max = self.format.max_size;
            let room = max.saturating_sub(self.size(&self.current) + gap.len());
            let rendered = (self.format.render)(&block);
            let size = self.size(&rendered);
            if size <= room {
                self.current += gap;
                self.current += &rendered;
            } else if !self.current.is_empty() && (size <= max || room < max / 2) {
                self.end_message();
                remaining = Some(block);
            } else {
                let (first, rest) = self.split(&block, room);
                self.current += gap;
                self.current += &(self.format.render)(&first);
                self.end_message();
                remaining = rest;
            }
        }
    }

    fn end_message(&mut self) {
        let message = std::mem::take(&mut self.current);
        if !message.trim().is_empty() {
            self.messages.push(message);
        }
    }

    fn size(&self, text: &str) -> usize {
        text.chars().map(self.format.char_size).sum()
    }

    /// Splits a block: returns a first part whose rendered size is at most `room`, and the rest, if any.
    fn split(&self, block: &TextBlock, room: usize) -> (TextBlock, Option<TextBlock>) {
        let text: Vec<char> = block.text().chars().collect();
        let fits = |count: usize| self.size(&(self.format.render)(&part(block, 0, count))) <= room;
        let (mut low, mut high) = (1, text.len());
        while low < high {
            let middle = (low + high).div_ceil(2);
            match fits(middle) {
                true => low = middle,
                false => high = middle - 1,
            }
        }
        let is_code = matches!(block.kind, BlockKind::Code(_));
        let gaps: &[char] = if is_code { &['\n'] } else { &['\n', ' '] };
        let cut = gaps.iter().find_map(|gap| {
            let at = text[..low].iter().rposition(|c| c == gap)?;
            (at >= low / 2 && at > 0).then_some(at)
        });
        let end = cut.unwrap_or(low);
        // The gap itself is not repeated.
        let rest = part(block, end + usize::from(cut.is_some()), text.len());
        let first = part(block, 0, end);
        let rest = TextBlock {
            marker: None,
            indent: block.indent + usize::from(block.marker.is_some()),
            ..rest
        };
        let has_rest = !rest.text().trim().is_empty();
        (first, has_rest.then_some(rest))
    }
}

/// Returns the part of a block between two positions, which count characters.
fn part(block: &TextBlock, begin: usize, end: usize) -> TextBlock {
    let mut spans: Vec<TextSpan> = Vec::new();
    let mut at = 0;
    for span in &block.spans {
        let length = span.text.chars().count();
        let (from, to) = (begin.max(at), end.min(at + length));
        if from < to {
            let text = span.text.chars().skip(from - at).take(to - from);
            spans.push(TextSpan {
                text: text.collect(),
                ..span.clone()
            });
        }
        at += length;
    }
    TextBlock {
        spans,
        ..block.clone()
    }
}
