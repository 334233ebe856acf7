use proptest::prelude::*;
use serde_json::{Value, json};

use super::ValueMatcher;

fn matcher(value: Value) -> ValueMatcher {
    ValueMatcher::parse(&value).expect("a valid matcher")
}

fn matches(expected: Value, actual: Value) -> bool {
    matcher(expected).matches(Some(&actual))
}

#[test]
fn every_operator_accepts_and_rejects_values() {
    let table = [
        (json!(1), json!(1.0), json!("1")),
        (json!("a"), json!("a"), json!("b")),
        (json!(null), json!(null), json!(false)),
        (json!({"a": 1}), json!({"a": 1, "b": 2}), json!({"b": 1})),
        (json!([1, 2]), json!([1, 2]), json!([2, 1])),
        (json!([1]), json!([1]), json!([1, 2])),
        (json!({"$regex": "^a+$"}), json!("aa"), json!("ab")),
        (json!({"$contains": "b"}), json!("abc"), json!("ac")),
        (
            json!({"$contains": 4000}),
            json!("line 4000"),
            json!("line 400"),
        ),
        (json!({"$contains": "b"}), json!(["a", "b"]), json!(["ab"])),
        (json!({"$exists": true}), json!(null), json!(null)),
        (json!({"$length": 2}), json!("äö"), json!("a")),
        (json!({"$length": {"$gt": 1}}), json!([1, 2]), json!([1])),
        (json!({"$length": 1}), json!({"a": 1}), json!({})),
        (
            json!({"$unordered": [1, 2]}),
            json!([2, 1]),
            json!([2, 1, 1]),
        ),
        (
            json!({"$includes": [{"a": 1}]}),
            json!([{"b": 1}, {"a": 1}]),
            json!([{"b": 1}]),
        ),
        (
            json!({"$includes": [1, 1]}),
            json!([1, 2, 1]),
            json!([1, 2]),
        ),
        (
            json!({"$not": {"$contains": "x"}}),
            json!("abc"),
            json!("axc"),
        ),
        (json!({"$gt": 0.1}), json!(0.2), json!(0.1)),
        (json!({"$lt": 2000}), json!(1999.5), json!(2000)),
        (
            json!({"$names": ["b", "a"]}),
            json!([{"name": "a"}, "b"]),
            json!([{"name": "a"}]),
        ),
    ];
    for (expected, good, bad) in table {
        assert!(
            matches(expected.clone(), good.clone()),
            "{expected} should match {good}"
        );
        if expected != json!({"$exists": true}) {
            assert!(
                !matches(expected.clone(), bad.clone()),
                "{expected} should not match {bad}"
            );
        }
    }
}

#[test]
fn an_absent_value_is_different_from_null() {
    let absent = |expected: Value| matcher(expected).matches(None);
    assert!(absent(json!({"$exists": false})));
    assert!(absent(json!({"$not": {"$contains": "x"}})));
    assert!(!absent(json!({"$exists": true})));
    assert!(!absent(json!({"$any": true})));
    assert!(!absent(json!(null)));
    assert!(!matches(json!({"$exists": false}), json!(null)));
    assert!(matches(json!({"a": {"$exists": false}}), json!({"b": 1})));
}

#[test]
fn a_wrong_type_is_a_mismatch() {
    for expected in [
        json!({"$regex": "1"}),
        json!({"$gt": 0}),
        json!({"$length": 1}),
        json!({"$names": []}),
        json!([]),
    ] {
        assert!(!matches(expected.clone(), json!(true)), "{expected}");
    }
}

#[test]
fn invalid_matchers_have_errors_with_a_path() {
    let error = |value: Value| {
        ValueMatcher::parse(&value)
            .expect_err("an error")
            .to_string()
    };
    insta::assert_snapshot!(
        [
            error(json!({"output": {"$contians": "x"}})),
            error(json!({"output": [{"$regex": "("}]})),
            error(json!({"$gt": 1, "$lt": 3})),
            error(json!({"a": {"$gt": "1"}})),
            error(json!({"a": {"$length": -1}})),
            error(json!({"a": {"$includes": {"b": 1}}})),
            error(json!({"a": {"$exists": "no"}})),
            error(json!({"a": {"$any": false}})),
            error(json!({"a": {"$names": [1]}})),
            error(json!({"a": {"$contains": ["x"]}})),
        ]
        .join("\n---\n")
    );
}

