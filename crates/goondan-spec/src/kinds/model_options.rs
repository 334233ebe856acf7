//! `spec.options` of a Model: settings of its client.

use schemars::JsonSchema;
use serde_json::Value;

use super::reasoning_effort::{self, ReasoningEffort};
use crate::JsonObject;
use crate::decode::{FieldReader, KeyAdvice};
use crate::diagnostic_sink::DiagnosticSink;
use crate::node::NodeContent;
use crate::value::TextOrSource;
use crate::value_source::{self, TextOrSourceShape};

/// The longest time limit, in seconds: one year.
const MAX_TIMEOUT_SECONDS: f64 = 31_536_000.0;

/// The keys of a script that is written in the options.
const INLINE_SCRIPT_KEYS: [&str; 3] = ["agents", "rules", "default"];

/// Settings of a Model's client. Without a value, the client's default holds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ModelOptions {
    /// Retries of a failed model call.
    pub max_retries: Option<u32>,
    /// The longest silence of a provider, in seconds, more than 0.
    pub timeout_seconds: Option<f64>,
    /// The longest time of a whole answer, in seconds, more than 0.
    pub total_timeout_seconds: Option<f64>,
    /// The longest wait before a retry that a provider may ask for, in milliseconds.
    pub max_retry_wait_ms: Option<u64>,
    /// Context window in tokens.
    pub context_window: Option<u64>,
    /// Headers of every request. The names and the plain values are valid in HTTP.
    pub headers: Vec<(String, TextOrSource)>,
    /// Fields that are merged unchanged into the body of every request.
    pub body: JsonObject,
    /// The reasoning effort of agents that state none.
    pub reasoning_effort: Option<ReasoningEffort>,
    /// The format of OpenAI's API.
    pub api: Option<ModelApi>,
    /// Requests mark the prefixes that the provider caches.
    pub prompt_caching: Option<bool>,
    /// Tool calls that a model writes as text are recovered.
    pub text_tool_calls: Option<bool>,
    /// Tool schemas are checked against OpenAI's strict mode.
    pub strict: Option<bool>,
    /// The script file of a scripted model, relative to the bundle.
    pub script: Option<String>,
    /// The `agents`, `rules` and `default` of a script that is written in the options.
    pub inline_script: JsonObject,
    /// The recording that `replay` plays back, relative to the bundle.
    pub cassette: Option<String>,
    /// Parts of a request that may differ from the recorded ones.
    pub ignore: Vec<RequestPart>,
}

/// A format of OpenAI's API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ModelApi {
    /// Chat completions.
    Chat,
    /// Responses.
    Responses,
}

/// A part of a request that a replay compares with the recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RequestPart {
    /// The system prompt.
    System,
    /// The conversation.
    Messages,
    /// The tools.
    Tools,
    /// The params.
    Params,
}

impl ModelOptions {
    /// The files that the options name, relative to the bundle: a script or a cassette.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        [&self.script, &self.cassette]
            .into_iter()
            .filter_map(Option::as_deref)
    }
}

/// Reads `options` of a Model.
pub(super) fn read(field: &FieldReader<'_>, findings: &mut DiagnosticSink) -> Option<ModelOptions> {
    let mut fields = field.fields(findings)?;
    let max_retries = fields.read("maxRetries", findings, |field, findings| {
        field.unsigned_as(0, findings)
    });
    let timeout_seconds = fields.read("timeout", findings, read_seconds);
    let total_timeout_seconds = fields.read("totalTimeout", findings, read_seconds);
    let max_retry_wait_ms = fields.read("maxRetryWait", findings, |field, findings| {
        field.integer_at_least(0, findings)
    });
    let context_window = fields.read("contextWindow", findings, |field, findings| {
        field.integer_at_least(1, findings)
    });
    let headers = fields.read("headers", findings, read_headers);
    let body = fields.read("body", findings, FieldReader::object);
    let reasoning_effort = fields.read("reasoningEffort", findings, reasoning_effort::read);
    let api = fields.read("api", findings, read_api);
    let prompt_caching = fields.read("promptCaching", findings, FieldReader::boolean);
    let text_tool_calls = fields.read("textToolCalls", findings, FieldReader::boolean);
    let strict = fields.read("strict", findings, FieldReader::boolean);
    let script = fields.read("script", findings, read_file);
    let cassette = fields.read("cassette", findings, read_file);
    let ignore = fields.read("ignore", findings, read_ignore);
    let inline_script =
        INLINE_SCRIPT_KEYS.map(|name| (name, fields.read(name, findings, read_script_part)));
    // A remark for people.
    let note = fields.read("note", findings, FieldReader::text);
    fields.finish_with(
        "remove it, or put it into `options.body` to send it to the provider as it is",
        key_advice,
        findings,
    );
    note?;
    Some(ModelOptions {
        max_retries: max_retries?,
        timeout_seconds: timeout_seconds?,
        total_timeout_seconds: total_timeout_seconds?,
        max_retry_wait_ms: max_retry_wait_ms?,
        context_window: context_window?,
        headers: headers?.unwrap_or_default(),
        body: body?.unwrap_or_default(),
        reasoning_effort: reasoning_effort?,
        api: api?,
        prompt_caching: prompt_caching?,
        text_tool_calls: text_tool_calls?,
        strict: strict?,
        script: script?,
        inline_script: collect_script(inline_script)?,
        cassette: cassette?,
        ignore: ignore?.unwrap_or_default(),
    })
}

