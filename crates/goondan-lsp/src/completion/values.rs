//! Completion of values.

use std::path::Path;

use gen_lsp_types::CompletionItemKind;
use goondan_spec::files::FileKind;
use goondan_spec::kinds::{ConnectorSetting, ExportSpec, Tool};
use goondan_spec::{FileAccess, Kind};

use super::{CompletionContext, CompletionOffer};
use crate::LspHost;
use crate::scan::PathStep;
use crate::schema_lookup::SchemaView;

/// Offers values for `path`: words, references, exports, files and variables.
pub(super) fn value_offers<H: LspHost>(
    context: &CompletionContext<'_, H>,
    shape: SchemaView<'_>,
    path: &[PathStep],
) -> Vec<CompletionOffer> {
    let mut offers: Vec<CompletionOffer> = shape
        .values()
        .into_iter()
        .map(|(word, means)| CompletionOffer {
            documentation: means.map(str::to_owned),
            rank: 0,
            ..CompletionOffer::new(word, CompletionItemKind::EnumMember)
        })
        .collect();
    match shape.names() {
        Some("export") => offers.extend(export_offers(context, path)),
        Some("tool") => offers.extend(tool_offers(context)),
        Some("event") => offers.extend(event_offers(context)),
        Some("variable") => offers.extend(variable_offers(context)),
        Some("file") => {
            offers.extend(built_in_entries(context, path));
            offers.extend(file_offers(context, path, true));
        }
        Some("folder") => offers.extend(file_offers(context, path, false)),
        Some(_) => offers.extend(reference_offers(context, shape)),
        None => {}
    }
    if offers.is_empty()
        && let Some(default) = shape.default()
    {
        offers.push(CompletionOffer {
            detail: Some("default".to_owned()),
            ..CompletionOffer::new(
                default
                    .as_str()
                    .map_or_else(|| default.to_string(), str::to_owned),
                CompletionItemKind::Value,
            )
        });
    }
    offers
}

/// Offers the resources that a reference may name.
pub(super) fn reference_offers<H: LspHost>(
    context: &CompletionContext<'_, H>,
    shape: SchemaView<'_>,
) -> Vec<CompletionOffer> {
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
            CompletionOffer {
                detail: Some(detail),
                tool: (kind == Kind::Tool).then(|| definition.id.clone()),
                rank: u8::from(definition.origin.is_none()),
                ..CompletionOffer::new(definition.id.to_string(), CompletionItemKind::Reference)
            }
        })
        .collect()
}

/// Formats the exports of a tool, one per line.
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

/// Returns the first sentence of the first line.
fn first_sentence(text: &str) -> &str {
    let line = text.trim().lines().next().unwrap_or_default();
    line.split_inclusive(". ")
        .next()
        .unwrap_or_default()
        .trim_end()
}

/// Returns the tool that a reference such as `Tool/name` names.
fn referenced_tool<'c, H: LspHost>(
    context: &CompletionContext<'c, H>,
    reference: &str,
) -> Option<&'c Tool> {
    let name = reference.strip_prefix("Tool/")?;
    let tools = &context.seen?.outline.tools;
    tools
        .values()
        .find(|tool| tool.id.name == name)
        .map(|tool| &tool.spec)
}

/// Offers the exports of the tool in the list item of `path`.
fn export_offers<H: LspHost>(
    context: &CompletionContext<'_, H>,
    path: &[PathStep],
) -> Vec<CompletionOffer> {
    let list = match path.split_last() {
        Some((PathStep::Item(_), list)) => list,
        _ => path,
    };
    let used = context
        .cursor
        .sibling_value(list, "ref")
        .and_then(|reference| referenced_tool(context, reference));
    used.into_iter()
        .flat_map(|tool| tool.exports.iter())
        .map(|export| CompletionOffer {
            documentation: Some(export.description.clone()),
            ..CompletionOffer::new(export.name.clone(), CompletionItemKind::Function)
        })
        .collect()
}

/// Offers the names of the agent's tools, as a model sees them.
fn tool_offers<H: LspHost>(context: &CompletionContext<'_, H>) -> Vec<CompletionOffer> {
    let mut offers = Vec::new();
    for reference in context.cursor.field_values(&["spec", "tools", "[]", "ref"]) {
        let Some(tool) = referenced_tool(context, reference) else {
            continue;
        };
        let name = reference.trim_start_matches("Tool/");
        offers.extend(tool.exports.iter().map(|export| CompletionOffer {
            documentation: Some(export.description.clone()),
            ..CompletionOffer::new(
                format!("{name}__{}", export.name),
                CompletionItemKind::Function,
            )
        }));
    }
    offers
}

