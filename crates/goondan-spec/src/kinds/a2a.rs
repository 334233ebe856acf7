//! `spec.a2a` of a Tool: a remote A2A agent and its connection settings.

use schemars::JsonSchema;
use serde_json::json;

use super::mcp::{McpValue, read_url};
use super::{ExportSpec, Permission};
use crate::decode::FieldReader;
use crate::diagnostic_sink::DiagnosticSink;
use crate::value_source::{self, TextOrSourceShape};

/// Connection settings of a remote agent that speaks A2A.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct A2aAgent {
    /// Agent URL, or the URL of its card.
    pub url: String,
    /// Headers of every request.
    pub headers: Vec<(String, McpValue)>,
}

/// Reads `a2a` of a Tool: the URL and the headers of the remote agent.
pub(super) fn read(field: &FieldReader<'_>, findings: &mut DiagnosticSink) -> Option<A2aAgent> {
    let mut fields = field.fields(findings)?;
    let url = fields
        .required("url", findings)
        .and_then(|field| read_url(&field, findings));
    let headers = fields
        .optional("headers")
        .map(|field| value_source::read_texts(&field, findings));
    fields.finish(findings);
    Some(A2aAgent {
        url: url?,
        headers: headers.unwrap_or_else(|| Some(Vec::new()))?,
    })
}

impl A2aAgent {
    /// Returns the only export, `ask`. It is the same for all agents, so none has to be contacted.
    pub fn export() -> ExportSpec {
        let text = |description: &str| json!({"type": "string", "minLength": 1, "description": description});
        ExportSpec {
            name: "ask".to_owned(),
            description:
                "Asks a remote agent and waits for its answer. The agent does not see this \
                conversation: include everything that it needs."
                    .to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "message": text("The message to the agent."),
                    "conversation": text(
                        "The conversation id of an earlier result, to continue it. Default: a \
                        new conversation.",
                    ),
                    "task": text("The task id of a result that asks a question; `message` then \
                        answers it."),
                },
                "required": ["message"],
                "additionalProperties": false,
            }),
            permissions: [Permission::Network].into(),
            ..ExportSpec::default()
        }
    }
}

/// A remote agent that speaks A2A.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "A2aAgent")]
#[expect(dead_code, reason = "read only by the schema generator")]
pub(crate) struct A2aAgentShape {
    /// The URL below which the agent card is (`/.well-known/agent-card.json`), or the URL of the
    /// card, ending in `.json`.
    #[schemars(length(min = 1))]
    url: String,
    /// Headers of every request to the agent.
    headers: Option<std::collections::BTreeMap<String, TextOrSourceShape>>,
}
