//! What is told of the thing under a cursor.

use std::path::Path;

use gen_lsp_types::{MarkupContent, MarkupKind, Position};
use goondan_spec::codes::{self, Explanation};
use goondan_spec::{Diagnostic, ResourceId};
use serde_json::{Value, json};

use crate::Host;
use crate::completion::exports_listed;
use crate::cursor::{About, Cursor};
use crate::links::{self, Target};
use crate::messages::Failure;
use crate::project::Seen;
use crate::server::Server;
use crate::shape::Shape;
use crate::text::Lines;

/// Answers `textDocument/hover`: what is wrong here and why, what is named here, and what the field means.
pub(crate) fn hover<H: Host>(
    server: &mut Server<H>,
    path: &Path,
    at: Position,
) -> Result<Value, Failure> {
    let text = server.text_of(path);
    let lines = Lines::new(&text, server.encoding);
    let cursor = Cursor::at(&text, lines.offset(at));
    let mut parts = Vec::new();
    let mut range = None;
    if let Some((root, seen)) = server.seen(path) {
        let file = links::relative(&root, path);
        let here = problems(&seen, &file, cursor.offset);
        range = here
            .first()
            .and_then(|found| found.position)
            .map(|place| place.start..place.end);
        let mut codes: Vec<&Explanation> = Vec::new();
        for row in here
            .iter()
            .filter_map(|found| codes::explanation(found.code.as_str()))
        {
            if codes.iter().all(|known| known.code != row.code) {
                codes.push(row);
            }
        }
        parts.extend(codes.into_iter().map(of_code));
        if let Some(Target { id, at }) = links::target(&seen, &file, cursor.offset) {
            parts.push(of_resource(&seen, &id));
            range = Some(at);
        }
    }
    let about = match cursor.about() {
        Some(
            About::Key { path, word } | About::Value { path, word } | About::Open { path, word },
        ) => Some((path, word)),
        None => None,
    };
    if let Some((way, word)) = about.filter(|(way, _)| !way.is_empty())
        && let Some(shape) = server.shapes.at(cursor.kind, &way)
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

/// What is wrong at a place.
pub(crate) fn problems<'s>(seen: &'s Seen, file: &str, offset: usize) -> Vec<&'s Diagnostic> {
    let is_here = |found: &&Diagnostic| {
        found.file.as_deref() == Some(file)
            && found
                .position
                .is_some_and(|at| at.start <= offset && offset <= at.end)
    };
    seen.diagnostics.iter().filter(is_here).collect()
}

fn of_code(row: &Explanation) -> String {
    let more = row
        .more_url()
        .map(|url| format!("\n\n[Read on]({url})"))
        .unwrap_or_default();
    format!(
        "**{}**: {}\n\n{}\n\n*What to do:* {}{more}",
        row.code, row.meaning, row.why, row.next
    )
}

/// A field: what it means, what it must be, and what it is where nothing is said.
pub(crate) fn of_shape(shape: Shape<'_>) -> String {
    let mut text = shape
        .description()
        .map(|text| text.replace('\n', " "))
        .unwrap_or_default();
    let words: Vec<String> = shape
        .values()
        .into_iter()
        .map(|(word, _)| format!("`{word}`"))
        .collect();
    let said = [
        ("Values", words.join(", ")),
        (
            "Type",
            if words.is_empty() {
                shape.limits().join(", ")
            } else {
                String::new()
            },
        ),
        ("Names", shape.names().map(named).unwrap_or_default()),
        (
            "Default",
            shape
                .default()
                .map(|value| format!("`{value}`"))
                .unwrap_or_default(),
        ),
    ];
    for (title, said) in said.into_iter().filter(|(_, said)| !said.is_empty()) {
        text.push_str(&format!("\n\n{title}: {said}"));
    }
    text
}

fn named(what: &str) -> String {
    match what {
        "file" | "folder" => format!("a {what} of the project"),
        "export" => "an export of the tool".to_owned(),
        "tool" => "a tool, as `tool__export`".to_owned(),
        "event" => "an event of the connector".to_owned(),
        "variable" => "an environment variable".to_owned(),
        kind => format!("a resource of kind {kind}, as `{kind}/name`"),
    }
}

fn of_resource(seen: &Seen, id: &ResourceId) -> String {
    let definition = seen
        .outline
        .definitions
        .iter()
        .find(|known| known.id == *id);
    let place = match definition.and_then(|known| known.origin.as_ref()) {
        Some((file, at)) => format!("`{file}`, line {}", at.line),
        None => "built in".to_owned(),
    };
    let exports = seen
        .outline
        .tools
        .get(id)
        .map(|tool| exports_listed(&tool.spec))
        .unwrap_or_default();
    format!("**{} {}**, {place}\n\n{exports}", id.kind, id.name)
}
