//! Messages in one form for both APIs: messages of chat completions, and items of responses.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use goondan::message::{MessageData, MessagePart, MessageRole};
use goondan::ports::tool::Attachment;
use serde_json::{Map, Value};

use super::answer_stream::STEP_TEXT_SEPARATOR;
use super::error::OpenAiError;

/// Message of a user or the assistant.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ChatEntry {
    pub(super) role: MessageRole,
    pub(super) text: String,
    pub(super) files: Vec<Attachment>,
}

/// Messages of a request.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct ChatInput {
    /// Text of system and developer messages.
    pub(super) instructions: Option<String>,
    /// Messages up to the last answer.
    pub(super) before: Vec<ChatEntry>,
    /// Messages after the last answer.
    pub(super) new: Vec<ChatEntry>,
}

impl ChatEntry {
    /// Creates a user message.
    pub(super) fn user(text: impl Into<String>) -> Self {
        ChatEntry {
            role: MessageRole::User,
            text: text.into(),
            files: Vec::new(),
        }
    }

    /// Creates an assistant message.
    pub(super) fn assistant(text: impl Into<String>) -> Self {
        ChatEntry {
            role: MessageRole::Assistant,
            text: text.into(),
            files: Vec::new(),
        }
    }

    /// Converts the entry to a message.
    pub(super) fn to_message_data(&self) -> MessageData {
        let text = Some(&self.text).filter(|text| !text.is_empty() || self.files.is_empty());
        let text = text.map(|text| MessagePart::text(text.clone()));
        let content = text
            .into_iter()
            .chain(self.files.iter().cloned().map(MessagePart::File))
            .collect();
        MessageData {
            role: self.role,
            content,
        }
    }

    /// Returns the visible part of a message; `None` for tool results and system messages.
    pub(super) fn from_message(data: &MessageData) -> Option<ChatEntry> {
        if !matches!(data.role, MessageRole::User | MessageRole::Assistant) {
            return None;
        }
        let text = data
            .content
            .iter()
            .filter_map(MessagePart::as_text)
            .collect::<String>();
        let files = data.content.iter().filter_map(|part| match part {
            MessagePart::File(file) => Some(file.clone()),
            _ => None,
        });
        let entry = ChatEntry {
            role: data.role,
            text,
            files: files.collect(),
        };
        (!entry.text.is_empty() || !entry.files.is_empty()).then_some(entry)
    }
}

impl ChatInput {
    /// Parses a list of messages. `param` is the name of the list in errors.
    pub(super) fn read(messages: &[Value], param: &str) -> Result<ChatInput, OpenAiError> {
        let mut instructions = Vec::new();
        let mut entries = Vec::new();
        for (index, message) in messages.iter().enumerate() {
            let at = format!("{param}[{index}]");
            let Some(message) = message.as_object() else {
                return Err(OpenAiError::invalid_param(
                    at,
                    "A message must be an object.",
                ));
            };
            match message
                .get("type")
                .and_then(Value::as_str)
                .unwrap_or("message")
            {
                "message" => {}
                // Reasoning of an OpenAI model is of no use to another model.
                "reasoning" => continue,
                other => {
                    let message = format!(
                        "Items of the type `{other}` are not supported: agents call their own \
                        tools."
                    );
                    return Err(OpenAiError::invalid_param(at, message));
                }
            }
            let role = message
                .get("role")
                .and_then(Value::as_str)
                .unwrap_or_default();
            let content = ChatContent::read(message, &at)?;
            match role {
                "system" | "developer" if content.files.is_empty() => {
                    instructions.push(content.text)
                }
                "system" | "developer" => {
                    return Err(OpenAiError::invalid_param(
                        at,
                        "A system message must be text.",
                    ));
                }
                "user" => entries.push(ChatEntry {
                    role: MessageRole::User,
                    text: content.text,
                    files: content.files,
                }),
                "assistant" => answer(&mut entries, content),
                other => {
                    let message = format!(
                        "The role `{other}` is not supported: agents call their own tools."
                    );
                    return Err(OpenAiError::invalid_param(format!("{at}.role"), message));
                }
            }
        }
        ChatInput {
            instructions: join_paragraphs(&instructions),
            before: Vec::new(),
            new: entries,
        }
        .split(param)
    }

