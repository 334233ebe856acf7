//! Templates in replies, which are rendered with data of the request.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use goondan_core::JsonObject;
use goondan_core::message::{Message, MessageRole, ToolResultPart};
use goondan_core::ports::model::{ModelError, ModelRequest};
use goondan_core::ports::tool::{ToolCallError, ToolCallStatus};
use minijinja::value::Serde;
use minijinja::{Environment, ErrorKind, UndefinedBehavior, Value as View};
use serde::Serialize;
use serde_json::Value;

use crate::errors::configuration_error;
use crate::formats::results::output_text;

/// Maximum number of instructions per template, so that an endless loop becomes an error.
const TEMPLATE_FUEL: u64 = 1_000_000;

/// Suggestion for a template with an undefined name.
const AVAILABLE_NAMES: &str =
    "available names: input, last, agent, turn, and results.CALL_ID with output or error";

/// The request to which a reply is the answer. The whole conversation is evaluated only for
/// templates.
pub(crate) struct ReplyContext<'a> {
    request: &'a ModelRequest,
    /// Text of the last message, of any role.
    last: String,
    variables: OnceLock<View>,
}

/// The variables of a template.
#[derive(Debug, Serialize)]
struct TemplateVariables<'a> {
    /// Text of the last user message.
    input: String,
    /// Text of the last message, of any role.
    last: &'a str,
    /// Results of this conversation's tool calls, by call id. If an id occurs twice, the latest
    /// result.
    results: BTreeMap<&'a str, ResultView<'a>>,
    /// The calling agent.
    agent: &'a str,
    /// Number of user messages so far.
    turn: usize,
}

/// A tool result as a template sees it.
#[derive(Debug, Serialize)]
struct ResultView<'a> {
    tool: &'a str,
    status: ToolCallStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a ToolCallError>,
}

impl<'a> ReplyContext<'a> {
    /// Creates the context of `request`.
    pub(crate) fn for_request(request: &'a ModelRequest) -> Self {
        let last = request
            .messages
            .last()
            .map(|message| message_text(message))
            .unwrap_or_default();
        ReplyContext {
            request,
            last,
            variables: OnceLock::new(),
        }
    }

    /// Returns the variables of templates. They are created once per request, on the first call.
    fn variables(&self) -> View {
        self.variables
            .get_or_init(|| {
                View::from(Serde(TemplateVariables::for_request(
                    self.request,
                    &self.last,
                )))
            })
            .clone()
    }

    /// Returns the text of the last message, to which rules apply.
    pub(crate) fn last_text(&self) -> &str {
        &self.last
    }

    /// Renders `template`.
    pub(crate) fn text(&self, template: &str) -> Result<String, ModelError> {
        if !is_template(template) {
            return Ok(template.to_owned());
        }
        template_environment()
            .render_str(template, self.variables())
            .map_err(|error| self.template_error(template, &error))
    }

    /// Renders every string in `args`. A string that is one expression keeps the value's type.
    pub(crate) fn render_arguments(&self, args: &JsonObject) -> Result<JsonObject, ModelError> {
        args.iter()
            .map(|(key, value)| Ok((key.clone(), self.value(value)?)))
            .collect()
    }

    /// Renders every string in `value`.
    fn value(&self, value: &Value) -> Result<Value, ModelError> {
        match value {
            Value::String(template) => match sole_expression(template) {
                Some(expression) => self.evaluate(template, expression),
                None => Ok(Value::String(self.text(template)?)),
            },
            Value::Array(items) => Ok(Value::Array(
                items
                    .iter()
                    .map(|item| self.value(item))
                    .collect::<Result<_, _>>()?,
            )),
            Value::Object(fields) => Ok(Value::Object(self.render_arguments(fields)?)),
            other => Ok(other.clone()),
        }
    }

    /// Returns the value of `expression`, which is the whole `template`.
    fn evaluate(&self, template: &str, expression: &str) -> Result<Value, ModelError> {
        let environment = template_environment();
        let value = environment
            .compile_expression(expression)
            .and_then(|compiled| compiled.eval(self.variables()))
            .map_err(|error| self.template_error(template, &error))?;
        if value.is_undefined() {
            return Err(self.template_error(template, &ErrorKind::UndefinedError.into()));
        }
        serde_json::to_value(&value).map_err(|error| {
            configuration_error(
                format!("the template `{template}` does not produce a JSON value: {error}"),
                "change the expression",
            )
        })
    }

    /// Returns the error of a `template` that cannot be rendered. Usually a tool call whose result
    /// the template uses failed or is missing.
    fn template_error(&self, template: &str, error: &minijinja::Error) -> ModelError {
        let RenderFailure { reason, suggestion } = if error.kind() == ErrorKind::UndefinedError {
            self.undefined_name_failure(template)
        } else {
            RenderFailure::new(describe_error(error))
        };
        configuration_error(
            format!("the script's template `{template}` cannot be rendered: {reason}"),
            suggestion,
        )
    }

