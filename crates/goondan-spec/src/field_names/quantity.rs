//! Values with a unit, such as `30s` and `512MiB`.

use serde_json::Number;

use crate::node::NodeContent;

const MS_PER_SECOND: u64 = 1_000;
const MIB_PER_GIB: u64 = 1_024;

/// Units of durations with their lengths in milliseconds, longest first.
const DURATION_UNITS: [(&str, u64); 5] = [
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", MS_PER_SECOND),
    ("ms", 1),
];

/// Units of sizes with their sizes in MiB, largest first.
const SIZE_UNITS: [(&str, u64); 4] = [
    ("GiB", MIB_PER_GIB),
    ("Gi", MIB_PER_GIB),
    ("MiB", 1),
    ("Mi", 1),
];

/// Unit of a number in a field whose name states the unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ValueUnit {
    /// The value is not a quantity.
    None,
    Milliseconds,
    /// Integer seconds.
    Seconds,
    /// Seconds, with fractions.
    FractionalSeconds,
    /// Integer MiB.
    Mebibytes,
}

impl ValueUnit {
    /// Returns an example of a value with its unit.
    pub(crate) fn example(self) -> Option<&'static str> {
        match self {
            ValueUnit::None => None,
            ValueUnit::Mebibytes => Some("512MiB"),
            _ => Some("30s"),
        }
    }

    /// Describes the accepted values in words that follow "must be".
    pub(crate) fn description(self) -> &'static str {
        match self {
            ValueUnit::Mebibytes => "a size such as `512MiB` or `2GiB`",
            ValueUnit::Seconds => "a duration in whole seconds, such as `30s` or `5m`",
            _ => "a duration such as `30s` or `5m`",
        }
    }

    /// Returns a regular expression for values with a unit.
    pub(crate) fn pattern(self) -> &'static str {
        match self {
            ValueUnit::Mebibytes => "^[0-9]+ ?(MiB|GiB|Mi|Gi)$",
            _ => "^([0-9]+(\\.[0-9]+)? ?(ms|s|m|h|d) ?)+$",
        }
    }

    /// Converts a value such as `30s` to a number in this unit; `None` if it has another form.
    pub(crate) fn parse(self, text: &str) -> Option<Number> {
        match self {
            ValueUnit::None => None,
            ValueUnit::Milliseconds => parse_milliseconds(text).map(Number::from),
            ValueUnit::Seconds => {
                let milliseconds = parse_milliseconds(text)?;
                (milliseconds % MS_PER_SECOND == 0).then(|| (milliseconds / MS_PER_SECOND).into())
            }
            ValueUnit::FractionalSeconds => {
                let milliseconds = parse_milliseconds(text)?;
                match milliseconds % MS_PER_SECOND {
                    0 => Some((milliseconds / MS_PER_SECOND).into()),
                    _ => Number::from_f64(milliseconds as f64 / MS_PER_SECOND as f64),
                }
            }
            ValueUnit::Mebibytes => parse_mebibytes(text).map(Number::from),
        }
    }

    /// Formats a number in this unit with its unit; `None` for other values.
    pub(crate) fn format(self, value: &NodeContent) -> Option<String> {
        let NodeContent::Number(number) = value else {
            return None;
        };
        match self {
            ValueUnit::None => None,
            ValueUnit::Milliseconds => number.as_u64().map(format_milliseconds),
            ValueUnit::Seconds => {
                let milliseconds = number.as_u64()?.checked_mul(MS_PER_SECOND)?;
                Some(format_milliseconds(milliseconds))
            }
            ValueUnit::FractionalSeconds => whole_milliseconds(number).map(format_milliseconds),
            ValueUnit::Mebibytes => Some(match number.as_u64()? {
                size if size > 0 && size % MIB_PER_GIB == 0 => {
                    format!("{}GiB", size / MIB_PER_GIB)
                }
                size => format!("{size}MiB"),
            }),
        }
    }
}

