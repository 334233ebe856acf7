//! What is told of a question's words to whoever watches and is to have them: the newest of them, and no secret.

use std::sync::Arc;

use goondan_core::limits::head;
use goondan_core::message::{MessageData, Part};
use goondan_core::said::Said;

use crate::engine::Engine;
use crate::policy::redact::Redactor;
use crate::turn::model_call::{ModelAnswer, ModelCall};

/// The messages of a question that are told have together at most that many bytes; the oldest are left out. The system prompt
/// has as many characters at most.
const MOST_SAID: usize = 64 * 1024;

/// The words of `call` and of its answer; `None` where nobody is to have them.
pub(crate) fn said(
    engine: &Engine,
    call: &ModelCall<'_>,
    answer: Option<&ModelAnswer>,
) -> Option<Arc<Said>> {
    if !engine.tracing.wants_words(&call.trace) {
        return None;
    }
    let redactor = &engine.redactor;
    let messages = &call.request.messages;
    let input = newest(messages.iter().rev().map(|message| &message.data), redactor);
    let mut output = answer
        .map(|answer| answer.parts.clone())
        .unwrap_or_default();
    output.iter_mut().for_each(|part| clean(redactor, part));
    Some(Arc::new(Said {
        system: call
            .request
            .system
            .as_ref()
            .map(|text| head(&redactor.text(text), MOST_SAID).to_owned()),
        left_out: messages.len() - input.len(),
        input,
        output,
    }))
}

/// As many of `newest_first` as there is room for, oldest first.
fn newest<'m>(
    newest_first: impl Iterator<Item = &'m MessageData>,
    redactor: &Redactor,
) -> Vec<MessageData> {
    let mut room = MOST_SAID;
    let mut kept: Vec<MessageData> = newest_first
        .map(|message| {
            let mut content: Vec<Part> = message.content.iter().map(without_data).collect();
            content.iter_mut().for_each(|part| clean(redactor, part));
            MessageData {
                role: message.role,
                content,
            }
        })
        .take_while(|message| {
            let size = serde_json::to_string(message).map_or(usize::MAX, |text| text.len());
            let fits = size <= room;
            room = room.saturating_sub(size);
            fits
        })
        .collect();
    kept.reverse();
    kept
}

fn without_data(part: &Part) -> Part {
    match part {
        Part::File(file) => Part::File(goondan_core::ports::tool::Attachment {
            media_type: file.media_type.clone(),
            data: String::new(),
            name: file.name.clone(),
        }),
        other => other.clone(),
    }
}

fn clean(redactor: &Redactor, part: &mut Part) {
    match part {
        Part::Text {
            text,
            provider_metadata,
        }
        | Part::Reasoning {
            text,
            provider_metadata,
        } => {
            redactor.clean(text);
            provider_metadata.clear();
        }
        Part::Opaque { provider_metadata } => provider_metadata.clear(),
        Part::ToolCall(call) => {
            redactor.clean_value(&mut call.input);
            call.provider_metadata.clear();
        }
        Part::ToolResult(result) => {
            result
                .output
                .iter_mut()
                .for_each(|output| redactor.clean_value(output));
            result
                .error
                .iter_mut()
                .for_each(|error| redactor.clean(&mut error.message));
        }
        Part::File(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use goondan_core::message::Role;
    use goondan_spec::Secret;

    fn text(text: &str) -> MessageData {
        MessageData {
            role: Role::User,
            content: vec![Part::text(text)],
        }
    }

    #[test]
    fn the_newest_messages_stay_and_secrets_go() {
        let redactor = Redactor::new();
        redactor.learn([Secret::new("sk-0123456789")]);
        let long = text(&"x".repeat(MOST_SAID / 2));
        let messages = [
            text("old"),
            long.clone(),
            text("the key is sk-0123456789"),
            long.clone(),
        ];
        let kept = newest(messages.iter().rev(), &redactor);
        assert_eq!(kept.len(), 2);
        assert_eq!(kept[1], long);
        assert!(
            !serde_json::to_string(&kept[0]).unwrap().contains("sk-"),
            "{:?}",
            kept[0]
        );
    }
}
