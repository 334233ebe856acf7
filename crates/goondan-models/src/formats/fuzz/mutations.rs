//! Random damage to recorded answers, for fuzz tests of the decoders.

use proptest::prelude::Rng;
use proptest::test_runner::{RngAlgorithm, TestRng};
use serde_json::{Map, Value, json};

use super::transcripts::UnframedEvent;

/// Words to insert, which need no escaping in a JSON string.
const MUTATION_WORDS: [&str; 12] = [
    "",
    "t__x",
    "<tool_call>",
    "<think>",
    "</think>",
    "<function=t__x>",
    "</function>",
    "error",
    "stop",
    "a",
    "\u{1f41d}",
    "{}",
];

/// Source of random numbers.
pub(super) struct FuzzRandom(TestRng);

impl FuzzRandom {
    /// Returns the source for a round. The same seed and round give the same numbers.
    pub(super) fn new(seed: u64, round: u64) -> Self {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        bytes[8..16].copy_from_slice(&round.to_le_bytes());
        FuzzRandom(TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
    }

    /// Returns a number below `end`, or 0 if `end` is 0.
    pub(super) fn number_below(&mut self, end: usize) -> usize {
        let number = usize::try_from(self.0.next_u32()).unwrap_or_default();
        number % end.max(1)
    }

    pub(super) fn one_in(&mut self, count: usize) -> bool {
        self.number_below(count) == 0
    }

    fn word(&mut self) -> &'static str {
        MUTATION_WORDS[self.number_below(MUTATION_WORDS.len())]
    }

    /// Returns a random range of a list.
    fn range(&mut self, length: usize) -> std::ops::Range<usize> {
        let start = self.number_below(length + 1);
        let max_length = (length - start).min(40);
        start..start + self.number_below(max_length + 1)
    }
}

/// Removes, repeats, swaps and changes events.
pub(super) fn change_events(events: &mut Vec<UnframedEvent>, random: &mut FuzzRandom) {
    for _ in 0..=random.number_below(4) {
        if events.is_empty() {
            return;
        }
        let index = random.number_below(events.len());
        match random.number_below(6) {
            0 => {
                events.remove(index);
            }
            1 => events.insert(random.number_below(events.len()), events[index].clone()),
            2 => events.swap(0, index),
            3 => events.truncate(index + 1),
            _ => change_data(&mut events[index].data, random),
        }
    }
}

/// Changes a JSON text to another valid JSON text.
fn change_data(data: &mut String, random: &mut FuzzRandom) {
    let Ok(mut value) = serde_json::from_str::<Value>(data) else {
        return;
    };
    for _ in 0..=random.number_below(3) {
        change_value(&mut value, random);
    }
    *data = value.to_string();
}

/// Changes a value or one of its nested values.
fn change_value(value: &mut Value, random: &mut FuzzRandom) {
    let descends = !random.one_in(4);
    match value {
        Value::Object(fields) if descends && !fields.is_empty() => change_fields(fields, random),
        Value::Array(items) if descends && !items.is_empty() => {
            let index = random.number_below(items.len());
            match random.number_below(5) {
                0 => items.push(items[index].clone()),
                1 => {
                    items.remove(index);
                }
                _ => change_value(&mut items[index], random),
            }
        }
        Value::String(text) if descends => change_text(text, random),
        other => *other = random_value(random, 3),
    }
}

/// Removes, renames or replaces a field of a map.
fn change_fields(fields: &mut Map<String, Value>, random: &mut FuzzRandom) {
    let keys: Vec<String> = fields.keys().cloned().collect();
    let key = &keys[random.number_below(keys.len())];
    match random.number_below(8) {
        0 => {
            fields.remove(key);
        }
        1 => {
            let other_value = fields[&keys[random.number_below(keys.len())]].clone();
            fields.insert(key.clone(), other_value);
        }
        2 => {
            fields.insert("error".to_owned(), random_value(random, 2));
        }
        _ => change_value(&mut fields[key], random),
    }
}

fn change_text(text: &mut String, random: &mut FuzzRandom) {
    let mut boundaries: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
    boundaries.push(text.len());
    let at = boundaries[random.number_below(boundaries.len())];
    match random.number_below(3) {
        0 => text.truncate(at),
        1 => text.insert_str(at, random.word()),
        _ => text.push_str(&text.clone()),
    }
}

/// Returns a random JSON value. `depth` limits its nesting.
fn random_value(random: &mut FuzzRandom, depth: usize) -> Value {
    match random.number_below(if depth == 0 { 7 } else { 9 }) {
        0 => Value::Null,
        1 => random.one_in(2).into(),
        2 => json!(u64::MAX - random.number_below(3) as u64),
        3 => json!(-1),
        4 => json!(1e300),
        5 => random.number_below(3).into(),
        6 => random.word().into(),
        7 => (0..random.number_below(3))
            .map(|_| random_value(random, depth - 1))
            .collect(),
        _ => {
            let keys = [
                "type", "index", "text", "name", "id", "content", "error", "message",
            ];
            let field = |random: &mut FuzzRandom| {
                (
                    keys[random.number_below(keys.len())].to_owned(),
                    random_value(random, depth - 1),
                )
            };
            Value::Object((0..random.number_below(4)).map(|_| field(random)).collect())
        }
    }
}

/// Flips, removes, repeats and inserts bytes.
pub(super) fn change_bytes(body: &mut Vec<u8>, random: &mut FuzzRandom) {
    for _ in 0..=random.number_below(4) {
        if body.is_empty() {
            return;
        }
        let index = random.number_below(body.len());
        let part = random.range(body.len());
        match random.number_below(5) {
            0 => body[index] ^= 1 << random.number_below(8),
            1 => {
                body.drain(part);
            }
            2 => {
                let copy = body[part].to_vec();
                body.splice(index..index, copy);
            }
            3 => body.truncate(index),
            _ => {
                let inserted = random_value(random, 3).to_string();
                body.splice(index..index, inserted.into_bytes());
            }
        }
    }
}
