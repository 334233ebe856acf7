//! Symbols of a file and of the open projects.

use gen_lsp_types::{DocumentSymbol, Location, SymbolKind};
use goondan_spec::Kind;
use serde_json::{Value, json};

use crate::LspHost;
use crate::links::{self, NameMention};
use crate::scan::{DocumentScan, PathStep, document_ranges, scan};
use crate::server::LanguageServer;
use crate::text::{ColumnEncoding, LineIndex};

/// Maximum number of symbols in a workspace response.
const MAX_WORKSPACE_SYMBOLS: usize = 1_000;

/// Handles `textDocument/documentSymbol`, including for text that is currently invalid YAML.
pub(crate) fn of_document(text: &str, encoding: ColumnEncoding) -> Value {
    let lines = LineIndex::new(text, encoding);
    let symbols = document_ranges(text).into_iter().filter_map(|part| {
        let scan = scan(text, part.clone(), usize::MAX);
        let end = part.start + text[part.clone()].trim_end().len();
        let first = scan.elements.first()?.key.clone()?.start;
        let kind = scan
            .value(text, &key_path(&["kind"]))
            .and_then(Kind::parse)?;
        let name = scan.elements.iter().find(|element| {
            element.path == key_path(&["metadata", "name"]) && element.value.is_some()
        });
        let selection = name
            .and_then(|element| element.value.clone())
            .unwrap_or(first..first);
        let name = scan
            .value(text, &key_path(&["metadata", "name"]))
            .filter(|name| !name.is_empty());
        let detail = Some(kind.to_string());
        let name = name.unwrap_or("(no name)").to_owned();
        let (range, selection) = (
            lines.range(first..end.max(selection.end)),
            lines.range(selection),
        );
        let children = export_symbols(&scan, text, &lines);
        Some(DocumentSymbol::new(
            name,
            detail,
            symbol_kind(kind),
            None,
            None,
            range,
            selection,
            Some(children),
        ))
    });
    json!(symbols.collect::<Vec<_>>())
}

/// Returns a symbol for each named export in the document, which is a field `spec.exports[].name`.
fn export_symbols(scan: &DocumentScan, text: &str, lines: &LineIndex<'_>) -> Vec<DocumentSymbol> {
    let mut symbols = Vec::new();
    for element in &scan.elements {
        if !is_export_name(&element.path) {
            continue;
        }
        let Some(byte_range) = element.value.clone() else {
            continue;
        };
        let name = crate::scan::strip_quotes(&text[byte_range.clone()]);
        if name.is_empty() {
            continue;
        }
        let range = lines.range(byte_range);
        symbols.push(DocumentSymbol::new(
            name.to_owned(),
            Some("export".to_owned()),
            SymbolKind::Function,
            None,
            None,
            range,
            range,
            None,
        ));
    }
    symbols
}

/// Returns true if `path` is a field `spec.exports[].name`.
fn is_export_name(path: &[PathStep]) -> bool {
    let [
        PathStep::Key(first),
        PathStep::Key(second),
        PathStep::Item(_),
        PathStep::Key(last),
    ] = path
    else {
        return false;
    };
    first == "spec" && second == "exports" && last == "name"
}

/// Returns the path of nested map keys.
fn key_path(names: &[&str]) -> Vec<PathStep> {
    names
        .iter()
        .map(|name| PathStep::Key((*name).to_owned()))
        .collect()
}

/// Handles `workspace/symbol`.
pub(crate) fn of_workspace<H: LspHost>(server: &mut LanguageServer<H>, query: &str) -> Value {
    let query = query.to_lowercase();
    let mut symbols = Vec::new();
    for (root, seen) in server.load_open_projects() {
        for definition in &seen.outline.definitions {
            let id = &definition.id;
            let (Some((file, at)), true) = (
                &definition.origin,
                id.to_string().to_lowercase().contains(&query),
            ) else {
                continue;
            };
            if symbols.len() == MAX_WORKSPACE_SYMBOLS {
                return json!(symbols);
            }
            let mention = NameMention {
                file: file.clone(),
                at: at.start..at.end,
                is_literal: true,
            };
            let location: Option<Location> = links::to_locations(server, &root, &[mention]).pop();
            let kind = symbol_kind(id.kind);
            symbols.push(
                json!({ "name": id.name, "kind": kind, "containerName": id.kind.as_str(), "location": location }),
            );
        }
    }
    json!(symbols)
}

/// Returns the LSP symbol kind, which selects the icon of a resource kind.
fn symbol_kind(kind: Kind) -> SymbolKind {
    match kind {
        Kind::Model => SymbolKind::Constant,
        Kind::Agent => SymbolKind::Class,
        Kind::Swarm => SymbolKind::Module,
        Kind::Tool => SymbolKind::Function,
        Kind::Extension => SymbolKind::Interface,
        Kind::Connector => SymbolKind::Event,
        Kind::Connection => SymbolKind::Field,
        Kind::Package => SymbolKind::Package,
    }
}
