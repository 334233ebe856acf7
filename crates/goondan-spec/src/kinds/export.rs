//! Exports of a Tool: the entry's description of them, with selection and overrides by the resource
//! (rule L9a).

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use schemars::JsonSchema;
use serde_json::Value;

use super::ResourceScope;
use super::export_spec::{ExportSpec, PERMISSIONS, Permission, qualified_name};
use crate::decode::{FieldReader, MapReader};
use crate::diagnostic::Code;
use crate::diagnostic_sink::DiagnosticSink;
use crate::parameters;
use crate::text::{closest, excerpt, format_alternatives, format_list};

/// Longest tool name that providers accept, in bytes (rule L10).
const MAX_TOOL_NAME_BYTES: usize = 64;

/// Item of `spec.exports`. Omitted fields are taken from the entry.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ExportOverride {
    /// Name of the selected export.
    pub name: String,
    /// Description for the model.
    pub description: Option<String>,
    /// `true` if the description comes from a file. Its `${workspace}`, `${directory}` and `${cwd}`
    /// are replaced when the swarm is planned.
    pub description_is_template: bool,
    /// JSON Schema of the arguments.
    pub parameters: Option<Value>,
    /// Required permissions.
    pub permissions: Option<BTreeSet<Permission>>,
    /// Optional permissions.
    pub optional_permissions: Option<BTreeSet<Permission>>,
    /// Read-only flag.
    pub read_only: Option<bool>,
    /// Idempotence flag.
    pub idempotent: Option<bool>,
    /// Time limit of a call, instead of the tool's `timeoutMs`.
    pub timeout: Option<Duration>,
}

impl ExportOverride {
    /// Returns `base` with the stated fields replaced.
    pub fn apply(&self, base: &ExportSpec) -> ExportSpec {
        ExportSpec {
            name: base.name.clone(),
            description: self
                .description
                .clone()
                .unwrap_or_else(|| base.description.clone()),
            parameters: self
                .parameters
                .clone()
                .unwrap_or_else(|| base.parameters.clone()),
            permissions: self
                .permissions
                .clone()
                .unwrap_or_else(|| base.permissions.clone()),
            optional_permissions: self
                .optional_permissions
                .clone()
                .unwrap_or_else(|| base.optional_permissions.clone()),
            read_only: self.read_only.unwrap_or(base.read_only),
            idempotent: self.idempotent.unwrap_or(base.idempotent),
            known: base.known.clone(),
        }
    }

    /// Applies the override to a built-in export. A project cannot remove its required permissions
    /// or the meaning of its arguments.
    pub fn apply_to_builtin(&self, own: &ExportSpec) -> ExportSpec {
        let mut export = self.apply(own);
        export.permissions.extend(&own.permissions);
        export
            .optional_permissions
            .retain(|optional| !export.permissions.contains(optional));
        export.known = own.marked_arguments();
        export
    }
}

