//! Reasoning of the current step: dim rows while it streams, then one line.

use goondan::internal::untrusted_text::{KeptCharacters, TextEscaper};

use crate::output::style;
use crate::output::width::rows;

/// Maximum rows of streaming reasoning.
const MAX_REASONING_ROWS: usize = 6;

/// Streaming reasoning of the current step, and the last complete reasoning.
#[derive(Debug, Default)]
pub(super) struct ReasoningView {
    streaming: String,
    folded: String,
}

impl ReasoningView {
    /// Adds streamed reasoning.
    pub(super) fn push(&mut self, delta: &str) {
        self.streaming.push_str(delta);
    }

    /// Discards reasoning of an attempt that broke off.
    pub(super) fn clear(&mut self) {
        self.streaming.clear();
    }

    /// Returns the lines that replace reasoning that streamed: one line, or all lines if `is_full`.
    pub(super) fn fold(&mut self, is_full: bool) -> Option<String> {
        let reasoning = std::mem::take(&mut self.streaming);
        if reasoning.trim().is_empty() {
            return None;
        }
        self.folded = escape_control_characters(reasoning.trim());
        if is_full {
            return self.last();
        }
        let faint = style::FAINT;
        let lines = match self.folded.lines().count() {
            1 => "1 line".to_owned(),
            count => format!("{count} lines"),
        };
        Some(format!("{faint}reasoning ({lines}){faint:#}"))
    }

    /// Returns the last folded reasoning in full.
    pub(super) fn last(&self) -> Option<String> {
        let faint = style::FAINT;
        let line = |line: &str| format!("{faint}{line}{faint:#}");
        let lines: Vec<String> = self.folded.lines().map(line).collect();
        (!lines.is_empty()).then(|| lines.join("\n"))
    }

    /// Returns the last rows of reasoning that streams.
    pub(super) fn rows(&self, columns: usize, max_rows: usize) -> Vec<String> {
        let row_limit = MAX_REASONING_ROWS.min(max_rows);
        // Only the visible end of long reasoning is processed.
        let begin = self
            .streaming
            .len()
            .saturating_sub(columns.saturating_mul(4 * MAX_REASONING_ROWS));
        let tail =
            escape_control_characters(&self.streaming[self.streaming.ceil_char_boundary(begin)..]);
        let faint = style::FAINT;
        let all_rows: Vec<String> = tail
            .lines()
            .filter(|line| !line.trim().is_empty())
            .flat_map(|line| rows(line, columns))
            .map(|row| format!("{faint}{row}{faint:#}"))
            .collect();
        all_rows[all_rows.len().saturating_sub(row_limit)..].to_vec()
    }
}

/// Returns model text without control characters.
fn escape_control_characters(text: &str) -> String {
    TextEscaper::new(KeptCharacters::Writing)
        .escape(text)
        .replace('\t', "    ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    #[test]
    fn reasoning_is_folded_into_one_line() {
        let mut reasoning = ReasoningView::default();
        assert_eq!(reasoning.fold(false), None);
        for delta in ["one\n", "two\nthree \u{1b}[2J"] {
            reasoning.push(delta);
        }
        let rows = reasoning.rows(40, 2);
        assert_eq!(plain(&rows[0]), "two");
        assert_eq!(rows.len(), 2);
        let folded = reasoning.fold(false).unwrap();
        assert_eq!(plain(&folded), "reasoning (3 lines)");
        let full = plain(&reasoning.last().unwrap());
        assert!(full.starts_with("one\ntwo\nthree "), "{full:?}");
        assert!(!full.contains('\u{1b}'), "{full:?}");
        assert!(reasoning.rows(40, 6).is_empty());
    }

    #[test]
    fn verbose_output_has_all_lines() {
        let mut reasoning = ReasoningView::default();
        reasoning.push("one\ntwo\n");
        assert_eq!(plain(&reasoning.fold(true).unwrap()), "one\ntwo");
    }
}
