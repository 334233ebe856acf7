//! Fields with two names: one table, which is applied to a document before it is decoded.
//!
//! Decoders, schemas, `--fix` and the reference page all use this table, so a decoder reads each
//! field under one name only.

mod quantity;
mod reading;
mod schema;

pub(crate) use reading::{FieldNameFindings, rename_fields};
pub(crate) use schema::add_names;

use crate::meta::Kind;
use crate::node::{MapEntry, NodeContent, YamlNode};
pub(crate) use quantity::ValueUnit;

/// Field with two names.
pub(crate) struct FieldName {
    kind: Kind,
    /// Path of the map that contains the field. `[]` marks the items of a list.
    map: &'static str,
    /// Name in examples and completions.
    name: &'static str,
    /// Other accepted name.
    other: &'static str,
    /// Unit of the number under `other`. Under `name`, the value states its unit.
    unit: ValueUnit,
    standing: NameStanding,
}

/// Relation of the two names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NameStanding {
    /// `name` replaced `other`, which stays valid. Decoders read `name`.
    Renamed,
    /// Renamed field of a `config`. Its tool or connector still gets it under `other`.
    RenamedInConfig,
    /// Both names are current. Decoders read `other`.
    Additional,
}

impl FieldName {
    /// Creates a renamed field with the same values.
    const fn renamed(
        kind: Kind,
        map: &'static str,
        name: &'static str,
        other: &'static str,
    ) -> Self {
        FieldName {
            kind,
            map,
            name,
            other,
            unit: ValueUnit::None,
            standing: NameStanding::Renamed,
        }
    }

    /// Sets the unit of the number under the other name.
    const fn with_unit(self, unit: ValueUnit) -> Self {
        FieldName { unit, ..self }
    }

    /// Sets the relation of the two names.
    const fn with_standing(self, standing: NameStanding) -> Self {
        FieldName { standing, ..self }
    }

    /// Returns the name under which the field is read.
    fn read_name(&self) -> &'static str {
        match self.standing {
            NameStanding::Renamed => self.name,
            NameStanding::RenamedInConfig | NameStanding::Additional => self.other,
        }
    }

    /// Returns true if the rename applies to a field of this document with this value.
    fn applies_to(&self, document: &YamlNode, value: &YamlNode) -> bool {
        match (self.standing, self.name) {
            (NameStanding::RenamedInConfig, "pollTimeout") => uses_telegram(document),
            (NameStanding::RenamedInConfig, "resources") => {
                configures_process(document) && names_resources(value)
            }
            (NameStanding::RenamedInConfig, _) => configures_process(document),
            _ => true,
        }
    }
}

use NameStanding::{Additional, RenamedInConfig};
use ValueUnit::{FractionalSeconds, Mebibytes, Milliseconds, Seconds};

