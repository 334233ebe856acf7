//! Semantic tokens for resource names, in definitions and references.

use std::path::Path;

use serde_json::{Value, json};

use crate::LspHost;
use crate::links::{self, relative_path};
use crate::server::LanguageServer;
use crate::text::LineIndex;

/// Token types, by index in the legend.
pub(crate) const TOKEN_TYPES: [&str; 2] = ["class", "function"];

/// Token modifiers, by bit in the legend.
pub(crate) const TOKEN_MODIFIERS: [&str; 1] = ["definition"];

/// Handles `textDocument/semanticTokens/full`, from the load result of the project.
pub(crate) fn tokens<H: LspHost>(server: &mut LanguageServer<H>, path: &Path) -> Value {
    let text = server.text_of(path);
    let Some((root, seen)) = server.load_project(path) else {
        return Value::Null;
    };
    let file = relative_path(&root, path);
    let lines = LineIndex::new(&text, server.encoding);
    let mut found = Vec::new();
    for mention in links::names_in(&seen, &file) {
        // Skips a name that spans lines or whose position is outdated.
        let Some(word) = text
            .get(mention.at.clone())
            .filter(|word| !word.is_empty() && !word.contains('\n'))
        else {
            continue;
        };
        let range = lines.range(mention.at.start..mention.at.start + word.len());
        found.push((
            range.start.line,
            range.start.character,
            range.end.character,
            mention.is_tool,
            mention.is_definition,
        ));
    }
    found.sort_unstable();
    found.dedup_by_key(|(line, start, ..)| (*line, *start));
    json!({ "data": delta_encode(&found) })
}

/// Encodes tokens in the LSP format: five numbers each, with the position relative to the previous
/// token.
fn delta_encode(tokens: &[(u32, u32, u32, bool, bool)]) -> Vec<u32> {
    let (mut data, mut before) = (Vec::with_capacity(5 * tokens.len()), (0, 0));
    for &(line, start, end, is_tool, is_definition) in tokens {
        let down = line - before.0;
        let right = if down == 0 { start - before.1 } else { start };
        data.extend([
            down,
            right,
            end.saturating_sub(start),
            u32::from(is_tool),
            u32::from(is_definition),
        ]);
        before = (line, start);
    }
    data
}
