//! Definitions, references and file links.

use std::ops::Range;
use std::path::Path;

use gen_lsp_types::{Location, Position};
use goondan_spec::files::FileKind;
use goondan_spec::outline::{ResourceDefinition, name_range};
use goondan_spec::{FileAccess, Kind, ResourceId};
use serde_json::{Value, json};

use crate::LspHost;
use crate::cursor::{CursorElement, DocumentCursor};
use crate::messages::LspRequestError;
use crate::project::LoadedProject;
use crate::server::LanguageServer;
use crate::text::LineIndex;

/// Resource that is named or defined under a cursor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LinkTarget {
    pub(crate) id: ResourceId,
    /// Byte range of its name.
    pub(crate) at: Range<usize>,
}

/// Byte range that names a resource. `is_literal` is set if the range contains the exact name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NameMention {
    pub(crate) file: String,
    pub(crate) at: Range<usize>,
    pub(crate) is_literal: bool,
}

/// Returns a path in the loader's form, relative to the root with `/`.
pub(crate) fn relative_path(root: &Path, path: &Path) -> String {
    let rest = path.strip_prefix(root).unwrap_or(path);
    let parts: Vec<_> = rest
        .components()
        .map(|part| part.as_os_str().to_string_lossy())
        .collect();
    parts.join("/")
}

/// Returns the resource that is named or defined at a position.
pub(crate) fn find_target(seen: &LoadedProject, file: &str, offset: usize) -> Option<LinkTarget> {
    let is_here = |range: &Range<usize>| range.start <= offset && offset <= range.end;
    let links = seen
        .outline
        .links
        .iter()
        .filter(|(of, _)| of == file)
        .flat_map(|(_, links)| links);
    let named = links
        .filter(|link| is_here(&(link.at.start..link.at.end)))
        .map(|link| LinkTarget {
            id: link.to.clone(),
            at: link.name.clone().unwrap_or(link.at.start..link.at.end),
        });
    let defined = seen.outline.definitions.iter().filter_map(|definition| {
        let mention = definition_mention(definition)?;
        (mention.file == file && is_here(&mention.at)).then(|| LinkTarget {
            id: definition.id.clone(),
            at: mention.at,
        })
    });
    named.chain(defined).next()
}

/// Returns the position where a resource is named; `None` if it is built in or in an installed
/// package.
fn definition_mention(definition: &ResourceDefinition) -> Option<NameMention> {
    let (file, at) = definition.origin.as_ref()?;
    let literal = name_range(*at, &definition.id.name);
    let is_literal = literal.is_some();
    Some(NameMention {
        file: file.clone(),
        at: literal.unwrap_or(at.start..at.end),
        is_literal,
    })
}

/// Returns the definitions of a resource.
pub(crate) fn find_definitions(seen: &LoadedProject, id: &ResourceId) -> Vec<NameMention> {
    let of_id = seen
        .outline
        .definitions
        .iter()
        .filter(|definition| definition.id == *id);
    of_id.filter_map(definition_mention).collect()
}

/// Returns the references to a resource, sorted by file and position. An aliased value is only
/// listed once.
pub(crate) fn find_references(seen: &LoadedProject, id: &ResourceId) -> Vec<NameMention> {
    let mut found = Vec::new();
    for (file, links) in &seen.outline.links {
        for link in links.iter().filter(|link| link.to == *id) {
            let at = link.name.clone().unwrap_or(link.at.start..link.at.end);
            found.push(NameMention {
                file: file.clone(),
                at,
                is_literal: link.name.is_some(),
            });
        }
    }
    found.sort_by(|a, b| (&a.file, a.at.start).cmp(&(&b.file, b.at.start)));
    found.dedup();
    found
}

#[derive(Debug)]
pub(crate) struct NameToken {
    pub(crate) at: Range<usize>,
    pub(crate) is_tool: bool,
    pub(crate) is_definition: bool,
}

