//! Reads typed values from a node tree and reports every error at its position.
//!
//! A [`FieldReader`] is a value with its path; [`MapReader`] is a map whose fields are read one by
//! one. Every field that was not read is unknown. So a decoder and its list of known fields cannot
//! diverge.

use std::collections::HashSet;

use serde_json::Number;

use crate::JsonObject;
use crate::diagnostic::{Code, Diagnostic, SourcePosition};
use crate::diagnostic_sink::DiagnosticSink;
use crate::field_advisor::FieldAdvice;
use crate::field_names;
use crate::fix::Fix;
use crate::node::{MapEntry, NodeContent, YamlNode, to_object};
use crate::only_field::only_field;
use crate::text::{closest, excerpt, format_alternatives, format_list};

/// Maximum number of unknown fields reported per map. More of them mean that the whole map is
/// misplaced.
const MAX_REPORTED_UNKNOWN_FIELDS: usize = 20;
/// Maximum number of known fields that the advice about an unknown field lists.
const MAX_LISTED_KNOWN_FIELDS: usize = 12;

/// Value with its key and its path, such as `spec.exports[0].name`.
#[derive(Debug, Clone)]
pub(crate) struct FieldReader<'n> {
    pub(crate) node: &'n YamlNode,
    /// Empty for list items and the root of a document.
    pub(crate) key: &'n str,
    pub(crate) key_at: Option<SourcePosition>,
    pub(crate) path: String,
}

impl<'n> FieldReader<'n> {
    /// Returns a reader of a whole document.
    pub(crate) fn root(node: &'n YamlNode) -> Self {
        FieldReader {
            node,
            key: "",
            key_at: None,
            path: String::new(),
        }
    }

    /// Returns the value's position. An empty value has the position of its key.
    pub(crate) fn position(&self) -> SourcePosition {
        match (&self.node.content, self.key_at) {
            (NodeContent::Null, Some(key_at)) => key_at,
            _ => self.node.at,
        }
    }

    /// Creates a diagnostic at this value.
    pub(crate) fn diagnostic(&self, code: Code, message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(code, message)
            .at(self.position())
            .field(self.path.clone())
    }

    /// Creates a diagnostic about an invalid value.
    pub(crate) fn invalid_value(&self, message: impl Into<String>) -> Diagnostic {
        self.diagnostic(Code::SCHEMA_INVALID, message)
    }

    /// Adds the suggestion of `near` instead of this value, with its fix.
    pub(crate) fn did_you_mean(&self, diagnostic: Diagnostic, near: &str) -> Diagnostic {
        self.with_replace_fix(diagnostic.suggest(format!("did you mean `{near}`?")), near)
    }

    /// Adds a suggestion like [`FieldReader::did_you_mean`], for the key instead of the value.
    pub(crate) fn did_you_mean_key(&self, diagnostic: Diagnostic, near: &str) -> Diagnostic {
        let diagnostic = diagnostic.suggest(format!("did you mean `{near}`?"));
        match self.key_at {
            Some(key_at) => {
                diagnostic.fix(guard_permission_fix(Fix::replace(key_at, near), &self.path))
            }
            None => diagnostic,
        }
    }

    /// Adds the fix that replaces this value with `text`.
    pub(crate) fn with_replace_fix(&self, diagnostic: Diagnostic, text: &str) -> Diagnostic {
        diagnostic.fix(guard_permission_fix(
            Fix::replace(self.node.at, text),
            &self.path,
        ))
    }

    /// Creates the fix that writes `word` here without quotes.
    fn unquoted_fix(&self, word: &str) -> Fix {
        let mut fix = Fix::replace(self.node.at, word);
        for edit in &mut fix.edits {
            word.clone_into(&mut edit.text);
        }
        fix
    }

