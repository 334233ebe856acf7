//! A resource gets another name, wherever it is named.

use std::collections::HashMap;
use std::path::Path;

use gen_lsp_types::{Position, TextEdit, Uri, WorkspaceEdit};
use goondan_spec::{Kind, ResourceId, check_name};
use serde_json::{Value, json};

use crate::Host;
use crate::links::{self, Mention, Target};
use crate::messages::Failure;
use crate::project::Seen;
use crate::server::Server;
use crate::text::Lines;

/// Answers `textDocument/prepareRename`: what would be renamed.
pub(crate) fn prepare<H: Host>(
    server: &mut Server<H>,
    path: &Path,
    at: Position,
) -> Result<Value, Failure> {
    let text = server.text_of(path);
    let lines = Lines::new(&text, server.encoding);
    let Some((root, seen)) = server.seen(path) else {
        return Ok(Value::Null);
    };
    let found = links::target(&seen, &links::relative(&root, path), lines.offset(at));
    let Some(Target { id, at }) = found.filter(|found| is_own(&seen, &found.id)) else {
        return Ok(Value::Null);
    };
    Ok(json!({ "range": lines.range(at), "placeholder": id.name }))
}

/// Answers `textDocument/rename`.
pub(crate) fn rename<H: Host>(
    server: &mut Server<H>,
    path: &Path,
    at: Position,
    new_name: &str,
) -> Result<Value, Failure> {
    let text = server.text_of(path);
    let offset = Lines::new(&text, server.encoding).offset(at);
    let nothing = || Failure::refused("Nothing here is the name of a resource.");
    let (root, seen) = server.seen(path).ok_or_else(nothing)?;
    let found = links::target(&seen, &links::relative(&root, path), offset).ok_or_else(nothing)?;
    check(&seen, &found.id, new_name)?;
    let mut places = links::definitions(&seen, &found.id);
    places.extend(links::mentions(&seen, &found.id));
    places.sort_by(|a, b| (&a.file, a.at.start).cmp(&(&b.file, b.at.start)));
    let mut changes: HashMap<Uri, Vec<TextEdit>> = HashMap::new();
    for of_file in places.chunk_by(|a, b| a.file == b.file) {
        let path = root.join(&of_file[0].file);
        let text = server.text_of(&path);
        let lines = Lines::new(&text, server.encoding);
        let edits = of_file
            .iter()
            .map(|place| edit(place, &text, &lines, &found.id, new_name));
        changes.insert(server.uri_of(&path), edits.collect::<Result<_, _>>()?);
    }
    Ok(json!(WorkspaceEdit {
        changes: Some(changes),
        ..WorkspaceEdit::default()
    }))
}

fn edit(
    place: &Mention,
    text: &str,
    lines: &Lines<'_>,
    id: &ResourceId,
    new_name: &str,
) -> Result<TextEdit, Failure> {
    // An alias or an escape is written in another way than it reads.
    if !place.is_literal || text.get(place.at.clone()) != Some(&id.name) {
        let line = lines.position(place.at.start).line + 1;
        return Err(Failure::refused(format!(
            "`{}`, line {line}, names `{id}` with escapes or over several lines; write it plainly first.",
            place.file
        )));
    }
    Ok(TextEdit {
        range: lines.range(place.at.clone()),
        new_text: new_name.to_owned(),
    })
}

fn is_own(seen: &Seen, id: &ResourceId) -> bool {
    id.kind != Kind::Package && !links::definitions(seen, id).is_empty()
}

fn check(seen: &Seen, id: &ResourceId, new_name: &str) -> Result<(), Failure> {
    let definitions = &seen.outline.definitions;
    match links::definitions(seen, id).len() {
        _ if id.kind == Kind::Package => {
            return Err(Failure::refused("A package is not renamed here."));
        }
        0 => {
            return Err(Failure::refused(format!(
                "`{id}` is built in, so it keeps its name."
            )));
        }
        1 => {}
        count => {
            return Err(Failure::refused(format!(
                "`{id}` is defined {count} times; remove the others first."
            )));
        }
    }
    if let Err(why) = check_name(new_name, id.kind) {
        return Err(Failure::refused(format!(
            "`{new_name}` is not a valid {} name: {why}.",
            id.kind
        )));
    }
    let taken = |other: &&goondan_spec::outline::Definition| {
        other.id.kind == id.kind && other.id.name == new_name
    };
    match definitions.iter().find(taken) {
        Some(other) if other.id != *id => {
            let other = &other.id;
            Err(Failure::refused(format!(
                "There is `{other}` already, so references would mean another resource."
            )))
        }
        _ => Ok(()),
    }
}