    /// Explains why a template contains an undefined name.
    fn undefined_name_failure(&self, template: &str) -> RenderFailure {
        let results = results_by_id(self.request);
        for id in referenced_result_ids(template) {
            let Some(result) = results.get(id) else {
                return RenderFailure::new(format!("the call `{id}` has no result"));
            };
            if let Some(error) = result.error
                && template.contains(&format!("results.{id}.output"))
            {
                return failed_call_failure(id, result.tool, error);
            }
        }
        RenderFailure::new("an undefined name is used".to_owned())
    }
}

/// Reason why a template cannot be rendered.
struct RenderFailure {
    reason: String,
    suggestion: String,
}

impl RenderFailure {
    /// Creates a failure that suggests the available names.
    fn new(reason: String) -> Self {
        RenderFailure {
            reason,
            suggestion: AVAILABLE_NAMES.to_owned(),
        }
    }
}

/// Returns the failure of a template that uses the output of a failed tool call.
fn failed_call_failure(id: &str, tool: &str, error: &ToolCallError) -> RenderFailure {
    let suggestion = error.suggestion.clone().unwrap_or_else(|| {
        format!("Fix the failing call, or write `results.{id}.error` for a call that may fail.")
    });
    RenderFailure {
        reason: format!(
            "the call `{id}` of {tool} failed with {}: {}",
            error.code, error.message
        ),
        suggestion,
    }
}

/// Describes the error in a template, without the placeholder name that the engine appends.
fn describe_error(error: &minijinja::Error) -> String {
    let detail = error.detail().unwrap_or_default();
    if detail.starts_with("unexpected end of input") {
        let line = error
            .line()
            .filter(|line| *line > 1)
            .map(|line| format!(" (line {line})"))
            .unwrap_or_default();
        return format!("a `{{{{` or `{{%` is not closed{line}");
    }
    let text = error.to_string();
    text.split(" (in <string>")
        .next()
        .unwrap_or_default()
        .to_owned()
}

/// Returns the call ids after `results.` in a template.
fn referenced_result_ids(template: &str) -> impl Iterator<Item = &str> {
    let is_name_char = |c: char| c.is_alphanumeric() || c == '_';
    let texts_after_results = template.split("results.").skip(1);
    texts_after_results
        .map(move |text| {
            let id_end = text.find(|c| !is_name_char(c)).unwrap_or(text.len());
            &text[..id_end]
        })
        .filter(|id| !id.is_empty())
}

/// Returns the results of all tool calls in the conversation, by call id. If an id occurs twice,
/// the latest result.
fn results_by_id(request: &ModelRequest) -> BTreeMap<&str, ResultView<'_>> {
    request
        .messages
        .iter()
        .flat_map(|message| message.tool_results())
        .flat_map(views_by_id)
        .collect()
}

impl<'a> TemplateVariables<'a> {
    /// Returns the variables that a template can use in the reply to `request`.
    fn for_request(request: &'a ModelRequest, last: &'a str) -> Self {
        let user_messages: Vec<_> = request
            .messages
            .iter()
            .filter(|message| message.data.role == MessageRole::User)
            .collect();
        TemplateVariables {
            input: user_messages
                .last()
                .map(|message| message.text())
                .unwrap_or_default(),
            last,
            results: results_by_id(request),
            agent: &request.instance.agent,
            turn: user_messages.len(),
        }
    }
}

/// Returns the text of a message, or the tool results with one line per result.
fn message_text(message: &Message) -> String {
    let results: Vec<String> = message.tool_results().map(result_text).collect();
    if results.is_empty() {
        message.text()
    } else {
        results.join("\n")
    }
}

/// Returns the output, or the error as the model receives it.
fn result_text(result: &ToolResultPart) -> String {
    match &result.error {
        Some(error) => error.to_model_text(),
        None => output_text(result.output.as_ref()),
    }
}

/// Returns a result with its id, and also with the id in the script if a number was appended
/// (`c1-2` is also `c1`).
fn views_by_id(result: &ToolResultPart) -> impl Iterator<Item = (&str, ResultView<'_>)> {
    let id = result.tool_call_id.as_str();
    let numbered = id
        .rsplit_once('-')
        .filter(|(_, number)| number.parse::<usize>().is_ok());
    let names = [Some(id), numbered.map(|(name, _)| name)];
    names
        .into_iter()
        .flatten()
        .map(|name| (name, view_of(result)))
}

fn view_of(result: &ToolResultPart) -> ResultView<'_> {
    ResultView {
        tool: &result.tool_name,
        status: result.status,
        output: result.output.as_ref(),
        error: result.error.as_ref(),
    }
}

/// Returns a template environment that reports undefined names and limits the work.
fn template_environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::SemiStrict);
    environment.set_fuel(Some(TEMPLATE_FUEL));
    environment
}

/// Returns true if `text` contains template syntax.
fn is_template(text: &str) -> bool {
    ["{{", "{%", "{#"].iter().any(|mark| text.contains(mark))
}

/// Returns the expression if `template` consists only of `{{ expression }}`.
fn sole_expression(template: &str) -> Option<&str> {
    let inner = template.trim().strip_prefix("{{")?.strip_suffix("}}")?;
    let is_sole = !is_template(inner) && !inner.contains("}}");
    is_sole.then(|| {
        inner
            .trim_start_matches(['-', '+'])
            .trim_end_matches(['-', '+'])
            .trim()
    })
}
