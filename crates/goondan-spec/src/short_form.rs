//! Resources that gdn derives from short forms: the Model of an agent whose `model` is
//! `provider/model`, and the Swarm of a project with one agent.
//!
//! They become documents like any other, with positions in the short form.

use std::sync::Arc;

use crate::decode_cache::DecodeCache;
use crate::diagnostic::{Code, Diagnostic, SourcePosition};
use crate::diagnostic_sink::DiagnosticSink;
use crate::meta::{API_VERSION, Kind};
use crate::node::{MapEntry, NodeContent, YamlNode};
use crate::parsed_file::ParsedFile;

/// Name of the derived Swarm of a project with one agent.
const DERIVED_SWARM: &str = "default";

/// Replaces `model` of an Agent by `modelConfig`. Returns the Model that the short form
/// `provider/model` describes, if it is one.
pub(crate) fn read_model(
    document: &mut YamlNode,
    errors: &mut Vec<Diagnostic>,
) -> Option<YamlNode> {
    if !is_kind(document, Kind::Agent) {
        return None;
    }
    let name = name_of(document)?.clone();
    let spec = field_mut(document, "spec")?;
    let NodeContent::Map(entries) = &mut spec.content else {
        return None;
    };
    let position = entries.iter().position(|entry| entry.key == "model")?;
    let text = entries[position].value.text()?.to_owned();
    let position_in_file = entries[position].value.at;
    let config = entries
        .iter()
        .position(|entry| entry.key == "modelConfig" && entry.value.content != NodeContent::Null);
    let is_complete = config.is_some_and(|config| {
        let config = &entries[config].value;
        config.entries().is_none() || config.entry("modelRef").is_some()
    });
    if is_complete {
        errors.push(
            Diagnostic::new(
                Code::SCHEMA_INVALID,
                "`spec.model` and `spec.modelConfig` both name the model.",
            )
            .at(entries[position].key_at)
            .field("spec.model")
            .suggest("keep one of the two"),
        );
        entries.remove(position);
        return None;
    }
    let described = described_model(&text).and_then(|(provider, model)| {
        let provider_at = part_position(position_in_file, &text, 0, provider.len());
        let model_at = part_position(position_in_file, &text, provider.len() + 1, text.len());
        let spec = map_node(
            position_in_file,
            vec![
                implied_entry(
                    "provider",
                    position_in_file,
                    text_node(provider, provider_at),
                ),
                implied_entry("model", position_in_file, text_node(model, model_at)),
            ],
        );
        let name = text_node(name.text()?, position_in_file);
        Some(resource_document(Kind::Model, name, spec, position_in_file))
    });
    let reference = match &described {
        Some(_) => format!("{}/{}", Kind::Model, name.text()?),
        None => text,
    };
    let model_ref = implied_entry(
        "modelRef",
        position_in_file,
        text_node(&reference, position_in_file),
    );
    match config {
        Some(config) => {
            if let NodeContent::Map(fields) = &mut entries[config].value.content {
                fields.push(MapEntry {
                    written: Some("modelRef".to_owned()),
                    ..model_ref
                });
            }
            entries.remove(position);
        }
        None => {
            let entry = &mut entries[position];
            entry.rename("modelConfig");
            entry.value = map_node(position_in_file, vec![model_ref]);
        }
    }
    described
}

/// Returns the documents derived from short forms, in one additional file per file with short
/// forms. `is_whole` is false if a part of the project could not be read.
pub(crate) fn derived_files(files: &[Arc<ParsedFile>], is_whole: bool) -> Vec<Arc<ParsedFile>> {
    let swarm = is_whole.then(|| derived_swarm(files)).flatten();
    let mut derived = Vec::new();
    for file in files {
        let mut documents = file.described_models.clone();
        if let Some((_, swarm)) = swarm.as_ref().filter(|(origin, _)| *origin == file.name) {
            documents.push(swarm.clone());
        }
        if !documents.is_empty() {
            derived.push(Arc::new(derived_file(file, documents)));
        }
    }
    derived
}

/// Creates a file of documents derived from `file`. Their positions are in `file`.
fn derived_file(file: &ParsedFile, documents: Vec<YamlNode>) -> ParsedFile {
    ParsedFile {
        name: file.name.clone(),
        text: Arc::clone(&file.text),
        kept: documents.iter().map(|_| DecodeCache::default()).collect(),
        documents,
        described_models: Vec::new(),
        is_derived: true,
        renames: Vec::new(),
        findings: DiagnosticSink::for_file(file.name.clone()),
        mark: Arc::clone(&file.mark),
    }
}

