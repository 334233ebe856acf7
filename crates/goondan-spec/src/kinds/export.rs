//! The exports of a Tool: what an entry says of itself, with what the resource selects and lays over it (rule L9a).

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Scope;
use crate::decode::{Field, Fields};
use crate::diagnostic::Code;
use crate::findings::Findings;
use crate::parameters;
use crate::text::{alternatives, closest, excerpt, list};

/// The longest name that a model is shown (rule L10).
const MAX_QUALIFIED_NAME: usize = 64;

/// One callable export.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExportSpec {
    /// Unique in its tool, without `__`.
    pub name: String,
    /// Shown to the model.
    pub description: String,
    /// A JSON Schema of type object.
    pub parameters: Value,
    /// What it needs (rule S1).
    #[serde(default)]
    pub permissions: BTreeSet<Permission>,
    /// What it makes use of where that is allowed, and does without where it is not. Nobody is asked for it.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub optional_permissions: BTreeSet<Permission>,
    /// It changes nothing.
    #[serde(default)]
    pub read_only: bool,
    /// Running it twice is the same as running it once.
    #[serde(default)]
    pub idempotent: bool,
    /// What its arguments mean whatever `parameters` say, where the export is built in.
    #[serde(skip)]
    pub known: MarkedArguments,
}

/// The `format` of an argument that is a shell command line. A policy takes it to pieces (rule S1).
pub const SHELL_COMMAND: &str = "shell-command";

/// The `format` of an argument that holds environment variables of a command. To a policy each is `NAME=value`.
pub const SHELL_ENVIRONMENT: &str = "shell-environment";

/// The `format` of an argument that is the path of a file or folder. A policy compares what it leads to (rule S1).
pub const PATH: &str = "path";

/// The `format` of an argument that is the folder in which a command line runs. It is a [`PATH`], and outside of the
/// working folder it is judged as `cd` to it would be.
pub const SHELL_FOLDER: &str = "shell-folder";

/// The `format` of an argument that names the program which reads another argument. Other than the ordinary shells, a rule
/// must name it.
pub const PROGRAM: &str = "program";

/// The `format` of an argument that is the path of a folder all of which is looked at. A rule that restricts a path below
/// it is about it, too.
pub const TREE: &str = "path-tree";

/// The `format` of an argument that is a patch of several files. To a policy each path in it is a [`PATCHED`].
pub const PATCH: &str = "patch";

/// The argument that a policy takes each path of a patch for.
pub const PATCHED: &str = "path";

/// The arguments of an export whose meaning a policy knows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MarkedArguments {
    /// Names of command lines.
    pub commands: Vec<String>,
    /// Names of objects of environment variables.
    pub environments: Vec<String>,
    /// Names of paths, and of lists of them.
    pub paths: Vec<String>,
    /// Those of the paths that are folders in which command lines run.
    pub folders: Vec<String>,
    /// Names of programs.
    pub programs: Vec<String>,
    /// Names of paths that stand for all that is below them.
    pub trees: Vec<String>,
    /// Names of patches.
    pub patches: Vec<String>,
}

impl MarkedArguments {
    /// Marks what `other` marks, too.
    fn add(&mut self, other: &MarkedArguments) {
        let lists = [
            (&mut self.commands, &other.commands),
            (&mut self.environments, &other.environments),
            (&mut self.paths, &other.paths),
            (&mut self.folders, &other.folders),
            (&mut self.programs, &other.programs),
            (&mut self.trees, &other.trees),
            (&mut self.patches, &other.patches),
        ];
        for (names, more) in lists {
            let missing: Vec<String> = more
                .iter()
                .filter(|name| !names.contains(name))
                .cloned()
                .collect();
            names.extend(missing);
        }
    }
}

impl ExportSpec {
    /// The arguments whose `format` says what they mean, and those of which that is known anyway.
    pub fn marked_arguments(&self) -> MarkedArguments {
        let mut marked = self.marked_by_format();
        marked.add(&self.known);
        marked
    }

    fn marked_by_format(&self) -> MarkedArguments {
        let properties = self.parameters.get("properties").and_then(Value::as_object);
        let named = |format: &str| -> Vec<String> {
            let has_format =
                |schema: &Value| schema.get("format").and_then(Value::as_str) == Some(format);
            let is_marked = |schema: &Value| {
                has_format(schema)
                    || (format == PATH && schema.get("items").is_some_and(has_format))
            };
            let named = properties
                .into_iter()
                .flatten()
                .filter(|(_, schema)| is_marked(schema));
            named.map(|(name, _)| name.clone()).collect()
        };
        MarkedArguments {
            commands: named(SHELL_COMMAND),
            environments: named(SHELL_ENVIRONMENT),
            paths: [named(PATH), named(SHELL_FOLDER)].concat(),
            folders: named(SHELL_FOLDER),
            programs: named(PROGRAM),
            trees: named(TREE),
            patches: named(PATCH),
        }
    }

