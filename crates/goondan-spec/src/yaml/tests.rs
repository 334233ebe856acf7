//! Compares the reader with another YAML library, which uses the same parser.

use proptest::prelude::*;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Number;
use serde_saphyr::{Location, NonFiniteFloatPolicy, Spanned};

use super::*;
use crate::node::MapEntry;

#[derive(Debug, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    #[serde(default)]
    tags: Vec<String>,
}

#[test]
fn typed_documents_are_read_and_unknown_fields_have_a_position() {
    assert_eq!(
        from_str::<Case>("name: a\ntags: [x]").unwrap(),
        Case {
            name: "a".into(),
            tags: vec!["x".into()]
        }
    );
    let error = documents_from_str::<Case>("name: a\n---\nname: b\ntag: [x]\n").unwrap_err();
    assert_eq!((error.line, error.column), (Some(4), Some(1)), "{error}");
    assert!(
        error.message.contains("`tag`") && error.message.contains("`tags`"),
        "{error}"
    );
    let error = from_str::<Case>("name: a\ntags: 7\n").unwrap_err();
    assert_eq!((error.line, error.column), (Some(2), Some(7)), "{error}");
}

#[test]
fn the_core_schema_decides_types() {
    let root = parse("a: no\nb: true\nc: 1_000\nd: 0.5\ne: ~\nf: -3\ng: 2001-01-01\n")
        .unwrap()
        .unwrap();
    assert_eq!(
        root.to_json(),
        serde_json::json!({"a": "no", "b": true, "c": "1_000", "d": 0.5, "e": null, "f": -3, "g": "2001-01-01"})
    );
}

#[test]
fn aliases_and_merge_keys_keep_the_position_of_the_definition() {
    let root = parse("a: &x {b: 1}\nc: *x\nd: {<<: *x, e: 2}\n")
        .unwrap()
        .unwrap();
    assert_eq!(
        root.to_json(),
        serde_json::json!({"a": {"b": 1}, "c": {"b": 1}, "d": {"e": 2, "b": 1}})
    );
    assert_eq!(
        root.entry("c")
            .unwrap()
            .value
            .entry("b")
            .unwrap()
            .value
            .at
            .line,
        1
    );
    assert_eq!(
        root.entry("d")
            .unwrap()
            .value
            .entry("b")
            .unwrap()
            .value
            .at
            .line,
        1
    );
}

/// Generates valid and invalid texts that cover all YAML features.
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
        "!!str ~",
        "!!int 0x1f",
        "!!int a",
        "!!float 3",
        "!!bool yes",
        "!!null a",
        "!!seq [a]",
        "!!map [a]",
        "! 7",
        "!mine a",
        "0o17",
        "0xFF",
        "0b101",
        "-0x10",
        "+5",
        "-0",
        "1e999",
        "18446744073709551615",
        "18446744073709551616",
        "-9223372036854775808",
        "-9223372036854775809",
        "5.",
        ".5",
        "-.inf",
        "1.2.3",
        "[*x, *y]",
        "&y [*x]",
        "*y",
        "[{a: 1}, *x]",
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
    let line = (
        0..3usize,
        prop::sample::select(vec![
            "", "- ", "k: ", "key: ", "? ", "\"k\": ", "<<: ", "&x ",
        ]),
        word,
    );
    prop::collection::vec(line, 0..7).prop_map(|lines| {
        let line = |(depth, begin, word): (usize, &str, &str)| {
            format!("{}{begin}{word}\n", "  ".repeat(depth))
        };
        lines.into_iter().map(line).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]
    #[test]
    fn both_libraries_read_generated_texts_alike(text in texts()) {
        match (ours(&text), theirs(&text)) {
            // The other library does not check merged values that the map's own keys replace.
            (Err(_), Ok(_)) if text.contains("<<") && (is_inside_itself(&text) || has_wrong_value(&text)) => {}
            (Err(_), Ok(Some(theirs))) if has_duplicate_keys(&theirs) => {}
            (Ok(Some(ours)), Err(_)) if has_equal_numbers(&ours) => {}
            (Err(_), _) if is_refused_only_by_our_reader(&text) => {}
            // The other library finds syntax errors around keys first, and reports alias targets.
            (Err(_), Err(_)) if text.contains("<<") || text.contains('*') => {}
            (Err(ours), Err(theirs)) => prop_assert!(ours <= theirs, "{ours:?}, {theirs:?}"),
            (ours, theirs) => prop_assert_eq!(ours, theirs),
        }
    }
}

#[test]
fn a_number_and_the_same_digits_as_text_are_one_key() {
    for text in ["7: a\n\"7\": b\n", "? 7\n? ! 7\n"] {
        assert!(
            ours(text).is_err()
                && theirs(text)
                    .is_ok_and(|node| node.is_some_and(|node| has_duplicate_keys(&node))),
            "{text}"
        );
    }
}