    /// Creates the error for a value of the wrong type, with a fix if there is a safe one.
    fn wrong_type(&self, expected: &str) -> Diagnostic {
        let message = format!(
            "`{}` must be {expected}, but is {}.",
            self.path,
            self.node.type_phrase()
        );
        let diagnostic = self.invalid_value(message);
        match &self.node.content {
            NodeContent::Bool(value) if expected == "a string" => diagnostic
                .suggest(format!("put it in quotes: \"{value}\""))
                .fix(Fix::quote(self.node.at)),
            NodeContent::Number(value) if expected == "a string" => diagnostic
                .suggest(format!("put it in quotes: \"{value}\""))
                .fix(Fix::quote(self.node.at)),
            NodeContent::Map(_) | NodeContent::Text(_) if expected == "a list" => {
                diagnostic.suggest("begin each item with `- `")
            }
            NodeContent::Text(text) if expected == "a map" => match only_field(&self.path, text) {
                Some(line) => {
                    let diagnostic = diagnostic.suggest(line.suggestion);
                    match line.value {
                        Some(value) => diagnostic.fix(guard_permission_fix(
                            Fix::replace_raw(self.node.at, &value),
                            &self.path,
                        )),
                        None => diagnostic,
                    }
                }
                None => diagnostic.suggest(map_suggestion(text)),
            },
            NodeContent::Text(_) if matches!(expected, "a number" | "an integer") => {
                diagnostic.suggest("write a number, without quotes and without a unit")
            }
            _ => diagnostic,
        }
    }

    /// Reads a string that is not blank.
    pub(crate) fn text(&self, findings: &mut DiagnosticSink) -> Option<&'n str> {
        let Some(text) = self.node.text() else {
            findings.add(self.wrong_type("a string"));
            return None;
        };
        if text.trim().is_empty() {
            findings.add(self.invalid_value(format!("`{}` must not be blank.", self.path)));
            return None;
        }
        Some(text)
    }

    /// Returns the boolean; `None`, with an error, for other values. Suggests `true` for `yes` and
    /// `on`.
    pub(crate) fn boolean(&self, findings: &mut DiagnosticSink) -> Option<bool> {
        if let NodeContent::Bool(value) = self.node.content {
            return Some(value);
        }
        let diagnostic = self.wrong_type("a boolean");
        findings.add(
            match self.node.text().map(str::to_ascii_lowercase).as_deref() {
                Some("yes" | "on" | "true") => diagnostic
                    .suggest("write `true`")
                    .fix(self.unquoted_fix("true")),
                Some("no" | "off" | "false") => diagnostic
                    .suggest("write `false`")
                    .fix(self.unquoted_fix("false")),
                _ => diagnostic,
            },
        );
        None
    }

    /// Reads an integer of at least `least`.
    pub(crate) fn integer_at_least(
        &self,
        least: u64,
        findings: &mut DiagnosticSink,
    ) -> Option<u64> {
        let NodeContent::Number(number) = &self.node.content else {
            findings.add(self.wrong_type("an integer"));
            return None;
        };
        let value = whole_number(number);
        if value.is_none_or(|value| value < least) {
            let message = format!(
                "`{}` must be an integer of at least {least}, but is {number}.",
                self.path
            );
            findings.add(self.invalid_value(message));
            return None;
        }
        value
    }

    /// Reads an integer of at least `least` that fits `T`.
    pub(crate) fn unsigned_as<T: TryFrom<u64>>(
        &self,
        least: u64,
        findings: &mut DiagnosticSink,
    ) -> Option<T> {
        let value = self.integer_at_least(least, findings)?;
        let converted = T::try_from(value).ok();
        if converted.is_none() {
            findings.add(self.invalid_value(format!("`{}` is too large: {value}.", self.path)));
        }
        converted
    }

    /// Reads an integer that may be negative.
    pub(crate) fn integer(&self, findings: &mut DiagnosticSink) -> Option<i64> {
        let NodeContent::Number(number) = &self.node.content else {
            findings.add(self.wrong_type("an integer"));
            return None;
        };
        let value = signed_number(number);
        if value.is_none() {
            findings.add(self.invalid_value(format!(
                "`{}` must be an integer of at most 64 bits, but is {number}.",
                self.path
            )));
        }
        value
    }

    /// Reads a number for which `fits` holds. `range` describes the condition.
    pub(crate) fn number(
        &self,
        range: &str,
        fits: fn(f64) -> bool,
        findings: &mut DiagnosticSink,
    ) -> Option<f64> {
        let NodeContent::Number(number) = &self.node.content else {
            findings.add(self.wrong_type("a number"));
            return None;
        };
        let value = number.as_f64().filter(|value| fits(*value));
        if value.is_none() {
            findings.add(
                self.invalid_value(format!("`{}` must be {range}, but is {number}.", self.path)),
            );
        }
        value
    }

    /// Reads one of the given words.
    pub(crate) fn one_of<T: Copy>(
        &self,
        words: &[(&str, T)],
        findings: &mut DiagnosticSink,
    ) -> Option<T> {
        let text = self.text(findings)?;
        if let Some((_, value)) = words.iter().find(|(word, _)| *word == text) {
            return Some(*value);
        }
        let allowed: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        let message = format!(
            "`{}` must be {}, but is `{}`.",
            self.path,
            format_alternatives(&allowed),
            excerpt(text, 60)
        );
        let diagnostic = self.invalid_value(message);
        findings.add(match closest(text, &allowed) {
            Some(near) => self.did_you_mean(diagnostic, near),
            None => diagnostic,
        });
        None
    }

    /// Returns a reader for each list item; `None`, with an error, if the value is not a list.
    pub(crate) fn list(&self, findings: &mut DiagnosticSink) -> Option<Vec<FieldReader<'n>>> {
        let NodeContent::List(items) = &self.node.content else {
            findings.add(self.wrong_type("a list"));
            return None;
        };
        let item = |(index, node)| FieldReader {
            node,
            key: "",
            key_at: None,
            path: format!("{}[{index}]", self.path),
        };
        Some(items.iter().enumerate().map(item).collect())
    }

    /// Reads a list with at least one item. `what` names an item.
    pub(crate) fn filled_list(
        &self,
        what: &str,
        findings: &mut DiagnosticSink,
    ) -> Option<Vec<FieldReader<'n>>> {
        let items = self.list(findings)?;
        if items.is_empty() {
            findings.add(
                self.invalid_value(format!("`{}` must contain at least one {what}.", self.path)),
            );
            return None;
        }
        Some(items)
    }

    /// Reads a list of strings; reports duplicates and leaves them out.
    pub(crate) fn unique_strings(
        &self,
        findings: &mut DiagnosticSink,
    ) -> Option<Vec<FieldReader<'n>>> {
        let mut seen_strings = HashSet::new();
        let mut unique = Vec::new();
        for item in self.list(findings)? {
            let Some(text) = item.text(findings) else {
                continue;
            };
            if seen_strings.insert(text) {
                unique.push(item);
            } else {
                findings.add(item.invalid_value(format!(
                    "`{}` is listed twice in `{}`.",
                    excerpt(text, 60),
                    self.path
                )));
            }
        }
        Some(unique)
    }

    /// Reads a map with a fixed set of fields.
    pub(crate) fn fields(&self, findings: &mut DiagnosticSink) -> Option<MapReader<'n>> {
        let NodeContent::Map(entries) = &self.node.content else {
            findings.add(self.wrong_type("a map"));
            return None;
        };
        let position = self.key_at.unwrap_or(self.node.at);
        Some(MapReader {
            entries,
            at: position,
            map_at: self.node.at,
            path: self.path.clone(),
            asked: Vec::new(),
        })
    }

    /// Returns a field of this map. A field without a value counts as absent.
    pub(crate) fn child(&self, name: &str) -> Option<FieldReader<'n>> {
        self.node
            .entry(name)
            .and_then(|entry| field_if_set(entry, &self.path))
    }

    /// Reads the entries of a map with user-defined keys.
    pub(crate) fn entries(&self, findings: &mut DiagnosticSink) -> Option<Vec<FieldReader<'n>>> {
        let NodeContent::Map(entries) = &self.node.content else {
            findings.add(self.wrong_type("a map"));
            return None;
        };
        Some(
            entries
                .iter()
                .map(|entry| field_of(entry, &self.path))
                .collect(),
        )
    }

    /// Reads a map with arbitrary content.
    pub(crate) fn object(&self, findings: &mut DiagnosticSink) -> Option<JsonObject> {
        match &self.node.content {
            NodeContent::Map(entries) => Some(to_object(entries)),
            _ => {
                findings.add(self.wrong_type("a map"));
                None
            }
        }
    }
}

