//! An export: its schema, permissions and formats.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::decode::FieldReader;
use crate::diagnostic_sink::DiagnosticSink;

/// Function that a model may call.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExportSpec {
    /// Name, unique in its tool, without `__`.
    pub name: String,
    /// Description for the model.
    pub description: String,
    /// JSON Schema of the arguments, of type object.
    pub parameters: Value,
    /// Required permissions (rule S1).
    #[serde(default)]
    pub permissions: BTreeSet<Permission>,
    /// Permissions that are used if allowed. No approval is requested for them.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub optional_permissions: BTreeSet<Permission>,
    /// `true` if a call changes nothing.
    #[serde(default)]
    pub read_only: bool,
    /// `true` if a repeated call has no further effect.
    #[serde(default)]
    pub idempotent: bool,
    /// Arguments of a built-in export with a fixed meaning for the policy, independent of
    /// `parameters`.
    #[serde(skip)]
    pub known: MarkedArguments,
}

/// `format` of an argument with a shell command line. A policy checks each command in it (rule S1).
pub const SHELL_COMMAND_FORMAT: &str = "shell-command";

/// `format` of an argument with environment variables of a command. A policy sees each one as
/// `NAME=value`.
pub const SHELL_ENVIRONMENT_FORMAT: &str = "shell-environment";

/// `format` of an argument with the path of a file or directory. A policy compares the resolved
/// path (rule S1).
pub const PATH_FORMAT: &str = "path";

/// `format` of the directory in which a command line runs. It is also a [`PATH_FORMAT`]. Outside
/// the working directory, a policy judges it like `cd` to that directory.
pub const SHELL_DIRECTORY_FORMAT: &str = "shell-folder";

/// `format` of the program that interprets another argument. Only the common shells need no rule
/// that names the program.
pub const PROGRAM_FORMAT: &str = "program";

/// `format` of a directory that is searched recursively. A rule that restricts a path below it also
/// applies to the argument.
pub const PATH_TREE_FORMAT: &str = "path-tree";

/// `format` of a patch for several files. A policy sees each path in it as a
/// [`PATCHED_PATH_ARGUMENT`] argument.
pub const PATCH_FORMAT: &str = "patch";

/// Argument name under which a policy sees each path of a patch.
pub const PATCHED_PATH_ARGUMENT: &str = "path";

/// Names of an export's arguments that have a meaning for the policy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MarkedArguments {
    /// Command lines.
    pub commands: Vec<String>,
    /// Objects of environment variables.
    pub environments: Vec<String>,
    /// Paths and lists of paths.
    pub paths: Vec<String>,
    /// Paths that are working directories of command lines.
    pub folders: Vec<String>,
    /// Programs.
    pub programs: Vec<String>,
    /// Paths of recursively searched directories.
    pub trees: Vec<String>,
    /// Patches.
    pub patches: Vec<String>,
}

impl MarkedArguments {
    /// Adds the argument names of `other` that are not yet in the lists.
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
            let missing_names: Vec<String> = more
                .iter()
                .filter(|name| !names.contains(name))
                .cloned()
                .collect();
            names.extend(missing_names);
        }
    }
}

impl ExportSpec {
    /// Returns the arguments with a meaning by `format` or by [`ExportSpec::known`].
    pub fn marked_arguments(&self) -> MarkedArguments {
        let mut marked = self.marked_by_format();
        marked.add(&self.known);
        marked
    }

    /// Returns the arguments whose schema has a `format` of gdn.
    fn marked_by_format(&self) -> MarkedArguments {
        let properties = self.parameters.get("properties").and_then(Value::as_object);
        let arguments_with = |format: &str| -> Vec<String> {
            let has_format =
                |schema: &Value| schema.get("format").and_then(Value::as_str) == Some(format);
            let is_marked = |schema: &Value| {
                has_format(schema)
                    || (format == PATH_FORMAT && schema.get("items").is_some_and(has_format))
            };
            let marked = properties
                .into_iter()
                .flatten()
                .filter(|(_, schema)| is_marked(schema));
            marked.map(|(name, _)| name.clone()).collect()
        };
        MarkedArguments {
            commands: arguments_with(SHELL_COMMAND_FORMAT),
            environments: arguments_with(SHELL_ENVIRONMENT_FORMAT),
            paths: [
                arguments_with(PATH_FORMAT),
                arguments_with(SHELL_DIRECTORY_FORMAT),
            ]
            .concat(),
            folders: arguments_with(SHELL_DIRECTORY_FORMAT),
            programs: arguments_with(PROGRAM_FORMAT),
            trees: arguments_with(PATH_TREE_FORMAT),
            patches: arguments_with(PATCH_FORMAT),
        }
    }

    /// Returns the parameters for a model, without the formats that only `gdn` defines.
    pub fn model_parameters(&self) -> Value {
        let mut parameters = self.parameters.clone();
        let properties = parameters
            .get_mut("properties")
            .and_then(Value::as_object_mut);
        for schema in properties
            .into_iter()
            .flat_map(|properties| properties.values_mut())
        {
            remove_own_format(schema);
            if let Some(item_schema) = schema.get_mut("items") {
                remove_own_format(item_schema);
            }
        }
        parameters
    }
}

impl ExportSpec {
    /// Returns an export with only a name.
    pub fn named(name: &str) -> Self {
        ExportSpec {
            name: name.to_owned(),
            ..ExportSpec::default()
        }
    }
}

/// Removes a `format` that only gdn defines.
fn remove_own_format(schema: &mut Value) {
    let Some(schema) = schema.as_object_mut() else {
        return;
    };
    if schema
        .get("format")
        .and_then(Value::as_str)
        .is_some_and(is_gdn_format)
    {
        schema.shift_remove("format");
    }
}

/// Returns true if only `gdn` defines this `format`.
pub fn is_gdn_format(format: &str) -> bool {
    matches!(
        format,
        SHELL_COMMAND_FORMAT
            | SHELL_ENVIRONMENT_FORMAT
            | SHELL_DIRECTORY_FORMAT
            | PROGRAM_FORMAT
            | PATH_FORMAT
            | PATH_TREE_FORMAT
            | PATCH_FORMAT
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

pub(super) const PERMISSIONS: [(&str, Permission); 4] = [
    ("read", Permission::Read),
    ("write", Permission::Write),
    ("execute", Permission::Execute),
    ("network", Permission::Network),
];

impl Permission {
    /// Reads a permission; `None`, with an error, if it does not exist.
    pub(super) fn read(
        field: &FieldReader<'_>,
        findings: &mut DiagnosticSink,
    ) -> Option<Permission> {
        field.one_of(&PERMISSIONS, findings)
    }
}

/// Returns the tool name that a model sees (rule T1).
pub(crate) fn qualified_name(tool: &str, export: &str) -> String {
    format!("{tool}__{export}")
}
