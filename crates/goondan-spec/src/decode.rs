//! Reading typed values out of a tree, with every mistake reported where it stands.
//!
//! A [`Field`] is a value with its path; [`Fields`] is a map whose fields are asked for one by one. Whatever nobody asked
//! for is unknown, so a decoder and its list of known fields cannot drift apart.

use std::collections::HashSet;

use serde_json::Number;

use crate::JsonObject;
use crate::diagnostic::{Code, Diagnostic, Position};
use crate::findings::Findings;
use crate::fix::Fix;
use crate::node::{Content, Entry, Node, to_object};
use crate::text::{alternatives, closest, excerpt, list};

/// How many unknown fields of one map are reported: whoever has more has put something else in its place.
const MOST_UNKNOWN: usize = 20;
/// Number of known fields that the advice about an unknown field names.
const MOST_KNOWN: usize = 12;

/// A value, the key that it stands under and its path such as `spec.exports[0].name`.
#[derive(Debug, Clone)]
pub(crate) struct Field<'n> {
    pub(crate) node: &'n Node,
    /// Empty for the items of a list and the root of a document.
    pub(crate) key: &'n str,
    pub(crate) key_at: Option<Position>,
    pub(crate) path: String,
}

impl<'n> Field<'n> {
    /// The root of a document: its path is empty.
    pub(crate) fn root(node: &'n Node) -> Self {
        Field {
            node,
            key: "",
            key_at: None,
            path: String::new(),
        }
    }

    /// Where the value stands; an empty one has the place of its key.
    pub(crate) fn at(&self) -> Position {
        match (&self.node.content, self.key_at) {
            (Content::Null, Some(key_at)) => key_at,
            _ => self.node.at,
        }
    }

    /// A diagnostic that points at this value.
    pub(crate) fn problem(&self, code: Code, message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(code, message)
            .at(self.at())
            .field(self.path.clone())
    }

    /// A diagnostic of a bad value, at this value.
    pub(crate) fn invalid(&self, message: impl Into<String>) -> Diagnostic {
        self.problem(Code::SCHEMA_INVALID, message)
    }

    /// `diagnostic`, which is about this value, with what was meant in its place.
    pub(crate) fn did_you_mean(&self, diagnostic: Diagnostic, near: &str) -> Diagnostic {
        self.instead(diagnostic.suggest(format!("did you mean `{near}`?")), near)
    }

    /// As [`Field::did_you_mean`], of the key.
    pub(crate) fn did_you_mean_key(&self, diagnostic: Diagnostic, near: &str) -> Diagnostic {
        let diagnostic = diagnostic.suggest(format!("did you mean `{near}`?"));
        match self.key_at {
            Some(key_at) => diagnostic.fix(guarded(Fix::replace(key_at, near), &self.path)),
            None => diagnostic,
        }
    }

    /// `diagnostic`, which is about this value, with the fix that writes `text` here.
    pub(crate) fn instead(&self, diagnostic: Diagnostic, text: &str) -> Diagnostic {
        diagnostic.fix(guarded(Fix::replace(self.node.at, text), &self.path))
    }

    /// The fix that writes `word` here, without quotes.
    fn bare(&self, word: &str) -> Fix {
        let mut fix = Fix::replace(self.node.at, word);
        fix.edits
            .iter_mut()
            .for_each(|edit| word.clone_into(&mut edit.text));
        fix
    }

    fn wrong_type(&self, expected: &str) -> Diagnostic {
        let message = format!(
            "`{}` must be {expected}, but is {}.",
            self.path,
            self.node.what()
        );
        let diagnostic = self.invalid(message);
        match &self.node.content {
            Content::Bool(value) if expected == "text" => diagnostic
                .suggest(format!("put it in quotes: \"{value}\""))
                .fix(Fix::quote(self.node.at)),
            Content::Number(value) if expected == "text" => diagnostic
                .suggest(format!("put it in quotes: \"{value}\""))
                .fix(Fix::quote(self.node.at)),
            Content::Map(_) | Content::Text(_) if expected == "a list" => {
                diagnostic.suggest("begin each item with `- `")
            }
            Content::Text(text) if expected == "a map" => diagnostic.suggest(of_a_map(text)),
            Content::Text(_) if expected.ends_with("number") => {
                diagnostic.suggest("write a number, without quotes and without a unit")
            }
            _ => diagnostic,
        }
    }

