//! Folding ranges: resources, indented blocks and comments. They are computed from the indentation,
//! so incomplete YAML folds as before.

use serde_json::{Value, json};

struct FoldingLine<'t> {
    number: usize,
    text: &'t str,
    /// Nesting depth. A list item is deeper than a key with the same indentation.
    depth: usize,
}

impl FoldingLine<'_> {
    fn is_comment(&self) -> bool {
        self.text.starts_with('#')
    }

    fn is_divider(&self) -> bool {
        self.text == "---" || self.text.starts_with("--- ") || self.text == "..."
    }

    /// Returns true if a block scalar begins after this line: its last word is `|` or `>`, with
    /// optional indicators such as `|2-`.
    fn begins_block_scalar(&self) -> bool {
        let last_word = self
            .text
            .rsplit([' ', '\t'])
            .find(|word| !word.is_empty())
            .unwrap_or_default();
        last_word
            .strip_prefix(['|', '>'])
            .is_some_and(|indicators| {
                indicators
                    .chars()
                    .all(|c| matches!(c, '-' | '+' | '1'..='9'))
            })
    }
}

/// Handles `textDocument/foldingRange`.
pub(crate) fn folding_ranges(text: &str) -> Value {
    let rows: Vec<FoldingLine<'_>> = text.lines().enumerate().filter_map(folding_line).collect();
    let mut folds = Vec::new();
    for document in rows.split(FoldingLine::is_divider) {
        let first = document
            .iter()
            .position(|row| !row.is_comment())
            .map(|at| document[at].number);
        if let (Some(first), Some(last)) = (first, document.last()) {
            add_fold(first, last.number, "region", &mut folds);
        }
        fold_nested_lines(document, &mut folds);
        fold_comments(document, &mut folds);
    }
    json!(folds)
}

/// Returns the line with its nesting depth, where a list item is deeper than its key; `None` if the
/// line is blank.
fn folding_line((number, line): (usize, &str)) -> Option<FoldingLine<'_>> {
    let text = line.trim();
    let indent = line.len() - line.trim_start().len();
    let depth = 2 * indent + usize::from(text == "-" || text.starts_with("- "));
    (!text.is_empty()).then_some(FoldingLine {
        number,
        text,
        depth,
    })
}

/// Adds a fold from line `first` to line `last` (from 0), unless it has only one line.
fn add_fold(first: usize, last: usize, kind: &str, folds: &mut Vec<Value>) {
    if last > first {
        folds.push(json!({ "startLine": first, "endLine": last, "kind": kind }));
    }
}

/// Folds each line with the deeper lines below it. Every line is opened and closed once, so the
/// time is linear.
fn fold_nested_lines(rows: &[FoldingLine<'_>], folds: &mut Vec<Value>) {
    let mut open: Vec<&FoldingLine<'_>> = Vec::new();
    let mut last = 0;
    // Lines of a block scalar are not YAML.
    let mut text: Option<usize> = None;
    for row in rows {
        if text.is_some_and(|depth| row.depth / 2 > depth / 2) {
            last = row.number;
            continue;
        }
        text = None;
        if row.is_comment() {
            continue;
        }
        while let Some(above) = open.pop_if(|above| above.depth >= row.depth) {
            add_fold(above.number, last, "region", folds);
        }
        text = row.begins_block_scalar().then_some(row.depth);
        open.push(row);
        last = row.number;
    }
    for above in open.into_iter().rev() {
        add_fold(above.number, last, "region", folds);
    }
}

/// Folds comments on consecutive lines.
fn fold_comments(rows: &[FoldingLine<'_>], folds: &mut Vec<Value>) {
    for run in rows
        .chunk_by(|one, two| one.is_comment() && two.is_comment() && two.number == one.number + 1)
    {
        if let ([first, ..], [.., last]) = (run, run) {
            add_fold(first.number, last.number, "comment", folds);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn folds(text: &str) -> Vec<(u64, u64, String)> {
        let found = folding_ranges(text);
        let number = |fold: &Value, name: &str| fold[name].as_u64().unwrap();
        let fold_of = |fold: &Value| {
            (
                number(fold, "startLine"),
                number(fold, "endLine"),
                fold["kind"].as_str().unwrap().to_owned(),
            )
        };
        let mut folds: Vec<_> = found.as_array().unwrap().iter().map(fold_of).collect();
        folds.sort();
        folds.dedup();
        folds
    }

    fn regions(text: &str) -> Vec<(u64, u64)> {
        folds(text)
            .into_iter()
            .filter(|(.., kind)| kind == "region")
            .map(|(first, last, _)| (first, last))
            .collect()
    }

    #[test]
    fn resources_maps_and_lists_fold() {
        let text = "kind: Agent\nspec:\n  tools:\n  - ref: a\n    x: 1\n\n  - ref: b\n  last: \
            {}\n---\nkind: Model\nspec: {}\n";
        assert_eq!(regions(text), [(0, 7), (1, 7), (2, 6), (3, 4), (9, 10)]);
        assert_eq!(regions("a: 1"), []);
        // An invalid line does not affect the other folds.
        assert_eq!(regions("a:\n  b\n  c: {\nd: 1"), [(0, 2), (0, 3)]);
    }

    #[test]
    fn a_multiline_string_is_one_fold() {
        let text = "prompt: |-\n  Title:\n    deep\n  # no comment\n  # nor this\nnext: >\n  x\n";
        let region = |first, last| (first, last, "region".to_owned());
        let found: Vec<_> = folds(text)
            .into_iter()
            .filter(|(.., kind)| kind == "region")
            .collect();
        assert_eq!(found, [region(0, 4), region(0, 6), region(5, 6)]);
    }

    #[test]
    fn consecutive_comments_fold() {
        assert!(folds("# one\n# two\n# three\na: 1\n# alone\n").contains(&(
            0,
            2,
            "comment".to_owned()
        )));
    }

    proptest! {
        #[test]
        fn folds_are_within_the_text(text in "([ ]{0,6}(- )?[a-c]?(: )?[|>#]?(---)?\n?){0,30}") {
            let lines = text.lines().count() as u64;
            for (first, last, _) in folds(&text) {
                prop_assert!(first < last && last < lines);
            }
        }
    }
}
