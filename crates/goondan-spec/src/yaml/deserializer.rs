//! Deserializes a node tree into serde types.
//!
//! Test cases, scripts and approvals are read with derived types. They use the node tree instead of
//! the parser's events, so YAML semantics exist once and derived code stays small. An error has the
//! position of the innermost value or key concerned.

use std::fmt;

use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error, Expected, IntoDeserializer, MapAccess,
    SeqAccess, Unexpected, VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;
use serde_json::Number;

use super::YamlError;
use crate::diagnostic::SourcePosition;
use crate::node::{MapEntry, NodeContent, YamlNode};

/// Maximum length of a quoted value in a type error, in characters.
const MAX_EXCERPT_CHARS: usize = 40;

#[derive(Clone, Copy)]
pub(super) struct YamlDeserializer<'n> {
    /// Source text of the document. A number read as a string keeps its original spelling.
    pub(super) text: &'n str,
    pub(super) node: &'n YamlNode,
}

impl<'n> YamlDeserializer<'n> {
    /// Returns a deserializer of a part of the value.
    fn at_node(self, node: &'n YamlNode) -> Self {
        YamlDeserializer { node, ..self }
    }

    /// Returns the source spelling of the node, or formats `meaning` if there is none.
    fn source_text(self, meaning: &impl fmt::Display) -> String {
        match self.text.get(self.node.at.start..self.node.at.end) {
            Some(written) if !written.is_empty() => written.to_owned(),
            _ => meaning.to_string(),
        }
    }

    /// Passes the value to the visitor with its own type.
    fn visit_any<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, YamlError> {
        match &self.node.content {
            NodeContent::Null => visitor.visit_unit(),
            NodeContent::Bool(value) => visitor.visit_bool(*value),
            NodeContent::Number(value) => visit_number(value, visitor),
            NodeContent::Text(value) => visitor.visit_str(value),
            NodeContent::List(items) => visitor.visit_seq(self.items(items)),
            NodeContent::Map(entries) => visitor.visit_map(self.entries(entries)),
        }
    }

    fn items(self, items: &'n [YamlNode]) -> YamlSeqAccess<'n> {
        YamlSeqAccess {
            list: self,
            rest: items.iter(),
        }
    }

    fn entries(self, entries: &'n [MapEntry]) -> YamlMapAccess<'n> {
        YamlMapAccess {
            map: self,
            rest: entries.iter(),
            current: None,
        }
    }

    /// Passes numbers and booleans as strings, as they are written.
    fn visit_text<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, YamlError> {
        match &self.node.content {
            NodeContent::Number(number) => visitor.visit_string(self.source_text(number)),
            NodeContent::Bool(value) => visitor.visit_string(self.source_text(value)),
            _ => self.visit_any(visitor),
        }
    }
}

/// Passes a number with the narrowest type that fits.
fn visit_number<'de, V: Visitor<'de>>(number: &Number, visitor: V) -> Result<V::Value, YamlError> {
    match (number.as_u64(), number.as_i64(), number.as_f64()) {
        (Some(value), ..) => visitor.visit_u64(value),
        (_, Some(value), _) => visitor.visit_i64(value),
        (.., value) => visitor.visit_f64(value.unwrap_or(f64::NAN)),
    }
}

impl<'de> Deserializer<'de> for YamlDeserializer<'_> {
    type Error = YamlError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, YamlError> {
        self.visit_any(visitor)
            .map_err(|error| error.or_at(self.node.at))
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, YamlError> {
        self.visit_text(visitor)
            .map_err(|error| error.or_at(self.node.at))
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, YamlError> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, YamlError> {
        match self.node.content {
            NodeContent::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &str,
        visitor: V,
    ) -> Result<V::Value, YamlError> {
        visitor
            .visit_newtype_struct(self)
            .map_err(|error| error.or_at(self.node.at))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &str,
        _: &[&str],
        visitor: V,
    ) -> Result<V::Value, YamlError> {
        let variant = match &self.node.content {
            NodeContent::Text(name) => Ok(NamedVariant {
                name,
                at: self.node.at,
                content: None,
            }),
            NodeContent::Map(entries) => match entries.as_slice() {
                [one] => Ok(NamedVariant {
                    name: &one.key,
                    at: one.key_at,
                    content: Some(self.at_node(&one.value)),
                }),
                _ => Err(YamlError::custom("Expected a map with exactly one key.")),
            },
            _ => Err(YamlError::custom(format!(
                "Expected a string, found {}.",
                self.node.type_phrase()
            ))),
        };
        variant
            .and_then(|variant| visitor.visit_enum(variant))
            .map_err(|error| error.or_at(self.node.at))
    }

    /// Reads an empty value as an empty list.
    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, YamlError> {
        match self.node.content {
            NodeContent::Null => visitor.visit_seq(self.items(&[])),
            _ => self.deserialize_any(visitor),
        }
    }

    /// Reads an empty value as an empty map.
    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, YamlError> {
        match self.node.content {
            NodeContent::Null => visitor
                .visit_map(self.entries(&[]))
                .map_err(|error| error.or_at(self.node.at)),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &str,
        _: &[&str],
        visitor: V,
    ) -> Result<V::Value, YamlError> {
        self.deserialize_map(visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char bytes byte_buf unit unit_struct tuple
        tuple_struct identifier ignored_any
    }
}

struct YamlSeqAccess<'n> {
    list: YamlDeserializer<'n>,
    rest: std::slice::Iter<'n, YamlNode>,
}

impl<'de> SeqAccess<'de> for YamlSeqAccess<'_> {
    type Error = YamlError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, YamlError> {
        let Some(item) = self.rest.next() else {
            return Ok(None);
        };
        seed.deserialize(self.list.at_node(item))
            .map(Some)
            .map_err(|error| error.or_at(item.at))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.rest.len())
    }
}

struct YamlMapAccess<'n> {
    map: YamlDeserializer<'n>,
    rest: std::slice::Iter<'n, MapEntry>,
    /// Entry whose key was read and whose value comes next.
    current: Option<&'n MapEntry>,
}

impl<'de> MapAccess<'de> for YamlMapAccess<'_> {
    type Error = YamlError;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, YamlError> {
        self.current = self.rest.next();
        let Some(entry) = self.current else {
            return Ok(None);
        };
        seed.deserialize(entry.key.as_str().into_deserializer())
            .map(Some)
            .map_err(|error: YamlError| error.or_at(entry.key_at))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, YamlError> {
        let entry = self
            .current
            .take()
            .ok_or_else(|| YamlError::custom("A value was asked for before its key."))?;
        seed.deserialize(self.map.at_node(&entry.value))
            .map_err(|error| error.or_at(entry.value.at))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.rest.len())
    }
}

/// Enum variant: only its name, or a map of the name to the content.
struct NamedVariant<'n> {
    name: &'n str,
    at: SourcePosition,
    content: Option<YamlDeserializer<'n>>,
}