/// Exports that an entry declares.
#[derive(Clone, Copy)]
pub(super) enum DeclaredExports<'e> {
    /// The entry is built in.
    Builtin(&'e [ExportSpec]),
    /// The entry declares them.
    Says(&'e [ExportSpec]),
    /// The entry declares them when it is opened.
    SaysLater,
    /// The entry never declares them, so the resource must state everything.
    SaysNothing,
    /// The entry was not found.
    Unknown,
}

/// Effective exports, and the overrides that were applied.
type EffectiveExports = (Vec<ExportSpec>, Vec<ExportOverride>);

/// Reads `spec.exports`. Without the field, returns all exports of the entry.
pub(super) fn read_all(
    field: Option<&FieldReader<'_>>,
    source: DeclaredExports<'_>,
    scope: &ResourceScope<'_>,
    findings: &mut DiagnosticSink,
) -> Option<EffectiveExports> {
    let Some(field) = field else {
        let (DeclaredExports::Builtin(own) | DeclaredExports::Says(own)) = source else {
            return Some((Vec::new(), Vec::new()));
        };
        return Some((own.to_vec(), Vec::new()));
    };
    let mut exports: EffectiveExports = (Vec::new(), Vec::new());
    let mut names = HashSet::new();
    for item in field.filled_list("export", findings)? {
        let Some((stated, name_field)) = read_item(&item, scope, findings) else {
            continue;
        };
        if !names.insert(stated.name.clone()) {
            findings.add(
                name_field
                    .invalid_value(format!("The export `{}` is declared twice.", stated.name)),
            );
            continue;
        }
        let blank = ExportSpec::named(&stated.name);
        match source {
            DeclaredExports::Builtin(own) | DeclaredExports::Says(own) => {
                match own.iter().find(|export| export.name == stated.name) {
                    Some(base) if matches!(source, DeclaredExports::Builtin(_)) => {
                        check_required_permissions(&item, &stated, base, findings);
                        exports.0.push(stated.apply_to_builtin(base));
                    }
                    Some(base) => exports.0.push(stated.apply(base)),
                    None => report_unknown_export(&name_field, &stated.name, own, findings),
                }
            }
            DeclaredExports::SaysNothing if !is_complete(&item, &stated, findings) => continue,
            DeclaredExports::SaysLater
            | DeclaredExports::SaysNothing
            | DeclaredExports::Unknown => exports.0.push(stated.apply(&blank)),
        }
        exports.1.push(stated);
    }
    Some(exports)
}

/// Reports required permissions that an item omits.
fn check_required_permissions(
    item: &FieldReader<'_>,
    stated: &ExportOverride,
    own: &ExportSpec,
    findings: &mut DiagnosticSink,
) {
    let Some(permissions) = &stated.permissions else {
        return;
    };
    let missing_permissions: Vec<String> = PERMISSIONS
        .iter()
        .filter(|(_, permission)| {
            own.permissions.contains(permission) && !permissions.contains(permission)
        })
        .map(|(name, _)| format!("`{name}`"))
        .collect();
    if missing_permissions.is_empty() {
        return;
    }
    let message = format!(
        "The export `{}` always requires {}; this list cannot leave it out.",
        own.name,
        missing_permissions.join(" and ")
    );
    let field = item.child("requires");
    findings.add(
        field
            .as_ref()
            .unwrap_or(item)
            .invalid_value(message)
            .suggest("add it, or leave `requires` out"),
    );
}

/// Reports missing fields that a model needs, and returns true if there are none.
fn is_complete(
    item: &FieldReader<'_>,
    stated: &ExportOverride,
    findings: &mut DiagnosticSink,
) -> bool {
    let missing_fields = [
        ("description", stated.description.is_none()),
        ("parameters", stated.parameters.is_none()),
    ];
    let missing_fields: Vec<&str> = missing_fields
        .into_iter()
        .filter(|(_, missing_fields)| *missing_fields)
        .map(|(name, _)| name)
        .collect();
    for name in &missing_fields {
        let message = format!(
            "The export `{}` sets no `{name}`, and the entry file of the tool declares none.",
            stated.name
        );
        let suggestion = match *name {
            "parameters" => {
                "add it: a JSON Schema such as `parameters: {type: object, properties: {}}`"
            }
            _ => "add a description of the export for the model",
        };
        findings.add(item.invalid_value(message).suggest(suggestion));
    }
    missing_fields.is_empty()
}

/// Reports an export name that the Tool does not have, with a suggestion.
fn report_unknown_export(
    field: &FieldReader<'_>,
    name: &str,
    own: &[ExportSpec],
    findings: &mut DiagnosticSink,
) {
    let names: Vec<&str> = own.iter().map(|export| export.name.as_str()).collect();
    let diagnostic =
        field.invalid_value(format!("The tool has no export `{}`.", excerpt(name, 80)));
    findings.add(match closest(name, &names) {
        Some(near) => field.did_you_mean(diagnostic, near),
        None => diagnostic.suggest(format!("use {}", format_list(&names, 24))),
    });
}

/// Reads an item of `exports`. Returns its settings and the field of its name, for later errors.
fn read_item<'n>(
    item: &FieldReader<'n>,
    scope: &ResourceScope<'_>,
    findings: &mut DiagnosticSink,
) -> Option<(ExportOverride, FieldReader<'n>)> {
    let mut fields = item.fields(findings)?;
    let name_field = fields.required("name", findings);
    let name = name_field
        .as_ref()
        .and_then(|field| read_name(field, &scope.id.name, findings));
    let description_is_template = fields.has_key("descriptionFile");
    let description = read_description(&mut fields, scope, findings);
    let parameters_field = fields.optional("parameters");
    for field in name_field.iter().chain(&parameters_field) {
        findings.record_position(field);
    }
    let parameters = parameters_field.and_then(|field| parameters::read(&field, findings));
    let permissions = fields
        .optional("requires")
        .and_then(|field| read_permissions(&field, findings));
    let optional_permissions = fields
        .optional("optionallyRequires")
        .and_then(|field| read_permissions(&field, findings));
    let read_only = fields
        .optional("readOnly")
        .and_then(|field| field.boolean(findings));
    let idempotent = fields
        .optional("idempotent")
        .and_then(|field| field.boolean(findings));
    let timeout = fields
        .optional("timeout")
        .and_then(|field| super::call_timeout::read_timeout(&field, findings));
    fields.finish(findings);
    let overrides = ExportOverride {
        name: name?,
        description,
        description_is_template,
        parameters,
        permissions,
        optional_permissions,
        read_only,
        idempotent,
        timeout: timeout.map(Duration::from_millis),
    };
    Some((overrides, name_field?))
}

