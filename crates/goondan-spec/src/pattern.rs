//! Patterns of permission rules: `*` matches any string, `?` one character, everything else itself.
//!
//! The matched string may be only partly known, such as a shell command that contains `$x`. Two
//! questions then have different answers: whether a pattern matches every possible value, and
//! whether it matches at least one.

/// Element of a partly known string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatternAtom {
    /// Known character.
    Char(char),
    /// Exactly one unknown character.
    One,
    /// Unknown string, possibly empty.
    Any,
}

/// Converts a fully known string to atoms.
pub fn atoms(text: &str) -> Vec<PatternAtom> {
    text.chars().map(PatternAtom::Char).collect()
}

/// Converts `pattern` to atoms: `*` becomes [`PatternAtom::Any`], `?` becomes [`PatternAtom::One`].
pub fn pattern_atoms(pattern: &str) -> Vec<PatternAtom> {
    let atom = |c| match c {
        '*' => PatternAtom::Any,
        '?' => PatternAtom::One,
        c => PatternAtom::Char(c),
    };
    pattern.chars().map(atom).collect()
}

/// Returns true if `pattern` matches `text`.
pub fn matches(pattern: &str, text: &str) -> bool {
    always_matches(pattern, &atoms(text))
}

/// Returns true if `pattern` matches every possible value of `text`. `false` may be a false
/// negative; `true` is always correct.
pub fn always_matches(pattern: &str, text: &[PatternAtom]) -> bool {
    run(pattern, text, |expected, atom| match (expected, atom) {
        (PatternAtom::Char(expected), PatternAtom::Char(c)) => expected == c,
        (PatternAtom::One, PatternAtom::Char(_) | PatternAtom::One) => true,
        _ => false,
    })
}

/// Returns true if `pattern` matches at least one possible value of `text`.
pub fn may_match(pattern: &str, text: &[PatternAtom]) -> bool {
    let expected = pattern_atoms(pattern);
    // `now[i]`: the first `i` atoms of the pattern match the input so far.
    let mut now = start_state(&expected);
    for &atom in text {
        let mut next = vec![false; expected.len() + 1];
        for i in 0..=expected.len() {
            let reached = match atom {
                // An unknown string may be empty, or contain exactly the next atom of the pattern.
                PatternAtom::Any => now[i] || (i > 0 && next[i - 1]),
                PatternAtom::One | PatternAtom::Char(_) => {
                    i > 0 && step_may(expected[i - 1], atom, now[i - 1], now[i])
                }
            };
            next[i] = reached || (i > 0 && expected[i - 1] == PatternAtom::Any && next[i - 1]);
        }
        now = next;
    }
    now[expected.len()]
}

/// Returns true if the pattern may match after one more atom. `before` and `current` are the states
/// of the previous and this position.
fn step_may(expected: PatternAtom, atom: PatternAtom, before: bool, current: bool) -> bool {
    match (expected, atom) {
        (PatternAtom::Any, _) => current,
        (PatternAtom::Char(expected), PatternAtom::Char(c)) => before && expected == c,
        _ => before,
    }
}

/// Returns for each position of the pattern whether an empty text can reach it.
fn start_state(expected: &[PatternAtom]) -> Vec<bool> {
    let leading = expected
        .iter()
        .take_while(|atom| **atom == PatternAtom::Any)
        .count();
    (0..=expected.len()).map(|i| i <= leading).collect()
}

/// Matches atom by atom; only `*` accepts unknown atoms.
fn run(
    pattern: &str,
    text: &[PatternAtom],
    fits: impl Fn(PatternAtom, PatternAtom) -> bool,
) -> bool {
    let expected = pattern_atoms(pattern);
    let mut now = start_state(&expected);
    for &atom in text {
        let mut next = vec![false; expected.len() + 1];
        for i in 1..=expected.len() {
            next[i] = match expected[i - 1] {
                PatternAtom::Any => now[i] || next[i - 1],
                one => now[i - 1] && fits(one, atom),
            };
        }
        now = next;
    }
    now[expected.len()]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_star_is_any_text_and_a_question_mark_one_character() {
        for (pattern, text, expected) in [
            ("git *", "git status", true),
            ("git *", "git", false),
            ("git*", "git", true),
            ("*", "", true),
            ("", "", true),
            ("", "x", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("*a*b*", "xxaxxbxx", true),
            ("*a*b*", "xxbxxaxx", false),
            ("[ab]", "a", false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn only_a_star_always_matches_unknown_text() {
        let text = [atoms("git st"), vec![PatternAtom::Any]].concat();
        assert!(always_matches("git *", &text) && always_matches("git st*", &text));
        assert!(!always_matches("git status", &text) && !always_matches("git st?", &text));
        assert!(
            may_match("git status", &text)
                && may_match("git st?", &text)
                && !may_match("rm *", &text)
        );
    }

    proptest! {
        #[test]
        fn always_matches_implies_may_match(pattern in "[ab*?]{0,8}", text in "[ab]{0,8}", unknown in 0usize..9) {
            let mut known = atoms(&text);
            prop_assert_eq!(always_matches(&pattern, &known), may_match(&pattern, &known));
            known.insert(unknown.min(known.len()), PatternAtom::Any);
            prop_assert!(!always_matches(&pattern, &known) || may_match(&pattern, &known));
            // The unknown text may be empty.
            prop_assert!(!matches(&pattern, &text) || may_match(&pattern, &known));
            prop_assert!(!always_matches(&pattern, &known) || matches(&pattern, &text));
        }
    }
}
