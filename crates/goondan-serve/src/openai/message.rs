//! What was said, in one shape for both APIs: messages of chat completions, and items of responses.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use goondan::message::{MessageData, Part, Role};
use goondan::ports::tool::Attachment;
use serde_json::{Map, Value};

use super::error::ApiError;
use super::track::BETWEEN;

/// One message of a user or of the assistant.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Said {
    pub(super) role: Role,
    pub(super) text: String,
    pub(super) files: Vec<Attachment>,
}

/// What a request says.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Talk {
    /// What system and developer messages say.
    pub(super) instructions: Option<String>,
    /// What was said up to the last answer.
    pub(super) before: Vec<Said>,
    /// What was said since then.
    pub(super) new: Vec<Said>,
}

impl Said {
    /// A text of the user.
    pub(super) fn user(text: impl Into<String>) -> Self {
        Said {
            role: Role::User,
            text: text.into(),
            files: Vec::new(),
        }
    }

    /// An answer.
    pub(super) fn assistant(text: impl Into<String>) -> Self {
        Said {
            role: Role::Assistant,
            text: text.into(),
            files: Vec::new(),
        }
    }

    /// As a message of a conversation.
    pub(super) fn data(&self) -> MessageData {
        let text = Some(&self.text).filter(|text| !text.is_empty() || self.files.is_empty());
        let text = text.map(|text| Part::text(text.clone()));
        let content = text
            .into_iter()
            .chain(self.files.iter().cloned().map(Part::File))
            .collect();
        MessageData {
            role: self.role,
            content,
        }
    }

    /// What there is to see of a message of a conversation; `None` for results of tools and the like.
    pub(super) fn of(data: &MessageData) -> Option<Said> {
        if !matches!(data.role, Role::User | Role::Assistant) {
            return None;
        }
        let text = data
            .content
            .iter()
            .filter_map(Part::as_text)
            .collect::<String>();
        let files = data.content.iter().filter_map(|part| match part {
            Part::File(file) => Some(file.clone()),
            _ => None,
        });
        let said = Said {
            role: data.role,
            text,
            files: files.collect(),
        };
        (!said.text.is_empty() || !said.files.is_empty()).then_some(said)
    }
}

impl Talk {
    /// Reads a list of messages. `param` is what the list is called.
    pub(super) fn read(messages: &[Value], param: &str) -> Result<Talk, ApiError> {
        let mut instructions = Vec::new();
        let mut said = Vec::new();
        for (index, message) in messages.iter().enumerate() {
            let at = format!("{param}[{index}]");
            let Some(message) = message.as_object() else {
                return Err(ApiError::parameter(at, "A message must be an object."));
            };
            match message
                .get("type")
                .and_then(Value::as_str)
                .unwrap_or("message")
            {
                "message" => {}
                // What a model of OpenAI has thought says nothing to another one.
                "reasoning" => continue,
                other => {
                    let message = format!(
                        "Items of the type `{other}` are not supported: agents call their own tools."
                    );
                    return Err(ApiError::parameter(at, message));
                }
            }
            let role = message
                .get("role")
                .and_then(Value::as_str)
                .unwrap_or_default();
            let content = Content::read(message, &at)?;
            match role {
                "system" | "developer" if content.files.is_empty() => {
                    instructions.push(content.text)
                }
                "system" | "developer" => {
                    return Err(ApiError::parameter(at, "A system message must be text."));
                }
                "user" => said.push(Said {
                    role: Role::User,
                    text: content.text,
                    files: content.files,
                }),
                "assistant" => answer(&mut said, content),
                other => {
                    let message = format!(
                        "The role `{other}` is not supported: agents call their own tools."
                    );
                    return Err(ApiError::parameter(format!("{at}.role"), message));
                }
            }
        }
        Talk {
            instructions: joined(&instructions),
            before: Vec::new(),
            new: said,
        }
        .split(param)
    }

