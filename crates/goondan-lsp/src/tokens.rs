//! Words that mean a resource, for an editor that paints them: names where they are defined, and where they are used.

use std::path::Path;

use serde_json::{Value, json};

use crate::Host;
use crate::links::{self, relative};
use crate::server::Server;
use crate::text::Lines;

/// The types of tokens, by their numbers.
pub(crate) const TYPES: [&str; 2] = ["class", "function"];

/// What is said of a token beside that.
pub(crate) const MODIFIERS: [&str; 1] = ["definition"];

/// Answers `textDocument/semanticTokens/full`, by what the loader made of the project.
pub(crate) fn tokens<H: Host>(server: &mut Server<H>, path: &Path) -> Value {
    let text = server.text_of(path);
    let Some((root, seen)) = server.seen(path) else {
        return Value::Null;
    };
    let file = relative(&root, path);
    let lines = Lines::new(&text, server.encoding);
    let mut found = Vec::new();
    for mention in links::names_in(&seen, &file) {
        // A name that is broken over lines, or of a text that is not this one any more, is painted by nobody.
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
    json!({ "data": relative_to_each_other(&found) })
}

/// Each token is told by its distance from the one before.
fn relative_to_each_other(tokens: &[(u32, u32, u32, bool, bool)]) -> Vec<u32> {
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
