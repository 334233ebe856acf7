//! Converts a server's answer to a tool output.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use goondan_spec::Code;
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use serde_json::Value;

use crate::codes::error;
use crate::stdio_transport::{MAX_MESSAGE_VALUES, OVERSIZED_ANSWER};
use goondan_core::ports::tool::{Attachment, HandlerError, ToolOutput};
use goondan_spec::untrusted_text::{KeptCharacters, TextEscaper};

/// Maximum number of attachments in one answer.
const MAX_ATTACHMENTS: usize = 16;
/// Maximum size of an attachment in bytes, which is the providers' limit for images. A larger one
/// would make every further request fail.
const MAX_ATTACHMENT_BYTES: usize = 5 << 20;
/// Maximum number of characters in a media type or a name.
const MAX_LABEL_CHARS: usize = 200;

/// Accepts Base64 without padding, which some servers send.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Reads an invalid answer block by block, and keeps the readable blocks.
pub(crate) fn repair_result(mut answer: Value) -> Option<CallToolResult> {
    let fields = answer.as_object_mut()?;
    let blocks = match fields.remove("content")? {
        Value::Array(blocks) => blocks,
        one => vec![one],
    };
    let block = |block: Value| match block {
        Value::String(text) => ContentBlock::text(text),
        block => serde_json::from_value(block)
            .unwrap_or_else(|_| ContentBlock::text("[unreadable content]")),
    };
    let mut result = CallToolResult::default();
    result.content = blocks.into_iter().map(block).collect();
    result.structured_content = fields
        .remove("structuredContent")
        .filter(|value| !value.is_null());
    result.is_error = fields.get("isError").and_then(Value::as_bool);
    Some(result)
}

/// Converts the result of the tool whose name on the server is `tool_name`.
///
/// # Errors
///
/// Fails if the tool reports an error, or if the result has too many values.
pub(crate) fn output(
    server: &str,
    tool_name: &str,
    result: CallToolResult,
) -> Result<ToolOutput, HandlerError> {
    let structured_count = result.structured_content.as_ref().map_or(0, value_count);
    if structured_count + result.content.len() > MAX_MESSAGE_VALUES {
        let what = format_args!("returned {OVERSIZED_ANSWER}");
        return Err(error(Code::MCP_TOO_LARGE, server, what).suggest("Request less data per call."));
    }
    let (mut texts, mut attachments) = (Vec::new(), Vec::new());
    for block in result.content {
        take(block, &mut texts, &mut attachments);
    }
    limit_attachments(&mut texts, &mut attachments);
    let text = texts.join("\n");
    if result.is_error == Some(true) {
        let structured = || {
            result
                .structured_content
                .map(|content| escape_value(content).to_string())
        };
        let text = Some(text)
            .filter(|text| !text.trim().is_empty())
            .or_else(structured);
        let text = text.unwrap_or_else(|| "the tool failed without a reason".to_owned());
        return Err(HandlerError {
            name: Some("McpToolError".to_owned()),
            ..HandlerError::new(text).code(Code::MCP_TOOL)
        });
    }
    let output = match result.structured_content {
        None => Value::String(text),
        // Most servers repeat the data as text.
        Some(data) if texts.iter().all(|text| is_part_of(text, &data)) => escape_value(data),
        Some(data) => Value::String(format!("{text}\n\n{}", escape_value(data))),
    };
    Ok(ToolOutput {
        output,
        title: Some(format!("{server}: {tool_name}")),
        attachments,
        ..ToolOutput::default()
    })
}

/// Returns the number of values in `value`, including itself.
fn value_count(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(value_count).sum(),
        Value::Object(fields) => fields.values().map(value_count).sum(),
        _ => 0,
    }
}

/// Converts the contents of the resource `uri`.
pub(crate) fn resource_output(
    server: &str,
    uri: &str,
    contents: Vec<ResourceContents>,
) -> ToolOutput {
    let (mut texts, mut attachments) = (Vec::new(), Vec::new());
    let is_one = contents.len() == 1;
    for content in contents {
        match content {
            // The caller knows the URI of a single text.
            ResourceContents::TextResourceContents { text, .. } if is_one => {
                texts.push(escape_invisible(&text));
            }
            content => take_resource(content, &mut texts, &mut attachments),
        }
    }
    limit_attachments(&mut texts, &mut attachments);
    if texts.is_empty() && attachments.is_empty() {
        texts.push("[the resource is empty]".to_owned());
    }
    ToolOutput {
        output: Value::String(texts.join("\n")),
        title: Some(format!("{server}: {}", escape_invisible(uri))),
        attachments,
        ..ToolOutput::default()
    }
}