    /// Puts what was said up to the last answer aside.
    fn split(mut self, param: &str) -> Result<Talk, ApiError> {
        let answers = self
            .new
            .iter()
            .rposition(|said| said.role == Role::Assistant);
        let new = self.new.split_off(answers.map_or(0, |last| last + 1));
        self.before = std::mem::replace(&mut self.new, new);
        if self
            .new
            .iter()
            .all(|said| said.text.is_empty() && said.files.is_empty())
        {
            return Err(ApiError::parameter(
                param,
                "The last message must be one of the user, and say something.",
            ));
        }
        Ok(self)
    }

    /// What is new, as one input: its text, and its files.
    pub(super) fn input(&self) -> (String, Vec<Attachment>) {
        let texts: Vec<String> = self
            .new
            .iter()
            .map(|said| said.text.clone())
            .filter(|text| !text.is_empty())
            .collect();
        let files = self
            .new
            .iter()
            .flat_map(|said| said.files.iter().cloned())
            .collect();
        (joined(&texts).unwrap_or_default(), files)
    }
}

/// An answer may come as several messages: one for each step.
fn answer(said: &mut Vec<Said>, Content { text, files }: Content) {
    match said.last_mut().filter(|last| last.role == Role::Assistant) {
        Some(last) => {
            if !last.text.is_empty() && !text.is_empty() {
                last.text.push_str(BETWEEN);
            }
            last.text.push_str(&text);
            last.files.extend(files);
        }
        None => said.push(Said {
            role: Role::Assistant,
            text,
            files,
        }),
    }
}

/// Paragraphs as one text; `None` where there are none.
pub(super) fn joined(texts: &[String]) -> Option<String> {
    (!texts.is_empty()).then(|| texts.join("\n\n"))
}

/// What stands in a message.
#[derive(Default)]
struct Content {
    text: String,
    files: Vec<Attachment>,
}

impl Content {
    fn read(message: &Map<String, Value>, at: &str) -> Result<Content, ApiError> {
        for calls in ["tool_calls", "function_call"] {
            if message.get(calls).is_some_and(|calls| !is_nothing(calls)) {
                let words =
                    "Tool calls of the client are not supported: agents call their own tools.";
                return Err(ApiError::parameter(format!("{at}.{calls}"), words));
            }
        }
        let mut content = Content::default();
        match message.get("content") {
            None | Some(Value::Null) => {}
            Some(Value::String(text)) => content.text.clone_from(text),
            Some(Value::Array(parts)) => {
                for (index, part) in parts.iter().enumerate() {
                    content.take(part, &format!("{at}.content[{index}]"))?;
                }
            }
            Some(_) => {
                return Err(ApiError::parameter(
                    format!("{at}.content"),
                    "`content` must be a string or a list of parts.",
                ));
            }
        }
        Ok(content)
    }

    fn take(&mut self, part: &Value, at: &str) -> Result<(), ApiError> {
        let text = |name: &str| part.get(name).and_then(Value::as_str);
        match text("type").unwrap_or_default() {
            kind @ ("text" | "input_text" | "output_text" | "refusal") => {
                let name = if kind == "refusal" { "refusal" } else { "text" };
                let Some(text) = text(name) else {
                    return Err(ApiError::parameter(
                        format!("{at}.{name}"),
                        "A part of text needs a text.",
                    ));
                };
                self.text.push_str(text);
            }
            "image_url" => {
                let url = part
                    .pointer("/image_url/url")
                    .and_then(Value::as_str)
                    .or_else(|| text("image_url"));
                self.files.push(image(url, &format!("{at}.image_url"))?);
            }
            "input_image" => self
                .files
                .push(image(text("image_url"), &format!("{at}.image_url"))?),
            "file" => self.files.push(file(
                part.get("file").unwrap_or(&Value::Null),
                &format!("{at}.file"),
            )?),
            "input_file" => self.files.push(file(part, at)?),
            other => {
                let message = format!(
                    "Parts of the type `{other}` are not supported. Text, images and files are."
                );
                return Err(ApiError::parameter(at, message));
            }
        }
        Ok(())
    }
}

/// Whether a value says nothing.
pub(super) fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}