#[test]
fn mismatches_are_shown_with_path_and_diff() {
    let shown = |expected: Value, actual: Value| {
        let mismatches = matcher(expected).check_at("expect", Some(&actual));
        let line = |m: &super::ValueMismatch| {
            format!(
                "{}: expected {}, got {}\n{}",
                m.path,
                m.expected,
                m.actual,
                m.diff.as_deref().unwrap_or("")
            )
        };
        mismatches.iter().map(line).collect::<String>()
    };
    insta::assert_snapshot!(
        [
            shown(json!({"a": 1, "b": {"c": "x"}}), json!({"a": 2, "b": {}})),
            shown(
                json!({"assistant:main": [{"role": "user"}]}),
                json!({"assistant:main": [{"role": "tool"}]})
            ),
            shown(json!("one\ntwo\nthree\n"), json!("one\n2\nthree\n")),
            shown(
                json!([{"role": "user", "text": "a"}]),
                json!([{"role": "user", "text": "a", "id": "m1"}, {"role": "assistant"}])
            ),
            shown(
                json!({"$includes": [{"code": "E_A", "line": 4}]}),
                json!([{"code": "E_A", "line": 5}, {"code": "E_B", "line": 1}])
            ),
            shown(json!({"$unordered": [1, 2]}), json!([2, 1, 3])),
            shown(json!({"$unordered": [1, 2]}), json!([2, 3])),
            shown(json!({"$length": 3}), json!([1])),
            shown(json!("short"), json!("x".repeat(1000))),
        ]
        .join("===\n")
    );
}

/// Any JSON value without operators.
fn plain() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>()
            .prop_filter("JSON has no infinities", |f| f.is_finite())
            .prop_map(Value::from),
        "[a-z\n ]{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map("[a-z:. ]{0,6}", inner, 0..4).prop_map(Value::from_iter),
        ]
    })
}

proptest! {
    #[test]
    fn a_plain_value_matches_itself(value in plain()) {
        prop_assert_eq!(matcher(value.clone()).check(Some(&value)), []);
    }

    #[test]
    fn matches_returns_true_if_check_finds_no_mismatch(expected in plain(), actual in plain()) {
        for expected in [expected.clone(), json!({"$not": expected.clone()}), json!([expected.clone()]), json!({"$unordered": [expected]})] {
            for actual in [actual.clone(), json!([actual.clone()])] {
                let matcher = matcher(expected.clone());
                prop_assert_eq!(matcher.matches(Some(&actual)), matcher.check(Some(&actual)).is_empty());
            }
        }
    }

    #[test]
    fn the_not_operator_inverts_a_match(expected in plain(), actual in plain()) {
        let not = matcher(json!({"$not": expected.clone()}));
        prop_assert_ne!(matcher(expected).matches(Some(&actual)), not.matches(Some(&actual)));
    }

    #[test]
    fn a_matcher_serializes_to_its_source(value in plain()) {
        for wrapped in [value.clone(), json!({"$not": value.clone()}), json!({"$unordered": [value.clone()]}), json!({"$includes": [value]})] {
            prop_assert_eq!(matcher(wrapped.clone()).to_value(), wrapped);
        }
    }

    #[test]
    fn a_list_in_any_order_matches_unordered_and_includes(list in prop::collection::vec(plain(), 0..5).prop_shuffle(), extra in plain()) {
        let mut actual = list.clone();
        actual.reverse();
        let mut longer = vec![extra];
        longer.extend(actual.iter().cloned());
        let (unordered, includes) = (json!({"$unordered": list.clone()}), json!({"$includes": list}));
        prop_assert_eq!(matcher(unordered.clone()).check(Some(&Value::from(actual))), []);
        prop_assert_eq!(matcher(includes).check(Some(&Value::from(longer.clone()))), []);
        prop_assert_ne!(matcher(unordered).check(Some(&Value::from(longer))), []);
    }

    #[test]
    fn a_changed_scalar_is_found_at_its_path(value in "[a-z]{1,8}", index in 0..5usize) {
        let actual = json!({"items": [{"v": "a"}, {"v": "b"}, {"v": "c"}, {"v": "d"}, {"v": "e"}]});
        let mut expected = actual.clone();
        expected["items"][index]["v"] = json!(format!("{value}!"));
        let mismatches = matcher(expected).check(Some(&actual));
        prop_assert_eq!(mismatches.len(), 1);
        prop_assert_eq!(&mismatches[0].path, &format!("items[{index}].v"));
    }
}
