//! Completion at a cursor.

mod values;

pub(crate) use values::exports_listed;

use std::path::Path;
use std::sync::Arc;

use gen_lsp_types::{
    CompletionItem, CompletionItemKind, InsertTextFormat, MarkupContent, MarkupKind, Position,
    TextEdit,
};
use goondan_spec::{Kind, ResourceId};
use serde_json::{Value, json};

use crate::cursor::{CursorElement, DocumentCursor};
use crate::messages::LspRequestError;
use crate::project::LoadedProject;
use crate::scan::PathStep;
use crate::schema_lookup::{FieldSchema, SchemaView, ValueForm};
use crate::server::LanguageServer;
use crate::templates::{TEMPLATES, strip_placeholders};
use crate::text::LineIndex;
use crate::{LspHost, hover};

/// Maximum number of items in a response. The rest is offered when more characters are typed.
const MAX_COMPLETION_ITEMS: usize = 500;

#[derive(Debug, Clone)]
struct CompletionOffer {
    label: String,
    kind: CompletionItemKind,
    detail: Option<String>,
    documentation: Option<String>,
    /// Tool whose exports become the documentation. Resolved late, because thousands may be offered
    /// but few are sent.
    tool: Option<ResourceId>,
    /// Inserted text in snippet syntax.
    text: String,
    /// Sort order. Lower ranks come first.
    rank: u8,
}

impl CompletionOffer {
    fn new(label: impl Into<String>, kind: CompletionItemKind) -> Self {
        let label = label.into();
        let text = label.replace('$', "\\$");
        CompletionOffer {
            label,
            kind,
            detail: None,
            documentation: None,
            tool: None,
            text,
            rank: 1,
        }
    }
}

/// Inputs of all completions.
struct CompletionContext<'c, H> {
    host: &'c H,
    root: Option<&'c Path>,
    seen: Option<&'c LoadedProject>,
    files: crate::documents::DocumentOverlay<'c>,
    cursor: &'c DocumentCursor<'c>,
}

/// Handles `textDocument/completion`.
pub(crate) fn complete<H: LspHost>(
    server: &mut LanguageServer<H>,
    path: &Path,
    at: Position,
) -> Result<Value, LspRequestError> {
    let text = server.text_of(path);
    let lines = LineIndex::new(&text, server.encoding);
    let cursor = DocumentCursor::at_offset(&text, lines.offset(at));
    let Some(about) = cursor.element() else {
        return Ok(json!([]));
    };
    let seen = server.load_project(path);
    let context = CompletionContext {
        host: server.host(),
        root: seen.as_ref().map(|(root, _)| root.as_path()),
        seen: seen
            .as_ref()
            .map(|(_, seen): &(_, Arc<LoadedProject>)| &**seen),
        files: server.files(),
        cursor: &cursor,
    };
    let shape = |path: &[PathStep]| server.shapes.view_at(cursor.kind, path);
    let (mut offers, word) = match about {
        CursorElement::Key { path, word } => {
            let above = path.split_last().map_or(&[][..], |(_, above)| above);
            let keys =
                shape(above).map(|shape| key_offers(&context, shape, above, path.last(), true));
            (keys.unwrap_or_default(), word)
        }
        CursorElement::Value { path, word } => {
            let word = cursor.unquoted_word(word).0;
            (
                shape(&path)
                    .map(|shape| values::value_offers(&context, shape, &path))
                    .unwrap_or_default(),
                word,
            )
        }
        CursorElement::Open { path, word } => (open_offers(&context, shape(&path), &path), word),
    };
    offers.sort_by_key(|offer| offer.rank);
    let is_incomplete = offers.len() > MAX_COMPLETION_ITEMS;
    limit_offers(
        &mut offers,
        &text[word.start..cursor.offset.clamp(word.start, word.end)],
    );
    let range = lines.range(word);
    let documented = offers
        .into_iter()
        .map(|offer| with_documentation(offer, context.seen));
    let items: Vec<CompletionItem> = documented
        .map(|offer| completion_item(offer, range, server.snippets))
        .collect();
    Ok(json!({ "isIncomplete": is_incomplete, "items": items }))
}

/// Reduces a long list to the offers that contain the written text.
fn limit_offers(offers: &mut Vec<CompletionOffer>, written: &str) {
    if offers.len() > MAX_COMPLETION_ITEMS {
        let written = written.to_lowercase();
        offers.retain(|offer| offer.label.to_lowercase().contains(&written));
        offers.truncate(MAX_COMPLETION_ITEMS);
    }
}

/// Adds the exports of a tool as documentation to the offer for that tool.
fn with_documentation(mut offer: CompletionOffer, seen: Option<&LoadedProject>) -> CompletionOffer {
    let tool = offer
        .tool
        .take()
        .and_then(|id| seen?.outline.tools.get(&id));
    offer.documentation = tool
        .map(|tool| exports_listed(&tool.spec))
        .or(offer.documentation);
    offer
}

/// Converts an offer to an LSP item that replaces `range`. Without `snippets`, placeholders are
/// removed.
fn completion_item(
    offer: CompletionOffer,
    range: gen_lsp_types::Range,
    snippets: bool,
) -> CompletionItem {
    let is_snippet = snippets && offer.text.contains('$');
    let new_text = if is_snippet {
        offer.text
    } else {
        strip_placeholders(&offer.text.replace("\\$", "$"))
    };
    CompletionItem {
        sort_text: Some(format!("{}{}", offer.rank, offer.label)),
        label: offer.label,
        kind: Some(offer.kind),
        detail: offer.detail,
        documentation: offer.documentation.map(|value| {
            MarkupContent {
                kind: MarkupKind::Markdown,
                value,
            }
            .into()
        }),
        insert_text_format: is_snippet.then_some(InsertTextFormat::Snippet),
        text_edit: Some(TextEdit { range, new_text }.into()),
        ..CompletionItem::default()
    }
}