/// Returns advice for keys that have another name or another place.
fn key_advice(key: &str) -> Option<KeyAdvice> {
    Some(match key {
        "maxRetry" | "retries" | "retry" => KeyAdvice::Rename("maxRetries"),
        "timeoutMs" => KeyAdvice::Move("write `timeout` with a unit, such as `30s`"),
        "organization" => KeyAdvice::Move("write `headers: {OpenAI-Organization: …}`"),
        "project" => KeyAdvice::Move("write `headers: {OpenAI-Project: …}`"),
        "temperature" | "maxTokens" | "topP" | "topK" | "stop" | "seed" | "presencePenalty"
        | "frequencyPenalty" => KeyAdvice::Move("move it to `modelConfig.params` of the Agent"),
        _ => return None,
    })
}

/// Joins the parts of a script. Returns `None` if one of them is invalid; missing parts are left
/// out.
fn collect_script(parts: [(&str, Option<Option<Value>>); 3]) -> Option<JsonObject> {
    let mut script = JsonObject::new();
    for (name, part) in parts {
        if let Some(part) = part? {
            script.insert(name.to_owned(), part);
        }
    }
    Some(script)
}

/// Reads a positive number of seconds.
fn read_seconds(field: &FieldReader<'_>, findings: &mut DiagnosticSink) -> Option<f64> {
    field.number(
        "more than 0 and at most 31536000",
        |seconds| seconds > 0.0 && seconds <= MAX_TIMEOUT_SECONDS,
        findings,
    )
}

/// Reads the name of the provider API.
fn read_api(field: &FieldReader<'_>, findings: &mut DiagnosticSink) -> Option<ModelApi> {
    field.one_of(
        &[("chat", ModelApi::Chat), ("responses", ModelApi::Responses)],
        findings,
    )
}

/// Reads the path of a file that is opened when the swarm starts. Its position is noted for errors
/// found then.
fn read_file(field: &FieldReader<'_>, findings: &mut DiagnosticSink) -> Option<String> {
    findings.record_position(field);
    field.text(findings).map(str::to_owned)
}

/// Reads the parts of a request that replay ignores.
fn read_ignore(field: &FieldReader<'_>, findings: &mut DiagnosticSink) -> Option<Vec<RequestPart>> {
    let words = [
        ("system", RequestPart::System),
        ("messages", RequestPart::Messages),
        ("tools", RequestPart::Tools),
        ("params", RequestPart::Params),
    ];
    let parts: Vec<_> = field
        .list(findings)?
        .iter()
        .map(|item| item.one_of(&words, findings))
        .collect();
    parts.into_iter().collect()
}

/// Reads a part of a script. The client checks its contents.
fn read_script_part(field: &FieldReader<'_>, findings: &mut DiagnosticSink) -> Option<Value> {
    match field.key {
        "rules" => field.list(findings).map(|_| field.node.to_json()),
        _ => field.object(findings).map(Value::Object),
    }
}