    /// Splits the messages after the last answer.
    fn split(mut self, param: &str) -> Result<ChatInput, OpenAiError> {
        let answers = self
            .new
            .iter()
            .rposition(|entry| entry.role == MessageRole::Assistant);
        let new = self.new.split_off(answers.map_or(0, |last| last + 1));
        self.before = std::mem::replace(&mut self.new, new);
        if self
            .new
            .iter()
            .all(|entry| entry.text.is_empty() && entry.files.is_empty())
        {
            return Err(OpenAiError::invalid_param(
                param,
                "The last message must be a user message with content.",
            ));
        }
        Ok(self)
    }

    /// Returns the new messages as one input.
    pub(super) fn input(&self) -> (String, Vec<Attachment>) {
        let texts: Vec<String> = self
            .new
            .iter()
            .map(|entry| entry.text.clone())
            .filter(|text| !text.is_empty())
            .collect();
        let files = self
            .new
            .iter()
            .flat_map(|entry| entry.files.iter().cloned())
            .collect();
        (join_paragraphs(&texts).unwrap_or_default(), files)
    }
}

/// Appends an answer to the previous one: an answer may have one message for each step.
fn answer(entries: &mut Vec<ChatEntry>, ChatContent { text, files }: ChatContent) {
    match entries
        .last_mut()
        .filter(|last| last.role == MessageRole::Assistant)
    {
        Some(last) => {
            if !last.text.is_empty() && !text.is_empty() {
                last.text.push_str(STEP_TEXT_SEPARATOR);
            }
            last.text.push_str(&text);
            last.files.extend(files);
        }
        None => entries.push(ChatEntry {
            role: MessageRole::Assistant,
            text,
            files,
        }),
    }
}

/// Joins paragraphs; `None` if there are none.
pub(super) fn join_paragraphs(texts: &[String]) -> Option<String> {
    (!texts.is_empty()).then(|| texts.join("\n\n"))
}

#[derive(Default)]
struct ChatContent {
    text: String,
    files: Vec<Attachment>,
}

impl ChatContent {
    /// Reads the content of a message. `at` is its path in the body, for errors.
    fn read(message: &Map<String, Value>, at: &str) -> Result<ChatContent, OpenAiError> {
        for calls in ["tool_calls", "function_call"] {
            if message.get(calls).is_some_and(|calls| !is_nothing(calls)) {
                let message = "Client tool calls are not supported: agents call their own tools.";
                return Err(OpenAiError::invalid_param(format!("{at}.{calls}"), message));
            }
        }
        let mut content = ChatContent::default();
        match message.get("content") {
            None | Some(Value::Null) => {}
            Some(Value::String(text)) => content.text.clone_from(text),
            Some(Value::Array(parts)) => {
                for (index, part) in parts.iter().enumerate() {
                    content.take(part, &format!("{at}.content[{index}]"))?;
                }
            }
            Some(_) => {
                return Err(OpenAiError::invalid_param(
                    format!("{at}.content"),
                    "`content` must be a string or a list of parts.",
                ));
            }
        }
        Ok(content)
    }

