//! Comparison of numbers by value, without loss: `1` equals `1.0`, and large integers are not
//! rounded.

use std::cmp::Ordering;

use serde_json::Number;

/// Compares two numbers; `None` only for non-finite numbers, which JSON excludes.
pub(super) fn compare(a: &Number, b: &Number) -> Option<Ordering> {
    match (as_integer(a), as_integer(b)) {
        (Some(a), Some(b)) => Some(a.cmp(&b)),
        (None, None) => a.as_f64()?.partial_cmp(&b.as_f64()?),
        (Some(a), None) => compare_mixed(a, b.as_f64()?),
        (None, Some(b)) => compare_mixed(b, a.as_f64()?).map(Ordering::reverse),
    }
}

/// Returns the number as an integer; `None` if it has a fraction part.
fn as_integer(number: &Number) -> Option<i128> {
    number
        .as_i64()
        .map(i128::from)
        .or_else(|| number.as_u64().map(i128::from))
}

/// Compares the integer with the floor of `float`, then the fraction.
fn compare_mixed(integer: i128, float: f64) -> Option<Ordering> {
    if !float.is_finite() {
        return None;
    }
    let floor = float.floor();
    // The cast saturates. All JSON integers are far inside i128, so huge floats compare correctly.
    let whole_part = integer.cmp(&(floor as i128));
    Some(if whole_part == Ordering::Equal && float > floor {
        Ordering::Less
    } else {
        whole_part
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn number(value: serde_json::Value) -> Number {
        value.as_number().expect("a number").clone()
    }

    #[test]
    fn integers_and_floats_compare_by_value() {
        let cases = [
            (json!(1), json!(1.0), Ordering::Equal),
            (json!(0), json!(-0.0), Ordering::Equal),
            (json!(1), json!(1.5), Ordering::Less),
            (json!(-1), json!(-1.5), Ordering::Greater),
            (json!(1e300), json!(u64::MAX), Ordering::Greater),
            (json!(-1e300), json!(i64::MIN), Ordering::Less),
            // As f64, both numbers are 2^53.
            (
                json!(9_007_199_254_740_993_u64),
                json!(9_007_199_254_740_992.0),
                Ordering::Greater,
            ),
            (json!(u64::MAX), json!(-1), Ordering::Greater),
        ];
        for (a, b, expected) in cases {
            assert_eq!(
                compare(&number(a.clone()), &number(b.clone())),
                Some(expected),
                "{a} and {b}"
            );
            assert_eq!(
                compare(&number(b.clone()), &number(a.clone())),
                Some(expected.reverse()),
                "{b} and {a}"
            );
        }
    }

    proptest! {
        #[test]
        fn integers_compare_as_integers(a: i64, b: u64) {
            prop_assert_eq!(compare(&a.into(), &b.into()), Some(i128::from(a).cmp(&i128::from(b))));
        }

        #[test]
        fn small_integers_compare_with_floats_as_floats(a: i32, b in -1e12..1e12f64) {
            let float = Number::from_f64(b).expect("finite");
            prop_assert_eq!(compare(&a.into(), &float), f64::from(a).partial_cmp(&b));
        }
    }
}
