//! `spec.a2a` of a Tool: an agent of another program, and how it is reached.

use schemars::JsonSchema;
use serde_json::json;

use super::mcp::{McpValue, read_url};
use super::{ExportSpec, Permission};
use crate::decode::Field;
use crate::findings::Findings;
use crate::value_source::{self, TextOrSourceShape};

/// An agent of another program, that speaks A2A.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct A2aAgent {
    /// Its address, or the one of its card.
    pub url: String,
    /// Headers of every request.
    pub headers: Vec<(String, McpValue)>,
}

/// Reads `spec.a2a`.
pub(super) fn read(field: &Field<'_>, findings: &mut Findings) -> Option<A2aAgent> {
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
    /// What a model can do with such an agent: ask it. It is known without reaching it.
    pub fn export() -> ExportSpec {
        let text = |description: &str| json!({"type": "string", "minLength": 1, "description": description});
        ExportSpec {
            name: "ask".to_owned(),
            description:
                "Asks an agent of another program, and waits for its answer. It does not see this conversation: tell \
                          it everything that it needs to know."
                    .to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "message": text("What to tell the agent, or to ask it."),
                    "conversation": text(
                        "The conversation that a result has named, to go on with it. A new one begins where it is left out.",
                    ),
                    "task": text("The task of a result that asks back; then `message` is the answer."),
                },
                "required": ["message"],
                "additionalProperties": false,
            }),
            permissions: [Permission::Network].into(),
            ..ExportSpec::default()
        }
    }
}

/// An agent of another program, which speaks A2A.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "A2aAgent")]
#[expect(dead_code, reason = "read by the schema generator alone")]
pub(crate) struct A2aAgentShape {
    /// The address below which its card is (`/.well-known/agent-card.json`), or the address of the card itself, ending in
    /// `.json`.
    #[schemars(length(min = 1))]
    url: String,
    /// Headers of every request to it.
    headers: Option<std::collections::BTreeMap<String, TextOrSourceShape>>,
}