/// Offers the events of this connection's connector.
fn event_offers<H: LspHost>(context: &CompletionContext<'_, H>) -> Vec<CompletionOffer> {
    let connector = referenced_connector(context);
    let events = connector
        .into_iter()
        .flat_map(|connector| &connector.events);
    events
        .map(|event| CompletionOffer::new(event.name.clone(), CompletionItemKind::Event))
        .collect()
}

/// Returns the Connector that the Connection under the cursor refers to; `None` if it does not
/// exist.
fn referenced_connector<'c, H: LspHost>(
    context: &CompletionContext<'c, H>,
) -> Option<&'c goondan_spec::kinds::Connector> {
    let reference = context
        .cursor
        .field_values(&["spec", "connectorRef"])
        .into_iter()
        .next()?;
    let name = reference.strip_prefix("Connector/")?;
    let connectors = &context.seen?.outline.connectors;
    connectors
        .values()
        .find(|connector| connector.id.name == name)
        .map(|connector| &connector.spec)
}

/// Offers the settings that this connection's connector accepts at `path`.
pub(super) fn setting_offers<H: LspHost>(
    context: &CompletionContext<'_, H>,
    path: &[PathStep],
) -> Vec<CompletionOffer> {
    let [PathStep::Key(spec), PathStep::Key(map)] = path else {
        return Vec::new();
    };
    if context.cursor.kind != Some(Kind::Connection) || spec != "spec" {
        return Vec::new();
    }
    let manifest = referenced_connector(context)
        .and_then(|connector| context.host.base_package().connector(connector));
    let known: &[ConnectorSetting] = match (manifest, map.as_str()) {
        (Some(manifest), "config") => &manifest.config,
        (Some(manifest), "secrets") => &manifest.secrets,
        _ => &[],
    };
    let offer = |setting: &ConnectorSetting| CompletionOffer {
        text: format!("{}:\n  $0", setting.name),
        ..CompletionOffer::new(setting.name, CompletionItemKind::Property)
    };
    known.iter().map(offer).collect()
}

/// Offers the names of the environment variables of the project.
fn variable_offers<H: LspHost>(context: &CompletionContext<'_, H>) -> Vec<CompletionOffer> {
    let names = context
        .root
        .map(|root| context.host.variables(root))
        .unwrap_or_default();
    names
        .into_iter()
        .map(|name| CompletionOffer::new(name, CompletionItemKind::Variable))
        .collect()
}

/// Offers entries after `builtin:`.
fn built_in_entries<H: LspHost>(
    context: &CompletionContext<'_, H>,
    path: &[PathStep],
) -> Vec<CompletionOffer> {
    if path.last() != Some(&PathStep::Key("entry".to_owned())) {
        return Vec::new();
    }
    let base = context.host.base_package();
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
    let offer =
        |name: &str| CompletionOffer::new(format!("builtin:{name}"), CompletionItemKind::Module);
    names.into_iter().map(offer).collect()
}

/// Offers the contents of the directory at the end of the written path.
fn file_offers<H: LspHost>(
    context: &CompletionContext<'_, H>,
    path: &[PathStep],
    also_files: bool,
) -> Vec<CompletionOffer> {
    let Some(root) = context.root else {
        return Vec::new();
    };
    let cursor = context.cursor;
    let written = cursor.scan.value(cursor.text, path).unwrap_or_default();
    let reached = written.rsplit_once('/').map_or("", |(folder, _)| folder);
    // Paths must not leave the project directory.
    if Path::new(reached).is_absolute() || reached.split('/').any(|part| part == "..") {
        return Vec::new();
    }
    let folder = if reached.is_empty() {
        root.to_owned()
    } else {
        root.join(reached)
    };
    let mut names = context.files.list_directory(&folder).unwrap_or_default();
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
            FileKind::Directory => Some(CompletionOffer {
                rank: 2,
                ..CompletionOffer::new(format!("{before}{name}/"), CompletionItemKind::Folder)
            }),
            FileKind::File if also_files => Some(CompletionOffer {
                rank: 2,
                ..CompletionOffer::new(format!("{before}{name}"), CompletionItemKind::File)
            }),
            _ => None,
        })
        .collect()
}