fn image(url: Option<&str>, at: &str) -> Result<Attachment, ApiError> {
    let Some(url) = url else {
        return Err(ApiError::parameter(
            at,
            "An image must be given as a data URL.",
        ));
    };
    let image = data_url(url, at)?;
    match image.media_type.starts_with("image/") {
        true => Ok(image),
        false => Err(ApiError::parameter(
            at,
            format!("`{}` is no type of an image.", image.media_type),
        )),
    }
}

fn file(file: &Value, at: &str) -> Result<Attachment, ApiError> {
    let Some(data) = file.get("file_data").and_then(Value::as_str) else {
        let message = "A file must be given as `file_data`, a data URL: this server keeps no files and fetches none.";
        return Err(ApiError::parameter(at, message));
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

/// The file of a data URL. Others are not fetched: a client must not be able to send the server to addresses of its network.
fn data_url(url: &str, at: &str) -> Result<Attachment, ApiError> {
    let Some(rest) = url.strip_prefix("data:") else {
        let message = "Only data URLs are taken, such as `data:image/png;base64,…`: this server fetches no addresses. \
                       Fetch it yourself, and send its bytes.";
        return Err(ApiError::parameter(at, message));
    };
    let head_and_data = rest.split_once(',');
    let Some((media_type, data)) =
        head_and_data.and_then(|(head, data)| Some((head.strip_suffix(";base64")?, data)))
    else {
        return Err(ApiError::parameter(
            at,
            "A data URL must have a type and base64: `data:image/png;base64,…`.",
        ));
    };
    let media_type = media_type
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase();
    if !media_type.contains('/') {
        return Err(ApiError::parameter(
            at,
            "A data URL must say the type of its data: `data:image/png;base64,…`.",
        ));
    }
    if data.is_empty() || STANDARD.decode(data).is_err() {
        return Err(ApiError::parameter(
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

    fn read(messages: Value) -> Result<Talk, Value> {
        Talk::read(messages.as_array().unwrap(), "messages").map_err(|error| error.body())
    }

    fn param(messages: Value) -> String {
        read(messages).unwrap_err()["param"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    #[test]
    fn a_talk_has_instructions_a_past_and_something_new() {
        let talk = read(json!([
            {"role": "system", "content": "Be kind."},
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": [{"type": "text", "text": "hel"}, {"type": "text", "text": "lo"}]},
            {"role": "developer", "content": "Be brief."},
            {"role": "user", "content": "and"},
            {"role": "user", "content": [{"type": "text", "text": "now?"}]},
        ]))
        .unwrap();
        assert_eq!(talk.instructions.as_deref(), Some("Be kind.\n\nBe brief."));
        assert_eq!(talk.before, [Said::user("hi"), Said::assistant("hello")]);
        assert_eq!(talk.input(), ("and\n\nnow?".to_owned(), Vec::new()));
    }

    #[test]
    fn items_of_responses_are_the_same_messages() {
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
    fn images_and_files_come_as_data() {
        let talk = read(json!([{"role": "user", "content": [
            {"type": "text", "text": "What is that?"},
            {"type": "image_url", "image_url": {"url": "data:image/PNG;base64,AAAA", "detail": "low"}},
            {"type": "file", "file": {"file_data": "data:application/pdf;base64,BBBB", "filename": "a.pdf"}},
        ]}]))
        .unwrap();
        let (text, files) = talk.input();
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
    fn what_can_not_be_taken_is_refused_where_it_stands() {
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
        for nothing in [
            json!([]),
            json!([{"role": "user", "content": ""}]),
            json!([{"role": "system", "content": "a"}]),
            json!([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]),
        ] {
            assert_eq!(param(nothing), "messages");
        }
    }

    #[test]
    fn a_message_of_a_conversation_goes_there_and_back() {
        let file = Attachment {
            media_type: "image/png".to_owned(),
            data: "AAAA".to_owned(),
            name: None,
        };
        for said in [
            Said::user("hi"),
            Said::assistant("hello"),
            Said {
                files: vec![file.clone()],
                ..Said::user("look")
            },
            Said {
                files: vec![file],
                ..Said::user("")
            },
        ] {
            assert_eq!(Said::of(&said.data()), Some(said));
        }
        assert_eq!(
            Said::of(&MessageData {
                role: Role::Tool,
                content: Vec::new()
            }),
            None
        );
    }
}
