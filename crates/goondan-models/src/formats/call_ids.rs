//! Call ids: unique in a conversation, and valid for the provider that receives them.

use std::collections::HashSet;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

/// Length of call ids that Mistral accepts.
const SHORT_ID_LENGTH: usize = 9;

/// Maximum length of a call id that every provider accepts.
const MAX_ID_LENGTH: usize = 64;

/// Characters of a digest that keep changed ids apart.
const DIGEST_LENGTH: usize = 8;

/// Call ids of one answer.
pub(crate) struct CallIds<'a> {
    /// Ids of the conversation.
    taken: &'a HashSet<String>,
    given: HashSet<String>,
}

impl<'a> CallIds<'a> {
    /// Returns a source of ids that differ from `taken`.
    pub(crate) fn new(taken: &'a HashSet<String>) -> Self {
        CallIds {
            taken,
            given: HashSet::new(),
        }
    }

    /// Returns `id`, or `call_NUMBER` if `id` is empty or in use.
    pub(crate) fn unique_id(&mut self, id: &str) -> String {
        let is_used = |id: &str| self.taken.contains(id) || self.given.contains(id);
        let unique = if id.is_empty() || is_used(id) {
            let first = self.taken.len() + self.given.len() + 1;
            let mut numbered = (first..).map(|number| format!("call_{number}"));
            numbered.find(|id| !is_used(id)).unwrap_or_default()
        } else {
            id.to_owned()
        };
        self.given.insert(unique.clone());
        unique
    }
}

/// Returns `id` in nine letters and digits, as Mistral requires. The same id always gives the same result.
pub(crate) fn short_id(id: &str) -> String {
    if id.len() == SHORT_ID_LENGTH && id.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return id.to_owned();
    }
    digest(id)
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .take(SHORT_ID_LENGTH)
        .collect()
}

/// Returns `id` in letters, digits, hyphens and underscores, as Anthropic and Bedrock require. A changed id ends with
/// a digest, so that two ids never become the same.
pub(crate) fn plain_id(id: &str) -> String {
    if !id.is_empty() && id.len() <= MAX_ID_LENGTH && id.chars().all(is_plain) {
        return id.to_owned();
    }
    let plain: String = id
        .chars()
        .map(|c| if is_plain(c) { c } else { '_' })
        .take(MAX_ID_LENGTH - DIGEST_LENGTH - 1)
        .collect();
    let digest: String = digest(id).chars().take(DIGEST_LENGTH).collect();
    format!("{plain}_{digest}")
}

/// Returns `name` in the characters that Anthropic and Bedrock accept for tools. Models of other
/// providers sometimes call tools whose names are not valid there.
pub(crate) fn plain_name(name: &str) -> String {
    match name {
        "" => "_".to_owned(),
        name => name
            .chars()
            .map(|c| if is_plain(c) { c } else { '_' })
            .collect(),
    }
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '-' || c == '_'
}

fn digest(text: &str) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_ids_never_repeat_ids_of_the_conversation() {
        let taken = HashSet::from(["a".to_owned(), "call_2".to_owned()]);
        let mut ids = CallIds::new(&taken);
        let given: Vec<_> = ["b", "a", "", "b"]
            .into_iter()
            .map(|id| ids.unique_id(id))
            .collect();
        assert_eq!(given, ["b", "call_4", "call_5", "call_6"]);
    }

    #[test]
    fn shortened_call_ids_are_valid_and_distinct() {
        assert_eq!(short_id("abcDEF123"), "abcDEF123");
        let short = short_id("call_1");
        assert!(
            short.len() == SHORT_ID_LENGTH
                && short.bytes().all(|byte| byte.is_ascii_alphanumeric())
        );
        assert_ne!(short, short_id("call_2"));
        assert_eq!(plain_id("toolu_01-x"), "toolu_01-x");
        assert_ne!(plain_id("a.b"), plain_id("a:b"));
        assert!(plain_id(&"x".repeat(200)).len() <= MAX_ID_LENGTH);
        assert_eq!(
            (plain_name("a__b.c"), plain_name("")),
            ("a__b_c".to_owned(), "_".to_owned())
        );
    }
}
