//! `spec.modelConfig.params` of an Agent.

use schemars::JsonSchema;
use serde::Serialize;

use super::reasoning_effort::{self, ReasoningEffort};
use crate::JsonObject;
use crate::decode::{FieldReader, KeyAdvice};
use crate::diagnostic_sink::DiagnosticSink;
use crate::node::NodeContent;

/// Sampling settings. The provider decides what is absent.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelParams {
    /// The sampling temperature, 0 to 2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// The most tokens of one answer, at least 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// The share of probability for nucleus sampling, more than 0 and at most 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// The number of candidates for each token, at least 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_k: Option<u32>,
    /// Stop strings, none of them empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stop: Vec<String>,
    /// The seed of the random numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<i64>,
    /// The penalty for tokens that are in the text already, -2 to 2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub presence_penalty: Option<f64>,
    /// The penalty for tokens that are often in the text, -2 to 2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frequency_penalty: Option<f64>,
    /// The reasoning effort. It takes precedence over that of the Model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_effort: Option<ReasoningEffort>,
}

impl ModelParams {
    /// The params with a value, under their names in YAML.
    pub fn to_json(&self) -> JsonObject {
        match serde_json::to_value(self) {
            Ok(serde_json::Value::Object(fields)) => fields,
            _ => JsonObject::new(),
        }
    }
}

/// Reads `params` of a model.
pub(super) fn read(field: &FieldReader<'_>, findings: &mut DiagnosticSink) -> Option<ModelParams> {
    let mut fields = field.fields(findings)?;
    let temperature = fields.read("temperature", findings, |field, findings| {
        field.number(
            "from 0 to 2",
            |value| (0.0..=2.0).contains(&value),
            findings,
        )
    });
    let max_tokens = fields.read("maxTokens", findings, |field, findings| {
        field.unsigned_as(1, findings)
    });
    let top_p = fields.read("topP", findings, |field, findings| {
        field.number(
            "more than 0 and at most 1",
            |value| value > 0.0 && value <= 1.0,
            findings,
        )
    });
    let top_k = fields.read("topK", findings, |field, findings| {
        field.unsigned_as(1, findings)
    });
    let stop = fields.read("stop", findings, read_stop);
    let seed = fields.read("seed", findings, FieldReader::integer);
    let presence_penalty = fields.read("presencePenalty", findings, read_penalty);
    let frequency_penalty = fields.read("frequencyPenalty", findings, read_penalty);
    let reasoning_effort = fields.read("reasoningEffort", findings, reasoning_effort::read);
    fields.finish_with(
        "remove it, or put it into `options.body` of the Model to send it to the provider as it is",
        other_name,
        findings,
    );
    Some(ModelParams {
        temperature: temperature?,
        max_tokens: max_tokens?,
        top_p: top_p?,
        top_k: top_k?,
        stop: stop?.unwrap_or_default(),
        seed: seed?,
        presence_penalty: presence_penalty?,
        frequency_penalty: frequency_penalty?,
        reasoning_effort: reasoning_effort?,
    })
}

/// Maps the names of other APIs to `maxTokens`.
fn other_name(key: &str) -> Option<KeyAdvice> {
    let names = [
        "maxOutputTokens",
        "max_output_tokens",
        "max_completion_tokens",
    ];
    names
        .contains(&key)
        .then_some(KeyAdvice::Rename("maxTokens"))
}

/// Reads a penalty, a number from -2 to 2.
fn read_penalty(field: &FieldReader<'_>, findings: &mut DiagnosticSink) -> Option<f64> {
    field.number(
        "from -2 to 2",
        |value| (-2.0..=2.0).contains(&value),
        findings,
    )
}

/// Reads the stop sequences.
fn read_stop(field: &FieldReader<'_>, findings: &mut DiagnosticSink) -> Option<Vec<String>> {
    match &field.node.content {
        NodeContent::List(_) => {
            let texts: Vec<_> = field
                .list(findings)?
                .iter()
                .map(|item| read_stop_text(item, findings))
                .collect();
            texts.into_iter().collect()
        }
        _ => read_stop_text(field, findings).map(|text| vec![text]),
    }
}

/// Reads a stop string. A single line break is valid.
fn read_stop_text(field: &FieldReader<'_>, findings: &mut DiagnosticSink) -> Option<String> {
    match field.node.text() {
        Some(text) if !text.is_empty() => Some(text.to_owned()),
        _ => field.text(findings).map(str::to_owned),
    }
}

/// Sampling settings. The provider decides what is absent.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "ModelParams")]
#[expect(dead_code, reason = "read only by the schema generator")]
pub(crate) struct ModelParamsShape {
    /// The sampling temperature.
    #[schemars(range(min = 0, max = 2))]
    temperature: Option<f64>,
    /// The most tokens of one answer.
    #[schemars(range(min = 1))]
    max_tokens: Option<u32>,
    /// The share of probability that nucleus sampling draws from.
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0))]
    top_p: Option<f64>,
    /// The number of most likely tokens that sampling draws from.
    #[schemars(range(min = 1))]
    top_k: Option<u32>,
    /// A string at which the answer ends, or a list of such strings.
    stop: Option<StopShape>,
    /// The seed of the random numbers. With the same seed, some providers give the same answer.
    seed: Option<i64>,
    /// The penalty for tokens that are in the text already.
    #[schemars(range(min = -2, max = 2))]
    presence_penalty: Option<f64>,
    /// The penalty for tokens that are often in the text.
    #[schemars(range(min = -2, max = 2))]
    frequency_penalty: Option<f64>,
    /// The reasoning effort, translated into the provider's terms. It takes precedence over the
    /// Model's `options`.
    reasoning_effort: Option<ReasoningEffort>,
}

/// A string, or a list of strings.
#[derive(JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "Stop")]
#[expect(dead_code, reason = "read only by the schema generator")]
pub(crate) enum StopShape {
    /// One string.
    One(#[schemars(length(min = 1))] String),
    /// Several strings.
    Several(Vec<String>),
}
