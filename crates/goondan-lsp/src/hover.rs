//! Hover information.

use std::path::Path;

use gen_lsp_types::{MarkupContent, MarkupKind, Position};
use goondan_spec::codes::{self, CodeExplanation};
use goondan_spec::{Diagnostic, ResourceId};
use serde_json::{Value, json};

use crate::LspHost;
use crate::completion::exports_listed;
use crate::cursor::{CursorElement, DocumentCursor};
use crate::links::{self, LinkTarget};
use crate::messages::LspRequestError;
use crate::project::LoadedProject;
use crate::schema_lookup::SchemaView;
use crate::server::LanguageServer;
use crate::text::LineIndex;

/// Handles `textDocument/hover`: explains diagnostics, the named resource and the field.
pub(crate) fn hover<H: LspHost>(
    server: &mut LanguageServer<H>,
    path: &Path,
    at: Position,
) -> Result<Value, LspRequestError> {
    let text = server.text_of(path);
    let lines = LineIndex::new(&text, server.encoding);
    let cursor = DocumentCursor::at_offset(&text, lines.offset(at));
    let mut parts = Vec::new();
    let mut range = None;
    if let Some((root, seen)) = server.load_project(path) {
        let file = links::relative_path(&root, path);
        let diagnostics_here = diagnostics_at(&seen, &file, cursor.offset);
        range = diagnostics_here
            .first()
            .and_then(|found| found.position)
            .map(|span| span.start..span.end);
        let mut codes: Vec<&CodeExplanation> = Vec::new();
        for row in diagnostics_here
            .iter()
            .filter_map(|found| codes::find_explanation(found.code.as_str()))
        {
            if codes.iter().all(|known| known.code != row.code) {
                codes.push(row);
            }
        }
        parts.extend(codes.into_iter().map(of_code));
        if let Some(LinkTarget { id, at }) = links::find_target(&seen, &file, cursor.offset) {
            parts.push(of_resource(&seen, &id));
            range = Some(at);
        }
    }
    let about = match cursor.element() {
        Some(
            CursorElement::Key { path, word }
            | CursorElement::Value { path, word }
            | CursorElement::Open { path, word },
        ) => Some((path, word)),
        None => None,
    };
    if let Some((way, word)) = about.filter(|(way, _)| !way.is_empty())
        && let Some(shape) = server.shapes.view_at(cursor.kind, &way)
    {
        parts.push(of_shape(shape));
        range = range.or(Some(word));
    }
    parts.retain(|part| !part.is_empty());
    if parts.is_empty() {
        return Ok(Value::Null);
    }
    let contents = MarkupContent {
        kind: MarkupKind::Markdown,
        value: parts.join("\n\n---\n\n"),
    };
    Ok(json!({ "contents": contents, "range": range.map(|range| lines.range(range)) }))
}

/// Returns the diagnostics at a position.
pub(crate) fn diagnostics_at<'s>(
    seen: &'s LoadedProject,
    file: &str,
    offset: usize,
) -> Vec<&'s Diagnostic> {
    let is_here = |found: &&Diagnostic| {
        found.file.as_deref() == Some(file)
            && found
                .position
                .is_some_and(|at| at.start <= offset && offset <= at.end)
    };
    seen.diagnostics.iter().filter(is_here).collect()
}

/// Describes an error code as Markdown.
fn of_code(row: &CodeExplanation) -> String {
    let more = row
        .more_url()
        .map(|url| format!("\n\n[Read more]({url})"))
        .unwrap_or_default();
    format!(
        "**{}**: {}\n\n{}\n\n*Fix:* {}{more}",
        row.code, row.meaning, row.why, row.next
    )
}

/// Describes a field: its meaning, its constraints and its default.
pub(crate) fn of_shape(shape: SchemaView<'_>) -> String {
    let mut text = shape
        .description()
        .map(|text| text.replace('\n', " "))
        .unwrap_or_default();
    let words: Vec<String> = shape
        .values()
        .into_iter()
        .map(|(word, _)| format!("`{word}`"))
        .collect();
    let details = [
        ("Values", words.join(", ")),
        (
            "Type",
            if words.is_empty() {
                shape.limits().join(", ")
            } else {
                String::new()
            },
        ),
        (
            "Names",
            shape.names().map(describe_reference).unwrap_or_default(),
        ),
        (
            "Default",
            shape
                .default()
                .map(|value| format!("`{value}`"))
                .unwrap_or_default(),
        ),
    ];
    for (title, detail) in details.into_iter().filter(|(_, detail)| !detail.is_empty()) {
        text.push_str(&format!("\n\n{title}: {detail}"));
    }
    text
}

/// Describes what a value of the given reference kind names, such as "a file of the project".
fn describe_reference(what: &str) -> String {
    match what {
        "file" => "a file of the project".to_owned(),
        "folder" => "a directory of the project".to_owned(),
        "export" => "an export of the tool".to_owned(),
        "tool" => "a tool, as `tool__export`".to_owned(),
        "event" => "an event of the connector".to_owned(),
        "variable" => "an environment variable".to_owned(),
        kind => format!("a resource of kind {kind}, as `{kind}/name`"),
    }
}

/// Describes a resource as Markdown: its kind, name, position and exports.
fn of_resource(seen: &LoadedProject, id: &ResourceId) -> String {
    let definition = seen
        .outline
        .definitions
        .iter()
        .find(|known| known.id == *id);
    let location = match definition.and_then(|known| known.origin.as_ref()) {
        Some((file, at)) => format!("`{file}`, line {}", at.line),
        None => "built in".to_owned(),
    };
    let exports = seen
        .outline
        .tools
        .get(id)
        .map(|tool| exports_listed(&tool.spec))
        .unwrap_or_default();
    format!("**{} {}**, {location}\n\n{exports}", id.kind, id.name)
}
