//! What names what: definitions, references and files.

use std::ops::Range;
use std::path::Path;

use gen_lsp_types::{Location, Position};
use goondan_spec::files::FileKind;
use goondan_spec::outline::{Definition, name_range};
use goondan_spec::{Files, Kind, ResourceId};
use serde_json::{Value, json};

use crate::Host;
use crate::cursor::{About, Cursor};
use crate::messages::Failure;
use crate::project::Seen;
use crate::server::Server;
use crate::text::Lines;

/// The resource that is named or defined under a cursor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) id: ResourceId,
    /// The bytes that name it.
    pub(crate) at: Range<usize>,
}

/// The bytes of a file that name a resource, and whether they say letter by letter what it is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mention {
    pub(crate) file: String,
    pub(crate) at: Range<usize>,
    pub(crate) is_literal: bool,
}

/// A path as the loader names it.
pub(crate) fn relative(root: &Path, path: &Path) -> String {
    let rest = path.strip_prefix(root).unwrap_or(path);
    let parts: Vec<_> = rest
        .components()
        .map(|part| part.as_os_str().to_string_lossy())
        .collect();
    parts.join("/")
}

/// What is named or defined at a place of a file.
pub(crate) fn target(seen: &Seen, file: &str, offset: usize) -> Option<Target> {
    let is_here = |range: &Range<usize>| range.start <= offset && offset <= range.end;
    let links = seen
        .outline
        .links
        .iter()
        .filter(|(of, _)| of == file)
        .flat_map(|(_, links)| links);
    let named = links
        .filter(|link| is_here(&(link.at.start..link.at.end)))
        .map(|link| Target {
            id: link.to.clone(),
            at: link.name.clone().unwrap_or(link.at.start..link.at.end),
        });
    let defined = seen.outline.definitions.iter().filter_map(|definition| {
        let mention = definition_mention(definition)?;
        (mention.file == file && is_here(&mention.at)).then(|| Target {
            id: definition.id.clone(),
            at: mention.at,
        })
    });
    named.chain(defined).next()
}

fn definition_mention(definition: &Definition) -> Option<Mention> {
    let (file, at) = definition.origin.as_ref()?;
    let literal = name_range(*at, &definition.id.name);
    let is_literal = literal.is_some();
    Some(Mention {
        file: file.clone(),
        at: literal.unwrap_or(at.start..at.end),
        is_literal,
    })
}

/// Where the resource is defined.
pub(crate) fn definitions(seen: &Seen, id: &ResourceId) -> Vec<Mention> {
    let of_id = seen
        .outline
        .definitions
        .iter()
        .filter(|definition| definition.id == *id);
    of_id.filter_map(definition_mention).collect()
}

/// Where the resource is named, by file and place. What an alias stands for is written once.
pub(crate) fn mentions(seen: &Seen, id: &ResourceId) -> Vec<Mention> {
    let mut found = Vec::new();
    for (file, links) in &seen.outline.links {
        for link in links.iter().filter(|link| link.to == *id) {
            let at = link.name.clone().unwrap_or(link.at.start..link.at.end);
            found.push(Mention {
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

/// A name of a resource in a file.
#[derive(Debug)]
pub(crate) struct Name {
    pub(crate) at: Range<usize>,
    pub(crate) is_tool: bool,
    pub(crate) is_definition: bool,
}

/// All names of resources that are written letter by letter in `file`.
pub(crate) fn names_in(seen: &Seen, file: &str) -> Vec<Name> {
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
    let name = |(at, kind, is_definition)| Name {
        at,
        is_tool: kind == Kind::Tool,
        is_definition,
    };
    used.chain(defined).map(name).collect()
}

/// Answers `textDocument/definition`.
pub(crate) fn definition<H: Host>(
    server: &mut Server<H>,
    path: &Path,
    at: Position,
) -> Result<Value, Failure> {
    let text = server.text_of(path);
    let offset = Lines::new(&text, server.encoding).offset(at);
    let Some((root, seen)) = server.seen(path) else {
        return Ok(Value::Null);
    };
    if let Some(found) = target(&seen, &relative(&root, path), offset) {
        return Ok(json!(locations(
            server,
            &root,
            &definitions(&seen, &found.id)
        )));
    }
    Ok(json!(file_at(server, &root, &Cursor::at(&text, offset))))
}

/// The file that a path under the cursor names.
fn file_at<H: Host>(server: &Server<H>, root: &Path, cursor: &Cursor<'_>) -> Option<Location> {
    let About::Value { path, word } = cursor.about()? else {
        return None;
    };
    let shape = server.shapes.at(cursor.kind, &path)?;
    if shape.names() != Some("file") {
        return None;
    }
    let target = root.join(cursor.inner(word).1);
    let files = server.files();
    let target = match files.kind(&target).ok()? {
        FileKind::Directory => target.join("tool.yaml"),
        _ => target,
    };
    // What leads out of the project is none of its files.
    let real = files
        .canonical(&target)
        .ok()
        .filter(|real| real.starts_with(root))?;
    Some(Location {
        uri: server.uri_of(&real),
        range: gen_lsp_types::Range::default(),
    })
}

/// Answers `textDocument/references`.
pub(crate) fn references<H: Host>(
    server: &mut Server<H>,
    path: &Path,
    at: Position,
    also_definition: bool,
) -> Result<Value, Failure> {
    let text = server.text_of(path);
    let offset = Lines::new(&text, server.encoding).offset(at);
    let Some((root, seen)) = server.seen(path) else {
        return Ok(Value::Null);
    };
    let Some(found) = target(&seen, &relative(&root, path), offset) else {
        return Ok(Value::Null);
    };
    let mut places = if also_definition {
        definitions(&seen, &found.id)
    } else {
        Vec::new()
    };
    places.extend(mentions(&seen, &found.id));
    Ok(json!(locations(server, &root, &places)))
}

pub(crate) fn locations<H: Host>(
    server: &Server<H>,
    root: &Path,
    mentions: &[Mention],
) -> Vec<Location> {
    let mut locations = Vec::new();
    for of_file in mentions.chunk_by(|a, b| a.file == b.file) {
        let path = root.join(&of_file[0].file);
        let text = server.text_of(&path);
        let lines = Lines::new(&text, server.encoding);
        let uri = server.uri_of(&path);
        locations.extend(of_file.iter().map(|mention| Location {
            uri: uri.clone(),
            range: lines.range(mention.at.clone()),
        }));
    }
    locations
}