/// Map in which every field must be known.
#[derive(Debug)]
pub(crate) struct MapReader<'n> {
    entries: &'n [MapEntry],
    /// Position for missing fields: the map's key, or the start of the map.
    pub(crate) at: SourcePosition,
    map_at: SourcePosition,
    pub(crate) path: String,
    asked: Vec<&'static str>,
}

impl<'n> MapReader<'n> {
    /// Returns the reader of a map without fields, in place of `field`.
    pub(crate) fn empty(field: &FieldReader<'n>) -> Self {
        MapReader {
            entries: &[],
            at: field.position(),
            map_at: field.node.at,
            path: field.path.clone(),
            asked: Vec::new(),
        }
    }

    /// Returns true if the key is present, even without a value.
    pub(crate) fn has_key(&self, name: &str) -> bool {
        self.entries.iter().any(|entry| entry.key == name)
    }

    /// Returns the field `name`. A field without a value counts as absent.
    pub(crate) fn optional(&mut self, name: &'static str) -> Option<FieldReader<'n>> {
        self.asked.push(name);
        self.entries
            .iter()
            .find(|entry| entry.key == name)
            .and_then(|entry| field_if_set(entry, &self.path))
    }

    /// Reads the field `name` with `read`. Returns `None` if the value is wrong, and `Some(None)`
    /// if there is no value.
    pub(crate) fn read<T>(
        &mut self,
        name: &'static str,
        findings: &mut DiagnosticSink,
        read: impl FnOnce(&FieldReader<'n>, &mut DiagnosticSink) -> Option<T>,
    ) -> Option<Option<T>> {
        match self.optional(name) {
            Some(field) => read(&field, findings).map(Some),
            None => Some(None),
        }
    }

    /// Returns the field `name`, or reports that it is missing.
    pub(crate) fn required(
        &mut self,
        name: &'static str,
        findings: &mut DiagnosticSink,
    ) -> Option<FieldReader<'n>> {
        let field = self.optional(name);
        if field.is_none() {
            let diagnostic = self.missing_field(name).suggest(format!("add `{name}: …`"));
            findings.add(self.with_add_fix(diagnostic, name, ""));
        }
        field
    }

    /// Creates a diagnostic about a field that is absent or empty.
    pub(crate) fn missing_field(&self, name: &str) -> Diagnostic {
        let path = join(&self.path, name);
        match self.entries.iter().find(|entry| entry.key == name) {
            Some(entry) => Diagnostic::new(Code::SCHEMA_INVALID, format!("`{path}` has no value."))
                .at(entry.key_at),
            None => {
                Diagnostic::new(Code::SCHEMA_INVALID, format!("`{path}` is missing.")).at(self.at)
            }
        }
        .field(path)
    }

    /// Adds to `diagnostic` the fix that inserts the missing field with `value`.
    pub(crate) fn with_add_fix(
        &self,
        diagnostic: Diagnostic,
        name: &str,
        value: &str,
    ) -> Diagnostic {
        match self.add(name, value) {
            Some(fix) => diagnostic.fix(fix),
            None => diagnostic,
        }
    }

    /// Returns the fix that inserts a field, or `None` if its key is already there.
    pub(crate) fn add(&self, name: &str, value: &str) -> Option<Fix> {
        let first = self.entries.first().map(|entry| entry.key_at);
        (!self.has_key(name)).then(|| Fix::add_field(self.map_at, first, name, value))
    }

    /// Returns the entries that no decoder has read yet.
    pub(crate) fn unread_entries(&self) -> impl Iterator<Item = &'n MapEntry> {
        self.entries
            .iter()
            .filter(|entry| !self.asked.contains(&entry.key.as_str()))
    }