    /// Text that is not blank.
    pub(crate) fn text(&self, findings: &mut Findings) -> Option<&'n str> {
        let Some(text) = self.node.text() else {
            findings.add(self.wrong_type("text"));
            return None;
        };
        if text.trim().is_empty() {
            findings.add(self.invalid(format!("`{}` must not be blank.", self.path)));
            return None;
        }
        Some(text)
    }

    /// True or false.
    pub(crate) fn boolean(&self, findings: &mut Findings) -> Option<bool> {
        if let Content::Bool(value) = self.node.content {
            return Some(value);
        }
        let diagnostic = self.wrong_type("true or false");
        findings.add(
            match self.node.text().map(str::to_ascii_lowercase).as_deref() {
                Some("yes" | "on" | "true") => {
                    diagnostic.suggest("write `true`").fix(self.bare("true"))
                }
                Some("no" | "off" | "false") => {
                    diagnostic.suggest("write `false`").fix(self.bare("false"))
                }
                _ => diagnostic,
            },
        );
        None
    }

    /// A whole number of at least `least`.
    pub(crate) fn whole(&self, least: u64, findings: &mut Findings) -> Option<u64> {
        let Content::Number(number) = &self.node.content else {
            findings.add(self.wrong_type("a whole number"));
            return None;
        };
        let value = whole_number(number);
        if value.is_none_or(|value| value < least) {
            let message = format!(
                "`{}` must be a whole number of at least {least}, but is {number}.",
                self.path
            );
            findings.add(self.invalid(message));
            return None;
        }
        value
    }

    /// A whole number that fits the type asked for.
    pub(crate) fn whole_as<T: TryFrom<u64>>(
        &self,
        least: u64,
        findings: &mut Findings,
    ) -> Option<T> {
        let value = self.whole(least, findings)?;
        let fitting = T::try_from(value).ok();
        if fitting.is_none() {
            findings.add(self.invalid(format!("`{}` is too large: {value}.", self.path)));
        }
        fitting
    }

    /// A whole number that may be negative.
    pub(crate) fn integer(&self, findings: &mut Findings) -> Option<i64> {
        let Content::Number(number) = &self.node.content else {
            findings.add(self.wrong_type("a whole number"));
            return None;
        };
        let value = signed_number(number);
        if value.is_none() {
            findings.add(self.invalid(format!(
                "`{}` must be a whole number of at most 64 bits, but is {number}.",
                self.path
            )));
        }
        value
    }

    /// A number for which `fits` holds; `range` says so in words.
    pub(crate) fn number(
        &self,
        range: &str,
        fits: fn(f64) -> bool,
        findings: &mut Findings,
    ) -> Option<f64> {
        let Content::Number(number) = &self.node.content else {
            findings.add(self.wrong_type("a number"));
            return None;
        };
        let value = number.as_f64().filter(|value| fits(*value));
        if value.is_none() {
            findings
                .add(self.invalid(format!("`{}` must be {range}, but is {number}.", self.path)));
        }
        value
    }

    /// One of the given words.
    pub(crate) fn one_of<T: Copy>(
        &self,
        words: &[(&str, T)],
        findings: &mut Findings,
    ) -> Option<T> {
        let text = self.text(findings)?;
        if let Some((_, value)) = words.iter().find(|(word, _)| *word == text) {
            return Some(*value);
        }
        let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        let message = format!(
            "`{}` must be {}, but is `{}`.",
            self.path,
            alternatives(&known),
            excerpt(text, 60)
        );
        let diagnostic = self.invalid(message);
        findings.add(match closest(text, &known) {
            Some(near) => self.did_you_mean(diagnostic, near),
            None => diagnostic,
        });
        None
    }

    /// The items of a list.
    pub(crate) fn list(&self, findings: &mut Findings) -> Option<Vec<Field<'n>>> {
        let Content::List(items) = &self.node.content else {
            findings.add(self.wrong_type("a list"));
            return None;
        };
        let item = |(index, node)| Field {
            node,
            key: "",
            key_at: None,
            path: format!("{}[{index}]", self.path),
        };
        Some(items.iter().enumerate().map(item).collect())
    }

    /// The items of a list that has at least one; `what` names an item.
    pub(crate) fn filled_list(
        &self,
        what: &str,
        findings: &mut Findings,
    ) -> Option<Vec<Field<'n>>> {
        let items = self.list(findings)?;
        if items.is_empty() {
            findings.add(self.invalid(format!("`{}` must hold at least one {what}.", self.path)));
            return None;
        }
        Some(items)
    }

    /// A list of texts, none of them twice.
    pub(crate) fn texts(&self, findings: &mut Findings) -> Option<Vec<Field<'n>>> {
        let mut seen = HashSet::new();
        let mut kept = Vec::new();
        for item in self.list(findings)? {
            let Some(text) = item.text(findings) else {
                continue;
            };
            if seen.insert(text) {
                kept.push(item);
            } else {
                findings.add(item.invalid(format!(
                    "`{}` stands twice in `{}`.",
                    excerpt(text, 60),
                    self.path
                )));
            }
        }
        Some(kept)
    }

    /// The fields of a map whose fields are known.
    pub(crate) fn fields(&self, findings: &mut Findings) -> Option<Fields<'n>> {
        let Content::Map(entries) = &self.node.content else {
            findings.add(self.wrong_type("a map"));
            return None;
        };
        let at = self.key_at.unwrap_or(self.node.at);
        Some(Fields {
            entries,
            at,
            map_at: self.node.at,
            path: self.path.clone(),
            asked: Vec::new(),
        })
    }

    /// The field of that name of a map; one without a value counts as absent.
    pub(crate) fn child(&self, name: &str) -> Option<Field<'n>> {
        self.node
            .entry(name)
            .and_then(|entry| present(entry, &self.path))
    }

    /// The entries of a map with keys of the user's own.
    pub(crate) fn entries(&self, findings: &mut Findings) -> Option<Vec<Field<'n>>> {
        let Content::Map(entries) = &self.node.content else {
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

    /// A map that is free to hold anything.
    pub(crate) fn object(&self, findings: &mut Findings) -> Option<JsonObject> {
        match &self.node.content {
            Content::Map(entries) => Some(to_object(entries)),
            _ => {
                findings.add(self.wrong_type("a map"));
                None
            }
        }
    }
}