impl<'n> NamedVariant<'n> {
    /// Returns the content of the variant. Fails if it is missing.
    fn content(self) -> Result<YamlDeserializer<'n>, YamlError> {
        self.content
            .ok_or_else(|| YamlError::custom(format!("`{}` needs a value.", self.name)))
    }
}

impl<'de> EnumAccess<'de> for NamedVariant<'_> {
    type Error = YamlError;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), YamlError> {
        let name = seed
            .deserialize(self.name.into_deserializer())
            .map_err(|error: YamlError| error.or_at(self.at))?;
        Ok((name, self))
    }
}

impl<'de> VariantAccess<'de> for NamedVariant<'_> {
    type Error = YamlError;

    fn unit_variant(self) -> Result<(), YamlError> {
        match self.content {
            None => Ok(()),
            Some(content) => Err(
                YamlError::custom(format!("`{}` takes no value.", self.name))
                    .or_at(content.node.at),
            ),
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, YamlError> {
        seed.deserialize(self.content()?)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, YamlError> {
        self.content()?.deserialize_any(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &[&str],
        visitor: V,
    ) -> Result<V::Value, YamlError> {
        self.content()?.deserialize_any(visitor)
    }
}

impl YamlError {
    /// Sets the position unless there is one: the innermost position is the most helpful.
    fn or_at(mut self, place: SourcePosition) -> Self {
        if self.line.is_none() {
            (self.line, self.column) = (Some(place.line), Some(place.column));
        }
        self
    }
}

impl Error for YamlError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        YamlError {
            message: message.to_string(),
            suggestion: None,
            line: None,
            column: None,
        }
    }

    fn invalid_type(found: Unexpected<'_>, wanted: &dyn Expected) -> Self {
        YamlError::custom(format!(
            "Expected {}, found {}.",
            reword_expected(&wanted.to_string()),
            describe_found(&found)
        ))
    }

    fn invalid_value(found: Unexpected<'_>, wanted: &dyn Expected) -> Self {
        YamlError::invalid_type(found, wanted)
    }

    fn unknown_variant(name: &str, known: &'static [&'static str]) -> Self {
        YamlError::custom(format!(
            "`{name}` is unknown; known here: {}.",
            quoted_list(known)
        ))
    }

    fn unknown_field(name: &str, known: &'static [&'static str]) -> Self {
        match known {
            [] => YamlError::custom(format!(
                "The field `{name}` is unknown; there are no fields here."
            )),
            _ => YamlError::custom(format!(
                "The field `{name}` is unknown; known here: {}.",
                quoted_list(known)
            )),
        }
    }

    fn missing_field(name: &'static str) -> Self {
        YamlError::custom(format!("The field `{name}` is missing."))
    }
}

/// Rewords serde's description of an expected type in YAML terms.
fn reword_expected(wanted: &str) -> &str {
    match wanted {
        "u8" => "an integer from 0 to 255",
        "u16" => "an integer from 0 to 65535",
        "u32" | "u64" | "usize" => "an integer of at least 0",
        "i8" | "i16" | "i32" | "i64" | "isize" => "an integer",
        "f32" | "f64" => "a number",
        "a sequence" => "a list",
        _ if wanted.starts_with("struct ") => "a map",
        _ => wanted,
    }
}

/// Describes the found value in YAML terms.
fn describe_found(found: &Unexpected<'_>) -> String {
    match found {
        Unexpected::Unit => "nothing".to_owned(),
        Unexpected::Str(text) => {
            format!(
                "the string `{}`",
                crate::text::excerpt(text, MAX_EXCERPT_CHARS)
            )
        }
        Unexpected::Seq => "a list".to_owned(),
        Unexpected::Map => "a map".to_owned(),
        other => other
            .to_string()
            .replace("integer ", "")
            .replace("floating point ", ""),
    }
}

/// Formats names in backquotes, separated by commas.
fn quoted_list(known: &[&str]) -> String {
    known
        .iter()
        .map(|name| format!("`{name}`"))
        .collect::<Vec<_>>()
        .join(", ")
}
