//! Ranks passages for a query with Okapi BM25.
//!
//! The formula takes a dozen lines. The existing crate for it depends on an unmaintained hash
//! crate.

use std::collections::{BTreeMap, BTreeSet};

use rust_stemmers::{Algorithm, Stemmer};
use unicode_segmentation::UnicodeSegmentation as _;

/// Saturation of repeated words.
const BM25_K1: f64 = 1.2;
/// Strength of the length normalization.
const BM25_B: f64 = 0.75;

/// Words without relevance for the topic of a text.
const STOP_WORDS: &[&str] = &[
    "a", "about", "all", "an", "and", "any", "are", "as", "at", "be", "been", "but", "by", "can",
    "could", "did", "do", "does", "for", "from", "had", "has", "have", "how", "i", "if", "in",
    "into", "is", "it", "its", "may", "me", "my", "no", "not", "of", "on", "or", "our", "she",
    "should", "so", "than", "that", "the", "their", "them", "then", "there", "these", "they",
    "this", "to", "was", "we", "were", "what", "when", "where", "which", "who", "why", "will",
    "with", "would", "you", "your",
];

/// Returns the scores of the `texts` that contain a word of `query`, with their index, best first.
/// A score is BM25 relative to a text of average length with every query word once. It is about 1
/// if all words occur, and 0 if none does. Stop words are ignored, and words are compared by their
/// stem.
pub(super) fn rank(texts: &[&str], query: &str) -> Vec<(usize, f64)> {
    let stemmer = Stemmer::create(Algorithm::English);
    let query: BTreeSet<String> = words(&stemmer, query).into_iter().collect();
    let texts: Vec<WordCounts> = texts
        .iter()
        .map(|text| WordCounts::new(words(&stemmer, text)))
        .collect();
    let average = texts.iter().map(|text| text.length).sum::<f64>() / texts.len().max(1) as f64;
    let weights: Vec<(&String, f64)> = query
        .iter()
        .map(|word| (word, word_weight(word, &texts)))
        .collect();
    let best: f64 = weights.iter().map(|(_, weight)| weight).sum();
    let score = |text: &WordCounts| {
        weights
            .iter()
            .map(|(word, weight)| weight * text.word_score(word, average))
            .sum::<f64>()
    };
    let scores = texts
        .iter()
        .enumerate()
        .map(|(index, text)| (index, round_score(score(text) / best)));
    let mut scores: Vec<(usize, f64)> = scores.filter(|(_, score)| *score > 0.0).collect();
    // Equal scores keep the order of the texts, so that results are deterministic.
    scores.sort_by(|left, right| right.1.total_cmp(&left.1).then(left.0.cmp(&right.0)));
    scores
}

/// Returns the stems of the words in `text`.
fn words(stemmer: &Stemmer, text: &str) -> Vec<String> {
    let text = text.to_lowercase();
    let words = text
        .unicode_words()
        .filter(|word| STOP_WORDS.binary_search(word).is_err());
    words.map(|word| stemmer.stem(word).into_owned()).collect()
}

/// Returns the weight of a word, which is higher for rare words.
fn word_weight(word: &str, texts: &[WordCounts]) -> f64 {
    let having = texts
        .iter()
        .filter(|text| text.counts.contains_key(word))
        .count() as f64;
    (1.0 + (texts.len() as f64 - having + 0.5) / (having + 0.5)).ln()
}

/// The word counts of a text.
struct WordCounts {
    counts: BTreeMap<String, f64>,
    length: f64,
}

impl WordCounts {
    fn new(words: Vec<String>) -> WordCounts {
        let length = words.len() as f64;
        let mut counts = BTreeMap::new();
        for word in words {
            *counts.entry(word).or_insert(0.0) += 1.0;
        }
        WordCounts { counts, length }
    }

    /// Returns the share of a word in the text: 1 if it occurs once in a text of average length.
    fn word_score(&self, word: &str, average: f64) -> f64 {
        let count = self.counts.get(word).copied().unwrap_or(0.0);
        if count == 0.0 {
            return 0.0;
        }
        count * (BM25_K1 + 1.0)
            / (count + BM25_K1 * (1.0 - BM25_B + BM25_B * self.length / average))
    }
}

/// Rounds to three decimals, at most 1. NaN, the score of a query without words, becomes 0.
fn round_score(score: f64) -> f64 {
    if score.is_finite() {
        (score.clamp(0.0, 1.0) * 1000.0).round() / 1000.0
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_matching_all_words_rank_first() {
        let texts = [
            "The cat sleeps on the mat.",
            "A dog chases a cat.",
            "Nothing of that kind.",
        ];
        let ranked = rank(&texts, "does the dog chase cats?");
        assert_eq!(
            ranked.iter().map(|(index, _)| *index).collect::<Vec<_>>(),
            [1, 0]
        );
        assert!(ranked[0].1 > 0.8 && ranked[1].1 < 0.5, "{ranked:?}");
    }

    #[test]
    fn stop_words_are_sorted_for_binary_search() {
        assert!(STOP_WORDS.is_sorted());
    }

    #[test]
    fn rank_is_empty_when_no_word_matches() {
        assert_eq!(rank(&["a cat"], "zebra"), []);
        assert_eq!(rank(&["a cat"], "the of and"), []);
        assert_eq!(rank(&[], "cat"), []);
        assert_eq!(rank(&["", "..."], "!"), []);
    }
}
