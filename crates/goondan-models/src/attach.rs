//! Attachments, as far as a provider can see them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use genai::chat::{Binary, ContentPart};
use goondan_core::ports::tool::Attachment;

use crate::wire::Wire;

/// What a model gets to see of an attachment.
pub(crate) enum Shown {
    /// The attachment.
    AsItIs,
    /// This in its place: its text, or a note.
    Text(String),
}

/// `file` as it is where the provider takes it, text as text, else a note in its place.
pub(crate) fn shown(wire: Wire, file: &Attachment) -> Shown {
    if takes(wire, &file.media_type) {
        return Shown::AsItIs;
    }
    Shown::Text(match text(file) {
        Some(text) => format!("[{}]\n{text}", name(file)),
        None => format!(
            "[{} ({}): this model can't be shown it]",
            name(file),
            file.media_type
        ),
    })
}

/// `file` as genai takes it.
pub(crate) fn attachment(wire: Wire, file: &Attachment) -> ContentPart {
    match shown(wire, file) {
        Shown::AsItIs => Binary::from_base64(
            file.media_type.clone(),
            file.data.as_str(),
            Some(name(file)),
        )
        .into(),
        Shown::Text(text) => ContentPart::Text(text),
    }
}

/// What each format has a place for; whether a model understands it is another matter.
fn takes(wire: Wire, media_type: &str) -> bool {
    let (kind, _) = media_type.split_once('/').unwrap_or_default();
    let pdf = media_type == "application/pdf";
    match wire {
        Wire::Chat => {
            kind == "image" || pdf || matches!(media_type, "audio/wav" | "audio/mpeg" | "audio/mp3")
        }
        Wire::Responses => kind == "image" || pdf,
        Wire::Anthropic | Wire::Converse => {
            pdf || matches!(
                media_type,
                "image/jpeg" | "image/png" | "image/gif" | "image/webp"
            )
        }
        Wire::Gemini => pdf || matches!(kind, "image" | "audio" | "video"),
        Wire::Ollama => kind == "image",
    }
}

fn text(file: &Attachment) -> Option<String> {
    let textual = file.media_type.starts_with("text/") || file.media_type == "application/json";
    textual
        .then(|| STANDARD.decode(&file.data).ok())
        .flatten()
        .and_then(|bytes| String::from_utf8(bytes).ok())
}

/// What it is called.
pub(crate) fn name(file: &Attachment) -> String {
    file.name.clone().unwrap_or_else(|| "attachment".to_owned())
}