    /// Adds to `diagnostic` the fix that renames the key of `entry` to `near`, unless that key is
    /// already there.
    fn with_rename_fix(&self, diagnostic: Diagnostic, entry: &MapEntry, near: &str) -> Diagnostic {
        if self.has_key(near) {
            return diagnostic;
        }
        diagnostic.fix(guard_permission_fix(
            Fix::replace(entry.key_at, near),
            &self.path,
        ))
    }

    /// Reports all fields that were not read.
    pub(crate) fn finish(self, findings: &mut DiagnosticSink) {
        self.finish_with("remove it", |_| None, findings);
    }

    /// Works like [`MapReader::finish`]. `advice` handles keys of other programs. `remedy` is the
    /// suggestion for keys that resemble no known field.
    pub(crate) fn finish_with(
        self,
        remedy: &str,
        advice: impl Fn(&str) -> Option<KeyAdvice>,
        findings: &mut DiagnosticSink,
    ) {
        // Fields that fixes add to this map. Two fixes must not add the same field.
        let mut added: Vec<String> = Vec::new();
        for entry in self.unread_entries().take(MAX_REPORTED_UNKNOWN_FIELDS) {
            let path = join(&self.path, &excerpt(&entry.key, 60));
            let diagnostic = Diagnostic::new(
                Code::SCHEMA_INVALID,
                format!("`{path}` is not a known field."),
            );
            let diagnostic = diagnostic.at(entry.key_at).field(path);
            let closest_field = || {
                let older = field_names::older_names(&self.asked);
                let known_names: Vec<(&'static str, &'static str)> = self
                    .asked
                    .iter()
                    .map(|name| (*name, *name))
                    .chain(older)
                    .collect();
                let names: Vec<&'static str> = known_names.iter().map(|(name, _)| *name).collect();
                let name = closest(&entry.key, &names)?;
                let (name, current) = known_names.into_iter().find(|(known, _)| *known == name)?;
                // The value keeps the unit of the older name.
                Some(if entry.value.text().is_some() {
                    current
                } else {
                    name
                })
            };
            let kind = findings.resource.as_ref().map(|resource| resource.kind);
            let elsewhere = kind
                .zip(findings.advisor)
                .filter(|_| advice(&entry.key).is_none())
                .and_then(|(kind, advise)| advise(kind, &self.path, &self.asked, entry));
            if let Some(FieldAdvice { suggestion, fix }) = elsewhere {
                let diagnostic = diagnostic.suggest(suggestion);
                let fix = fix.filter(|(field, _)| !self.has_key(field) && !added.contains(field));
                findings.add(match fix {
                    Some((field, fix)) => {
                        added.push(field);
                        diagnostic.fix(guard_permission_fix(fix, &self.path))
                    }
                    None => diagnostic,
                });
                continue;
            }
            let (meant, remark) = match advice(&entry.key) {
                Some(KeyAdvice::Rename(name)) => (Some(name), None),
                Some(KeyAdvice::Move(remark)) => (None, Some(remark.to_owned())),
                None => (closest_field(), None),
            };
            findings.add(match meant {
                Some(name) => self.with_rename_fix(
                    diagnostic.suggest(format!("did you mean `{name}`?")),
                    entry,
                    name,
                ),
                None => diagnostic.suggest(remark.unwrap_or_else(|| {
                    format!(
                        "{remedy}; known here: {}",
                        format_list(&self.asked, MAX_LISTED_KNOWN_FIELDS)
                    )
                })),
            });
        }
    }
}

