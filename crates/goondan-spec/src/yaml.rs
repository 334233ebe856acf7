//! The only place that names the YAML crate, with the short way to a tree in `yaml/plain.rs`.
//!
//! It gives the loader a tree with places (`parse`) and other crates a typed reader ([`from_str`],
//! [`documents_from_str`]). Both read YAML 1.2's core schema (`no` is text), refuse duplicate keys and unknown tags, and
//! are bounded in depth, aliases and size.

mod plain;

use std::fmt;

use serde::de::{Deserialize, DeserializeOwned, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Number;
use serde_yaml::budget::BudgetBreach;
use serde_yaml::{DefaultMessageFormatter, Error, Location, MessageFormatter, NonFiniteFloatPolicy, Options, Spanned};

use crate::diagnostic::Position;
use crate::node::{Content, Entry, Node};
use crate::source::position_of_column;

/// How deeply lists and maps may nest (rule L2).
pub const MAX_DEPTH: usize = 64;
/// How many events the aliases of one document may expand to (rule L2).
const MAX_ALIASED_EVENTS: usize = 20_000;
/// How many documents one text may hold for [`documents_from_str`]. The loader has its own, lower limit.
const MAX_DOCUMENTS: usize = 100_000;
/// How long a key may be, in characters.
const MAX_KEY_LENGTH: usize = 1024;

/// Why a text is not the YAML that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct YamlError {
    /// A sentence that stands alone, without the place.
    pub message: String,
    /// What to do about it, where there is a usual cause.
    pub suggestion: Option<String>,
    /// Counted from 1.
    pub line: Option<usize>,
    /// In characters, counted from 1.
    pub column: Option<usize>,
}

impl fmt::Display for YamlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.line, self.column) {
            (Some(line), Some(column)) => write!(f, "{} (line {line}, column {column})", self.message),
            _ => f.write_str(&self.message),
        }
    }
}

/// Reads one document.
///
/// # Errors
/// The first thing that is wrong, with its place; an unknown field of a `deny_unknown_fields` type included.
pub fn from_str<T: DeserializeOwned>(text: &str) -> Result<T, YamlError> {
    serde_yaml::from_str_with_options(text, options()).map_err(|error| describe(&error))
}

/// Reads every document that is not empty.
///
/// # Errors
/// As [`from_str`].
pub fn documents_from_str<T: DeserializeOwned>(text: &str) -> Result<Vec<T>, YamlError> {
    serde_yaml::from_multiple_with_options(text, options()).map_err(|error| describe(&error))
}

/// Reads one document into a tree, or `None` where there is nothing but comments.
///
/// # Errors
/// The first thing that is wrong, with its place in `text`.
pub(crate) fn parse(text: &str) -> Result<Option<Node>, (YamlError, Position)> {
    match plain::read(text) {
        Some(root) => Ok(Some(root)),
        None => parse_long(text),
    }
}

/// As [`parse`], by the deserializer, which knows all of YAML.
fn parse_long(text: &str) -> Result<Option<Node>, (YamlError, Position)> {
    let mut documents =
        serde_yaml::from_multiple_with_options::<Spanned<Content>>(text, options()).map_err(|error| {
            let described = describe(&error);
            let at = error.location().and_then(known_bytes).unwrap_or_else(|| place(text, &described));
            (described, at)
        })?;
    Ok(if documents.is_empty() { None } else { Some(node(documents.swap_remove(0))) })
}

/// The scanner knows no bytes, and behind a tab that it does not like it names the next character.
fn place(text: &str, error: &YamlError) -> Position {
    let (line, column) = (error.line.unwrap_or(1), error.column.unwrap_or(1));
    let before = position_of_column(text, line, column.saturating_sub(1));
    if text.as_bytes().get(before.start) == Some(&b'\t') { before } else { position_of_column(text, line, column) }
}