/// Returns the Swarm of a project with one Agent and no Swarm, with the file of the Agent.
fn derived_swarm(files: &[Arc<ParsedFile>]) -> Option<(String, YamlNode)> {
    let documents = || {
        files.iter().flat_map(|file| {
            let of_file = file.documents.iter();
            of_file.map(move |document| (file, document))
        })
    };
    if documents().any(|(_, document)| is_kind(document, Kind::Swarm)) {
        return None;
    }
    let mut agents = documents().filter(|(_, document)| is_kind(document, Kind::Agent));
    let (file, agent) = agents.next()?;
    if agents.next().is_some() {
        return None;
    }
    let name = name_of(agent)?;
    let name_position = name.at;
    let reference = text_node(&format!("{}/{}", Kind::Agent, name.text()?), name_position);
    let agents = YamlNode {
        at: name_position,
        content: NodeContent::List(vec![reference.clone()]),
    };
    let spec = map_node(
        name_position,
        vec![
            implied_entry("entryAgent", name_position, reference),
            implied_entry("agents", name_position, agents),
        ],
    );
    let swarm = resource_document(
        Kind::Swarm,
        text_node(DERIVED_SWARM, name_position),
        spec,
        name_position,
    );
    Some((file.name.clone(), swarm))
}

/// Splits `provider/model`; `None` for a reference to a Model.
fn described_model(text: &str) -> Option<(&str, &str)> {
    let (provider, model) = text.split_once('/')?;
    let is_provider = provider.starts_with(|c: char| c.is_ascii_lowercase());
    let is_word = !text.contains(char::is_whitespace);
    (is_provider && is_word && !model.is_empty()).then_some((provider, model))
}

/// Returns the position of a part of the text at `at`. Escaped text has no exact parts.
fn part_position(at: SourcePosition, text: &str, start: usize, end: usize) -> SourcePosition {
    let quotes = match (at.end - at.start).checked_sub(text.len()) {
        Some(0) => 0,
        Some(2) => 1,
        _ => return at,
    };
    let columns = |bytes: usize| text[..bytes].chars().count();
    SourcePosition {
        column: at.column + quotes + columns(start),
        start: at.start + quotes + start,
        end: at.start + quotes + end,
        ..at
    }
}

fn resource_document(kind: Kind, name: YamlNode, spec: YamlNode, at: SourcePosition) -> YamlNode {
    let metadata = map_node(at, vec![implied_entry("name", at, name)]);
    map_node(
        at,
        vec![
            implied_entry("apiVersion", at, text_node(API_VERSION, at)),
            implied_entry("kind", at, text_node(kind.as_str(), at)),
            implied_entry("metadata", at, metadata),
            implied_entry("spec", at, spec),
        ],
    )
}

/// Creates an entry whose key is not in the file.
fn implied_entry(key: &str, at: SourcePosition, value: YamlNode) -> MapEntry {
    MapEntry {
        key: key.to_owned(),
        written: (key == "modelRef").then(String::new),
        key_at: at,
        value,
    }
}

fn map_node(at: SourcePosition, entries: Vec<MapEntry>) -> YamlNode {
    YamlNode {
        at,
        content: NodeContent::Map(entries),
    }
}

fn text_node(text: &str, at: SourcePosition) -> YamlNode {
    YamlNode {
        at,
        content: NodeContent::Text(text.to_owned()),
    }
}

fn is_kind(document: &YamlNode, kind: Kind) -> bool {
    document.entry("kind").and_then(|entry| entry.value.text()) == Some(kind.as_str())
}

fn name_of(document: &YamlNode) -> Option<&YamlNode> {
    let name = &document.entry("metadata")?.value.entry("name")?.value;
    name.text().is_some().then_some(name)
}

fn field_mut<'n>(node: &'n mut YamlNode, key: &str) -> Option<&'n mut YamlNode> {
    let NodeContent::Map(entries) = &mut node.content else {
        return None;
    };
    let entry = entries.iter_mut().find(|entry| entry.key == key)?;
    Some(&mut entry.value)
}