    /// The parameters as a model sees them: without the formats that only this program knows.
    pub fn shown_parameters(&self) -> Value {
        let mut parameters = self.parameters.clone();
        let properties = parameters
            .get_mut("properties")
            .and_then(Value::as_object_mut);
        for schema in properties
            .into_iter()
            .flat_map(|properties| properties.values_mut())
        {
            remove_own_format(schema);
            schema
                .get_mut("items")
                .into_iter()
                .for_each(remove_own_format);
        }
        parameters
    }
}

fn remove_own_format(schema: &mut Value) {
    let Some(schema) = schema.as_object_mut() else {
        return;
    };
    if schema
        .get("format")
        .and_then(Value::as_str)
        .is_some_and(is_own_format)
    {
        schema.shift_remove("format");
    }
}

/// Whether a `format` is one of those that only this program knows.
pub fn is_own_format(format: &str) -> bool {
    matches!(
        format,
        SHELL_COMMAND | SHELL_ENVIRONMENT | SHELL_FOLDER | PROGRAM | PATH | TREE | PATCH
    )
}

/// A permission that an export needs.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Permission {
    /// The export reads files.
    Read,
    /// The export writes files.
    Write,
    /// The export runs programs.
    Execute,
    /// The export uses the network.
    Network,
}

const PERMISSIONS: [(&str, Permission); 4] = [
    ("read", Permission::Read),
    ("write", Permission::Write),
    ("execute", Permission::Execute),
    ("network", Permission::Network),
];

impl Permission {
    /// The permission that `field` names.
    pub(super) fn read(field: &Field<'_>, findings: &mut Findings) -> Option<Permission> {
        field.one_of(&PERMISSIONS, findings)
    }
}

/// What an item of `spec.exports` states; what it leaves out is the entry's to say.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ExportOverride {
    /// The export that it selects.
    pub name: String,
    /// Shown to the model instead of the entry's own.
    pub description: Option<String>,
    /// The description comes from a file: `${workspace}`, `${directory}` and `${cwd}` in it are filled in when the swarm
    /// is planned.
    pub description_is_template: bool,
    /// Checked and shown instead of the entry's own.
    pub parameters: Option<Value>,
    /// Instead of the entry's own.
    pub permissions: Option<BTreeSet<Permission>>,
    /// Instead of the entry's own.
    pub optional_permissions: Option<BTreeSet<Permission>>,
    /// Instead of the entry's own.
    pub read_only: Option<bool>,
    /// Instead of the entry's own.
    pub idempotent: Option<bool>,
    /// How long a call may take, instead of the tool's `timeoutMs`.
    pub timeout: Option<Duration>,
}

impl ExportOverride {
    /// `base` with what this states laid over it.
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