/// Reads the name of an export; `None`, with an error, if it is not valid with the name of the
/// Tool.
fn read_name(field: &FieldReader<'_>, tool: &str, findings: &mut DiagnosticSink) -> Option<String> {
    let name = field.text(findings)?;
    let name_excerpt = excerpt(name, 80);
    if name.contains("__") {
        let message = format!(
            "The export name `{name_excerpt}` contains `__`, which separates tool and export."
        );
        findings.add(
            field
                .invalid_value(message)
                .suggest(format!("write `{}`", name.replace("__", "_"))),
        );
        return None;
    }
    let plain = name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    if !plain {
        let message = format!("`{name_excerpt}` is not a valid export name.");
        findings.add(
            field
                .invalid_value(message)
                .suggest("use letters, digits, `_` and `-`, and begin with a letter or digit"),
        );
        return None;
    }
    let length = qualified_name(tool, name).len();
    if length > MAX_TOOL_NAME_BYTES {
        let message = format!(
            "The model would see `{}`, which is {length} characters long; providers accept at \
            most {MAX_TOOL_NAME_BYTES}.",
            qualified_name(tool, &name_excerpt)
        );
        findings.add(
            field
                .diagnostic(Code::TOOL_NAME_TOO_LONG, message)
                .suggest("shorten the tool's or the export's name"),
        );
        return None;
    }
    Some(name.to_owned())
}

/// Reads `description` or `descriptionFile`.
fn read_description(
    fields: &mut MapReader<'_>,
    scope: &ResourceScope<'_>,
    findings: &mut DiagnosticSink,
) -> Option<String> {
    let text = fields.optional("description");
    let file = fields.optional("descriptionFile");
    match (text, file) {
        (Some(_), Some(file)) => {
            let message = "An export has `description` or `descriptionFile`, not both.";
            findings.add(file.invalid_value(message).suggest("keep one of the two"));
            None
        }
        (Some(text), None) => text.text(findings).map(str::to_owned),
        (None, Some(file)) => scope.folder.text_at(&file, findings).map(|(_, text)| text),
        (None, None) => None,
    }
}

/// Reads a list of permissions.
fn read_permissions(
    field: &FieldReader<'_>,
    findings: &mut DiagnosticSink,
) -> Option<BTreeSet<Permission>> {
    Some(
        field
            .list(findings)?
            .iter()
            .filter_map(|item| Permission::read(item, findings))
            .collect(),
    )
}

/// Reads the `exports` of a tool reference. Names are checked if the tool's exports are known.
pub(super) fn read_selection(
    field: &FieldReader<'_>,
    own: &[ExportSpec],
    findings: &mut DiagnosticSink,
) -> Option<Vec<String>> {
    if field.node.text().is_some() {
        let names: Vec<&str> = own.iter().map(|export| export.name.as_str()).collect();
        let diagnostic = field.invalid_value(format!(
            "`{}` must be a list of export names, but is a string.",
            field.path
        ));
        findings.add(diagnostic.suggest(format!(
            "write a list, such as `[{}]`",
            format_alternatives(&names[..names.len().min(1)]).trim_matches('`')
        )));
        return None;
    }
    field.filled_list("export name", findings)?;
    let names = field.unique_strings(findings)?;
    for item in &names {
        let name = item.node.text().unwrap_or_default();
        if !own.is_empty() && !own.iter().any(|export| export.name == name) {
            report_unknown_export(item, name, own, findings);
        }
    }
    Some(
        names
            .iter()
            .filter_map(|item| item.node.text())
            .map(str::to_owned)
            .collect(),
    )
}

/// An export, selected by its name.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Export")]
#[expect(dead_code, reason = "read only by the schema generator")]
pub(crate) struct ExportShape {
    /// The name of the export, unique in its tool. The model sees `tool__export`.
    #[schemars(regex(pattern = "^[A-Za-z0-9](?:_?[A-Za-z0-9-])*_?$"))]
    name: String,
    /// The description for the model. Without it, the entry's own description.
    #[schemars(length(min = 1))]
    description: Option<String>,
    /// The path of a project file with the description. It excludes `description`. `${workspace}`,
    /// `${directory}` and `${cwd}` in it are replaced.
    #[schemars(length(min = 1))]
    #[schemars(extend("x-goondan-names" = "file"))]
    description_file: Option<String>,
    /// The arguments, as a JSON Schema of type `object`. Without it, the entry's own schema.
    parameters: Option<crate::JsonObject>,
    /// The permissions that a call needs. Without it, those of the entry.
    permissions: Option<BTreeSet<Permission>>,
    /// Permissions that a call uses if they are allowed. `gdn` requests no approval for them.
    /// Without it, those of the entry.
    optional_permissions: Option<BTreeSet<Permission>>,
    /// Declares that a call changes nothing. Without it, the entry's own value.
    read_only: Option<bool>,
    /// Declares that a repeated call has no further effect. Without it, the entry's own value.
    idempotent: Option<bool>,
    /// The time limit of a call, in milliseconds, instead of the tool's.
    #[schemars(range(min = 1, max = 86_400_000))]
    timeout_ms: Option<u64>,
}
