//! Replaces both names of a field by the one that its decoder reads.

use crate::diagnostic::{Code, Diagnostic, Severity};
use crate::field_names::quantity::ValueUnit;
use crate::field_names::{FIELD_NAMES, FieldName, NameStanding, kind_of};
use crate::fix::Fix;
use crate::node::{MapEntry, NodeContent, YamlNode};
use crate::text::excerpt;

/// Longest part of a value that a message shows, in characters.
const MAX_SHOWN_CHARS: usize = 60;

/// Findings about the field names of documents.
#[derive(Debug, Default)]
pub(crate) struct FieldNameFindings {
    /// Fields under two names, and values without a unit.
    pub(crate) errors: Vec<Diagnostic>,
    /// Fields under an older name, with the fixes that rename them. They are not reported.
    pub(crate) renames: Vec<Diagnostic>,
}

/// Renames the fields of a document to the names that decoders expect. Positions do not change. Each
/// entry keeps its original name for messages.
pub(crate) fn rename_fields(document: &mut YamlNode, findings: &mut FieldNameFindings) {
    let Some(kind) = kind_of(document) else {
        return;
    };
    let resource = document
        .entry("metadata")
        .and_then(|entry| entry.value.entry("name")?.value.text())
        .map(|name| format!("{kind}/{}", excerpt(name, MAX_SHOWN_CHARS)));
    for row in FIELD_NAMES.iter().filter(|row| row.kind == kind) {
        let is_meant = does_row_apply(row, document);
        let field_path: Vec<&str> = row.map.split('.').collect();
        let mut found = FieldNameFindings::default();
        if is_meant {
            visit_maps(document, &field_path, "", &mut |entries, path| {
                row.read(entries, path, &mut found);
            });
        }
        let about = |diagnostic: Diagnostic| match &resource {
            Some(resource) => diagnostic.of(resource),
            None => diagnostic,
        };
        findings.errors.extend(found.errors.into_iter().map(about));
        findings
            .renames
            .extend(found.renames.into_iter().map(about));
    }
}

/// Returns true if a rename applies to the document. A rename in `config` applies only to the tools
/// and connectors that read the field.
fn does_row_apply(row: &FieldName, document: &YamlNode) -> bool {
    if row.standing != NameStanding::RenamedInConfig {
        return true;
    }
    let config = row.map.split('.').try_fold(document, |node, step| {
        node.entry(step).map(|entry| &entry.value)
    });
    config.is_some_and(|config| {
        [row.name, row.other]
            .iter()
            .filter_map(|name| config.entry(name))
            .any(|entry| row.applies_to(document, &entry.value))
    })
}

/// Calls `work` with the entries of each map at `way`, and with the path of the map in the file.
fn visit_maps(
    node: &mut YamlNode,
    way: &[&str],
    path: &str,
    work: &mut dyn FnMut(&mut Vec<MapEntry>, &str),
) {
    let NodeContent::Map(entries) = &mut node.content else {
        return;
    };
    let Some((step, rest)) = way.split_first() else {
        return work(entries, path);
    };
    let name = step.trim_end_matches("[]");
    let Some(entry) = entries.iter_mut().find(|entry| entry.key == name) else {
        return;
    };
    let path = join(path, entry.display_key());
    match &mut entry.value.content {
        NodeContent::List(items) if name != *step => {
            for (index, item) in items.iter_mut().enumerate() {
                visit_maps(item, rest, &format!("{path}[{index}]"), work);
            }
        }
        NodeContent::Map(_) if name == *step => visit_maps(&mut entry.value, rest, &path, work),
        _ => {}
    }
}

impl FieldName {
    /// Reads the field in a map under either name.
    fn read(&self, entries: &mut Vec<MapEntry>, path: &str, findings: &mut FieldNameFindings) {
        let position = |name: &str| entries.iter().position(|entry| entry.key == name);
        match (position(self.name), position(self.other)) {
            (None, None) => {}
            (None, Some(other)) => self.read_other(&mut entries[other], path, findings),
            (Some(name), None) => self.read_current(&mut entries[name], path, findings),
            (Some(name), Some(other)) => {
                findings
                    .errors
                    .push(self.both_names_error(&entries[other], path));
                self.read_current(&mut entries[name], path, findings);
                entries.remove(other);
            }
        }
    }

