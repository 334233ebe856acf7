//! What may be written at a cursor.

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

use crate::cursor::{About, Cursor};
use crate::messages::Failure;
use crate::project::Seen;
use crate::scan::Step;
use crate::server::Server;
use crate::shape::{FieldShape, Form, Shape};
use crate::templates::{TEMPLATES, plain};
use crate::text::Lines;
use crate::{Host, hover};

/// How many items one answer has. What is left out comes when more of the word is written.
const MOST: usize = 500;

/// Something that may be written.
#[derive(Debug, Clone)]
struct Offer {
    label: String,
    kind: CompletionItemKind,
    detail: Option<String>,
    documentation: Option<String>,
    /// The Tool whose exports are its documentation: thousands may be offered, and few are shown.
    tool: Option<ResourceId>,
    /// What is written, as a snippet.
    text: String,
    /// What comes first is offered first.
    rank: u8,
}

impl Offer {
    fn new(label: impl Into<String>, kind: CompletionItemKind) -> Self {
        let label = label.into();
        let text = label.replace('$', "\\$");
        Offer {
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

/// All that an offer may go by.
struct Context<'c, H> {
    host: &'c H,
    root: Option<&'c Path>,
    seen: Option<&'c Seen>,
    files: crate::documents::Overlay<'c>,
    cursor: &'c Cursor<'c>,
}

/// Answers `textDocument/completion`.
pub(crate) fn complete<H: Host>(
    server: &mut Server<H>,
    path: &Path,
    at: Position,
) -> Result<Value, Failure> {
    let text = server.text_of(path);
    let lines = Lines::new(&text, server.encoding);
    let cursor = Cursor::at(&text, lines.offset(at));
    let Some(about) = cursor.about() else {
        return Ok(json!([]));
    };
    let seen = server.seen(path);
    let context = Context {
        host: server.host(),
        root: seen.as_ref().map(|(root, _)| root.as_path()),
        seen: seen.as_ref().map(|(_, seen): &(_, Arc<Seen>)| &**seen),
        files: server.files(),
        cursor: &cursor,
    };
    let shape = |path: &[Step]| server.shapes.at(cursor.kind, path);
    let (mut offers, word) = match about {
        About::Key { path, word } => {
            let above = path.split_last().map_or(&[][..], |(_, above)| above);
            let keys = shape(above).map(|shape| keys(&context, shape, above, path.last(), true));
            (keys.unwrap_or_default(), word)
        }
        About::Value { path, word } => {
            let word = cursor.inner(word).0;
            (
                shape(&path)
                    .map(|shape| values::values(&context, shape, &path))
                    .unwrap_or_default(),
                word,
            )
        }
        About::Open { path, word } => (open(&context, shape(&path), &path), word),
    };
    offers.sort_by_key(|offer| offer.rank);
    let is_incomplete = offers.len() > MOST;
    narrow(
        &mut offers,
        &text[word.start..cursor.offset.clamp(word.start, word.end)],
    );
    let range = lines.range(word);
    let documented = offers
        .into_iter()
        .map(|offer| documented(offer, context.seen));
    let items: Vec<CompletionItem> = documented
        .map(|offer| item(offer, range, server.snippets))
        .collect();
    Ok(json!({ "isIncomplete": is_incomplete, "items": items }))
}

/// Of many offers, those that go with what is written.
fn narrow(offers: &mut Vec<Offer>, written: &str) {
    if offers.len() > MOST {
        let written = written.to_lowercase();
        offers.retain(|offer| offer.label.to_lowercase().contains(&written));
        offers.truncate(MOST);
    }
}

fn documented(mut offer: Offer, seen: Option<&Seen>) -> Offer {
    let tool = offer
        .tool
        .take()
        .and_then(|id| seen?.outline.tools.get(&id));
    offer.documentation = tool
        .map(|tool| exports_listed(&tool.spec))
        .or(offer.documentation);
    offer
}

fn item(offer: Offer, range: gen_lsp_types::Range, snippets: bool) -> CompletionItem {
    let is_snippet = snippets && offer.text.contains('$');
    let new_text = if is_snippet {
        offer.text
    } else {
        plain(&offer.text.replace("\\$", "$"))
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

/// Where nothing stands yet, there may be a field, an item or a value; at the top of a document all of it.
fn open<H: Host>(context: &Context<'_, H>, shape: Option<Shape<'_>>, path: &[Step]) -> Vec<Offer> {
    let Some(shape) = shape else {
        return Vec::new();
    };
    let mut offers = Vec::new();
    let is_new = path.is_empty()
        && context
            .cursor
            .scan
            .spots
            .iter()
            .all(|spot| spot.value.is_none());
    if is_new {
        offers.extend(templates());
    }
    let is_at_value = matches!(path.last(), Some(Step::Item(_)));
    match shape.form() {
        Form::List if !context.cursor.scan.in_flow => offers.extend(items(context, shape, path)),
        _ => {
            offers.extend(keys(context, shape, path, None, false));
            if is_at_value || shape.form() == Form::Scalar {
                offers.extend(values::values(context, shape, path));
            }
        }
    }
    offers
}

/// The fields that a map does not have yet; `here` is the one at the cursor.
fn keys<H: Host>(
    context: &Context<'_, H>,
    shape: Shape<'_>,
    path: &[Step],
    here: Option<&Step>,
    is_written: bool,
) -> Vec<Offer> {
    let taken: Vec<&str> = context.cursor.scan.keys(path).collect();
    let own = match here {
        Some(Step::Key(name)) => Some(name.as_str()),
        _ => None,
    };
    let is_free = |name: &str| own == Some(name) || !taken.contains(&name);
    let fields = shape
        .fields()
        .into_iter()
        .filter(|field| is_free(field.name));
    let offers = fields.map(|field| key(&field, is_written, context.cursor.scan.in_flow));
    let settings = values::settings(context, path)
        .into_iter()
        .filter(|offer| is_free(&offer.label));
    offers.chain(settings).collect()
}

fn key(field: &FieldShape<'_>, is_written: bool, in_flow: bool) -> Offer {
    let name = field.name;
    let text = match (is_written, in_flow, field.shape.form()) {
        (true, ..) => name.to_owned(),
        (_, true, Form::Map) => format!("{name}: {{$0}}"),
        (_, true, Form::List) => format!("{name}: [$0]"),
        (_, false, Form::Map) => format!("{name}:\n  $0"),
        (_, false, Form::List) => format!("{name}:\n  - $0"),
        (_, _, Form::Scalar) => format!("{name}: $0"),
    };
    Offer {
        detail: field.required.then(|| "required".to_owned()),
        documentation: Some(hover::of_shape(field.shape)),
        text,
        rank: u8::from(!field.required),
        ..Offer::new(name, CompletionItemKind::Property)
    }
}

/// Items of a list that has none at the cursor: references ready to be taken, or the beginning of one.
fn items<H: Host>(context: &Context<'_, H>, list: Shape<'_>, path: &[Step]) -> Vec<Offer> {
    let way: Vec<Step> = path.iter().cloned().chain([Step::Item(0)]).collect();
    let mut offers = Vec::new();
    let fields = context.cursor.kind.and_then(|_| list.fields_of_items());
    match fields {
        Some(fields) if !fields.is_empty() => {
            for field in &fields {
                let mut offer = key(field, false, false);
                // What is below the first field of an item is indented by its dash, too.
                offer.text = format!("- {}", offer.text.replace('\n', "\n  "));
                offer.label = format!("- {}", offer.label);
                offers.push(offer);
            }
            let reference = fields.iter().find(|field| field.name == "ref");
            let named = reference
                .map(|field| values::references(context, field.shape))
                .unwrap_or_default();
            offers.extend(named.into_iter().map(|offer| dashed(offer, "- ref: ")));
        }
        _ => {
            let values = list
                .item()
                .map(|shape| values::values(context, shape, &way))
                .unwrap_or_default();
            offers.extend(values.into_iter().map(|offer| dashed(offer, "- ")));
        }
    }
    offers
}

fn dashed(offer: Offer, before: &str) -> Offer {
    Offer {
        label: format!("{before}{}", offer.label),
        text: format!("{before}{}", offer.text),
        ..offer
    }
}

fn templates() -> impl Iterator<Item = Offer> {
    TEMPLATES.iter().map(|template| Offer {
        detail: Some(template.description.to_owned()),
        text: template.snippet(),
        rank: 0,
        ..Offer::new(label(template.kind), CompletionItemKind::Snippet)
    })
}

fn label(kind: Kind) -> String {
    format!("kind: {kind}")
}