/// Limits the number of attachments, and states in the text how many are omitted.
pub(crate) fn limit_attachments(texts: &mut Vec<String>, attachments: &mut Vec<Attachment>) {
    let left_out = attachments.len().saturating_sub(MAX_ATTACHMENTS);
    if left_out > 0 {
        attachments.truncate(MAX_ATTACHMENTS);
        texts.push(format!("[{left_out} more attachments omitted]"));
    }
}

/// Returns true if `text` is blank, the data as JSON, or a value in the data.
fn is_part_of(text: &str, data: &Value) -> bool {
    let parsed = serde_json::from_str::<Value>(text).ok();
    text.trim().is_empty()
        || contains(data, &|value| {
            parsed.as_ref() == Some(value) || value.as_str() == Some(text)
        })
}

/// Returns true if `matches` is true for `data` or for a value in it.
fn contains(data: &Value, matches: &impl Fn(&Value) -> bool) -> bool {
    matches(data)
        || match data {
            Value::Array(items) => items.iter().any(|item| contains(item, matches)),
            Value::Object(fields) => fields.values().any(|field| contains(field, matches)),
            _ => false,
        }
}

/// Appends the text or the attachment of a content block.
pub(crate) fn take(
    block: ContentBlock,
    texts: &mut Vec<String>,
    attachments: &mut Vec<Attachment>,
) {
    match block {
        ContentBlock::Text(text) => texts.push(escape_invisible(&text.text)),
        ContentBlock::Image(image) => texts.extend(add_attachment(
            &image.mime_type,
            &image.data,
            None,
            attachments,
        )),
        ContentBlock::Audio(audio) => texts.extend(add_attachment(
            &audio.mime_type,
            &audio.data,
            None,
            attachments,
        )),
        ContentBlock::Resource(embedded) => take_resource(embedded.resource, texts, attachments),
        ContentBlock::ResourceLink(link) => {
            texts.push(format!(
                "[resource {}: {}]",
                escape_invisible(&link.name),
                escape_invisible(&link.uri)
            ));
        }
        _ => texts.push("[content of an unknown kind]".to_owned()),
    }
}

/// Appends the text or the attachment of a resource.
fn take_resource(
    resource: ResourceContents,
    texts: &mut Vec<String>,
    attachments: &mut Vec<Attachment>,
) {
    match resource {
        ResourceContents::TextResourceContents { uri, text, .. } => {
            texts.push(format!(
                "[{}]\n{}",
                escape_invisible(&uri),
                escape_invisible(&text)
            ));
        }
        ResourceContents::BlobResourceContents {
            uri,
            mime_type,
            blob,
            ..
        } => {
            let media_type = mime_type.as_deref().unwrap_or("application/octet-stream");
            texts.extend(add_attachment(media_type, &blob, Some(&uri), attachments));
        }
        _ => texts.push("[a resource of an unknown kind]".to_owned()),
    }
}

/// Adds an attachment. If it is too large or invalid, returns the text that replaces it.
pub(crate) fn add_attachment(
    media_type: &str,
    data: &str,
    name: Option<&str>,
    attachments: &mut Vec<Attachment>,
) -> Option<String> {
    let label = |text: &str| {
        escape_invisible(text)
            .chars()
            .take(MAX_LABEL_CHARS)
            .collect::<String>()
    };
    let media_type = label(media_type);
    // Base64 encodes three bytes as four.
    let size = data.len() / 4 * 3;
    if size > MAX_ATTACHMENT_BYTES {
        let size = size / 1000;
        return Some(format!(
            "[attachment of {size} kB ({media_type}) omitted: too large]"
        ));
    }
    let data: String = data.split_ascii_whitespace().collect();
    let Ok(bytes) = BASE64.decode(&data) else {
        return Some(format!("[attachment ({media_type}) omitted: not Base64]"));
    };
    let data = if data.len().is_multiple_of(4) {
        data
    } else {
        BASE64.encode(bytes)
    };
    attachments.push(Attachment {
        media_type,
        data,
        name: name.map(label),
    });
    None
}

/// Escapes invisible characters.
pub(crate) fn escape_invisible(text: &str) -> String {
    TextEscaper::new(KeptCharacters::Writing)
        .escape(text)
        .into_owned()
}

