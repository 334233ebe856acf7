//! Renames a resource and all references to it.

use std::collections::HashMap;
use std::path::Path;

use gen_lsp_types::{Position, TextEdit, Uri, WorkspaceEdit};
use goondan_spec::{Kind, ResourceId, check_name};
use serde_json::{Value, json};

use crate::LspHost;
use crate::links::{self, LinkTarget, NameMention};
use crate::messages::LspRequestError;
use crate::project::LoadedProject;
use crate::server::LanguageServer;
use crate::text::LineIndex;

/// Handles `textDocument/prepareRename`: returns the range to rename.
pub(crate) fn prepare_rename<H: LspHost>(
    server: &mut LanguageServer<H>,
    path: &Path,
    at: Position,
) -> Result<Value, LspRequestError> {
    let text = server.text_of(path);
    let lines = LineIndex::new(&text, server.encoding);
    let Some((root, seen)) = server.load_project(path) else {
        return Ok(Value::Null);
    };
    let found = links::find_target(&seen, &links::relative_path(&root, path), lines.offset(at));
    let Some(LinkTarget { id, at }) = found.filter(|found| is_own(&seen, &found.id)) else {
        return Ok(Value::Null);
    };
    Ok(json!({ "range": lines.range(at), "placeholder": id.name }))
}

/// Handles `textDocument/rename`.
pub(crate) fn rename<H: LspHost>(
    server: &mut LanguageServer<H>,
    path: &Path,
    at: Position,
    new_name: &str,
) -> Result<Value, LspRequestError> {
    let text = server.text_of(path);
    let offset = LineIndex::new(&text, server.encoding).offset(at);
    let nothing = || LspRequestError::request_failed("There is no resource name at this position.");
    let (root, seen) = server.load_project(path).ok_or_else(nothing)?;
    let found = links::find_target(&seen, &links::relative_path(&root, path), offset)
        .ok_or_else(nothing)?;
    check_new_name(&seen, &found.id, new_name)?;
    let mut occurrences = links::find_definitions(&seen, &found.id);
    occurrences.extend(links::find_references(&seen, &found.id));
    occurrences.sort_by(|a, b| (&a.file, a.at.start).cmp(&(&b.file, b.at.start)));
    let mut changes: HashMap<Uri, Vec<TextEdit>> = HashMap::new();
    for of_file in occurrences.chunk_by(|a, b| a.file == b.file) {
        let path = root.join(&of_file[0].file);
        let text = server.text_of(&path);
        let lines = LineIndex::new(&text, server.encoding);
        let edits = of_file
            .iter()
            .map(|mention| mention_edit(mention, &text, &lines, &found.id, new_name));
        changes.insert(server.uri_of(&path), edits.collect::<Result<_, _>>()?);
    }
    Ok(json!(WorkspaceEdit {
        changes: Some(changes),
        ..WorkspaceEdit::default()
    }))
}

/// Creates the edit of one mention. Fails if its source text differs from the name.
fn mention_edit(
    mention: &NameMention,
    text: &str,
    lines: &LineIndex<'_>,
    id: &ResourceId,
    new_name: &str,
) -> Result<TextEdit, LspRequestError> {
    // The source text of an alias or an escape differs from the name, so it cannot be replaced.
    if !mention.is_literal || text.get(mention.at.clone()) != Some(&id.name) {
        let line = lines.position(mention.at.start).line + 1;
        return Err(LspRequestError::request_failed(format!(
            "`{}`, line {line}, writes `{id}` with escapes or over several lines; write the name \
            plainly first.",
            mention.file
        )));
    }
    Ok(TextEdit {
        range: lines.range(mention.at.clone()),
        new_text: new_name.to_owned(),
    })
}

/// Returns true if the project itself defines the resource.
fn is_own(seen: &LoadedProject, id: &ResourceId) -> bool {
    id.kind != Kind::Package && !links::find_definitions(seen, id).is_empty()
}

/// Fails if the resource cannot be renamed, or if the new name is invalid or in use.
fn check_new_name(
    seen: &LoadedProject,
    id: &ResourceId,
    new_name: &str,
) -> Result<(), LspRequestError> {
    let definitions = &seen.outline.definitions;
    match links::find_definitions(seen, id).len() {
        _ if id.kind == Kind::Package => {
            return Err(LspRequestError::request_failed(
                "Packages cannot be renamed in the editor.",
            ));
        }
        0 => {
            return Err(LspRequestError::request_failed(format!(
                "`{id}` is built in, so it cannot be renamed."
            )));
        }
        1 => {}
        count => {
            return Err(LspRequestError::request_failed(format!(
                "`{id}` is defined {count} times; remove the duplicates first."
            )));
        }
    }
    if let Err(why) = check_name(new_name, id.kind) {
        return Err(LspRequestError::request_failed(format!(
            "`{new_name}` is not a valid {} name: {why}.",
            id.kind
        )));
    }
    let has_new_name = |other: &&goondan_spec::outline::ResourceDefinition| {
        other.id.kind == id.kind && other.id.name == new_name
    };
    match definitions.iter().find(has_new_name) {
        Some(other) if other.id != *id => {
            let other = &other.id;
            Err(LspRequestError::request_failed(format!(
                "`{other}` already exists, so references would point to another resource."
            )))
        }
        _ => Ok(()),
    }
}
