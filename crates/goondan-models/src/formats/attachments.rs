//! Attachments, as far as a format has a place for them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use goondan_core::ports::tool::Attachment;
use goondan_spec::sent_schema::ProviderWireFormat;

/// The form in which a model receives an attachment.
pub(crate) enum AttachmentForm {
    /// The data itself.
    Data,
    /// The text of the attachment, or a note in its place.
    Text(String),
}

/// Returns the form in which `wire` carries `file`.
pub(crate) fn attachment_form(wire: ProviderWireFormat, file: &Attachment) -> AttachmentForm {
    if accepts_media_type(wire, &file.media_type) {
        return AttachmentForm::Data;
    }
    AttachmentForm::Text(match decoded_text(file) {
        Some(text) => format!("[{}]\n{text}", file_name(file)),
        None => format!(
            "[{} ({}): not supported by this model]",
            file_name(file),
            file.media_type
        ),
    })
}

/// Returns true if `wire` has a place for `media_type`. Whether the model understands it is another matter.
fn accepts_media_type(wire: ProviderWireFormat, media_type: &str) -> bool {
    let (kind, _) = media_type.split_once('/').unwrap_or_default();
    let is_pdf = media_type == "application/pdf";
    match wire {
        ProviderWireFormat::Chat => {
            kind == "image"
                || is_pdf
                || matches!(media_type, "audio/wav" | "audio/mpeg" | "audio/mp3")
        }
        ProviderWireFormat::Responses => kind == "image" || is_pdf,
        ProviderWireFormat::Anthropic | ProviderWireFormat::Converse => {
            is_pdf
                || matches!(
                    media_type,
                    "image/jpeg" | "image/png" | "image/gif" | "image/webp"
                )
        }
        ProviderWireFormat::Gemini => is_pdf || matches!(kind, "image" | "audio" | "video"),
        ProviderWireFormat::Ollama => kind == "image",
    }
}

fn decoded_text(file: &Attachment) -> Option<String> {
    let is_text = file.media_type.starts_with("text/") || file.media_type == "application/json";
    let bytes = is_text
        .then(|| STANDARD.decode(&file.data).ok())
        .flatten()?;
    String::from_utf8(bytes).ok()
}

/// Returns the name of `file`, or `attachment`.
pub(crate) fn file_name(file: &Attachment) -> String {
    file.name.clone().unwrap_or_else(|| "attachment".to_owned())
}

/// Returns `file` as a `data:` URL.
pub(crate) fn data_url(file: &Attachment) -> String {
    format!("data:{};base64,{}", file.media_type, file.data)
}