/// Reads additional HTTP headers.
fn read_headers(
    field: &FieldReader<'_>,
    findings: &mut DiagnosticSink,
) -> Option<Vec<(String, TextOrSource)>> {
    let headers = value_source::read_texts(field, findings);
    let entries = match &field.node.content {
        NodeContent::Map(_) => field.entries(findings)?,
        _ => return headers,
    };
    let faults = entries.iter().filter_map(header_fault).collect::<Vec<_>>();
    let is_valid = faults.is_empty();
    for fault in faults {
        findings.add(fault);
    }
    headers.filter(|_| is_valid)
}

/// Reports a header that HTTP does not allow. The value may be a secret, so no message quotes it.
fn header_fault(entry: &FieldReader<'_>) -> Option<crate::Diagnostic> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    if entry.key.is_empty() || !entry.key.chars().all(is_name) {
        let message = format!("`{}` is not the name of an HTTP header.", entry.path);
        return Some(
            entry
                .invalid_value(message)
                .suggest("use letters, digits and hyphens in the name"),
        );
    }
    let text = entry.node.text()?;
    let is_value = |c: char| c == '\t' || !c.is_control();
    if text.chars().all(is_value) {
        return None;
    }
    let message = format!("`{}` must be one line of text.", entry.path);
    Some(
        entry
            .invalid_value(message)
            .suggest("remove line breaks and control characters"),
    )
}

/// Settings for the client of a Model.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "ModelOptions")]
#[expect(dead_code, reason = "read only by the schema generator")]
pub(crate) struct ModelOptionsShape {
    /// The number of retries after 408, 409, 429, 5xx and broken connections [default: 3].
    #[schemars(range(min = 0))]
    max_retries: Option<u32>,
    /// The longest silence of the provider before its answer begins and between its pieces, in
    /// seconds [default: `2m`].
    #[schemars(range(max = 31_536_000), extend("exclusiveMinimum" = 0))]
    timeout_seconds: Option<f64>,
    /// The longest time of a whole answer, however steadily its pieces arrive, in seconds [default:
    /// `1h`].
    #[schemars(range(max = 31_536_000), extend("exclusiveMinimum" = 0))]
    total_timeout_seconds: Option<f64>,
    /// The longest wait before a retry that the provider may ask for, in milliseconds [default:
    /// `1m`]. If the provider asks for a longer one, `gdn` calls the next fallback at once.
    #[schemars(range(min = 0))]
    max_retry_wait_ms: Option<u64>,
    /// The context window of the model in tokens. Without it, `gdn` uses a table of well-known
    /// models, else 128000.
    #[schemars(range(min = 1))]
    context_window: Option<u64>,
    /// Headers of every request.
    headers: Option<std::collections::BTreeMap<String, TextOrSourceShape>>,
    /// Fields that are merged unchanged into the body of every request. Any field of the provider's
    /// API is allowed.
    body: Option<JsonObject>,
    /// The reasoning effort, translated into the provider's terms. `reasoningEffort` in an agent's
    /// `params` takes precedence.
    reasoning_effort: Option<ReasoningEffort>,
    /// The format of OpenAI's API, for `openai` only. Without it, `gdn` chooses by model.
    api: Option<ModelApi>,
    /// Marks the prefix that the provider caches, for Anthropic and Bedrock [default: `true`].
    prompt_caching: Option<bool>,
    /// Recovers tool calls that a model writes as text [default: `true` for `ollama`, `llamacpp`,
    /// `lmstudio` and `vllm`, else `false`].
    text_tool_calls: Option<bool>,
    /// Checks tool schemas against the rules of OpenAI's strict mode [default: `false`].
    strict: Option<bool>,
    /// The script file of a `scripted` model, relative to the project directory.
    #[schemars(length(min = 1))]
    script: Option<String>,
    /// Replies of a `scripted` model by agent, as in a script file.
    agents: Option<JsonObject>,
    /// Rules of a `scripted` model, as in a script file.
    rules: Option<Vec<Value>>,
    /// The reply of a `scripted` model if nothing else fits, as in a script file.
    default: Option<JsonObject>,
    /// The recording that a `replay` model plays back, relative to the project directory.
    #[schemars(length(min = 1))]
    cassette: Option<String>,
    /// Parts of a request to a `replay` model that may differ from the recording.
    ignore: Option<Vec<RequestPart>>,
    /// A remark for people. `gdn` does not use it.
    #[schemars(length(min = 1))]
    note: Option<String>,
}