    /// Adds a content part.
    fn take(&mut self, part: &Value, at: &str) -> Result<(), OpenAiError> {
        let text = |name: &str| part.get(name).and_then(Value::as_str);
        match text("type").unwrap_or_default() {
            kind @ ("text" | "input_text" | "output_text" | "refusal") => {
                let name = if kind == "refusal" { "refusal" } else { "text" };
                let Some(text) = text(name) else {
                    return Err(OpenAiError::invalid_param(
                        format!("{at}.{name}"),
                        "A content part of type `text` needs a `text` string.",
                    ));
                };
                self.text.push_str(text);
            }
            "image_url" => {
                let url = part
                    .pointer("/image_url/url")
                    .and_then(Value::as_str)
                    .or_else(|| text("image_url"));
                self.files
                    .push(parse_image(url, &format!("{at}.image_url"))?);
            }
            "input_image" => self
                .files
                .push(parse_image(text("image_url"), &format!("{at}.image_url"))?),
            "file" => self.files.push(file(
                part.get("file").unwrap_or(&Value::Null),
                &format!("{at}.file"),
            )?),
            "input_file" => self.files.push(file(part, at)?),
            other => {
                let message = format!(
                    "Parts of the type `{other}` are not supported. Use text, images or files."
                );
                return Err(OpenAiError::invalid_param(at, message));
            }
        }
        Ok(())
    }
}

/// Returns true for null and for empty lists and objects.
pub(super) fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}

/// Reads an image from a data URL.
fn parse_image(url: Option<&str>, at: &str) -> Result<Attachment, OpenAiError> {
    let Some(url) = url else {
        return Err(OpenAiError::invalid_param(
            at,
            "An image must be given as a data URL.",
        ));
    };
    let image = data_url(url, at)?;
    match image.media_type.starts_with("image/") {
        true => Ok(image),
        false => Err(OpenAiError::invalid_param(
            at,
            format!("`{}` is not an image type.", image.media_type),
        )),
    }
}

/// Reads a file.
fn file(file: &Value, at: &str) -> Result<Attachment, OpenAiError> {
    let Some(data) = file.get("file_data").and_then(Value::as_str) else {
        let message = "Send a file as `file_data` with a data URL: this server neither stores nor \
            fetches files.";
        return Err(OpenAiError::invalid_param(at, message));
    };
    let name = file
        .get("filename")
        .and_then(Value::as_str)
        .map(str::to_owned);
    Ok(Attachment {
        name,
        ..data_url(data, &format!("{at}.file_data"))?
    })
}