#[test]
fn only_forms_with_a_dot_are_infinity_or_not_a_number() {
    for word in [
        "nan",
        "NaN",
        "inf",
        "Inf",
        "+inf",
        "-inf",
        "infinity",
        "-Infinity",
    ] {
        let node = parse(word).unwrap().unwrap();
        assert_eq!(node.content, NodeContent::Text(word.to_owned()));
        let (error, _) = parse(&format!("!!float {word}")).unwrap_err();
        assert!(
            error.message.contains("does not match"),
            "{word}: {}",
            error.message
        );
    }
    for word in [".nan", ".NaN", ".NAN", ".inf", "+.Inf", "-.INF", "1e999"] {
        for text in [word.to_owned(), format!("!!float {word}")] {
            let (error, _) = parse(&text).unwrap_err();
            assert!(
                error.message.contains("is not a finite number"),
                "{text}: {}",
                error.message
            );
        }
    }
}

/// Returns true if a map has two keys with the same text, which our reader rejects.
fn has_duplicate_keys(node: &YamlNode) -> bool {
    match &node.content {
        NodeContent::Map(entries) => {
            let is_duplicate = |(at, entry): (usize, &MapEntry)| {
                entries[..at].iter().any(|other| other.key == entry.key)
            };
            entries.iter().enumerate().any(is_duplicate)
                || entries.iter().any(|entry| has_duplicate_keys(&entry.value))
        }
        NodeContent::List(items) => items.iter().any(has_duplicate_keys),
        _ => false,
    }
}

/// Returns true if a map has two keys with different text that are the same number, such as `0` and
/// `-0`. The other library rejects them. Our keys are text.
fn has_equal_numbers(node: &YamlNode) -> bool {
    match &node.content {
        NodeContent::Map(entries) => {
            let numbers: Vec<f64> = entries
                .iter()
                .filter_map(|entry| entry.key.parse().ok())
                .collect();
            let is_repeated = |(at, number): (usize, &f64)| numbers[..at].contains(number);
            numbers.iter().enumerate().any(is_repeated)
                || entries.iter().any(|entry| has_equal_numbers(&entry.value))
        }
        NodeContent::List(items) => items.iter().any(has_equal_numbers),
        _ => false,
    }
}

#[test]
fn keys_with_the_same_number_are_different_texts() {
    let text = "? 0\n? -0\n";
    assert!(ours(text).is_ok_and(|node| node.is_some_and(|node| has_equal_numbers(&node))));
    assert!(theirs(text).is_err());
}

#[test]
fn both_libraries_read_the_examples_alike() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
    let files = ignore::Walk::new(folder)
        .filter_map(Result::ok)
        .map(ignore::DirEntry::into_path);
    let mut documents = 0;
    for file in files.filter(|path| path.extension().is_some_and(|suffix| suffix == "yaml")) {
        let text = std::fs::read_to_string(&file).unwrap();
        for chunk in crate::document_split::split_documents(&text) {
            assert_eq!(ours(chunk.text), theirs(chunk.text), "{}", file.display());
            documents += 1;
        }
    }
    assert!(documents > 20, "{documents}");
}

#[test]
fn nesting_depth_is_limited_for_typed_reads() {
    let deep = "- ".repeat(10_000);
    assert!(
        from_str::<serde_json::Value>(&deep)
            .unwrap_err()
            .message
            .contains("deep")
    );
}

/// The tree, or the position of the first error. Messages are not compared, because they differ.
type Outcome = Result<Option<YamlNode>, (Option<usize>, Option<usize>)>;

fn ours(text: &str) -> Outcome {
    parse(text).map_err(|(error, _)| (error.line, error.column))
}

fn is_inside_itself(text: &str) -> bool {
    parse(text).is_err_and(|(error, _)| error.message == error_messages::inside_itself().message)
}

/// Returns true if our reader stops at an integer that is too large, or at a line in brackets
/// without indentation. The other library accepts both, and finds an unclosed bracket elsewhere.
fn is_refused_only_by_our_reader(text: &str) -> bool {
    parse(text).is_err_and(|(error, _)| {
        error.message == error_messages::flow_is_not_indented().message
            || error.message.contains("more than 64 bits")
    })
}

/// Returns true if the text may contain a number out of range, or a tag that does not match its
/// value.
fn has_wrong_value(text: &str) -> bool {
    [".inf", "1e999", "!"]
        .iter()
        .any(|part| text.contains(part))
}