/// A map of which every field has to be known.
#[derive(Debug)]
pub(crate) struct Fields<'n> {
    entries: &'n [Entry],
    /// The key of the map, or its beginning: where a missing field is reported.
    pub(crate) at: Position,
    map_at: Position,
    pub(crate) path: String,
    asked: Vec<&'static str>,
}

impl<'n> Fields<'n> {
    /// Whether a field is given.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.entries.iter().any(|entry| entry.key == name)
    }

    /// The field of that name; one without a value counts as absent.
    pub(crate) fn optional(&mut self, name: &'static str) -> Option<Field<'n>> {
        self.asked.push(name);
        self.entries
            .iter()
            .find(|entry| entry.key == name)
            .and_then(|entry| present(entry, &self.path))
    }

    /// Reads the field of that name with `read`. The result is `None` if the value is wrong, and `Some(None)` without a
    /// value.
    pub(crate) fn read<T>(
        &mut self,
        name: &'static str,
        findings: &mut Findings,
        read: impl FnOnce(&Field<'n>, &mut Findings) -> Option<T>,
    ) -> Option<Option<T>> {
        match self.optional(name) {
            Some(field) => read(&field, findings).map(Some),
            None => Some(None),
        }
    }

    /// The field of that name, or a diagnostic that it is missing.
    pub(crate) fn required(
        &mut self,
        name: &'static str,
        findings: &mut Findings,
    ) -> Option<Field<'n>> {
        let field = self.optional(name);
        if field.is_none() {
            let diagnostic = self.missing(name).suggest(format!("add `{name}: …`"));
            findings.add(self.to_be_added(diagnostic, name, ""));
        }
        field
    }

    /// A diagnostic about the field of that name, which is not there or empty.
    pub(crate) fn missing(&self, name: &str) -> Diagnostic {
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

    /// `diagnostic`, which says that a field is missing, with the fix that adds it with `value`.
    pub(crate) fn to_be_added(
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

    /// The fix that adds a field; none where it is there without a value.
    pub(crate) fn add(&self, name: &str, value: &str) -> Option<Fix> {
        let first = self.entries.first().map(|entry| entry.key_at);
        (!self.has(name)).then(|| Fix::add_field(self.map_at, first, name, value))
    }

    /// Every entry that no decoder has asked for yet.
    pub(crate) fn rest(&self) -> impl Iterator<Item = &'n Entry> {
        self.entries
            .iter()
            .filter(|entry| !self.asked.contains(&entry.key.as_str()))
    }

    /// `diagnostic`, which is about the key of `entry`, with the fix that makes it `near`, unless that is there already.
    fn meant(&self, diagnostic: Diagnostic, entry: &Entry, near: &str) -> Diagnostic {
        if self.has(near) {
            return diagnostic;
        }
        diagnostic.fix(guarded(Fix::replace(entry.key_at, near), &self.path))
    }

    /// Reports what nobody asked for.
    pub(crate) fn finish(self, findings: &mut Findings) {
        self.finish_with("remove it", |_| None, findings);
    }

    /// Finishes like [`Fields::finish`]. `advice` covers keys of other programs, and `remedy` any other key that resembles no known
    /// field.
    pub(crate) fn finish_with(
        self,
        remedy: &str,
        advice: impl Fn(&str) -> Option<Advice>,
        findings: &mut Findings,
    ) {
        for entry in self.rest().take(MOST_UNKNOWN) {
            let path = join(&self.path, &excerpt(&entry.key, 60));
            let diagnostic = Diagnostic::new(
                Code::SCHEMA_INVALID,
                format!("`{path}` is not a known field."),
            );
            let diagnostic = diagnostic.at(entry.key_at).field(path);
            let near = || closest(&entry.key, &self.asked);
            let (near, remark) = match advice(&entry.key) {
                Some(Advice::Rename(name)) => (Some(name), None),
                Some(Advice::Move(remark)) => (None, Some(remark.to_owned())),
                None => (near(), None),
            };
            findings.add(match near {
                Some(near) => self.meant(
                    diagnostic.suggest(format!("did you mean `{near}`?")),
                    entry,
                    near,
                ),
                None => diagnostic.suggest(remark.unwrap_or_else(|| {
                    format!("{remedy}; known here: {}", list(&self.asked, MOST_KNOWN))
                })),
            });
        }
    }
}

/// Advice about a key that a decoder does not read.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Advice {
    /// The known field with the same meaning.
    Rename(&'static str),
    /// Text to write elsewhere.
    Move(&'static str),
}

/// `fix`, of the field at `path`: of what an agent may do, a person decides.
fn guarded(fix: Fix, path: &str) -> Fix {
    if path.starts_with("spec.permissions") {
        fix.perhaps()
    } else {
        fix
    }
}

fn present<'n>(entry: &'n Entry, parent: &str) -> Option<Field<'n>> {
    (entry.value.content != Content::Null).then(|| field_of(entry, parent))
}