/// Returns all literally written resource names in `file`.
pub(crate) fn names_in(seen: &LoadedProject, file: &str) -> Vec<NameToken> {
    let links = seen
        .outline
        .links
        .iter()
        .filter(|(of, _)| of == file)
        .flat_map(|(_, links)| links);
    let used = links.filter_map(|link| Some((link.name.clone()?, link.to.kind, false)));
    let defined = seen.outline.definitions.iter().filter_map(|definition| {
        let mention = definition_mention(definition)
            .filter(|mention| mention.is_literal && mention.file == file)?;
        Some((mention.at, definition.id.kind, true))
    });
    let name = |(at, kind, is_definition)| NameToken {
        at,
        is_tool: kind == Kind::Tool,
        is_definition,
    };
    used.chain(defined).map(name).collect()
}

/// Handles `textDocument/definition`.
pub(crate) fn definition<H: LspHost>(
    server: &mut LanguageServer<H>,
    path: &Path,
    at: Position,
) -> Result<Value, LspRequestError> {
    let text = server.text_of(path);
    let offset = LineIndex::new(&text, server.encoding).offset(at);
    let Some((root, seen)) = server.load_project(path) else {
        return Ok(Value::Null);
    };
    if let Some(found) = find_target(&seen, &relative_path(&root, path), offset) {
        return Ok(json!(to_locations(
            server,
            &root,
            &find_definitions(&seen, &found.id)
        )));
    }
    Ok(json!(file_at(
        server,
        &root,
        &DocumentCursor::at_offset(&text, offset)
    )))
}

/// Returns the file that the path under the cursor names.
fn file_at<H: LspHost>(
    server: &LanguageServer<H>,
    root: &Path,
    cursor: &DocumentCursor<'_>,
) -> Option<Location> {
    let CursorElement::Value { path, word } = cursor.element()? else {
        return None;
    };
    let shape = server.shapes.view_at(cursor.kind, &path)?;
    if shape.names() != Some("file") {
        return None;
    }
    let target = root.join(cursor.unquoted_word(word).1);
    let files = server.files();
    let target = match files.kind(&target).ok()? {
        FileKind::Directory => target.join("tool.yaml"),
        _ => target,
    };
    // A link that leads out of the project is not one of its files.
    let real = files
        .canonicalize(&target)
        .ok()
        .filter(|real| real.starts_with(root))?;
    Some(Location {
        uri: server.uri_of(&real),
        range: gen_lsp_types::Range::default(),
    })
}

/// Handles `textDocument/references`.
pub(crate) fn references<H: LspHost>(
    server: &mut LanguageServer<H>,
    path: &Path,
    at: Position,
    also_definition: bool,
) -> Result<Value, LspRequestError> {
    let text = server.text_of(path);
    let offset = LineIndex::new(&text, server.encoding).offset(at);
    let Some((root, seen)) = server.load_project(path) else {
        return Ok(Value::Null);
    };
    let Some(found) = find_target(&seen, &relative_path(&root, path), offset) else {
        return Ok(Value::Null);
    };
    let mut occurrences = if also_definition {
        find_definitions(&seen, &found.id)
    } else {
        Vec::new()
    };
    occurrences.extend(find_references(&seen, &found.id));
    Ok(json!(to_locations(server, &root, &occurrences)))
}

/// Converts mentions, sorted by file, to LSP locations.
pub(crate) fn to_locations<H: LspHost>(
    server: &LanguageServer<H>,
    root: &Path,
    mentions: &[NameMention],
) -> Vec<Location> {
    let mut locations = Vec::new();
    for of_file in mentions.chunk_by(|a, b| a.file == b.file) {
        let path = root.join(&of_file[0].file);
        let text = server.text_of(&path);
        let lines = LineIndex::new(&text, server.encoding);
        let uri = server.uri_of(&path);
        locations.extend(of_file.iter().map(|mention| Location {
            uri: uri.clone(),
            range: lines.range(mention.at.clone()),
        }));
    }
    locations
}