    /// The same over an export that is built in. What it needs, and what its arguments mean to a policy, is known, and a project
    /// can't state it away.
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

/// What is known of an entry's own exports.
#[derive(Clone, Copy)]
pub(super) enum Source<'e> {
    /// It is built in.
    Builtin(&'e [ExportSpec]),
    /// It says them.
    Says(&'e [ExportSpec]),
    /// It will, once it is opened.
    SaysLater,
    /// It never does: all has to be stated.
    SaysNothing,
    /// It could not be found.
    Unknown,
}

/// The name that a model sees (rule T1).
pub(crate) fn qualified_name(tool: &str, export: &str) -> String {
    format!("{tool}__{export}")
}

/// The exports, and what is stated of them.
type Chosen = (Vec<ExportSpec>, Vec<ExportOverride>);

/// Reads `spec.exports`, or takes all that the entry says where there is none.
pub(super) fn read_all(
    field: Option<&Field<'_>>,
    source: Source<'_>,
    scope: &Scope<'_>,
    findings: &mut Findings,
) -> Option<Chosen> {
    let Some(field) = field else {
        let (Source::Builtin(own) | Source::Says(own)) = source else {
            return Some((Vec::new(), Vec::new()));
        };
        return Some((own.to_vec(), Vec::new()));
    };
    let mut exports: Chosen = (Vec::new(), Vec::new());
    let mut names = HashSet::new();
    for item in field.filled_list("export", findings)? {
        let Some((stated, name_field)) = read_item(&item, scope, findings) else {
            continue;
        };
        if !names.insert(stated.name.clone()) {
            findings.add(
                name_field.invalid(format!("The export `{}` is declared twice.", stated.name)),
            );
            continue;
        }
        let blank = ExportSpec::named(&stated.name);
        match source {
            Source::Builtin(own) | Source::Says(own) => {
                match own.iter().find(|export| export.name == stated.name) {
                    Some(base) if matches!(source, Source::Builtin(_)) => {
                        check_needs(&item, &stated, base, findings);
                        exports.0.push(stated.apply_to_builtin(base));
                    }
                    Some(base) => exports.0.push(stated.apply(base)),
                    None => unknown(&name_field, &stated.name, own, findings),
                }
            }
            Source::SaysNothing if !is_whole(&item, &stated, findings) => continue,
            Source::SaysLater | Source::SaysNothing | Source::Unknown => {
                exports.0.push(stated.apply(&blank))
            }
        }
        exports.1.push(stated);
    }
    Some(exports)
}

/// Tells of permissions that an export needs and that its item leaves out.
fn check_needs(
    item: &Field<'_>,
    stated: &ExportOverride,
    own: &ExportSpec,
    findings: &mut Findings,
) {
    let Some(permissions) = &stated.permissions else {
        return;
    };
    let missing: Vec<String> = PERMISSIONS
        .iter()
        .filter(|(_, permission)| {
            own.permissions.contains(permission) && !permissions.contains(permission)
        })
        .map(|(name, _)| format!("`{name}`"))
        .collect();
    if missing.is_empty() {
        return;
    }
    let message = format!(
        "The export `{}` needs {}, whatever is stated here.",
        own.name,
        missing.join(" and ")
    );
    let field = item.child("permissions");
    findings.add(
        field
            .as_ref()
            .unwrap_or(item)
            .invalid(message)
            .suggest("add it, or leave `permissions` out"),
    );
}

/// Whether an item states all that a model has to know.
fn is_whole(item: &Field<'_>, stated: &ExportOverride, findings: &mut Findings) -> bool {
    let lacks = [
        ("description", stated.description.is_none()),
        ("parameters", stated.parameters.is_none()),
    ];
    let lacks: Vec<&str> = lacks
        .into_iter()
        .filter(|(_, lacks)| *lacks)
        .map(|(name, _)| name)
        .collect();
    for name in &lacks {
        let message = format!(
            "The export `{}` has no `{name}`, and its entry does not say it.",
            stated.name
        );
        let suggestion = match *name {
            "parameters" => {
                "add it: a JSON Schema such as `parameters: {type: object, properties: {}}`"
            }
            _ => "add it: it tells the model what the export does",
        };
        findings.add(item.invalid(message).suggest(suggestion));
    }
    lacks.is_empty()
}

impl ExportSpec {
    /// An export of which nothing but its name is known.
    pub fn named(name: &str) -> Self {
        ExportSpec {
            name: name.to_owned(),
            ..ExportSpec::default()
        }
    }
}

fn unknown(field: &Field<'_>, name: &str, own: &[ExportSpec], findings: &mut Findings) {
    let names: Vec<&str> = own.iter().map(|export| export.name.as_str()).collect();
    let diagnostic = field.invalid(format!("The tool has no export `{}`.", excerpt(name, 80)));
    findings.add(match closest(name, &names) {
        Some(near) => field.did_you_mean(diagnostic, near),
        None => diagnostic.suggest(format!("it has {}", list(&names, 24))),
    });
}

fn read_item<'n>(
    item: &Field<'n>,
    scope: &Scope<'_>,
    findings: &mut Findings,
) -> Option<(ExportOverride, Field<'n>)> {
    let mut fields = item.fields(findings)?;
    let name_field = fields.required("name", findings);
    let name = name_field
        .as_ref()
        .and_then(|field| read_name(field, &scope.id.name, findings));
    let description_is_template = fields.has("descriptionFile");
    let description = read_description(&mut fields, scope, findings);
    let parameters_field = fields.optional("parameters");
    name_field
        .iter()
        .chain(&parameters_field)
        .for_each(|field| findings.note_place(field));
    let parameters = parameters_field.and_then(|field| parameters::read(&field, findings));
    let permissions = fields
        .optional("permissions")
        .and_then(|field| read_permissions(&field, findings));
    let optional_permissions = fields
        .optional("optionalPermissions")
        .and_then(|field| read_permissions(&field, findings));
    let read_only = fields
        .optional("readOnly")
        .and_then(|field| field.boolean(findings));
    let idempotent = fields
        .optional("idempotent")
        .and_then(|field| field.boolean(findings));
    let timeout = fields
        .optional("timeoutMs")
        .and_then(|field| super::tool::read_timeout(&field, findings));
    fields.finish(findings);
    let stated = ExportOverride {
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
    Some((stated, name_field?))
}

fn read_name(field: &Field<'_>, tool: &str, findings: &mut Findings) -> Option<String> {
    let name = field.text(findings)?;
    let shown = excerpt(name, 80);
    if name.contains("__") {
        let message =
            format!("The export name `{shown}` contains `__`, which separates tool and export.");
        findings.add(
            field
                .invalid(message)
                .suggest(format!("write `{}`", name.replace("__", "_"))),
        );
        return None;
    }
    let plain = name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    if !plain {
        let message = format!("`{shown}` is not a valid export name.");
        findings.add(
            field
                .invalid(message)
                .suggest("use letters, digits, `_` and `-`, and begin with a letter or digit"),
        );
        return None;
    }
    let length = qualified_name(tool, name).len();
    if length > MAX_QUALIFIED_NAME {
        let message = format!(
            "The model would see `{}`, {length} characters long; providers take at most {MAX_QUALIFIED_NAME}.",
            qualified_name(tool, &shown)
        );
        findings.add(
            field
                .problem(Code::TOOL_NAME_TOO_LONG, message)
                .suggest("shorten the tool's or the export's name"),
        );
        return None;
    }
    Some(name.to_owned())
}

fn read_description(
    fields: &mut Fields<'_>,
    scope: &Scope<'_>,
    findings: &mut Findings,
) -> Option<String> {
    let text = fields.optional("description");
    let file = fields.optional("descriptionFile");
    match (text, file) {
        (Some(_), Some(file)) => {
            let message = "An export has `description` or `descriptionFile`, not both.";
            findings.add(file.invalid(message).suggest("keep one of the two"));
            None
        }
        (Some(text), None) => text.text(findings).map(str::to_owned),
        (None, Some(file)) => scope.folder.text_at(&file, findings).map(|(_, text)| text),
        (None, None) => None,
    }
}

fn read_permissions(field: &Field<'_>, findings: &mut Findings) -> Option<BTreeSet<Permission>> {
    Some(
        field
            .list(findings)?
            .iter()
            .filter_map(|item| Permission::read(item, findings))
            .collect(),
    )
}

/// Reads the `exports` of a reference to a tool: names that it must have, as far as they are known.
pub(super) fn read_selection(
    field: &Field<'_>,
    own: &[ExportSpec],
    findings: &mut Findings,
) -> Option<Vec<String>> {
    if field.node.text().is_some() {
        let names: Vec<&str> = own.iter().map(|export| export.name.as_str()).collect();
        let diagnostic = field.invalid(format!(
            "`{}` must be a list of export names, but is text.",
            field.path
        ));
        findings.add(diagnostic.suggest(format!(
            "write a list, such as `[{}]`",
            alternatives(&names[..names.len().min(1)]).trim_matches('`')
        )));
        return None;
    }
    field.filled_list("export name", findings)?;
    let names = field.texts(findings)?;
    for item in &names {
        let name = item.node.text().unwrap_or_default();
        if !own.is_empty() && !own.iter().any(|export| export.name == name) {
            unknown(item, name, own, findings);
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
#[expect(dead_code, reason = "read by the schema generator alone")]
pub(crate) struct ExportShape {
    /// The name of the export, unique in its tool. The model sees `tool__export`.
    #[schemars(regex(pattern = "^[A-Za-z0-9](?:_?[A-Za-z0-9-])*_?$"))]
    name: String,
    /// What the model is told about the export. Without it, the entry's own description is used.
    #[schemars(length(min = 1))]
    description: Option<String>,
    /// The path of a file in the project that holds the description. It excludes `description`. In it, `${workspace}`,
    /// `${directory}` and `${cwd}` are filled in.
    #[schemars(length(min = 1))]
    #[schemars(extend("x-goondan-names" = "file"))]
    description_file: Option<String>,
    /// The arguments, as a JSON Schema of type `object`. Without it, the entry's own schema is used.
    parameters: Option<crate::JsonObject>,
    /// The permissions that a call needs. Without it, those of the entry.
    permissions: Option<BTreeSet<Permission>>,
    /// Permissions that a call uses where they are allowed, and does without where they are not. Nobody is asked for
    /// them. Without it, those of the entry.
    optional_permissions: Option<BTreeSet<Permission>>,
    /// Whether a call changes nothing. Without it, what the entry says.
    read_only: Option<bool>,
    /// Whether calling twice has the same effect as calling once. Without it, what the entry says.
    idempotent: Option<bool>,
    /// How long a call may take, in milliseconds, in place of the tool's own.
    #[schemars(range(min = 1, max = 86_400_000))]
    timeout_ms: Option<u64>,
}
