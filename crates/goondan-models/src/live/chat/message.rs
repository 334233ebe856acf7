//! The messages of the format, one struct each.

use std::borrow::Cow;

use goondan_core::message::{Message, Part, ToolCall, ToolResultPart};
use goondan_core::ports::tool::Attachment;
use serde::Serialize;
use serde_json::{Value, json};

use crate::attach::{self, Shown};
use crate::convert::result_text;
use crate::wire::Wire;

/// A message whose content is one text.
#[derive(Serialize)]
pub(crate) struct Plain<'a> {
    pub(crate) role: &'static str,
    pub(crate) content: &'a str,
}

/// A user's message that is not text alone.
#[derive(Serialize)]
pub(crate) struct Mixed<'a> {
    role: &'static str,
    content: &'a [Said],
}

/// What a user says.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Said {
    Text { text: String },
    ImageUrl { image_url: Url },
    InputAudio { input_audio: Audio },
    File { file: File },
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Url {
    url: String,
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Audio {
    data: String,
    format: String,
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct File {
    filename: String,
    file_data: String,
}

/// A model's answer.
#[derive(Serialize)]
pub(crate) struct Answered<'a> {
    role: &'static str,
    content: Cow<'a, str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Call<'a>>,
}

#[derive(Serialize)]
struct Call<'a> {
    r#type: &'static str,
    id: &'a str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    arguments: String,
}

/// What came of a call.
#[derive(Serialize)]
pub(crate) struct CallResult<'a> {
    role: &'static str,
    content: Cow<'a, str>,
    tool_call_id: &'a str,
}

impl Said {
    /// A part of a message as this format takes it, if it takes it at all.
    pub(crate) fn of(part: &Part) -> Option<Self> {
        match part {
            Part::Text { text } => Some(Said::Text { text: text.clone() }),
            Part::File(file) => Some(Said::file(file)),
            Part::ToolCall(_) | Part::ToolResult(_) => None,
        }
    }

    /// An attachment, or a text in its place.
    pub(crate) fn file(file: &Attachment) -> Self {
        if let Shown::Text(text) = attach::shown(Wire::Chat, file) {
            return Said::Text { text };
        }
        let data_url = || format!("data:{};base64,{}", file.media_type, file.data);
        match file.media_type.split_once('/') {
            Some(("audio", kind)) => {
                let format = if kind == "mpeg" { "mp3" } else { kind };
                Said::InputAudio {
                    input_audio: Audio {
                        data: file.data.clone(),
                        format: format.to_owned(),
                    },
                }
            }
            Some(("image", _)) => Said::ImageUrl {
                image_url: Url { url: data_url() },
            },
            _ => Said::File {
                file: File {
                    filename: attach::name(file),
                    file_data: data_url(),
                },
            },
        }
    }

    fn as_text(&self) -> Option<&str> {
        match self {
            Said::Text { text } => Some(text),
            _ => None,
        }
    }
}

impl<'a> Mixed<'a> {
    /// A user's message of these parts.
    pub(crate) fn of(content: &'a [Said]) -> Self {
        Mixed {
            role: "user",
            content,
        }
    }
}

/// Texts with an empty line between two, where text alone was said.
pub(crate) fn joined(said: &[Said]) -> Option<String> {
    let mut joined = String::new();
    for part in said {
        let text = part.as_text()?;
        if !joined.is_empty() {
            joined.push_str(if joined.ends_with('\n') { "\n" } else { "\n\n" });
        }
        joined.push_str(text);
    }
    Some(joined)
}

impl<'a> Answered<'a> {
    /// What a model said and called; `None` where it said nothing.
    pub(crate) fn of(message: &'a Message) -> Option<Self> {
        let texts: Vec<&str> = message
            .data
            .content
            .iter()
            .filter_map(Part::as_text)
            .filter(|text| !text.trim().is_empty())
            .collect();
        let tool_calls: Vec<_> = message.tool_calls().map(Call::of).collect();
        if texts.is_empty() && tool_calls.is_empty() {
            return None;
        }
        let content = match texts[..] {
            [text] => Cow::Borrowed(text),
            _ => Cow::Owned(texts.join("\n\n")),
        };
        Some(Answered {
            role: "assistant",
            content,
            tool_calls,
        })
    }
}

impl<'a> Call<'a> {
    fn of(call: &'a ToolCall) -> Self {
        // Servers insist on an object. What the model wrote instead goes back under a name that tells it so.
        let arguments = match &call.input {
            Value::Object(_) => call.input.to_string(),
            other => json!({"malformedArguments": other}).to_string(),
        };
        Call {
            r#type: "function",
            id: &call.tool_call_id,
            function: Function {
                name: &call.tool_name,
                arguments,
            },
        }
    }
}

impl<'a> CallResult<'a> {
    /// The message about `result`.
    pub(crate) fn of(result: &'a ToolResultPart) -> Self {
        CallResult {
            role: "tool",
            content: result_text(result),
            tool_call_id: &result.tool_call_id,
        }
    }
}