fn field_of<'n>(entry: &'n Entry, parent: &str) -> Field<'n> {
    Field {
        node: &entry.value,
        key: &entry.key,
        key_at: Some(entry.key_at),
        path: join(parent, &entry.key),
    }
}

fn join(parent: &str, name: &str) -> String {
    if parent.is_empty() {
        name.to_owned()
    } else {
        format!("{parent}.{name}")
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn whole_number(number: &Number) -> Option<u64> {
    let exact =
        |value: f64| (value.fract() == 0.0 && (0.0..9e15).contains(&value)).then_some(value as u64);
    number.as_u64().or_else(|| number.as_f64().and_then(exact))
}

#[allow(clippy::cast_possible_truncation)]
fn signed_number(number: &Number) -> Option<i64> {
    let exact = |value: f64| (value.fract() == 0.0 && value.abs() < 9e15).then_some(value as i64);
    number.as_i64().or_else(|| number.as_f64().and_then(exact))
}

/// What to do about text that should be a map: often the space behind a colon is missing, or is none that YAML knows.
fn of_a_map(text: &str) -> String {
    match text.split_once(':') {
        Some((key, rest)) if rest.starts_with(|c: char| c.is_whitespace() && c != ' ') => {
            format!(
                "put a plain space after `{}:`, in place of the special one",
                excerpt(key, 60)
            )
        }
        Some((key, _)) if !key.is_empty() && !key.contains(char::is_whitespace) => {
            format!("put a space after `{}:`", excerpt(key, 60))
        }
        _ => "write its fields below it, as `name: value`, further to the right".to_owned(),
    }
}
