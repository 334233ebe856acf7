//! Compares a request with a recorded request.

use goondan_spec::Resource;
use goondan_spec::kinds::{Model, RequestPart};

use super::entry::{AskedMessage, RecordedRequest};

/// Maximum number of characters of a shown text.
const MAX_SHOWN_CHARS: usize = 80;

/// Parts of a request that are not compared.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct IgnoredParts(Vec<RequestPart>);

impl IgnoredParts {
    /// Returns the parts in `options.ignore` of `model`.
    pub(crate) fn from_model(model: &Resource<Model>) -> Self {
        IgnoredParts(model.spec.options.ignore.clone())
    }

    fn contains(&self, part: RequestPart) -> bool {
        self.0.contains(&part)
    }

    /// Returns true if all parts are compared.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Returns one phrase per compared part in which the requests differ; empty if they are equal.
pub(crate) fn differences(
    recorded: &RecordedRequest,
    now: &RecordedRequest,
    ignored: &IgnoredParts,
) -> Vec<String> {
    let mut differences = Vec::new();
    if !ignored.contains(RequestPart::System) && recorded.system != now.system {
        let (then, now) = (recorded.system.as_deref(), now.system.as_deref());
        differences.push(format!(
            "the system prompt was {}, is {}",
            quote_excerpt(then.unwrap_or("")),
            quote_excerpt(now.unwrap_or(""))
        ));
    }
    if !ignored.contains(RequestPart::Messages) {
        differences.extend(message_difference(&recorded.messages, &now.messages));
    }
    if !ignored.contains(RequestPart::Tools) && recorded.tools != now.tools {
        differences.push(format!(
            "the tools were [{}], are [{}]",
            recorded.tools.join(", "),
            now.tools.join(", ")
        ));
    }
    if !ignored.contains(RequestPart::Params) && recorded.params != now.params {
        differences.push(format!(
            "the params were {}, are {}",
            recorded.params, now.params
        ));
    }
    differences
}

/// Describes the first message that differs, or the different number of messages; `None` if all are
/// equal.
fn message_difference(recorded: &[AskedMessage], now: &[AskedMessage]) -> Option<String> {
    let differing = recorded.iter().zip(now).position(|(then, now)| then != now);
    match differing {
        Some(at) => {
            let (then, now) = (&recorded[at], &now[at]);
            Some(format!(
                "message {} was {}, is {}",
                at + 1,
                shown_message(then),
                shown_message(now)
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

/// Returns the role and the text of a message, or its JSON if it has other content.
fn shown_message(message: &AskedMessage) -> String {
    let json = serde_json::to_value(message).unwrap_or_default();
    let role = json["role"].as_str().unwrap_or_default().to_owned();
    let plain = message.calls.is_empty() && message.results.is_empty() && message.files.is_empty();
    if plain {
        format!("{role} {}", quote_excerpt(&message.text))
    } else {
        quote_excerpt(&json.to_string())
    }
}

/// Returns the beginning of `text` in backquotes.
fn quote_excerpt(text: &str) -> String {
    match text.char_indices().nth(MAX_SHOWN_CHARS) {
        Some((end, _)) => format!("`{} …`", &text[..end]),
        None => format!("`{text}`"),
    }
}
