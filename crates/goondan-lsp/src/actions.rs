//! Quick fixes for diagnostics.

use std::collections::HashMap;
use std::path::Path;

use gen_lsp_types::{CodeAction, CodeActionKind, Range, TextEdit, WorkspaceEdit};
use goondan_spec::Diagnostic;
use serde_json::{Value, json};

use crate::LspHost;
use crate::diagnostics;
use crate::links;
use crate::server::LanguageServer;
use crate::text::LineIndex;

/// Handles `textDocument/codeAction`.
pub(crate) fn code_actions<H: LspHost>(
    server: &mut LanguageServer<H>,
    path: &Path,
    range: Range,
) -> Value {
    let Some((root, seen)) = server.load_project(path) else {
        return json!([]);
    };
    let text = server.text_of(path);
    let lines = LineIndex::new(&text, server.encoding);
    let (start, end) = (lines.offset(range.start), lines.offset(range.end));
    let file = links::relative_path(&root, path);
    // The position of an error in a map is the start of the map, but its fix may be further down.
    let meets = |from: usize, to: usize| from <= end && start <= to;
    let touches = |found: &&Diagnostic| {
        let stands_here = found.position.is_some_and(|at| meets(at.start, at.end));
        let mut edits = found.fix.iter().flat_map(|fix| &fix.edits);
        found.file.as_deref() == Some(&file)
            && (stands_here || edits.any(|edit| meets(edit.start, edit.end)))
    };
    let mut actions = Vec::new();
    for found in seen.diagnostics.iter().filter(touches) {
        let Some(fix) = &found.fix else { continue };
        let edit = |edit: &goondan_spec::fix::ByteEdit| TextEdit {
            range: lines.range(edit.start..edit.end),
            new_text: edit.text_in(&text),
        };
        let edits: Vec<TextEdit> = fix.edits.iter().map(edit).collect();
        let changes = HashMap::from([(server.uri_of(path), edits)]);
        actions.push(CodeAction {
            title: fix.title.clone(),
            kind: Some(CodeActionKind::QuickFix),
            diagnostics: Some(vec![diagnostics::to_lsp(
                &root,
                path,
                found,
                &server.files(),
                server.encoding,
            )]),
            is_preferred: fix.certain.then_some(true),
            edit: Some(WorkspaceEdit {
                changes: Some(changes),
                ..WorkspaceEdit::default()
            }),
            ..CodeAction::default()
        });
    }
    json!(actions)
}
