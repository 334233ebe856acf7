mod splitting;

use serde_json::json;

use super::*;

type Piece = (
    Option<u64>,
    Option<&'static str>,
    Option<&'static str>,
    Option<&'static str>,
);

/// Returns id, name and arguments of the calls in `pieces` (index, id, name, arguments).
fn assembled(pieces: &[Piece]) -> Vec<(String, String, Value)> {
    let mut assembler = CallAssembler::default();
    for (index, id, name, arguments) in pieces.iter().copied() {
        assembler.add(CallPiece {
            index,
            id,
            name,
            arguments,
        });
    }
    calls_of(&assembler)
}

fn calls_of(assembler: &CallAssembler) -> Vec<(String, String, Value)> {
    let calls = assembler.calls.iter();
    calls
        .map(|call| {
            (
                call.id.clone(),
                call.name.clone(),
                parse_arguments(&call.arguments),
            )
        })
        .collect()
}

fn call(id: &str, name: &str, arguments: Value) -> (String, String, Value) {
    (id.to_owned(), name.to_owned(), arguments)
}

#[test]
fn pieces_are_assigned_by_index() {
    let (a, b) = (
        call("a", "f", json!({"n": 1})),
        call("b", "g", json!({"n": 2})),
    );
    let with_later_id = |id| {
        assembled(&[
            (Some(1), Some("a"), Some("f"), Some("")),
            (Some(2), Some("b"), Some("g"), Some("")),
            (Some(1), id, id, Some("{\"n\":")),
            (Some(2), id, id, Some("{\"n\":")),
            (Some(1), id, None, Some("1}")),
            (Some(2), id, None, Some("2}")),
        ])
    };
    assert_eq!(with_later_id(None), [a.clone(), b.clone()]);
    assert_eq!(with_later_id(Some("")), [a, b]);
}

#[test]
fn names_may_come_late_or_in_pieces() {
    let expected = [call("a", "get_weather", json!({"n": 1}))];
    let late = [
        (Some(0), Some("a"), Some(""), Some("")),
        (Some(0), Some("a"), Some("get_weather"), Some("{\"n\":")),
        (Some(0), None, None, Some("1}")),
    ];
    assert_eq!(assembled(&late), expected);
    let after_arguments = [
        (None, Some("a"), None, Some("{\"n\":1}")),
        (None, Some("a"), Some("get_weather"), None),
    ];
    assert_eq!(assembled(&after_arguments), expected);
    let in_pieces = [
        (Some(0), Some("a"), Some("get_w"), None),
        (Some(0), None, Some("eather"), None),
        (Some(0), None, None, Some("{\"n\":1}")),
    ];
    assert_eq!(assembled(&in_pieces), expected);
    let one_letter = [
        (Some(0), None, Some("a__tests"), None),
        (Some(0), None, Some("s"), Some("{}")),
    ];
    assert_eq!(assembled(&one_letter), [call("", "a__testss", json!({}))]);
}

#[test]
fn a_name_in_every_piece_is_one_call() {
    for id in [None, Some(""), Some("a")] {
        for index in [None, Some(0), Some(1)] {
            let pieces =
                ["", "{\"n\":", "1}", "", " "].map(|text| (index, id, Some("f"), Some(text)));
            assert_eq!(
                assembled(&pieces),
                [call(id.unwrap_or_default(), "f", json!({"n": 1}))]
            );
        }
    }
}

#[test]
fn several_calls_may_have_the_same_index() {
    let two = [
        call("a", "f", json!({"n": 1})),
        call("b", "g", json!({"n": 2})),
    ];
    let whole = [
        (Some(0), Some("a"), Some("f"), Some("{\"n\":1}")),
        (Some(0), Some("b"), Some("g"), Some("{\"n\":2}")),
    ];
    assert_eq!(assembled(&whole), two);
    let in_pieces = [
        (Some(0), Some("a"), Some("f"), Some("")),
        (Some(0), None, None, Some("{\"n\":1}")),
        (Some(0), Some("b"), Some("g"), Some("")),
        (Some(0), None, None, Some("{\"n\":2}")),
    ];
    assert_eq!(assembled(&in_pieces), two);
    let of_one_tool = [
        (Some(0), Some("a"), Some("f"), Some("{\"n\":1}")),
        (Some(0), Some("b"), Some("f"), Some("")),
        (Some(0), None, None, Some("{\"n\":")),
        (Some(0), None, None, Some("2}")),
    ];
    assert_eq!(
        assembled(&of_one_tool),
        [
            call("a", "f", json!({"n": 1})),
            call("b", "f", json!({"n": 2}))
        ]
    );
    let without_arguments = [
        (Some(0), Some("a"), Some("f"), None),
        (Some(0), Some("b"), Some("f"), None),
    ];
    assert_eq!(assembled(&without_arguments).len(), 2);
    let without_ids = [
        (Some(0), None, Some("f"), Some("{}")),
        (Some(0), None, Some("g"), Some("{\"n\":2}")),
    ];
    assert_eq!(
        assembled(&without_ids),
        [call("", "f", json!({})), call("", "g", json!({"n": 2}))]
    );
}

