//! `spec.capabilities` of a Model.

use schemars::JsonSchema;

use crate::decode::FieldReader;
use crate::diagnostic_sink::DiagnosticSink;

/// Features of a model. `None` means that the Model does not state it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ModelCapabilities {
    /// Calls tools. With `false`, agents of the model have no tools.
    pub tool_calling: Option<bool>,
    /// Receives the schema of an agent's `output`.
    pub structured_output: Option<bool>,
    /// Streams its answers. Informational, like all fields below.
    pub streaming: Option<bool>,
    /// Reasons before it answers.
    pub reasoning: Option<bool>,
    /// Understands images.
    pub vision: Option<bool>,
    /// Understands audio.
    pub audio: Option<bool>,
    /// Understands video.
    pub video: Option<bool>,
    /// Understands documents, such as PDF files.
    pub documents: Option<bool>,
    /// Makes embeddings.
    pub embeddings: Option<bool>,
}

/// Reads `capabilities` of a Model.
pub(super) fn read(
    field: &FieldReader<'_>,
    findings: &mut DiagnosticSink,
) -> Option<ModelCapabilities> {
    let mut fields = field.fields(findings)?;
    let mut flag = |name| fields.read(name, findings, FieldReader::boolean);
    let tool_calling = flag("toolCalling");
    let structured_output = flag("structuredOutput");
    let streaming = flag("streaming");
    let reasoning = flag("reasoning");
    let vision = flag("vision");
    let audio = flag("audio");
    let video = flag("video");
    let documents = flag("documents");
    let embeddings = flag("embeddings");
    fields.finish(findings);
    Some(ModelCapabilities {
        tool_calling: tool_calling?,
        structured_output: structured_output?,
        streaming: streaming?,
        reasoning: reasoning?,
        vision: vision?,
        audio: audio?,
        video: video?,
        documents: documents?,
        embeddings: embeddings?,
    })
}

#[derive(JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Capabilities")]
#[expect(dead_code, reason = "read only by the schema generator")]
pub(crate) struct CapabilitiesShape {
    /// The model calls tools. With `false`, an agent of this model must have no tools.
    tool_calling: Option<bool>,
    /// The provider accepts the schema of an agent's `output`. Without it, the provider's default
    /// applies.
    structured_output: Option<bool>,
    /// The model streams its answers. For people: `gdn` does not use it.
    streaming: Option<bool>,
    /// The model reasons before it answers. For people: `gdn` does not use it.
    reasoning: Option<bool>,
    /// The model understands images. For people: `gdn` does not use it.
    vision: Option<bool>,
    /// The model understands audio. For people: `gdn` does not use it.
    audio: Option<bool>,
    /// The model understands video. For people: `gdn` does not use it.
    video: Option<bool>,
    /// The model understands documents, such as PDF files. For people: `gdn` does not use it.
    documents: Option<bool>,
    /// The model makes embeddings. For people: `gdn` does not use it.
    embeddings: Option<bool>,
}
