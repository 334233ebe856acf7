//! Masks secrets in a text that arrives in pieces, including secrets that are split between pieces.

use super::{MASK, SecretRedactor};

/// Redactor of a text that arrives in pieces. The clean pieces together equal [`SecretRedactor::text`] of
/// the complete text.
pub struct TextStream {
    redactor: SecretRedactor,
    /// Possible beginning of a secret, at most as long as its longest form.
    held: String,
    /// The character before `held`.
    before: Option<char>,
}

impl TextStream {
    pub(super) fn new(redactor: SecretRedactor) -> Self {
        TextStream {
            redactor,
            held: String::new(),
            before: None,
        }
    }

    /// Adds a piece and returns the text that is safe to show. Empty while the whole rest can be
    /// the beginning of a secret.
    pub fn push(&mut self, piece: &str) -> String {
        let matcher = self.redactor.known.load();
        let mut text = std::mem::take(&mut self.held);
        text.push_str(piece);
        let Some(matcher) = matcher.as_ref() else {
            self.before = text.chars().next_back().or(self.before);
            return text;
        };
        let mut clean = String::with_capacity(text.len());
        let mut done = 0;
        let open_start = loop {
            let open_start = matcher.partial_match_start(&text, done);
            // Secrets that begin before `open_start` are complete, and so is the character after them.
            let secret = matcher.find(&text, done, self.before);
            let Some(secret) = secret.filter(|secret| secret.start < open_start) else {
                break open_start;
            };
            clean.push_str(&text[done..secret.start]);
            clean.push_str(MASK);
            done = secret.end;
        };
        clean.push_str(&text[done..open_start]);
        self.before = text[..open_start].chars().next_back().or(self.before);
        self.held = text.split_off(open_start);
        clean
    }

    /// Returns the rest after the last piece.
    pub fn finish(&mut self) -> String {
        let rest = std::mem::take(&mut self.held);
        let matcher = self.redactor.known.load();
        match matcher.as_ref() {
            Some(matcher) => matcher.mask_secrets(&rest, self.before).into_owned(),
            None => rest,
        }
    }
}

#[cfg(test)]
mod tests {
    use goondan_spec::Secret;
    use proptest::prelude::*;

    use super::*;

    fn redactor_for(secrets: &[String]) -> SecretRedactor {
        let redactor = SecretRedactor::new();
        redactor.add_secrets(secrets.iter().map(Secret::new));
        redactor
    }

    /// Returns the output pieces for a text that is split at these positions.
    fn streamed(redactor: &SecretRedactor, text: &str, cuts: &[usize]) -> Vec<String> {
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
    fn a_stream_holds_back_only_possible_beginnings_of_secrets() {
        let redactor = redactor_for(&["sk-secret-1".to_owned()]);
        let mut stream = redactor.stream();
        assert_eq!(stream.push("plain"), "plain");
        assert_eq!(stream.push(" and sk-sec"), " and ");
        assert_eq!(stream.push("ure; sk-"), "sk-secure; ");
        assert_eq!(stream.push("secret-"), "");
        assert_eq!(stream.push("1."), "***.");
        assert_eq!(stream.push("sk-"), "");
        assert_eq!(stream.finish(), "sk-");
        assert_eq!(
            (SecretRedactor::new().stream().push("sk-"), stream.finish()),
            ("sk-".to_owned(), String::new())
        );
    }

    #[test]
    fn a_secret_that_is_a_prefix_of_another_is_held_back_until_decided() {
        let redactor = redactor_for(&["secret".to_owned(), "secret-and-more".to_owned()]);
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

    #[test]
    fn a_short_secret_is_masked_as_a_word_for_every_chunk_boundary() {
        let redactor = redactor_for(&["word".to_owned()]);
        let text = "word swords word2 2word word";
        for first in 0..text.len() {
            for second in first..text.len() {
                let out = streamed(&redactor, text, &[first, second]);
                assert_eq!(out.concat(), "*** swords word2 2word ***");
            }
        }
    }

    proptest! {
        /// The alphabet is small, so that secrets overlap, repeat and are prefixes of each other.
        #[test]
        fn any_chunking_gives_the_same_output_as_the_whole_text(
            secrets in proptest::collection::vec("[abé-]{4,10}", 1..4),
            text in "[abé -]{0,12}",
            chosen in proptest::collection::vec((0..4_usize, "[abé -]{0,4}", 0..11_usize), 0..5),
            cuts in proptest::collection::vec(any::<usize>(), 0..12),
        ) {
            let redactor = redactor_for(&secrets);
            let part = |(index, between, length): &(usize, String, usize)| {
                let secret = &secrets[index % secrets.len()];
                secret.chars().take(*length).collect::<String>() + between
            };
            let text = text + &chosen.iter().map(part).collect::<String>();
            let out = streamed(&redactor, &text, &cuts);
            prop_assert_eq!(out.concat(), redactor.text(&text).into_owned());
        }

        #[test]
        fn encoded_secrets_are_masked_for_every_chunk_boundary(
            secret in "[!-~]{8,24}",
            before in "[ -~]{0,9}",
            after in "[ -~]{0,9}",
            form in any::<prop::sample::Index>(),
            cuts in proptest::collection::vec(any::<usize>(), 0..8),
        ) {
            let forms: Vec<String> = super::super::forms_of(&secret).into_iter().collect();
            let text = format!("{before}{}{after}", form.get(&forms));
            let redactor = redactor_for(&[secret]);
            let out = streamed(&redactor, &text, &cuts);
            prop_assert_eq!(out.concat(), redactor.text(&text).into_owned());
        }
    }
}