#[test]
fn pieces_without_an_index_are_assigned_by_id() {
    let pieces = [
        (None, Some("a"), Some("f"), Some("{\"n\":")),
        (None, Some("b"), Some("g"), Some("{\"n\":")),
        (None, Some("a"), None, Some("1}")),
        (None, Some("b"), None, Some("2}")),
        (None, Some("c"), Some("f"), None),
    ];
    let expected = [
        call("a", "f", json!({"n": 1})),
        call("b", "g", json!({"n": 2})),
        call("c", "f", json!({})),
    ];
    assert_eq!(assembled(&pieces), expected);
}

#[test]
fn calls_without_indexes_and_ids_are_split_in_order() {
    let two = [
        call("", "f", json!({"n": 1})),
        call("", "f", json!({"n": 2})),
    ];
    let whole = [
        (None, None, Some("f"), Some("{\"n\":1}")),
        (None, None, Some("f"), Some("{\"n\":2}")),
    ];
    assert_eq!(assembled(&whole), two);
    let in_pieces = [
        (None, None, Some("f"), Some("")),
        (None, None, None, Some("{\"n\":1}")),
        (None, Some(""), Some("f"), Some("")),
        (None, None, None, Some("{\"n\":")),
        (None, None, None, Some("2}")),
    ];
    assert_eq!(assembled(&in_pieces), two);
    for empty in ["{}", "null", "\"\""] {
        let empty = [
            (None, None, Some("f"), Some(empty)),
            (None, None, Some("g"), Some(empty)),
        ];
        assert_eq!(
            assembled(&empty),
            [call("", "f", json!({})), call("", "g", json!({}))]
        );
    }
    let names_only = [
        (None, None, Some("f"), None),
        (None, None, Some("g"), Some("{}")),
    ];
    assert_eq!(
        assembled(&names_only),
        [call("", "f", json!({})), call("", "g", json!({}))]
    );
}

#[test]
fn calls_with_the_same_id_stay_separate() {
    let with_index = [
        (Some(0), Some("a"), Some("f"), Some("{\"n\":1}")),
        (Some(1), Some("a"), Some("f"), Some("{\"n\":2}")),
    ];
    let without_index = with_index.map(|(_, id, name, arguments)| (None, id, name, arguments));
    let two = [
        call("a", "f", json!({"n": 1})),
        call("a", "f", json!({"n": 2})),
    ];
    assert_eq!(assembled(&with_index), two);
    assert_eq!(assembled(&without_index), two);
}

#[test]
fn call_ids_and_indexes_may_arrive_late() {
    let expected = [call("a", "f", json!({"n": 1}))];
    let late_id = [
        (None, None, Some("f"), None),
        (None, Some("a"), None, Some("{\"n\":1}")),
    ];
    assert_eq!(assembled(&late_id), expected);
    for id in [None, Some("a")] {
        let late_index = [
            (None, Some("a"), Some("f"), None),
            (Some(0), id, None, Some("{\"n\":1}")),
        ];
        assert_eq!(assembled(&late_index), expected);
    }
}

#[test]
fn an_empty_object_may_precede_the_arguments() {
    for first in ["{}", " {} ", "null"] {
        let pieces = [
            (Some(0), Some("a"), Some("f"), Some(first)),
            (Some(0), None, None, Some("{\"n\":")),
            (Some(0), None, None, Some("1}")),
            (Some(0), Some("b"), Some("f"), Some("{\"n\":2}")),
        ];
        let expected = [
            call("a", "f", json!({"n": 1})),
            call("b", "f", json!({"n": 2})),
        ];
        assert_eq!(assembled(&pieces), expected);
    }
}

#[test]
fn pieces_without_content_begin_no_call() {
    assert_eq!(
        assembled(&[
            (Some(0), None, None, None),
            (None, Some(""), Some(""), Some(""))
        ]),
        []
    );
}

#[test]
fn arguments_are_parsed_from_all_known_formats() {
    for (text, expected) in [
        ("", json!({})),
        ("  ", json!({})),
        ("null", json!({})),
        ("{}", json!({})),
        ("{\"a\":1}", json!({"a": 1})),
        ("{}{\"a\":1}", json!({"a": 1})),
        (" {} {\"a\":1}", json!({"a": 1})),
        ("null{\"a\":1}", json!({"a": 1})),
        ("{}\"{\\\"a\\\":1}\"", json!({"a": 1})),
        ("\"{\\\"a\\\":1}\"", json!({"a": 1})),
        ("\"\"", json!({})),
        ("\"plain\"", json!("plain")),
        ("[1]", json!([1])),
        ("{\"a\":\"\\ud83d\"}", json!({"a": "\u{fffd}"})),
        ("{\"a\":", json!("{\"a\":")),
        ("{\"a\":1}{\"b\":2}", json!("{\"a\":1}{\"b\":2}")),
        ("nonsense", json!("nonsense")),
    ] {
        assert_eq!(parse_arguments(text), expected, "{text}");
    }
}
