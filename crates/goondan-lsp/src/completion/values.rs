//! The values that may stand at a place.

use std::path::Path;

use gen_lsp_types::CompletionItemKind;
use goondan_spec::files::FileKind;
use goondan_spec::kinds::{ExportSpec, Setting, Tool};
use goondan_spec::{Files, Kind};

use super::{Context, Offer};
use crate::Host;
use crate::scan::Step;
use crate::shape::Shape;

/// What may stand at `path`: words, references, exports, files and variables.
pub(super) fn values<H: Host>(
    context: &Context<'_, H>,
    shape: Shape<'_>,
    path: &[Step],
) -> Vec<Offer> {
    let mut offers: Vec<Offer> = shape
        .values()
        .into_iter()
        .map(|(word, means)| Offer {
            documentation: means.map(str::to_owned),
            rank: 0,
            ..Offer::new(word, CompletionItemKind::EnumMember)
        })
        .collect();
    match shape.names() {
        Some("export") => offers.extend(exports(context, path)),
        Some("tool") => offers.extend(tools(context)),
        Some("event") => offers.extend(events(context)),
        Some("variable") => offers.extend(variables(context)),
        Some("file") => {
            offers.extend(built_in_entries(context, path));
            offers.extend(files(context, path, true));
        }
        Some("folder") => offers.extend(files(context, path, false)),
        Some(_) => offers.extend(references(context, shape)),
        None => {}
    }
    if offers.is_empty()
        && let Some(default) = shape.default()
    {
        offers.push(Offer {
            detail: Some("default".to_owned()),
            ..Offer::new(
                default
                    .as_str()
                    .map_or_else(|| default.to_string(), str::to_owned),
                CompletionItemKind::Value,
            )
        });
    }
    offers
}

/// The resources that a reference may name.
pub(super) fn references<H: Host>(context: &Context<'_, H>, shape: Shape<'_>) -> Vec<Offer> {
    let Some(kind) = shape.names().and_then(Kind::parse) else {
        return Vec::new();
    };
    let definitions = context
        .seen
        .map(|seen| seen.outline.definitions.as_slice())
        .unwrap_or_default();
    let of_kind = definitions
        .iter()
        .filter(|definition| definition.id.kind == kind);
    of_kind
        .map(|definition| {
            let detail = match &definition.origin {
                Some((file, _)) => file.clone(),
                None => "built in".to_owned(),
            };
            Offer {
                detail: Some(detail),
                tool: (kind == Kind::Tool).then(|| definition.id.clone()),
                rank: u8::from(definition.origin.is_none()),
                ..Offer::new(definition.id.to_string(), CompletionItemKind::Reference)
            }
        })
        .collect()
}

/// The exports of a tool, a line each.
pub(crate) fn exports_listed(tool: &Tool) -> String {
    let line = |export: &ExportSpec| {
        format!(
            "- `{}`: {}\n",
            export.name,
            first_sentence(&export.description)
        )
    };
    tool.exports.iter().map(line).collect()
}

fn first_sentence(text: &str) -> &str {
    let line = text.trim().lines().next().unwrap_or_default();
    line.split_inclusive(". ")
        .next()
        .unwrap_or_default()
        .trim_end()
}

/// The tool that a reference such as `Tool/name` names.
fn tool<'c, H: Host>(context: &Context<'c, H>, reference: &str) -> Option<&'c Tool> {
    let name = reference.strip_prefix("Tool/")?;
    let tools = &context.seen?.outline.tools;
    tools
        .values()
        .find(|tool| tool.id.name == name)
        .map(|tool| &tool.spec)
}

/// The exports of the tool that the item of `path` uses.
fn exports<H: Host>(context: &Context<'_, H>, path: &[Step]) -> Vec<Offer> {
    let list = match path.split_last() {
        Some((Step::Item(_), list)) => list,
        _ => path,
    };
    let used = context
        .cursor
        .beside(list, "ref")
        .and_then(|reference| tool(context, reference));
    used.into_iter()
        .flat_map(|tool| tool.exports.iter())
        .map(|export| Offer {
            documentation: Some(export.description.clone()),
            ..Offer::new(export.name.clone(), CompletionItemKind::Function)
        })
        .collect()
}

/// The names of the agent's tools, as a model sees them.
fn tools<H: Host>(context: &Context<'_, H>) -> Vec<Offer> {
    let mut offers = Vec::new();
    for reference in context.cursor.all(&["spec", "tools", "[]", "ref"]) {
        let Some(tool) = tool(context, reference) else {
            continue;
        };
        let name = reference.trim_start_matches("Tool/");
        offers.extend(tool.exports.iter().map(|export| Offer {
            documentation: Some(export.description.clone()),
            ..Offer::new(
                format!("{name}__{}", export.name),
                CompletionItemKind::Function,
            )
        }));
    }
    offers
}