/// Advice about an unknown key.
#[derive(Debug, Clone, Copy)]
pub(crate) enum KeyAdvice {
    /// Known field with the same meaning.
    Rename(&'static str),
    /// Advice to write the value elsewhere, as a message.
    Move(&'static str),
}

/// Marks a fix of permissions as one that needs confirmation: a person decides what an agent may
/// do.
fn guard_permission_fix(fix: Fix, path: &str) -> Fix {
    if path.starts_with("spec.permissions") {
        fix.mark_uncertain()
    } else {
        fix
    }
}

/// Returns a reader of the field, unless its value is null.
fn field_if_set<'n>(entry: &'n MapEntry, parent: &str) -> Option<FieldReader<'n>> {
    (entry.value.content != NodeContent::Null).then(|| field_of(entry, parent))
}

fn field_of<'n>(entry: &'n MapEntry, parent: &str) -> FieldReader<'n> {
    FieldReader {
        node: &entry.value,
        key: &entry.key,
        key_at: Some(entry.key_at),
        path: join(parent, entry.display_key()),
    }
}

/// Returns the path of a field: `PARENT.NAME`.
fn join(parent: &str, name: &str) -> String {
    match (parent, name) {
        ("", name) => name.to_owned(),
        (parent, "") => parent.to_owned(),
        (parent, name) => format!("{parent}.{name}"),
    }
}

/// Returns the number as an unsigned integer, including `3.0`; `None` if it has a fraction or a
/// sign.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn whole_number(number: &Number) -> Option<u64> {
    let exact =
        |value: f64| (value.fract() == 0.0 && (0.0..9e15).contains(&value)).then_some(value as u64);
    number.as_u64().or_else(|| number.as_f64().and_then(exact))
}

/// Returns the number as a signed integer, including `-3.0`; `None` if it has a fraction.
#[allow(clippy::cast_possible_truncation)]
fn signed_number(number: &Number) -> Option<i64> {
    let to_integer =
        |value: f64| (value.fract() == 0.0 && value.abs() < 9e15).then_some(value as i64);
    number
        .as_i64()
        .or_else(|| number.as_f64().and_then(to_integer))
}

/// Suggests how to turn a string into a map. A missing or special space after a colon is the usual
/// cause.
fn map_suggestion(text: &str) -> String {
    match text.split_once(':') {
        Some((key, rest)) if rest.starts_with(|c: char| c.is_whitespace() && c != ' ') => {
            format!(
                "replace the special space after `{}:` with a plain space",
                excerpt(key, 60)
            )
        }
        Some((key, _)) if !key.is_empty() && !key.contains(char::is_whitespace) => {
            format!("put a space after `{}:`", excerpt(key, 60))
        }
        _ => "write its fields on the lines below, indented, as `name: value`".to_owned(),
    }
}