/// All fields with two names. The row of a map comes before the rows of its fields.
const FIELD_NAMES: &[FieldName] = &[
    FieldName::renamed(Kind::Model, "spec", "rateLimits", "limits"),
    FieldName::renamed(Kind::Model, "spec.options", "timeout", "timeoutSeconds")
        .with_unit(FractionalSeconds),
    FieldName::renamed(
        Kind::Model,
        "spec.options",
        "totalTimeout",
        "totalTimeoutSeconds",
    )
    .with_unit(FractionalSeconds),
    FieldName::renamed(
        Kind::Model,
        "spec.options",
        "maxRetryWait",
        "maxRetryWaitMs",
    )
    .with_unit(Milliseconds),
    FieldName::renamed(Kind::Model, "spec.pricing", "inputPerMillion", "input"),
    FieldName::renamed(
        Kind::Model,
        "spec.pricing",
        "cachedInputPerMillion",
        "cachedInput",
    ),
    FieldName::renamed(
        Kind::Model,
        "spec.pricing",
        "cacheWritePerMillion",
        "cacheWrite",
    ),
    FieldName::renamed(Kind::Model, "spec.pricing", "outputPerMillion", "output"),
    FieldName::renamed(Kind::Agent, "spec.output", "schemaFile", "schemaRef"),
    FieldName::renamed(Kind::Agent, "spec.prompt", "systemFile", "systemRef")
        .with_standing(Additional),
    FieldName::renamed(
        Kind::Agent,
        "spec.permissions.rules[]",
        "requires",
        "permission",
    ),
    FieldName::renamed(Kind::Swarm, "spec", "rateLimits", "limits"),
    FieldName::renamed(Kind::Swarm, "spec.policy", "runBudget", "budget"),
    FieldName::renamed(Kind::Swarm, "spec.policy", "untrustedSources", "untrusted"),
    FieldName::renamed(
        Kind::Swarm,
        "spec.policy.runBudget",
        "maxDuration",
        "maxDurationSeconds",
    )
    .with_unit(Seconds),
    FieldName::renamed(
        Kind::Swarm,
        "spec.policy.turnBudget",
        "maxDuration",
        "maxDurationSeconds",
    )
    .with_unit(Seconds),
    FieldName::renamed(Kind::Swarm, "spec.policy.lifecycle", "ttl", "ttlSeconds")
        .with_unit(Seconds)
        .with_standing(Additional),
    FieldName::renamed(
        Kind::Swarm,
        "spec.policy.lifecycle",
        "gcGrace",
        "gcGraceSeconds",
    )
    .with_unit(Seconds)
    .with_standing(Additional),
    FieldName::renamed(
        Kind::Swarm,
        "spec.policy.shutdown",
        "gracePeriod",
        "gracePeriodSeconds",
    )
    .with_unit(Seconds)
    .with_standing(Additional),
    FieldName::renamed(Kind::Tool, "spec", "timeout", "timeoutMs").with_unit(Milliseconds),
    FieldName::renamed(Kind::Tool, "spec.exports[]", "requires", "permissions"),
    FieldName::renamed(
        Kind::Tool,
        "spec.exports[]",
        "optionallyRequires",
        "optionalPermissions",
    ),
    FieldName::renamed(Kind::Tool, "spec.exports[]", "timeout", "timeoutMs")
        .with_unit(Milliseconds),
    FieldName::renamed(Kind::Tool, "spec.mcp", "connectTimeout", "connectTimeoutMs")
        .with_unit(Milliseconds),
    FieldName::renamed(Kind::Tool, "spec.build", "timeout", "timeoutMs").with_unit(Milliseconds),
    FieldName::renamed(Kind::Tool, "spec.config", "resources", "limits")
        .with_standing(RenamedInConfig),
    FieldName::renamed(Kind::Tool, "spec.config.limits", "cpuTime", "cpuSeconds")
        .with_unit(Seconds)
        .with_standing(RenamedInConfig),
    FieldName::renamed(Kind::Tool, "spec.config.limits", "memory", "memoryMib")
        .with_unit(Mebibytes)
        .with_standing(RenamedInConfig),
    FieldName::renamed(Kind::Tool, "spec.config.limits", "fileSize", "fileSizeMib")
        .with_unit(Mebibytes)
        .with_standing(RenamedInConfig),
    FieldName::renamed(Kind::Extension, "spec", "timeout", "timeoutMs").with_unit(Milliseconds),
    FieldName::renamed(Kind::Extension, "spec.build", "timeout", "timeoutMs")
        .with_unit(Milliseconds),
    FieldName::renamed(Kind::Extension, "spec.config", "resources", "limits")
        .with_standing(RenamedInConfig),
    FieldName::renamed(
        Kind::Extension,
        "spec.config.limits",
        "cpuTime",
        "cpuSeconds",
    )
    .with_unit(Seconds)
    .with_standing(RenamedInConfig),
    FieldName::renamed(Kind::Extension, "spec.config.limits", "memory", "memoryMib")
        .with_unit(Mebibytes)
        .with_standing(RenamedInConfig),
    FieldName::renamed(
        Kind::Extension,
        "spec.config.limits",
        "fileSize",
        "fileSizeMib",
    )
    .with_unit(Mebibytes)
    .with_standing(RenamedInConfig),
    FieldName::renamed(Kind::Connector, "spec", "replies", "answers"),
    FieldName::renamed(Kind::Connector, "spec.build", "timeout", "timeoutMs")
        .with_unit(Milliseconds),
    FieldName::renamed(
        Kind::Connection,
        "spec.config",
        "pollTimeout",
        "pollTimeoutSeconds",
    )
    .with_unit(Seconds)
    .with_standing(RenamedInConfig),
];