/// Decodes a data URL. Other URLs are refused, so that clients cannot make the server fetch
/// addresses of its own network.
fn data_url(url: &str, at: &str) -> Result<Attachment, OpenAiError> {
    let Some(rest) = url.strip_prefix("data:") else {
        let message = "Only data URLs are supported, such as `data:image/png;base64,…`: this \
            server fetches no URLs. Download the file, and send its bytes.";
        return Err(OpenAiError::invalid_param(at, message));
    };
    let head_and_data = rest.split_once(',');
    let Some((media_type, data)) =
        head_and_data.and_then(|(head, data)| Some((head.strip_suffix(";base64")?, data)))
    else {
        return Err(OpenAiError::invalid_param(
            at,
            "A data URL must have a media type and `base64`: `data:image/png;base64,…`.",
        ));
    };
    let media_type = media_type
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase();
    if !media_type.contains('/') {
        return Err(OpenAiError::invalid_param(
            at,
            "A data URL must have a media type: `data:image/png;base64,…`.",
        ));
    }
    if data.is_empty() || STANDARD.decode(data).is_err() {
        return Err(OpenAiError::invalid_param(
            at,
            "The data of a data URL must be base64.",
        ));
    }
    Ok(Attachment {
        media_type,
        data: data.to_owned(),
        name: None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(messages: Value) -> Result<ChatInput, Value> {
        ChatInput::read(messages.as_array().unwrap(), "messages").map_err(|error| error.body())
    }

    fn param(messages: Value) -> String {
        read(messages).unwrap_err()["param"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    #[test]
    fn messages_are_split_into_instructions_history_and_input() {
        let input = read(json!([
            {"role": "system", "content": "Be kind."},
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": [{"type": "text", "text": "hel"}, {"type": "text", "text": "lo"}]},
            {"role": "developer", "content": "Be brief."},
            {"role": "user", "content": "and"},
            {"role": "user", "content": [{"type": "text", "text": "now?"}]},
        ]))
        .unwrap();
        assert_eq!(input.instructions.as_deref(), Some("Be kind.\n\nBe brief."));
        assert_eq!(
            input.before,
            [ChatEntry::user("hi"), ChatEntry::assistant("hello")]
        );
        assert_eq!(input.input(), ("and\n\nnow?".to_owned(), Vec::new()));
    }

    #[test]
    fn responses_items_are_read_like_chat_messages() {
        let items = json!([
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
            {"type": "reasoning", "summary": []},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "hello"}]},
            {"role": "user", "content": "again"},
        ]);
        let messages = json!([
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": "hello"},
            {"role": "user", "content": "again"},
        ]);
        assert_eq!(read(items), read(messages));
    }

    #[test]
    fn images_and_files_are_read_from_data_urls() {
        let input = read(json!([{"role": "user", "content": [
            {"type": "text", "text": "What is that?"},
            {"type": "image_url", "image_url": {"url": "data:image/PNG;base64,AAAA", "detail": "low"}},
            {"type": "file", "file": {"file_data": "data:application/pdf;base64,BBBB", "filename": "a.pdf"}},
        ]}]))
        .unwrap();
        let (text, files) = input.input();
        let files: Vec<_> = files
            .iter()
            .map(|file| (&*file.media_type, &*file.data, file.name.as_deref()))
            .collect();
        assert_eq!(text, "What is that?");
        assert_eq!(
            files,
            [
                ("image/png", "AAAA", None),
                ("application/pdf", "BBBB", Some("a.pdf"))
            ]
        );
    }

    #[test]
    fn unsupported_content_is_rejected_with_its_location() {
        let image = |url: &str| json!([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}]);
        for url in [
            "https://example.org/a.png",
            "http://169.254.169.254/",
            "file:///etc/passwd",
            "data:image/png,raw",
            "data:;base64,AAAA",
            "data:text/html;base64,AAAA",
            "data:image/png;base64,?",
            "data:image/png;base64,",
        ] {
            assert_eq!(
                param(image(url)),
                "messages[0].content[0].image_url",
                "{url}"
            );
        }
        let call = json!({"role": "assistant", "content": null, "tool_calls": [{"id": "1"}]});
        assert_eq!(
            param(json!([{"role": "user", "content": "a"}, call])),
            "messages[1].tool_calls"
        );
        assert_eq!(
            param(json!([{"role": "tool", "content": "a"}])),
            "messages[0].role"
        );
        assert_eq!(
            param(json!([{"type": "function_call_output"}])),
            "messages[0]"
        );
        assert_eq!(
            param(json!([{"role": "user", "content": 7}])),
            "messages[0].content"
        );
        assert_eq!(
            param(json!([{"role": "user", "content": [{"type": "input_audio"}]}])),
            "messages[0].content[0]"
        );
        for messages in [
            json!([]),
            json!([{"role": "user", "content": ""}]),
            json!([{"role": "system", "content": "a"}]),
            json!([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]),
        ] {
            assert_eq!(param(messages), "messages");
        }
    }

    #[test]
    fn chat_entries_survive_conversion_to_messages_and_back() {
        let file = Attachment {
            media_type: "image/png".to_owned(),
            data: "AAAA".to_owned(),
            name: None,
        };
        for entry in [
            ChatEntry::user("hi"),
            ChatEntry::assistant("hello"),
            ChatEntry {
                files: vec![file.clone()],
                ..ChatEntry::user("look")
            },
            ChatEntry {
                files: vec![file],
                ..ChatEntry::user("")
            },
        ] {
            assert_eq!(
                ChatEntry::from_message(&entry.to_message_data()),
                Some(entry)
            );
        }
        assert_eq!(
            ChatEntry::from_message(&MessageData {
                role: MessageRole::Tool,
                content: Vec::new()
            }),
            None
        );
    }
}
