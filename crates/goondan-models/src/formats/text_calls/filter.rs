//! Filter of an answer that arrives in pieces.

use std::sync::Arc;

use goondan_core::message::MessagePart;
use goondan_core::ports::model::{CompletedAnswer, ModelChunk, ToolDefinition};
use memchr::memchr2;

use super::code::CodePosition;
use super::opening::{OpeningMatch, match_opening};
use super::thinking::{CLOSE, OPEN};

/// Filter of the chunks of one answer. It shows text at once, except for text that may become a
/// call, and shows `<think>…</think>` at the beginning as reasoning.
///
/// The shown text is always the text of the answer that [`super::recover`] returns.
pub(crate) struct TextCallFilter {
    tools: Arc<[ToolDefinition]>,
    stage: FilterStage,
    /// Received text that was not shown yet.
    pending: PendingText,
    code: CodePosition,
    /// True if white space at the start of the next piece is dropped.
    trims_start: bool,
    /// Bytes of text that were shown.
    shown: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FilterStage {
    /// Only white space and a beginning of `<think>` came.
    Beginning,
    Reasoning,
    Text,
    /// A call may have begun, so the answer decides.
    Call,
}

impl TextCallFilter {
    /// Returns a filter for an answer to a request that offers `tools`.
    pub(crate) fn new(tools: Arc<[ToolDefinition]>) -> Self {
        TextCallFilter {
            tools,
            stage: FilterStage::Beginning,
            pending: PendingText::default(),
            code: CodePosition::default(),
            trims_start: false,
            shown: 0,
        }
    }

    /// Returns the chunks to show for `chunk`. The answer in `Finish` is one that
    /// [`super::recover`] returned.
    pub(crate) fn filter(&mut self, chunk: ModelChunk) -> Vec<ModelChunk> {
        match chunk {
            ModelChunk::Text(delta) => self.filter_text(&delta),
            ModelChunk::Reasoning(_) => {
                if self.stage == FilterStage::Beginning && self.pending.text.is_empty() {
                    self.stage = FilterStage::Text;
                }
                vec![chunk]
            }
            ModelChunk::Finish(answer) => self.finish(answer),
        }
    }

    /// Adds `delta` to the pending text. Returns the chunks that can be shown now.
    fn filter_text(&mut self, delta: &str) -> Vec<ModelChunk> {
        let delta = if self.trims_start {
            delta.trim_start()
        } else {
            delta
        };
        self.trims_start &= delta.is_empty();
        self.pending.text.push_str(delta);
        let mut chunks = Vec::new();
        if self.stage == FilterStage::Beginning {
            self.leave_beginning();
        }
        if self.stage == FilterStage::Reasoning {
            chunks.extend(self.take_reasoning().map(ModelChunk::Reasoning));
        }
        if self.stage == FilterStage::Text {
            chunks.extend(self.take_plain_text().map(ModelChunk::Text));
        }
        chunks
    }

    /// Selects the next stage, if the pending text shows whether the answer begins with `<think>`.
    fn leave_beginning(&mut self) {
        let start = self.pending.text.trim_start();
        if let Some(inner) = start.strip_prefix(OPEN) {
            self.stage = FilterStage::Reasoning;
            self.restart_with(inner.to_owned());
        } else if !OPEN.starts_with(start) {
            self.stage = FilterStage::Text;
        }
    }

    /// Replaces the pending text by `rest`, without white space at its beginning.
    fn restart_with(&mut self, rest: String) {
        self.pending = PendingText {
            text: rest.trim_start().to_owned(),
            ..PendingText::default()
        };
        self.trims_start = self.pending.text.is_empty();
    }

    /// Removes and returns the reasoning that can be shown. Ends the stage at `</think>`.
    fn take_reasoning(&mut self) -> Option<String> {
        let end = self.pending.text[self.pending.checked..].find(CLOSE);
        let checked = match end {
            Some(end) => self.pending.checked + end,
            None => self.pending.text.len() - partial_close(&self.pending.text),
        };
        self.pending.mark_checked(checked);
        let content = self.pending.take_content();
        if end.is_some() {
            self.stage = FilterStage::Text;
            let rest = self.pending.text[self.pending.checked + CLOSE.len()..].to_owned();
            self.restart_with(rest);
        }
        content
    }

    /// Removes and returns the text before anything that may become a call. Ends the stage if a
    /// call begins.
    fn take_plain_text(&mut self) -> Option<String> {
        loop {
            let unchecked = &self.pending.text[self.pending.checked..];
            let plain = memchr2(b'<', b'[', unchecked.as_bytes()).unwrap_or(unchecked.len());
            let (before, candidate) = unchecked.split_at(plain);
            self.code.advance(before);
            let opening = match candidate {
                "" => OpeningMatch::Maybe,
                _ if self.code.is_inside() => OpeningMatch::No,
                candidate => match_opening(candidate, &self.tools),
            };
            self.pending.mark_checked(
                self.pending.checked + plain + usize::from(opening == OpeningMatch::No),
            );
            match opening {
                OpeningMatch::No => self.code.leave_line_start(),
                OpeningMatch::Maybe => break,
                OpeningMatch::Yes => {
                    self.stage = FilterStage::Call;
                    break;
                }
            }
        }
        let content = self.pending.take_content();
        self.shown += content.as_ref().map_or(0, String::len);
        content
    }

    /// Returns the final chunks: the text that was held back, and the complete answer.
    fn finish(&mut self, answer: Box<CompletedAnswer>) -> Vec<ModelChunk> {
        let mut chunks = Vec::new();
        if self.stage == FilterStage::Reasoning {
            chunks.push(ModelChunk::Reasoning(
                self.pending.text.trim_end().to_owned(),
            ));
        }
        let text: String = answer
            .parts
            .iter()
            .filter_map(MessagePart::as_text)
            .collect();
        chunks.extend(
            text.get(self.shown..)
                .map(|rest| ModelChunk::Text(rest.to_owned())),
        );
        chunks.retain(|chunk| !matches!(chunk, ModelChunk::Text(text) | ModelChunk::Reasoning(text) if text.is_empty()));
        chunks.push(ModelChunk::Finish(answer));
        chunks
    }
}

/// Returns the length of the end of `text` that may become a closing tag.
fn partial_close(text: &str) -> usize {
    (1..CLOSE.len())
        .rev()
        .find(|length| text.ends_with(&CLOSE[..*length]))
        .unwrap_or(0)
}

/// Text that was not shown yet.
#[derive(Debug, Default)]
struct PendingText {
    text: String,
    /// Bytes that contain no beginning of a call.
    checked: usize,
    /// End of the last checked character that is not white space.
    content_end: usize,
}

impl PendingText {
    /// Marks the text up to `checked` as free of calls.
    fn mark_checked(&mut self, checked: usize) {
        let content = self.text[self.checked..checked].trim_end();
        if !content.is_empty() {
            self.content_end = self.checked + content.len();
        }
        self.checked = checked;
    }

    /// Removes and returns the checked text without white space at its end.
    fn take_content(&mut self) -> Option<String> {
        let end = std::mem::take(&mut self.content_end);
        self.checked -= end;
        (end > 0).then(|| self.text.drain(..end).collect())
    }
}
