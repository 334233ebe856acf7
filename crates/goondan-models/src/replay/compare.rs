//! Tells what differs between a request and the one on the cassette.

use goondan_spec::Resource;
use goondan_spec::kinds::{Model, RequestPart};

use super::entry::{AskedMessage, RecordedRequest};

/// How much of a text is shown, in characters.
const MAX_SHOWN_CHARS: usize = 80;

/// Parts of a request that need not be the same.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct IgnoredParts(Vec<RequestPart>);

impl IgnoredParts {
    /// The parts in `options.ignore` of `model`.
    pub(crate) fn of(model: &Resource<Model>) -> Self {
        IgnoredParts(model.spec.options.ignore.clone())
    }

    fn has(&self, part: RequestPart) -> bool {
        self.0.contains(&part)
    }

    /// Whether everything counts.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// What differs in the parts that count, a phrase each; empty where nothing does.
pub(crate) fn differences(
    recorded: &RecordedRequest,
    now: &RecordedRequest,
    ignored: &IgnoredParts,
) -> Vec<String> {
    let mut found = Vec::new();
    if !ignored.has(RequestPart::System) && recorded.system != now.system {
        let (then, now) = (recorded.system.as_deref(), now.system.as_deref());
        found.push(format!(
            "the system prompt was {}, is {}",
            shown(then.unwrap_or("")),
            shown(now.unwrap_or(""))
        ));
    }
    if !ignored.has(RequestPart::Messages) {
        found.extend(message_difference(&recorded.messages, &now.messages));
    }
    if !ignored.has(RequestPart::Tools) && recorded.tools != now.tools {
        found.push(format!(
            "the tools were [{}], are [{}]",
            recorded.tools.join(", "),
            now.tools.join(", ")
        ));
    }
    if !ignored.has(RequestPart::Params) && recorded.params != now.params {
        found.push(format!(
            "the params were {}, are {}",
            recorded.params, now.params
        ));
    }
    found
}

/// The first message that differs, or that there are more or fewer.
fn message_difference(recorded: &[AskedMessage], now: &[AskedMessage]) -> Option<String> {
    let differing = recorded.iter().zip(now).position(|(then, now)| then != now);
    match differing {
        Some(at) => {
            let (then, now) = (&recorded[at], &now[at]);
            Some(format!(
                "message {} was {}, is {}",
                at + 1,
                spoken(then),
                spoken(now)
            ))
        }
        None if recorded.len() != now.len() => Some(format!(
            "the number of messages was {}, is {}",
            recorded.len(),
            now.len()
        )),
        None => None,
    }
}

fn spoken(message: &AskedMessage) -> String {
    let whole = serde_json::to_value(message).unwrap_or_default();
    let role = whole["role"].as_str().unwrap_or_default().to_owned();
    let plain = message.calls.is_empty() && message.results.is_empty() && message.files.is_empty();
    if plain {
        format!("{role} {}", shown(&message.text))
    } else {
        shown(&whole.to_string())
    }
}

fn shown(text: &str) -> String {
    match text.char_indices().nth(MAX_SHOWN_CHARS) {
        Some((end, _)) => format!("`{} …`", &text[..end]),
        None => format!("`{text}`"),
    }
}