/// The events of the connector that this connection uses.
fn events<H: Host>(context: &Context<'_, H>) -> Vec<Offer> {
    let connector = connector(context);
    let events = connector
        .into_iter()
        .flat_map(|connector| &connector.events);
    events
        .map(|event| Offer::new(event.name.clone(), CompletionItemKind::Event))
        .collect()
}

fn connector<'c, H: Host>(context: &Context<'c, H>) -> Option<&'c goondan_spec::kinds::Connector> {
    let reference = context.cursor.all(&["spec", "connectorRef"]).next()?;
    let name = reference.strip_prefix("Connector/")?;
    let connectors = &context.seen?.outline.connectors;
    connectors
        .values()
        .find(|connector| connector.id.name == name)
        .map(|connector| &connector.spec)
}

/// What the connector of this connection takes at `path`.
pub(super) fn settings<H: Host>(context: &Context<'_, H>, path: &[Step]) -> Vec<Offer> {
    let [Step::Key(spec), Step::Key(map)] = path else {
        return Vec::new();
    };
    if context.cursor.kind != Some(Kind::Connection) || spec != "spec" {
        return Vec::new();
    }
    let manifest =
        connector(context).and_then(|connector| context.host.base().connector(connector));
    let known: &[Setting] = match (manifest, map.as_str()) {
        (Some(manifest), "config") => &manifest.config,
        (Some(manifest), "secrets") => &manifest.secrets,
        _ => &[],
    };
    let offer = |setting: &Setting| Offer {
        text: format!("{}:\n  $0", setting.name),
        ..Offer::new(setting.name, CompletionItemKind::Property)
    };
    known.iter().map(offer).collect()
}

fn variables<H: Host>(context: &Context<'_, H>) -> Vec<Offer> {
    let names = context
        .root
        .map(|root| context.host.variables(root))
        .unwrap_or_default();
    names
        .into_iter()
        .map(|name| Offer::new(name, CompletionItemKind::Variable))
        .collect()
}

/// What `builtin:` may be followed by.
fn built_in_entries<H: Host>(context: &Context<'_, H>, path: &[Step]) -> Vec<Offer> {
    if path.last() != Some(&Step::Key("entry".to_owned())) {
        return Vec::new();
    }
    let base = context.host.base();
    let names: Vec<&str> = match context.cursor.kind {
        Some(Kind::Tool) => base.tools.iter().map(|tool| tool.name.as_str()).collect(),
        Some(Kind::Extension) => base
            .extensions
            .iter()
            .map(|(name, _)| name.as_str())
            .collect(),
        Some(Kind::Connector) => base
            .connectors
            .iter()
            .map(|connector| connector.name.as_str())
            .collect(),
        _ => Vec::new(),
    };
    let offer = |name: &str| Offer::new(format!("builtin:{name}"), CompletionItemKind::Module);
    names.into_iter().map(offer).collect()
}

/// What stands in the folder that the written path has reached.
fn files<H: Host>(context: &Context<'_, H>, path: &[Step], also_files: bool) -> Vec<Offer> {
    let Some(root) = context.root else {
        return Vec::new();
    };
    let cursor = context.cursor;
    let written = cursor.scan.value(cursor.text, path).unwrap_or_default();
    let reached = written.rsplit_once('/').map_or("", |(folder, _)| folder);
    // The project's own folder is as far up as paths lead.
    if Path::new(reached).is_absolute() || reached.split('/').any(|part| part == "..") {
        return Vec::new();
    }
    let folder = if reached.is_empty() {
        root.to_owned()
    } else {
        root.join(reached)
    };
    let mut names = context.files.list(&folder).unwrap_or_default();
    names.sort_by(|a, b| a.0.cmp(&b.0));
    let before = if reached.is_empty() {
        "./".to_owned()
    } else {
        format!("{reached}/")
    };
    let shown = names
        .into_iter()
        .filter(|(name, _)| !name.starts_with('.') && name != "node_modules");
    shown
        .filter_map(|(name, kind)| match kind {
            FileKind::Directory => Some(Offer {
                rank: 2,
                ..Offer::new(format!("{before}{name}/"), CompletionItemKind::Folder)
            }),
            FileKind::File if also_files => Some(Offer {
                rank: 2,
                ..Offer::new(format!("{before}{name}"), CompletionItemKind::File)
            }),
            _ => None,
        })
        .collect()
}
