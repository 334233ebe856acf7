//! The patterns of permission rules: `*` stands for any text, `?` for one character, everything else for itself.
//!
//! A text may be known in part alone (a shell command with `$x` in it). Then two questions have different answers:
//! whether a pattern matches whatever the rest turns out to be, and whether it could.

/// A piece of a text that is matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Atom {
    /// This character.
    Char(char),
    /// One character, nobody knows which.
    One,
    /// Any text, the empty one included.
    Any,
}

/// The atoms of a text that is known.
pub fn atoms(text: &str) -> Vec<Atom> {
    text.chars().map(Atom::Char).collect()
}

/// The atoms of all texts that `pattern` matches.
pub fn pattern_atoms(pattern: &str) -> Vec<Atom> {
    let atom = |c| match c {
        '*' => Atom::Any,
        '?' => Atom::One,
        c => Atom::Char(c),
    };
    pattern.chars().map(atom).collect()
}

/// Whether `pattern` matches `text`.
pub fn matches(pattern: &str, text: &str) -> bool {
    always_matches(pattern, &atoms(text))
}

/// Whether `pattern` matches every text that `text` may turn out to be. A no may be wrong, a yes never is.
pub fn always_matches(pattern: &str, text: &[Atom]) -> bool {
    run(pattern, text, |expected, atom| match (expected, atom) {
        (Atom::Char(expected), Atom::Char(c)) => expected == c,
        (Atom::One, Atom::Char(_) | Atom::One) => true,
        _ => false,
    })
}

/// Whether `pattern` matches a text that `text` may turn out to be.
pub fn may_match(pattern: &str, text: &[Atom]) -> bool {
    let expected = pattern_atoms(pattern);
    // `now[i]`: the first `i` atoms of the pattern match what has been read.
    let mut now = start(&expected);
    for &atom in text {
        let mut next = vec![false; expected.len() + 1];
        for i in 0..=expected.len() {
            let reached = match atom {
                // Unknown text may be empty, and it may be what the pattern wants next.
                Atom::Any => now[i] || (i > 0 && next[i - 1]),
                Atom::One | Atom::Char(_) => {
                    i > 0 && step_may(expected[i - 1], atom, now[i - 1], now[i])
                }
            };
            next[i] = reached || (i > 0 && expected[i - 1] == Atom::Any && next[i - 1]);
        }
        now = next;
    }
    now[expected.len()]
}

fn step_may(expected: Atom, atom: Atom, before: bool, here: bool) -> bool {
    match (expected, atom) {
        (Atom::Any, _) => here,
        (Atom::Char(expected), Atom::Char(c)) => before && expected == c,
        _ => before,
    }
}

fn start(expected: &[Atom]) -> Vec<bool> {
    let leading = expected
        .iter()
        .take_while(|atom| **atom == Atom::Any)
        .count();
    (0..=expected.len()).map(|i| i <= leading).collect()
}

/// Matches atom by atom; only `*` takes what is unknown.
fn run(pattern: &str, text: &[Atom], fits: impl Fn(Atom, Atom) -> bool) -> bool {
    let expected = pattern_atoms(pattern);
    let mut now = start(&expected);
    for &atom in text {
        let mut next = vec![false; expected.len() + 1];
        for i in 1..=expected.len() {
            next[i] = match expected[i - 1] {
                Atom::Any => now[i] || next[i - 1],
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
    fn only_a_star_takes_what_is_unknown() {
        let text = [atoms("git st"), vec![Atom::Any]].concat();
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
        fn what_always_matches_may_match(pattern in "[ab*?]{0,8}", text in "[ab]{0,8}", unknown in 0usize..9) {
            let mut known = atoms(&text);
            prop_assert_eq!(always_matches(&pattern, &known), may_match(&pattern, &known));
            known.insert(unknown.min(known.len()), Atom::Any);
            prop_assert!(!always_matches(&pattern, &known) || may_match(&pattern, &known));
            // The unknown text may be empty.
            prop_assert!(!matches(&pattern, &text) || may_match(&pattern, &known));
            prop_assert!(!always_matches(&pattern, &known) || matches(&pattern, &text));
        }
    }
}