fn theirs(text: &str) -> Outcome {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_depth: MAX_NESTING_DEPTH, simple_key_max_lookahead: MAX_KEY_CHARS },
        strict_booleans: true,
        underscored_numbers_as_strings: true,
        reject_unsupported_tags: true,
        non_finite_float_policy: NonFiniteFloatPolicy::Reject,
        with_snippet: false,
    };
    let read = serde_saphyr::from_multiple_with_options::<Spanned<NodeContent>>(text, options);
    let mut documents = read.map_err(|error| {
        let place = error.location();
        let number = |number: u64| usize::try_from(number).unwrap();
        (
            place.map(|place| number(place.line())),
            place.map(|place| number(place.column())),
        )
    })?;
    Ok(if documents.is_empty() {
        None
    } else {
        Some(node(documents.swap_remove(0)))
    })
}

struct ContentVisitor;

impl<'de> Visitor<'de> for ContentVisitor {
    type Value = NodeContent;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a YAML value")
    }

    fn visit_unit<E>(self) -> Result<NodeContent, E> {
        Ok(NodeContent::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<NodeContent, E> {
        Ok(NodeContent::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<NodeContent, E> {
        Ok(NodeContent::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<NodeContent, E> {
        Ok(NodeContent::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<NodeContent, E> {
        Ok(Number::from_f64(value).map_or(NodeContent::Null, NodeContent::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<NodeContent, E> {
        Ok(NodeContent::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<NodeContent, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(node(item));
        }
        Ok(NodeContent::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut pairs: A) -> Result<NodeContent, A::Error> {
        let mut map = Vec::new();
        while let Some(key) = pairs.next_key::<Spanned<String>>()? {
            let key_at = position(key.defined);
            map.push(MapEntry {
                key: key.value,
                written: None,
                key_at,
                value: node(pairs.next_value()?),
            });
        }
        Ok(NodeContent::Map(map))
    }
}

impl<'de> Deserialize<'de> for NodeContent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<NodeContent, D::Error> {
        deserializer.deserialize_any(ContentVisitor)
    }
}

fn node(spanned: Spanned<NodeContent>) -> YamlNode {
    YamlNode {
        at: position(spanned.defined),
        content: spanned.value,
    }
}

fn position(location: Location) -> SourcePosition {
    let number = |number: u64| usize::try_from(number).unwrap();
    let span = location.span();
    let (start, len) = (
        span.byte_offset().map_or(0, number),
        span.byte_len().map_or(0, number),
    );
    SourcePosition {
        line: number(location.line()),
        column: number(location.column()),
        start,
        end: start + len,
    }
}

#[derive(Debug, PartialEq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
enum Shape {
    Dot,
    Circle(u32),
    Box { width: f64, height: Option<i8> },
}

#[test]
fn derived_types_of_every_form_are_read() {
    let read = |text| from_str::<Vec<Shape>>(text).map_err(|error| error.to_string());
    let shapes =
        read("- dot\n- circle: 3\n- &b {box: {width: 2, height: -1}}\n- box: {width: .5}\n- *b\n");
    let tall = || Shape::Box {
        width: 2.0,
        height: Some(-1),
    };
    let flat = Shape::Box {
        width: 0.5,
        height: None,
    };
    assert_eq!(
        shapes,
        Ok(vec![Shape::Dot, Shape::Circle(3), tall(), flat, tall()])
    );
    assert_eq!(read("# nothing\n"), Ok(Vec::new()));
    assert_eq!(
        from_str::<Case>("name: a\ntags:\n").unwrap().tags,
        Vec::<String>::new()
    );
    assert!(
        from_str::<Case>("")
            .unwrap_err()
            .message
            .contains("`name` is missing")
    );
    let texts = from_str::<Vec<String>>("[a, 1.50, 0x1F, True, '7', !!str null]");
    assert_eq!(texts.unwrap(), ["a", "1.50", "0x1F", "True", "7", "null"]);
    let mistakes = [
        "- round",
        "- circle",
        "- dot: 1",
        "- {dot: 1, circle: 2}",
        "- 7",
        "- circle: -3",
        "- box: {width: wide}",
        "- box: {height: 1}",
        "- box: [a]",
        "{}",
    ];
    insta::assert_snapshot!(mistakes.map(|text| read(text).unwrap_err()).join("\n"));
}

#[test]
fn aliases_of_long_strings_are_limited_in_bytes() {
    let long = "x".repeat(100_000);
    let aliases = "- *a\n".repeat(1_000);
    let found = parse(&format!("- &a {long}\n{aliases}")).unwrap_err();
    assert!(found.0.message.contains("16 MiB"), "{}", found.0.message);
    let keys = "- {*a : 1}\n".repeat(1_000);
    let found = parse(&format!("- &a {}\n{keys}", &long[..20_000])).unwrap_err();
    assert!(found.0.message.contains("16 MiB"), "{}", found.0.message);
}
