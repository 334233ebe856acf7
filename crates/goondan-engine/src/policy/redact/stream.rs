//! Takes secrets out of a text that comes in pieces, also where they are split.

use std::collections::BTreeSet;
use std::ops::Bound;

use super::{Known, MASK, Redactor};

/// What has come of a text, and what may yet be the beginning of a secret. The pieces that come out make up what
/// [`Redactor::text`] makes of the whole.
pub struct TextStream {
    redactor: Redactor,
    /// Never longer than the longest form of a secret.
    held: String,
}

impl TextStream {
    pub(super) fn new(redactor: Redactor) -> Self {
        TextStream {
            redactor,
            held: String::new(),
        }
    }

    /// Takes in a piece; what comes back can be shown. It is empty while everything may still be a secret.
    pub fn push(&mut self, piece: &str) -> String {
        let known = self.redactor.known.load();
        let mut text = std::mem::take(&mut self.held);
        text.push_str(piece);
        let Some(known) = known.as_ref() else {
            return text;
        };
        let mut clean = String::with_capacity(text.len());
        let mut done = 0;
        let open = loop {
            let open = beginning(known, &text, done);
            // What begins before `open` is all there: nothing that is still to come makes it longer.
            let found = known
                .finder
                .find(aho_corasick::Input::new(&text).range(done..));
            let Some(found) = found.filter(|found| found.start() < open) else {
                break open;
            };
            clean.push_str(&text[done..found.start()]);
            clean.push_str(MASK);
            done = found.end();
        };
        clean.push_str(&text[done..open]);
        self.held = text.split_off(open);
        clean
    }

    /// The rest, when nothing more comes.
    pub fn finish(&mut self) -> String {
        let rest = std::mem::take(&mut self.held);
        self.redactor.text(&rest).into_owned()
    }
}

/// Where the first suffix of `text` behind `done` stands that a secret begins with; its end if there is none.
fn beginning(known: &Known, text: &str, done: usize) -> usize {
    let places = text[done..]
        .char_indices()
        .map(|(at, first)| (done + at, first));
    let possible = places
        .filter(|(at, first)| text.len() - at <= known.longest && known.first.contains(first));
    let mut open = possible
        .map(|(at, _)| at)
        .filter(|at| begins(&known.forms, &text[*at..]));
    open.next().unwrap_or(text.len())
}

/// Whether a form begins with `text`.
fn begins(forms: &BTreeSet<String>, text: &str) -> bool {
    let from = (Bound::Included(text), Bound::Unbounded);
    forms
        .range::<str, _>(from)
        .next()
        .is_some_and(|form| form.starts_with(text))
}

#[cfg(test)]
mod tests {
    use goondan_spec::Secret;
    use proptest::prelude::*;

    use super::*;

    fn knows(secrets: &[String]) -> Redactor {
        let redactor = Redactor::new();
        redactor.learn(secrets.iter().map(Secret::new));
        redactor
    }

    /// What comes out of a text that is cut at these places.
    fn streamed(redactor: &Redactor, text: &str, cuts: &[usize]) -> Vec<String> {
        let mut stream = redactor.stream();
        let mut cuts: Vec<usize> = cuts
            .iter()
            .map(|cut| text.floor_char_boundary(cut % (text.len() + 1)))
            .collect();
        cuts.extend([0, text.len()]);
        cuts.sort_unstable();
        let mut out: Vec<String> = cuts
            .windows(2)
            .map(|cut| stream.push(&text[cut[0]..cut[1]]))
            .collect();
        out.push(stream.finish());
        out
    }

    #[test]
    fn nothing_is_held_back_that_no_secret_begins_with() {
        let redactor = knows(&["sk-secret-1".to_owned()]);
        let mut stream = redactor.stream();
        assert_eq!(stream.push("plain"), "plain");
        assert_eq!(stream.push(" and sk-sec"), " and ");
        assert_eq!(stream.push("ure; sk-"), "sk-secure; ");
        assert_eq!(stream.push("secret-"), "");
        assert_eq!(stream.push("1."), "***.");
        assert_eq!(stream.push("sk-"), "");
        assert_eq!(stream.finish(), "sk-");
        assert_eq!(
            (Redactor::new().stream().push("sk-"), stream.finish()),
            ("sk-".to_owned(), String::new())
        );
    }

    #[test]
    fn a_secret_that_begins_another_is_held_until_that_is_clear() {
        let redactor = knows(&["secret".to_owned(), "secret-and-more".to_owned()]);
        let mut stream = redactor.stream();
        assert_eq!(
            (stream.push("secret-and"), stream.push("-less ")),
            (String::new(), "***-and-less ".to_owned())
        );
        assert_eq!(
            (stream.push("secret-and"), stream.push("-more!")),
            (String::new(), "***!".to_owned())
        );
    }

    proptest! {
        /// Few letters, so that secrets overlap, repeat and begin one another.
        #[test]
        fn any_split_gives_what_the_whole_gives(
            secrets in proptest::collection::vec("[abé]{6,9}", 1..4),
            text in "[abé ]{0,12}",
            chosen in proptest::collection::vec((0..4_usize, "[abé ]{0,4}", 0..10_usize), 0..5),
            cuts in proptest::collection::vec(any::<usize>(), 0..12),
        ) {
            let redactor = knows(&secrets);
            let part = |(which, between, length): &(usize, String, usize)| {
                let secret = &secrets[which % secrets.len()];
                secret.chars().take(*length).collect::<String>() + between
            };
            let text = text + &chosen.iter().map(part).collect::<String>();
            let out = streamed(&redactor, &text, &cuts);
            prop_assert_eq!(out.concat(), redactor.text(&text).into_owned());
        }

        #[test]
        fn encoded_secrets_are_found_wherever_they_are_cut(
            secret in "[!-~]{8,24}",
            before in "[ -~]{0,9}",
            after in "[ -~]{0,9}",
            form in any::<prop::sample::Index>(),
            cuts in proptest::collection::vec(any::<usize>(), 0..8),
        ) {
            let forms: Vec<String> = super::super::forms_of(&secret).into_iter().collect();
            let text = format!("{before}{}{after}", form.get(&forms));
            let redactor = knows(&[secret]);
            let out = streamed(&redactor, &text, &cuts);
            prop_assert_eq!(out.concat(), redactor.text(&text).into_owned());
        }
    }
}
