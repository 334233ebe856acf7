//! Planning errors with their positions in the project.

use goondan_core::ports::model::{ModelError, ModelErrorKind};
use goondan_core::ports::tool::{EntryOpenError, ToolSet};
use goondan_spec::diagnostic::SourcePosition;
use goondan_spec::kinds::{Model, Tool, ToolEntry};
use goondan_spec::{Bundle, Code, Diagnostic, Resource, ResourceId};

/// Returns the diagnostic for an export that the tool's entry does not have.
pub(super) fn missing_export_diagnostic(
    bundle: &Bundle,
    tool: &Resource<Tool>,
    set: &ToolSet,
    name: &str,
) -> Diagnostic {
    let names = set
        .exports
        .iter()
        .map(|(export, _)| export.name.as_str())
        .collect::<Vec<_>>()
        .join(", ");
    // A server's exports can change without a change to the project.
    let (code, owner) = match &tool.spec.entry {
        ToolEntry::Mcp(_) => (Code::MCP_CATALOG, "MCP server"),
        ToolEntry::A2a(_) => (Code::SCHEMA_INVALID, "A2A agent"),
        ToolEntry::Builtin(_)
        | ToolEntry::Library(_)
        | ToolEntry::Executable(_)
        | ToolEntry::Embedded
        | ToolEntry::Module(_) => (Code::SCHEMA_INVALID, "entry"),
    };
    let message = format!("the {owner} of {} has no export `{name}`", tool.id);
    let diagnostic = if names.is_empty() {
        Diagnostic::new(code, message)
    } else {
        Diagnostic::new(code, message).suggest(format!("its exports are: {names}"))
    };
    at_tool(bundle, diagnostic, tool, export_field(tool, name))
}

/// Returns the path of the `name` field that selects an export in `spec.exports`.
fn export_field(tool: &Resource<Tool>, name: &str) -> String {
    let index = tool
        .spec
        .overrides
        .iter()
        .position(|stated| stated.name == name);
    index.map_or_else(
        || "spec.exports".to_owned(),
        |index| format!("spec.exports[{index}].name"),
    )
}

/// Returns the diagnostic for a tool that cannot be opened.
pub(super) fn tool_problem(
    bundle: &Bundle,
    tool: &Resource<Tool>,
    error: &EntryOpenError,
) -> Diagnostic {
    let (code, field) = match &error.export {
        Some(export) => (Code::SCHEMA_INVALID, export_field(tool, export)),
        None if matches!(tool.spec.entry, ToolEntry::Mcp(_)) => {
            (Code::SCHEMA_INVALID, "spec.mcp".to_owned())
        }
        None if matches!(tool.spec.entry, ToolEntry::A2a(_)) => {
            (Code::SCHEMA_INVALID, "spec.a2a".to_owned())
        }
        None => (Code::ENTRY_NOT_FOUND, "spec.entry".to_owned()),
    };
    let code = error.code.unwrap_or(code);
    let mut diagnostic = Diagnostic::new(code, error.to_string());
    diagnostic.suggestion.clone_from(&error.suggestion);
    at_tool(bundle, diagnostic, tool, field)
}

/// Returns the diagnostic for a model that cannot be used.
pub(super) fn model_problem(
    bundle: &Bundle,
    model: &Resource<Model>,
    error: &ModelError,
) -> Diagnostic {
    let code = match error.kind {
        ModelErrorKind::NoKey => Code::ENV_MISSING,
        _ => Code::SCHEMA_INVALID,
    };
    let mut diagnostic = Diagnostic::new(code, format!("{}.", error.message.trim_end_matches('.')));
    diagnostic.suggestion.clone_from(&error.suggestion);
    error.locate(
        point_at(diagnostic, &model.id, model.origin.as_ref(), "spec"),
        bundle,
        &model.id,
    )
}

/// Points `diagnostic` at a field of a tool, or at the tool's name if the field's position is
/// unknown.
pub(super) fn at_tool(
    bundle: &Bundle,
    diagnostic: Diagnostic,
    tool: &Resource<Tool>,
    field: String,
) -> Diagnostic {
    let mut diagnostic = point_at(diagnostic, &tool.id, tool.origin.as_ref(), &field);
    diagnostic.position = bundle.place(&tool.id, &field).or(diagnostic.position);
    diagnostic
}

/// Points `diagnostic` at a field of a resource.
pub(crate) fn point_at(
    mut diagnostic: Diagnostic,
    id: &ResourceId,
    origin: Option<&(String, SourcePosition)>,
    field: &str,
) -> Diagnostic {
    diagnostic.resource = Some(id.to_string());
    diagnostic.field = Some(field.to_owned());
    if let Some((file, position)) = origin {
        diagnostic.file = Some(file.clone());
        diagnostic.position = Some(*position);
    }
    diagnostic
}