fn options() -> Options {
    serde_yaml::options! {
        budget: serde_yaml::budget! {
            max_depth: MAX_DEPTH,
            max_documents: MAX_DOCUMENTS,
            max_events: 50_000_000,
            max_nodes: 50_000_000,
            simple_key_max_lookahead: MAX_KEY_LENGTH,
        },
        alias_limits: serde_yaml::alias_limits! { max_total_replayed_events: MAX_ALIASED_EVENTS },
        strict_booleans: true,
        underscored_numbers_as_strings: true,
        reject_unsupported_tags: true,
        non_finite_float_policy: NonFiniteFloatPolicy::Reject,
        with_snippet: false,
    }
}

/// Untagged serde enums lose places, so the tree is built by hand: each child is asked for as `Spanned`.
struct ContentVisitor;

impl<'de> Visitor<'de> for ContentVisitor {
    type Value = Content;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a YAML value")
    }

    fn visit_unit<E>(self) -> Result<Content, E> {
        Ok(Content::Null)
    }

    fn visit_none<E>(self) -> Result<Content, E> {
        Ok(Content::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Content, E> {
        Ok(Content::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Content, E> {
        Ok(Content::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Content, E> {
        Ok(Content::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Content, E> {
        Ok(Number::from_f64(value).map_or(Content::Null, Content::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Content, E> {
        Ok(Content::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Content, E> {
        Ok(Content::Text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Content, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(node(item));
        }
        Ok(Content::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut pairs: A) -> Result<Content, A::Error> {
        let mut map = Vec::new();
        while let Some(key) = pairs.next_key::<Spanned<String>>()? {
            let key_at = position(key.defined);
            map.push(Entry { key: key.value, key_at, value: node(pairs.next_value()?) });
        }
        Ok(Content::Map(map))
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Content, D::Error> {
        deserializer.deserialize_any(ContentVisitor)
    }
}

fn node(spanned: Spanned<Content>) -> Node {
    Node { at: position(spanned.defined), content: spanned.value }
}

fn position(location: Location) -> Position {
    known_bytes(location).unwrap_or(Position { line: 1, column: 1, start: 0, end: 0 })
}

fn known_bytes(location: Location) -> Option<Position> {
    let span = location.span();
    let start = usize::try_from(span.byte_offset()?).ok()?;
    let end = start + usize::try_from(span.byte_len()?).ok()?;
    Some(Position { line: number(location.line())?, column: number(location.column())?, start, end })
}

fn number(counted_from_one: u64) -> Option<usize> {
    usize::try_from(counted_from_one).ok().filter(|number| *number > 0)
}

fn describe(error: &Error) -> YamlError {
    let mut cause = error.without_snippet();
    while let Error::AliasError { error, .. } = cause {
        cause = error;
    }
    let location = error.location();
    let (message, suggestion) = explain(cause);
    YamlError {
        message,
        suggestion: suggestion.map(str::to_owned),
        line: location.and_then(|location| number(location.line())),
        column: location.and_then(|location| number(location.column())),
    }
}

/// The library's errors in our words, with the usual remedy.
fn explain(error: &Error) -> (String, Option<&'static str>) {
    match error {
        Error::Budget { breach: BudgetBreach::Depth { .. }, .. } => too_deep(),
        Error::Budget { .. } => ("The document is too large.".into(), Some("split it into several files")),
        Error::AliasReplayLimitExceeded { .. } | Error::AliasReplayStackDepthExceeded { .. } => (
            format!("The aliases of this document expand to more than {MAX_ALIASED_EVENTS} values."),
            Some("write the values out, or use fewer aliases of aliases"),
        ),
        Error::DuplicateMappingKey { key: Some(key), .. } => {
            (format!("The key `{key}` stands twice in the same map."), Some("keep one of the two"))
        }
        Error::UnknownAnchor { .. } => (
            "The alias refers to an anchor that this document does not define.".into(),
            Some("define it with `&name` in the same document, or put quotes around text that begins with `*`"),
        ),
        Error::NullIntoString { .. } => ("A key must be text, but this one is empty.".into(), Some("put it in quotes")),
        Error::NonFiniteFloat { value, .. } => (format!("`{value}` is not a finite number."), None),
        Error::UnsupportedTag { tag, .. } => (format!("The tag `{tag}` means nothing here."), Some("remove the tag")),
        Error::MergeValueNotMapOrSeqOfMaps { .. } => {
            ("The merge key `<<` needs a map, or a list of maps.".into(), Some("write `<<: *anchor`"))
        }
        Error::Unexpected { expected: "string scalar", .. } => {
            ("A key must be text, but this one is a list or a map.".into(), None)
        }
        Error::SerdeUnknownField { field, expected, .. } => unknown_field(field, expected),
        Error::SerdeMissingField { field, .. } => (format!("The field `{field}` is missing."), None),
        other => explain_syntax(&DefaultMessageFormatter.format_message(other)),
    }
}

fn unknown_field(field: &str, expected: &[&str]) -> (String, Option<&'static str>) {
    let known = expected.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    (format!("The field `{field}` is unknown; known here: {known}."), None)
}

fn too_deep() -> (String, Option<&'static str>) {
    (format!("Lists and maps nest more than {MAX_DEPTH} deep here."), Some("flatten the document"))
}

/// What the scanner says, by the words that it says it with, and what a person most likely did.
const SYNTAX: &[(&str, &str, &str)] = &[
    ("tabs disallowed", "A tab stands where YAML wants spaces.", "indent with spaces"),
    (
        "mapping values are not allowed",
        "A `:` stands where no key can be.",
        "check the indentation of this line, put a space behind the `:` of the line above, or quote text that holds `: `",
    ),
    ("illegal placement of ':'", "A `:` stands where no key can be.", "close the `[` or `{` that is still open"),
    ("unclosed bracket", "A bracket is opened here and never closed.", "add the closing `]` or `}`"),
    ("misplaced bracket", "A closing bracket stands here that nothing opened.", "remove it"),
    (
        "unknown escape character",
        "The text in double quotes holds an unknown escape.",
        "write `\\\\` for a backslash, or use single quotes",
    ),
    (
        "invalid indentation in multiline quoted",
        "The quoted text that begins above does not end before this line.",
        "add the closing quote",
    ),
    ("did not find expected '-'", "A key stands on the level of a list's items.", "indent it, or begin it with `- `"),
    ("did not find expected key", "The indentation of this line fits no map above it.", "align it with its neighbours"),
    (
        "expected <document start>",
        "A line that begins with `%` is a directive, and no document follows it.",
        "remove the line, or quote the text",
    ),
    ("simple key expect", "A key without a `:` stands here.", "put `: ` behind the key"),
    ("could not find expected ':'", "A key without a `:` stands here.", "put `: ` behind the key"),
    ("end of stream", "The text ends in the middle of a value.", "close the quote or bracket that is still open"),
];

fn explain_syntax(found: &str) -> (String, Option<&'static str>) {
    if found.contains("recursion limit") || found.contains("nesting") {
        return too_deep();
    }
    if let Some(character) = found.strip_prefix("unexpected character: `").and_then(|rest| rest.strip_suffix('\'')) {
        return unexpected_character(character);
    }
    match SYNTAX.iter().find(|(words, _, _)| found.contains(words)) {
        Some((_, message, suggestion)) => ((*message).to_owned(), Some(suggestion)),
        None => (format!("This is not YAML: {found}."), None),
    }
}

fn unexpected_character(character: &str) -> (String, Option<&'static str>) {
    if character.starts_with('\\') {
        return (format!("The character {character} cannot stand in YAML."), Some("remove it; is this a text file?"));
    }
    let shown = if character == "`" { "a back quote".to_owned() } else { format!("`{character}`") };
    (format!("A value cannot begin with {shown}."), Some("put the text in quotes"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, PartialEq, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Case {
        name: String,
        #[serde(default)]
        tags: Vec<String>,
    }

    #[test]
    fn typed_documents_are_read_and_unknown_fields_have_a_place() {
        assert_eq!(from_str::<Case>("name: a\ntags: [x]").unwrap(), Case { name: "a".into(), tags: vec!["x".into()] });
        let error = documents_from_str::<Case>("name: a\n---\nname: b\ntag: [x]\n").unwrap_err();
        assert_eq!((error.line, error.column), (Some(4), Some(1)), "{error}");
        assert!(error.message.contains("`tag`") && error.message.contains("`tags`"), "{error}");
        let error = from_str::<Case>("name: a\ntags: 7\n").unwrap_err();
        assert_eq!((error.line, error.column), (Some(2), Some(7)), "{error}");
    }

    #[test]
    fn the_core_schema_decides_types() {
        let root = parse("a: no\nb: true\nc: 1_000\nd: 0.5\ne: ~\nf: -3\ng: 2001-01-01\n").unwrap().unwrap();
        assert_eq!(
            root.to_json(),
            serde_json::json!({"a": "no", "b": true, "c": "1_000", "d": 0.5, "e": null, "f": -3, "g": "2001-01-01"})
        );
    }

    #[test]
    fn aliases_and_merge_keys_keep_the_place_of_the_definition() {
        let root = parse("a: &x {b: 1}\nc: *x\nd: {<<: *x, e: 2}\n").unwrap().unwrap();
        assert_eq!(root.to_json(), serde_json::json!({"a": {"b": 1}, "c": {"b": 1}, "d": {"e": 2, "b": 1}}));
        assert_eq!(root.entry("c").unwrap().value.entry("b").unwrap().value.at.line, 1);
        assert_eq!(root.entry("d").unwrap().value.entry("b").unwrap().value.at.line, 1);
    }

    /// Texts of which the short way reads many and leaves many to the long way.
    fn texts() -> impl Strategy<Value = String> {
        let word = prop::sample::select(vec![
            "a",
            "name",
            "n",
            "on",
            "no",
            "null",
            "~",
            "true",
            "False",
            "0",
            "7",
            "007",
            "-3",
            "0.5",
            "1e3",
            ".inf",
            "nan",
            "1_0",
            "/a/b",
            "./x",
            "'q'",
            "\"d\\n\"",
            "<<",
            "*x",
            "&x",
            "!!str",
            "[a, {b: 1}]",
            "{a: b, a: c}",
            "[",
            "x: y",
            "é😀",
            "long text here",
            "2001-01-01",
            "$HOME",
            "# c",
            "|\n    block\n    text\n",
            ">-\n    folded\n\n    text\n",
            "---",
            "...",
            "",
        ]);
        let line =
            (0..3usize, prop::sample::select(vec!["", "- ", "k: ", "key: ", "? ", "\"k\": ", "<<: ", "&x "]), word);
        prop::collection::vec(line, 0..7).prop_map(|lines| {
            let line = |(depth, begin, word): (usize, &str, &str)| format!("{}{begin}{word}\n", "  ".repeat(depth));
            lines.into_iter().map(line).collect()
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4_000))]
        #[test]
        fn the_short_way_reads_what_the_long_way_reads(text in texts()) {
            if let Some(root) = plain::read(&text) {
                prop_assert_eq!(parse_long(&text), Ok(Some(root)));
            }
        }
    }

    #[test]
    fn the_short_way_reads_what_people_write() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
        let files = ignore::Walk::new(folder).filter_map(Result::ok).map(ignore::DirEntry::into_path);
        let (mut documents, mut short) = (0, 0);
        for file in files.filter(|path| path.extension().is_some_and(|suffix| suffix == "yaml")) {
            let text = std::fs::read_to_string(&file).unwrap();
            for chunk in crate::split::documents(&text) {
                let Ok(Some(long)) = parse_long(chunk.text) else { continue };
                documents += 1;
                if let Some(root) = plain::read(chunk.text) {
                    assert_eq!(root, long, "{}", file.display());
                    short += 1;
                }
            }
        }
        assert!(documents > 20 && short * 10 > documents * 8, "{short} of {documents}");
    }

    #[test]
    fn depth_is_bounded_for_typed_readers_too() {
        let deep = "- ".repeat(10_000);
        assert!(from_str::<serde_json::Value>(&deep).unwrap_err().message.contains("deep"));
    }
}
