//! Size of a JSON Schema with all references expanded.
//!
//! A validator visits a subschema again for each reference that leads to it. A schema of a few
//! lines can therefore take longer to check than anyone can wait.

use std::collections::HashMap;

use serde_json::Value;

/// Maximum size of a schema with all references expanded, in values.
pub const MAX_SCHEMA_EXPANSION: u64 = 100_000;
/// Maximum length of a chain of subschemas and references. A longer one counts as too large.
const MAX_CHAIN_LENGTH: usize = 500;

/// Size of a schema with all references expanded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SchemaExpansion {
    /// Number of values. References to a subschema that contains them count once.
    pub size: u64,
    /// A subschema refers to itself, so the time of a check also depends on the checked value.
    pub is_recursive: bool,
}

/// Returns the size of `schema` with all references expanded.
pub fn expansion(schema: &Value) -> SchemaExpansion {
    let mut measure = ExpansionMeasure {
        root: schema,
        anchors: HashMap::new(),
        sizes: HashMap::new(),
        is_recursive: false,
    };
    measure.collect_anchors(schema);
    let size = measure.size(schema, 0);
    SchemaExpansion {
        size,
        is_recursive: measure.is_recursive,
    }
}

struct ExpansionMeasure<'s> {
    root: &'s Value,
    /// Subschemas by `$id`, and by `$anchor` with a leading `#`.
    anchors: HashMap<String, &'s Value>,
    /// Sizes by the address of the subschema; `None` while it is measured.
    sizes: HashMap<*const Value, Option<u64>>,
    is_recursive: bool,
}

impl<'s> ExpansionMeasure<'s> {
    /// Collects the subschemas with an `$anchor` or `$id`.
    fn collect_anchors(&mut self, value: &'s Value) {
        match value {
            Value::Object(object) => {
                for (key, child) in object {
                    match (key.as_str(), child) {
                        ("$anchor" | "$dynamicAnchor", Value::String(name)) => {
                            self.anchors.insert(format!("#{name}"), value);
                        }
                        ("$id", Value::String(id)) => {
                            self.anchors.insert(id.clone(), value);
                        }
                        _ => self.collect_anchors(child),
                    }
                }
            }
            Value::Array(items) => items.iter().for_each(|item| self.collect_anchors(item)),
            _ => {}
        }
    }

    /// Returns the number of values after all references are expanded; `u64::MAX` if references
    /// form a chain that is too long.
    fn size(&mut self, value: &'s Value, depth: usize) -> u64 {
        if depth > MAX_CHAIN_LENGTH {
            return u64::MAX;
        }
        if !matches!(value, Value::Object(_) | Value::Array(_)) {
            return 1;
        }
        match self.sizes.get(&std::ptr::from_ref(value)) {
            Some(Some(size)) => return *size,
            Some(None) => {
                self.is_recursive = true;
                return 1;
            }
            None => {}
        }
        self.sizes.insert(value, None);
        let size = match value {
            Value::Object(object) => object.iter().fold(1_u64, |sum, (key, child)| {
                sum.saturating_add(self.keyword_size(key, child, depth))
            }),
            Value::Array(items) => items.iter().fold(1_u64, |sum, item| {
                sum.saturating_add(self.size(item, depth + 1))
            }),
            _ => 1,
        };
        self.sizes.insert(value, Some(size));
        size
    }

    /// Returns the expanded size of a keyword; definitions count only where they are used.
    fn keyword_size(&mut self, key: &str, value: &'s Value, depth: usize) -> u64 {
        match (key, value) {
            // A definition counts where something refers to it.
            ("$defs" | "definitions", Value::Object(_)) => 0,
            ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(reference)) => {
                match self.resolve_reference(reference) {
                    Some(target) => self.size(target, depth + 1),
                    None => 1,
                }
            }
            _ => self.size(value, depth + 1),
        }
    }

    /// Returns the schema that a reference selects; `None` if it does not exist.
    fn resolve_reference(&self, reference: &str) -> Option<&'s Value> {
        if let Some(known) = self.anchors.get(reference) {
            return Some(known);
        }
        let pointer = reference.strip_prefix('#')?;
        let pointer = decode_percent_escapes(pointer);
        self.root.pointer(&pointer)
    }
}

/// Decodes `%XX` in a JSON pointer that is part of a URL.
fn decode_percent_escapes(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let decoded = after
            .get(..2)
            .filter(|_| *first == b'%')
            .and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        match decoded {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns a schema in which each definition refers `width` times to the next definition.
    fn nested_definitions(levels: usize, width: usize) -> Value {
        let mut defs = serde_json::Map::new();
        for level in 0..levels {
            let next = json!({"$ref": format!("#/$defs/y{}", level + 1)});
            defs.insert(format!("y{level}"), json!({"anyOf": vec![next; width]}));
        }
        defs.insert(format!("y{levels}"), json!({"type": "string"}));
        json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/y0"}}, "$defs": defs})
    }

    #[test]
    fn a_reference_counts_each_time_it_is_followed() {
        assert!(expansion(&nested_definitions(3, 6)).size < 1_000);
        assert!(expansion(&nested_definitions(11, 6)).size > MAX_SCHEMA_EXPANSION);
        assert_eq!(expansion(&nested_definitions(60, 6)).size, u64::MAX);
        // A long chain does not overflow the stack.
        assert_eq!(expansion(&nested_definitions(20_000, 1)).size, u64::MAX);
    }

    #[test]
    fn anchors_and_escaped_pointers_are_followed() {
        for reference in ["#here", "#/$defs/a%20b", "https://example.com/b"] {
            let big: Vec<Value> = (0..100).map(|n| json!({"const": n})).collect();
            let schema = json!({
                "properties": {"x": {"$ref": reference}, "y": {"$ref": reference}},
                "$defs": {"a b": {"$anchor": "here", "$id": "https://example.com/b", "anyOf": big}},
            });
            assert!(expansion(&schema).size > 400, "{reference}");
        }
    }

    #[test]
    fn a_schema_that_contains_itself_is_recursive() {
        let tree = json!({"type": "object", "properties": {"children": {"items": {"$ref": "#"}}}});
        let found = expansion(&tree);
        assert!(found.is_recursive && found.size < 20, "{found:?}");
        assert!(!expansion(&json!({"type": "object"})).is_recursive);
    }
}