/// Names of process limits in `config`, under both spellings.
const RESOURCE_NAMES: [&str; 7] = [
    "cpuTime",
    "cpuSeconds",
    "memory",
    "memoryMib",
    "fileSize",
    "fileSizeMib",
    "processes",
];
/// File extensions of entries that run in a process of their own.
const SCRIPT_EXTENSIONS: [&str; 7] = [".js", ".mjs", ".cjs", ".ts", ".mts", ".cts", ".py"];

/// Field with an older name, for the reference page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenamedField {
    /// Kind of the resource.
    pub kind: Kind,
    /// Path of the map around the field.
    pub map: String,
    /// Current name.
    pub name: &'static str,
    /// Older name, which is still accepted.
    pub older: &'static str,
    /// Example of a value under the current name, if its form differs.
    pub example: Option<&'static str>,
}

/// Returns all fields with an older name.
pub fn renamed_fields() -> Vec<RenamedField> {
    let renamed = FIELD_NAMES
        .iter()
        .filter(|row| row.standing != NameStanding::Additional);
    renamed
        .map(|row| RenamedField {
            kind: row.kind,
            map: row.map.replace(".config.limits", ".config.resources"),
            name: row.name,
            older: row.other,
            example: row.unit.example(),
        })
        .collect()
}

/// Returns the current name of a field, and its value if the current name takes another unit.
pub(crate) fn current_form(kind: Kind, map: &str, entry: &MapEntry) -> (String, Option<String>) {
    let is_row =
        |row: &&FieldName| row.kind == kind && row.map == map && row.read_name() == entry.key;
    match FIELD_NAMES.iter().find(is_row) {
        // The code behind a tool reads `config` under the older names.
        Some(row) if row.standing == NameStanding::Renamed => {
            (row.name.to_owned(), row.unit.format(&entry.value.content))
        }
        _ => (entry.key.clone(), None),
    }
}

/// Returns the older names of those fields of a map that decoders know as `names`, with the current
/// names.
pub(crate) fn older_names(
    names: &[&'static str],
) -> impl Iterator<Item = (&'static str, &'static str)> {
    FIELD_NAMES
        .iter()
        .filter(|row| row.standing == NameStanding::Renamed && names.contains(&row.name))
        .map(|row| (row.other, row.name))
}

/// Returns the kind of a document, if it is known.
fn kind_of(document: &YamlNode) -> Option<Kind> {
    Kind::parse(document.entry("kind")?.value.text()?)
}

/// Returns the text of a field of `spec`.
fn spec_text<'n>(document: &'n YamlNode, field: &str) -> Option<&'n str> {
    document.entry("spec")?.value.entry(field)?.value.text()
}

/// Returns true if the Connection uses the built-in Telegram connector.
fn uses_telegram(document: &YamlNode) -> bool {
    let connector = spec_text(document, "connectorRef");
    matches!(connector, Some("telegram" | "Connector/telegram"))
}

/// Returns true if `config` of the document can set limits of a process. A library defines all of its
/// `config`, so its fields are never renamed.
fn configures_process(document: &YamlNode) -> bool {
    spec_text(document, "entry").is_some_and(|entry| {
        let is_script = SCRIPT_EXTENSIONS
            .iter()
            .any(|extension| entry.ends_with(extension));
        entry.starts_with("builtin:") || is_script
    })
}

/// Returns true if the value is a map of process limits only.
fn names_resources(value: &YamlNode) -> bool {
    match &value.content {
        NodeContent::Map(entries) => entries
            .iter()
            .all(|entry| RESOURCE_NAMES.contains(&entry.key.as_str())),
        _ => false,
    }
}
