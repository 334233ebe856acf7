//! Writes the resources of a project as YAML, with all short forms written out.

use crate::field_names;
use crate::fix::scalar;
use crate::meta::{API_VERSION, Kind};
use crate::node::{MapEntry, NodeContent, YamlNode};

/// Text in place of a secret.
const MASK: &str = "\"********\"";

/// Document to write.
pub(crate) struct WrittenDocument<'n> {
    pub(crate) kind: Kind,
    /// Everything except `apiVersion`, `kind` and `spec`, in order.
    pub(crate) metadata: Vec<(&'static str, Vec<(String, String)>)>,
    pub(crate) name: &'n str,
    pub(crate) spec: Option<&'n YamlNode>,
}

/// Writes documents. `is_secret` returns true if the value at a byte offset must be masked.
pub(crate) fn write(document: &WrittenDocument<'_>, is_secret: &dyn Fn(usize) -> bool) -> String {
    let kind = document.kind;
    let name = scalar(document.name);
    let mut text = format!("apiVersion: {API_VERSION}\nkind: {kind}\nmetadata:\n  name: {name}\n");
    for (field, values) in &document.metadata {
        if !values.is_empty() {
            text.push_str(&format!("  {field}:\n"));
            for (key, value) in values {
                text.push_str(&format!("    {}: {}\n", scalar(key), scalar(value)));
            }
        }
    }
    if let Some(spec) = document.spec {
        let writer = SpecWriter { kind, is_secret };
        text.push_str("spec:");
        writer.write_value(spec, "spec", 1, &mut text);
    }
    text
}

struct SpecWriter<'w> {
    kind: Kind,
    is_secret: &'w dyn Fn(usize) -> bool,
}

impl SpecWriter<'_> {
    /// Writes a value after its key or its hyphen. `path` names the value in the table of names.
    fn write_value(&self, node: &YamlNode, path: &str, depth: usize, text: &mut String) {
        match &node.content {
            NodeContent::Map(entries) if !entries.is_empty() => {
                text.push('\n');
                for entry in entries {
                    text.push_str(&"  ".repeat(depth));
                    self.write_entry(entry, path, depth, text);
                }
            }
            NodeContent::List(items) if !items.is_empty() => {
                text.push('\n');
                for item in items {
                    text.push_str(&"  ".repeat(depth));
                    text.push('-');
                    self.write_item(item, &format!("{path}[]"), depth + 1, text);
                }
            }
            _ => {
                text.push(' ');
                text.push_str(&self.format_scalar(node));
                text.push('\n');
            }
        }
    }

    /// Writes a list item. The first field of a map follows the hyphen.
    fn write_item(&self, node: &YamlNode, path: &str, depth: usize, text: &mut String) {
        match &node.content {
            NodeContent::Map(entries) if !entries.is_empty() => {
                for (index, entry) in entries.iter().enumerate() {
                    match index {
                        0 => text.push(' '),
                        _ => text.push_str(&"  ".repeat(depth)),
                    }
                    self.write_entry(entry, path, depth, text);
                }
            }
            _ => self.write_value(node, path, depth, text),
        }
    }

    /// Writes a field under its current name.
    fn write_entry(&self, entry: &MapEntry, path: &str, depth: usize, text: &mut String) {
        let (name, value) = field_names::current_form(self.kind, path, entry);
        text.push_str(&scalar(&name));
        text.push(':');
        match value {
            Some(value) => text.push_str(&format!(" {value}\n")),
            None => self.write_value(
                &entry.value,
                &format!("{path}.{}", entry.key),
                depth + 1,
                text,
            ),
        }
    }

    /// Formats a value without fields or items.
    fn format_scalar(&self, node: &YamlNode) -> String {
        if (self.is_secret)(node.at.start) {
            return MASK.to_owned();
        }
        match &node.content {
            NodeContent::Null => "null".to_owned(),
            NodeContent::Bool(value) => value.to_string(),
            NodeContent::Number(number) => number.to_string(),
            NodeContent::Text(value) => scalar(value),
            NodeContent::List(_) => "[]".to_owned(),
            NodeContent::Map(_) => "{}".to_owned(),
        }
    }
}