    /// Creates the error for a field that is present under both names.
    fn both_names_error(&self, other: &MapEntry, path: &str) -> Diagnostic {
        let (first, second) = (join(path, self.other), self.name);
        let message = format!("`{first}` and `{second}` are the same field.");
        Diagnostic::new(Code::SCHEMA_INVALID, message)
            .at(other.key_at)
            .field(first)
            .suggest(format!("keep only `{second}`"))
    }

    /// Reads the field under its other name.
    fn read_other(&self, entry: &mut MapEntry, path: &str, findings: &mut FieldNameFindings) {
        if self.standing == NameStanding::Additional {
            return;
        }
        findings.renames.extend(self.rename(entry, path));
        if self.standing == NameStanding::Renamed {
            entry.rename(self.name);
        }
    }

    /// Returns the fix that writes the current name, and the value in its form there.
    fn rename(&self, entry: &MapEntry, path: &str) -> Option<Diagnostic> {
        let mut fix = Fix::replace(entry.key_at, self.name);
        if self.unit != ValueUnit::None {
            let value = self.unit.format(&entry.value.content)?;
            // The value of a YAML alias is somewhere else.
            if entry.value.at.start < entry.key_at.end {
                return None;
            }
            fix.title = format!("Change to `{}: {value}`", self.name);
            fix.edits
                .extend(Fix::replace_raw(entry.value.at, &value).edits);
        }
        let path = join(path, self.other);
        let message = format!("`{path}` is the older name of `{}`.", self.name);
        let mut diagnostic = Diagnostic::new(Code::SCHEMA_INVALID, message)
            .at(entry.key_at)
            .field(path)
            .fix(fix);
        diagnostic.severity = Severity::Warning;
        Some(diagnostic)
    }

    /// Reads the field under its current name, and converts a value with a unit to a number.
    fn read_current(&self, entry: &mut MapEntry, path: &str, findings: &mut FieldNameFindings) {
        if self.unit != ValueUnit::None {
            self.convert_value(entry, path, findings);
        }
        if self.read_name() != entry.key {
            entry.rename(self.read_name());
        }
    }

    /// Converts a value with a unit to a number in the unit of the other name.
    fn convert_value(&self, entry: &mut MapEntry, path: &str, findings: &mut FieldNameFindings) {
        let is_looked_up = self.standing == NameStanding::RenamedInConfig
            && matches!(entry.value.content, NodeContent::Map(_));
        if is_looked_up || entry.value.content == NodeContent::Null {
            return;
        }
        let number = entry.value.text().and_then(|text| self.unit.parse(text));
        if let Some(number) = number {
            entry.value.content = NodeContent::Number(number);
            return;
        }
        let converted = match &entry.value.content {
            NodeContent::Number(number) => format!("{number}, without a unit"),
            NodeContent::Text(text) => format!("`{}`", excerpt(text, MAX_SHOWN_CHARS)),
            _ => entry.value.type_phrase().to_owned(),
        };
        let path = join(path, self.name);
        let description = self.unit.description();
        let message = format!("`{path}` must be {description}, but is {converted}.");
        let diagnostic = Diagnostic::new(Code::SCHEMA_INVALID, message)
            .at(entry.value.at)
            .field(path);
        findings.errors.push(match &entry.value.content {
            NodeContent::Number(number) => diagnostic.suggest(match self.unit {
                ValueUnit::Mebibytes => format!("write `{number}MiB`"),
                _ => {
                    format!("add the unit: `{number}s` for seconds, `{number}ms` for milliseconds")
                }
            }),
            _ => diagnostic,
        });
        entry.value.content = NodeContent::Null;
    }
}

/// Returns the path of a field.
fn join(parent: &str, name: &str) -> String {
    match parent {
        "" => name.to_owned(),
        parent => format!("{parent}.{name}"),
    }
}