/// Parses durations such as `30s` and `1h30m`; `None` if the text has another form or is too large.
fn parse_milliseconds(text: &str) -> Option<u64> {
    let mut rest = text.trim();
    let mut total = 0_u64;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let number_end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(number_end);
        let after = after.trim_start();
        let unit_end = after
            .find(|c: char| !c.is_ascii_lowercase())
            .unwrap_or(after.len());
        let (unit, remaining) = after.split_at(unit_end);
        let (_, length) = DURATION_UNITS.into_iter().find(|(name, _)| *name == unit)?;
        total = total.checked_add(multiply_decimal(number, length)?)?;
        rest = remaining.trim_start();
    }
    Some(total)
}

/// Multiplies a decimal number by `unit`; `None` if the product is not an integer.
fn multiply_decimal(number: &str, unit: u64) -> Option<u64> {
    let (whole_units, fraction) = number.split_once('.').unwrap_or((number, ""));
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole_units.is_empty()
        || !is_digits(fraction)
        || (number.contains('.') && fraction.is_empty())
    {
        return None;
    }
    let scale = 10_u64.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let part: u64 = match fraction {
        "" => 0,
        digits => digits.parse().ok()?,
    };
    let part = part.checked_mul(unit)?;
    let whole_units = whole_units.parse::<u64>().ok()?.checked_mul(unit)?;
    (part % scale == 0)
        .then(|| whole_units.checked_add(part / scale))
        .flatten()
}

/// Parses sizes such as `512MiB`; `None` if the text has another form or is too large.
fn parse_mebibytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let (unit, size) = SIZE_UNITS
        .into_iter()
        .find(|(unit, _)| text.ends_with(unit))?;
    let number = text.strip_suffix(unit)?.trim_end();
    number.parse::<u64>().ok()?.checked_mul(size)
}

/// Formats a duration with the longest unit that divides it.
fn format_milliseconds(milliseconds: u64) -> String {
    let is_exact =
        |(_, length): &&(&str, u64)| milliseconds > 0 && milliseconds.is_multiple_of(*length);
    match DURATION_UNITS.iter().find(is_exact) {
        Some((unit, length)) => format!("{}{unit}", milliseconds / length),
        None => "0s".to_owned(),
    }
}

/// Converts seconds to milliseconds; `None` if the result is not an integer.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn whole_milliseconds(number: &Number) -> Option<u64> {
    if let Some(seconds) = number.as_u64() {
        return seconds.checked_mul(MS_PER_SECOND);
    }
    let milliseconds = number.as_f64()? * MS_PER_SECOND as f64;
    let is_whole = milliseconds.fract() == 0.0 && (0.0..9e15).contains(&milliseconds);
    is_whole.then_some(milliseconds as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_sizes_need_a_unit() {
        let cases = [
            ("30s", Some(30_000)),
            ("5m", Some(300_000)),
            ("1h30m", Some(5_400_000)),
            ("1.5s", Some(1_500)),
            ("250 ms", Some(250)),
            ("2d", Some(172_800_000)),
            ("0s", Some(0)),
            ("30", None),
            ("", None),
            ("s", None),
            ("5 minutes", None),
            ("-5s", None),
            (".5s", None),
            ("1.s", None),
            ("0.0001s", None),
            ("99999999999999999999d", None),
            ("5µs", None),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_milliseconds(text), expected, "{text}");
        }
        assert_eq!(parse_mebibytes("2GiB"), Some(2_048));
        assert_eq!(parse_mebibytes("512 Mi"), Some(512));
        assert_eq!(parse_mebibytes("512MB"), None);
        assert_eq!(ValueUnit::Seconds.parse("1500ms"), None);
    }

    #[test]
    fn a_formatted_value_parses_to_the_same_number() {
        for number in [0_u64, 1, 999, 1_000, 90_000, 300_000, 86_400_000] {
            let value = NodeContent::Number(number.into());
            for unit in [
                ValueUnit::Milliseconds,
                ValueUnit::Seconds,
                ValueUnit::FractionalSeconds,
                ValueUnit::Mebibytes,
            ] {
                let text = unit.format(&value).unwrap();
                assert_eq!(unit.parse(&text), Some(number.into()), "{text}");
            }
        }
        let half = NodeContent::Number(Number::from_f64(0.5).unwrap());
        assert_eq!(
            ValueUnit::FractionalSeconds.format(&half).as_deref(),
            Some("500ms")
        );
    }
}