/// Escapes invisible characters in all strings and field names of a value.
fn escape_value(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(escape_invisible(&text)),
        Value::Array(items) => items.into_iter().map(escape_value).collect(),
        Value::Object(fields) => fields
            .into_iter()
            .map(|(key, value)| (escape_invisible(&key), escape_value(value)))
            .collect(),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn result(value: Value) -> Result<ToolOutput, HandlerError> {
        output("t", "x", serde_json::from_value(value).expect("a result"))
    }

    #[test]
    fn texts_are_joined_and_invisible_characters_are_escaped() {
        let content =
            json!([{"type": "text", "text": "a\u{202e}b"}, {"type": "text", "text": "c"}]);
        assert_eq!(
            result(json!({"content": content})).map(|o| o.output),
            Ok(json!("a\\u{202e}b\nc"))
        );
    }

    #[test]
    fn structured_content_is_preferred_over_equal_text() {
        let value = json!({"content": [{"type": "text", "text": "{\"n\":1}"}], "structuredContent": {"n": 1}});
        assert_eq!(result(value).map(|o| o.output), Ok(json!({"n": 1})));
    }

    #[test]
    fn a_result_with_too_many_values_is_rejected() {
        let of = |count: usize| {
            result(json!({"content": [], "structuredContent": {"all": vec![0; count]}}))
        };
        // The object and the list also count as values.
        assert!(of(MAX_MESSAGE_VALUES - 2).is_ok());
        let refusal = of(MAX_MESSAGE_VALUES - 1).expect_err("the result is too large");
        assert_eq!(refusal.code, Some(Code::MCP_TOO_LARGE.to_string()));
    }

    #[test]
    fn images_are_attached_up_to_a_limit() {
        let image = json!({"type": "image", "data": "QQ==", "mimeType": "image/png"});
        let output = result(json!({"content": vec![image; 18]})).expect("an output");
        assert_eq!(
            (output.attachments.len(), output.output),
            (16, json!("[2 more attachments omitted]"))
        );
    }

    #[test]
    fn invalid_or_oversized_images_are_omitted() {
        let image = |data: &str| json!({"type": "image", "data": data, "mimeType": "image/png"});
        let output = result(
            json!({"content": [image("QU\nI"), image("no base64!"), image(&"QQQQ".repeat(2 << 20))]}),
        );
        let output = output.expect("an output");
        let data: Vec<&str> = output
            .attachments
            .iter()
            .map(|attachment| attachment.data.as_str())
            .collect();
        assert_eq!(data, ["QUI="]);
        let expected = "[attachment (image/png) omitted: not Base64]\n\
                    [attachment of 6291 kB (image/png) omitted: too large]";
        assert_eq!(output.output, json!(expected));
    }

    #[test]
    fn the_readable_parts_of_an_invalid_result_are_kept() {
        let known = |value| {
            repair_result(value)
                .and_then(|result| output("t", "x", result).ok())
                .map(|output| output.output)
        };
        let odd = json!({"type": "video", "data": "QQ=="});
        let text = json!({"type": "text", "text": "a"});
        assert_eq!(
            known(json!({"content": [text, odd]})),
            Some(json!("a\n[unreadable content]"))
        );
        assert_eq!(
            known(json!({"content": "just words"})),
            Some(json!("just words"))
        );
        assert_eq!(known(json!({"answer": 7})), None);
    }

    #[test]
    fn structured_content_of_an_error_becomes_the_message() {
        let output =
            result(json!({"content": [], "structuredContent": {"why": "full"}, "isError": true}));
        assert_eq!(output.expect_err("an error").message, r#"{"why":"full"}"#);
    }

    #[test]
    fn a_result_with_is_error_is_an_error() {
        let output =
            result(json!({"content": [{"type": "text", "text": "no such file"}], "isError": true}));
        let error = output.expect_err("an error");
        assert_eq!(
            (error.message.as_str(), error.code.as_deref()),
            ("no such file", Some("E_MCP_TOOL"))
        );
    }

    #[test]
    fn text_that_adds_to_the_structured_content_is_kept() {
        let output = |text: &str, data: Value| {
            let content = json!([{"type": "text", "text": text}]);
            let whole = json!({"content": content, "structuredContent": data});
            result(whole).unwrap().output
        };
        let data = json!({"name": "a.txt", "n": 3, "in": ["x"]});
        for repeated in [
            "",
            "x",
            "3",
            "a.txt",
            r#"{"n": 3, "in": ["x"], "name": "a.txt"}"#,
        ] {
            assert_eq!(output(repeated, data.clone()), data, "{repeated}");
        }
        assert_eq!(
            output("the whole text", data.clone()),
            json!(format!("the whole text\n\n{data}"))
        );
    }
}