/// Offers fields, items and values at an empty place. An empty document is also offered templates.
fn open_offers<H: LspHost>(
    context: &CompletionContext<'_, H>,
    shape: Option<SchemaView<'_>>,
    path: &[PathStep],
) -> Vec<CompletionOffer> {
    let Some(shape) = shape else {
        return Vec::new();
    };
    let mut offers = Vec::new();
    let is_new = path.is_empty()
        && context
            .cursor
            .scan
            .elements
            .iter()
            .all(|element| element.value.is_none());
    if is_new {
        offers.extend(template_offers());
    }
    let is_at_value = matches!(path.last(), Some(PathStep::Item(_)));
    match shape.value_form() {
        ValueForm::List if !context.cursor.scan.in_flow => {
            offers.extend(item_offers(context, shape, path))
        }
        _ => {
            offers.extend(key_offers(context, shape, path, None, false));
            if is_at_value || shape.value_form() == ValueForm::Scalar {
                offers.extend(values::value_offers(context, shape, path));
            }
        }
    }
    offers
}

/// Offers the fields that the map at `path` does not have yet, and the field at the cursor
/// (`current_field`) itself. `has_value`: a value already follows the cursor.
fn key_offers<H: LspHost>(
    context: &CompletionContext<'_, H>,
    shape: SchemaView<'_>,
    path: &[PathStep],
    current_field: Option<&PathStep>,
    has_value: bool,
) -> Vec<CompletionOffer> {
    let existing_keys: Vec<&str> = context.cursor.scan.keys(path).collect();
    let current_key = match current_field {
        Some(PathStep::Key(name)) => Some(name.as_str()),
        _ => None,
    };
    let is_offered = |name: &str| current_key == Some(name) || !existing_keys.contains(&name);
    let mut offers = Vec::new();
    for field in shape.fields() {
        if is_offered(field.name) {
            offers.push(key_offer(&field, has_value, context.cursor.scan.in_flow));
        }
    }
    for offer in values::setting_offers(context, path) {
        if is_offered(&offer.label) {
            offers.push(offer);
        }
    }
    offers
}

/// Offers a field name with the beginning of its value. `has_value`: a value already follows, so
/// only the name is inserted. `in_flow`: the field is in a flow collection, such as `{a: 1}`.
fn key_offer(field: &FieldSchema<'_>, has_value: bool, in_flow: bool) -> CompletionOffer {
    let name = field.name;
    let text = match (has_value, in_flow, field.shape.value_form()) {
        (true, ..) => name.to_owned(),
        (_, true, ValueForm::Map) => format!("{name}: {{$0}}"),
        (_, true, ValueForm::List) => format!("{name}: [$0]"),
        (_, false, ValueForm::Map) => format!("{name}:\n  $0"),
        (_, false, ValueForm::List) => format!("{name}:\n  - $0"),
        (_, _, ValueForm::Scalar) => format!("{name}: $0"),
    };
    CompletionOffer {
        detail: field.required.then(|| "required".to_owned()),
        documentation: Some(hover::of_shape(field.shape)),
        text,
        rank: u8::from(!field.required),
        ..CompletionOffer::new(name, CompletionItemKind::Property)
    }
}

/// Offers complete references, or the start of an item, for a list without an item at the cursor.
fn item_offers<H: LspHost>(
    context: &CompletionContext<'_, H>,
    list: SchemaView<'_>,
    path: &[PathStep],
) -> Vec<CompletionOffer> {
    let way: Vec<PathStep> = path.iter().cloned().chain([PathStep::Item(0)]).collect();
    let mut offers = Vec::new();
    let fields = context.cursor.kind.and_then(|_| list.fields_of_items());
    match fields {
        Some(fields) if !fields.is_empty() => {
            for field in &fields {
                let mut offer = key_offer(field, false, false);
                // Lines below the first field of an item are indented by its dash.
                offer.text = format!("- {}", offer.text.replace('\n', "\n  "));
                offer.label = format!("- {}", offer.label);
                offers.push(offer);
            }
            let reference = fields.iter().find(|field| field.name == "ref");
            let named = reference
                .map(|field| values::reference_offers(context, field.shape))
                .unwrap_or_default();
            offers.extend(named.into_iter().map(|offer| with_prefix(offer, "- ref: ")));
        }
        _ => {
            let values = list
                .item()
                .map(|shape| values::value_offers(context, shape, &way))
                .unwrap_or_default();
            offers.extend(values.into_iter().map(|offer| with_prefix(offer, "- ")));
        }
    }
    offers
}

/// Adds `before`, such as a dash, to the label and the inserted text.
fn with_prefix(offer: CompletionOffer, before: &str) -> CompletionOffer {
    CompletionOffer {
        label: format!("{before}{}", offer.label),
        text: format!("{before}{}", offer.text),
        ..offer
    }
}

/// Offers a template for each resource kind.
fn template_offers() -> impl Iterator<Item = CompletionOffer> {
    TEMPLATES.iter().map(|template| CompletionOffer {
        detail: Some(template.description.to_owned()),
        text: template.snippet(),
        rank: 0,
        ..CompletionOffer::new(label(template.kind), CompletionItemKind::Snippet)
    })
}

/// Returns the label of the template for a resource kind.
fn label(kind: Kind) -> String {
    format!("kind: {kind}")
}
