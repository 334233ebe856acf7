//! What a server answers to a call, as an output.

use goondan_spec::Code;
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use serde_json::{Value, json};

use goondan_core::ports::tool::{Attachment, ToolError, ToolOutput};
use goondan_spec::shown::{Escaper, Kept};

/// Attachments of one answer at most.
const MAX_ATTACHMENTS: usize = 16;
/// Characters of a media type or of a name.
const MAX_LABEL: usize = 200;

/// The output of a call to the tool `own`.
///
/// # Errors
/// The tool says that it failed.
pub(crate) fn output(server: &str, own: &str, result: CallToolResult) -> Result<ToolOutput, ToolError> {
    let (mut texts, mut attachments) = (Vec::new(), Vec::new());
    for block in result.content {
        take(block, &mut texts, &mut attachments);
    }
    let left_out = attachments.len().saturating_sub(MAX_ATTACHMENTS);
    if left_out > 0 {
        attachments.truncate(MAX_ATTACHMENTS);
        texts.push(format!("[{left_out} more attachments were left out]"));
    }
    let text = texts.join("\n");
    if result.is_error == Some(true) {
        let text = if text.trim().is_empty() { "it failed and does not say why".to_owned() } else { text };
        return Err(ToolError { name: Some("McpToolError".to_owned()), ..ToolError::new(text).code(Code::MCP_TOOL) });
    }
    // What is structured is said a second time in text, for those who can't read it.
    let output = result.structured_content.map_or(Value::String(text), tidy);
    Ok(ToolOutput { output, title: Some(format!("{server}: {own}")), attachments, ..ToolOutput::default() })
}

fn take(block: ContentBlock, texts: &mut Vec<String>, attachments: &mut Vec<Attachment>) {
    match block {
        ContentBlock::Text(text) => texts.push(visible(&text.text)),
        ContentBlock::Image(image) => attach(&image.mime_type, image.data, None, attachments),
        ContentBlock::Audio(audio) => attach(&audio.mime_type, audio.data, None, attachments),
        ContentBlock::Resource(embedded) => match embedded.resource {
            ResourceContents::TextResourceContents { uri, text, .. } => {
                texts.push(format!("[{}]\n{}", visible(&uri), visible(&text)));
            }
            ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
                attach(mime_type.as_deref().unwrap_or("application/octet-stream"), blob, Some(&uri), attachments);
            }
            _ => texts.push("[a resource of a kind that is not known here]".to_owned()),
        },
        ContentBlock::ResourceLink(link) => {
            texts.push(format!("[resource {}: {}]", visible(&link.name), visible(&link.uri)));
        }
        _ => texts.push("[content of a kind that is not known here]".to_owned()),
    }
}

pub(crate) fn attach(media_type: &str, data: String, name: Option<&str>, attachments: &mut Vec<Attachment>) {
    let label = |text: &str| visible(text).chars().take(MAX_LABEL).collect::<String>();
    attachments.push(Attachment { media_type: label(media_type), data, name: name.map(label) });
}

/// Text with everything escaped that can't be seen.
pub(crate) fn visible(text: &str) -> String {
    Escaper::new(Kept::Writing).escape(text).into_owned()
}

fn tidy(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(visible(&text)),
        Value::Array(items) => items.into_iter().map(tidy).collect(),
        Value::Object(fields) => json!(
            fields.into_iter().map(|(key, value)| (visible(&key), tidy(value))).collect::<serde_json::Map<_, _>>()
        ),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(value: Value) -> Result<ToolOutput, ToolError> {
        output("t", "x", serde_json::from_value(value).expect("a result"))
    }

    #[test]
    fn texts_are_joined_and_what_is_hidden_is_seen() {
        let content = json!([{"type": "text", "text": "a\u{202e}b"}, {"type": "text", "text": "c"}]);
        assert_eq!(result(json!({"content": content})).map(|o| o.output), Ok(json!("a\\u{202e}b\nc")));
    }

    #[test]
    fn what_is_structured_comes_first() {
        let told = json!({"content": [{"type": "text", "text": "{\"n\":1}"}], "structuredContent": {"n": 1}});
        assert_eq!(result(told).map(|o| o.output), Ok(json!({"n": 1})));
    }

    #[test]
    fn pictures_are_attached_up_to_a_limit() {
        let picture = json!({"type": "image", "data": "QQ==", "mimeType": "image/png"});
        let told = result(json!({"content": vec![picture; 18]})).expect("an output");
        assert_eq!((told.attachments.len(), told.output), (16, json!("[2 more attachments were left out]")));
    }

    #[test]
    fn a_failure_of_the_tool_is_an_error() {
        let told = result(json!({"content": [{"type": "text", "text": "no such file"}], "isError": true}));
        let error = told.expect_err("an error");
        assert_eq!((error.message.as_str(), error.code.as_deref()), ("no such file", Some("E_MCP_TOOL")));
    }
}
