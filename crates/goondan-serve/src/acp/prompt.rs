//! Conversion of a user's prompt to an input.

use agent_client_protocol::Error;
use agent_client_protocol::v1::schema::{ContentBlock, EmbeddedResourceResource};
use goondan::Input;
use goondan::ports::tool::Attachment;

use super::session::EditorSession;

/// Converts a prompt. Fails if the prompt is empty or contains unsupported content.
pub(super) fn input(prompt: Vec<ContentBlock>, session: &EditorSession) -> Result<Input, Error> {
    let (mut texts, mut files) = (Vec::new(), Vec::new());
    for block in prompt {
        match block {
            ContentBlock::Text(text) => texts.push(text.text),
            ContentBlock::Image(image) => files.push(build_attachment(
                image.mime_type,
                image.data,
                image.uri.as_deref(),
            )),
            ContentBlock::ResourceLink(link) => {
                texts.push(format!("[{}]({})", link.name, link.uri))
            }
            ContentBlock::Resource(resource) => match resource.resource {
                EmbeddedResourceResource::TextResourceContents(it) => {
                    texts.push(resource_text(&it.uri, &it.text))
                }
                EmbeddedResourceResource::BlobResourceContents(it) => {
                    let kind = it
                        .mime_type
                        .unwrap_or_else(|| "application/octet-stream".to_owned());
                    files.push(build_attachment(kind, it.blob, Some(&it.uri)));
                }
                _ => return Err(unsupported_content()),
            },
            _ => return Err(unsupported_content()),
        }
    }
    let text = texts.join("\n\n");
    if text.trim().is_empty() && files.is_empty() {
        return Err(Error::invalid_params().data("the prompt is empty"));
    }
    let instance = &session.instance;
    let (agent, instance_key) = (
        Some(instance.agent.clone()),
        Some(instance.instance_key.clone()),
    );
    Ok(Input {
        text,
        agent,
        instance_key,
        files,
        instructions: directory_note(session),
        ..Input::default()
    })
}

/// Names the editor's directory, unless the agent's tools work in the same directory.
fn directory_note(session: &EditorSession) -> Option<String> {
    let (cwd, workdir) = (&session.cwd, &session.workdir);
    (cwd != workdir).then(|| {
        format!(
            "The user's editor has the directory {} open. Your tools work in {}.",
            cwd.display(),
            workdir.display()
        )
    })
}

/// Marks the text of a file that belongs to an input.
pub fn resource_text(uri: &str, text: &str) -> String {
    format!(
        "<resource uri=\"{}\">\n{text}\n</resource>",
        uri.replace('"', "%22")
    )
}

/// Creates an attachment with the file name from `uri`.
fn build_attachment(media_type: String, data: String, uri: Option<&str>) -> Attachment {
    let name = uri
        .and_then(|uri| uri.rsplit('/').next())
        .filter(|name| !name.is_empty())
        .map(str::to_owned);
    Attachment {
        media_type,
        data,
        name,
    }
}

/// Returns the error for unsupported content.
fn unsupported_content() -> Error {
    Error::invalid_params().data("the prompt contains unsupported content")
}
