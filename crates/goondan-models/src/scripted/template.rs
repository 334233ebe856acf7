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

use crate::errors::configuration;
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
    names: OnceLock<View>,
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
    pub(crate) fn of(request: &'a ModelRequest) -> Self {
        let last = request
            .messages
            .last()
            .map(|message| message_text(message))
            .unwrap_or_default();
        ReplyContext {
            request,
            last,
            names: OnceLock::new(),
        }
    }

    /// Returns the variables of templates, which the first call creates.
    fn names(&self) -> View {
        self.names
            .get_or_init(|| View::from(Serde(TemplateVariables::of(self.request, &self.last))))
            .clone()
    }

    /// Returns the text of the last message, to which rules apply.
    pub(crate) fn last(&self) -> &str {
        &self.last
    }

    /// Renders `template`.
    pub(crate) fn text(&self, template: &str) -> Result<String, ModelError> {
        if !is_template(template) {
            return Ok(template.to_owned());
        }
        environment()
            .render_str(template, self.names())
            .map_err(|error| self.broken(template, &error))
    }

    /// Renders every string in `args`. A string that is one expression keeps the value's type.
    pub(crate) fn arguments(&self, args: &JsonObject) -> Result<JsonObject, ModelError> {
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
            Value::Object(fields) => Ok(Value::Object(self.arguments(fields)?)),
            other => Ok(other.clone()),
        }
    }

    /// Returns the value of `expression`, which is the whole `template`.
    fn evaluate(&self, template: &str, expression: &str) -> Result<Value, ModelError> {
        let environment = environment();
        let value = environment
            .compile_expression(expression)
            .and_then(|compiled| compiled.eval(self.names()))
            .map_err(|error| self.broken(template, &error))?;
        if value.is_undefined() {
            return Err(self.broken(template, &ErrorKind::UndefinedError.into()));
        }
        serde_json::to_value(&value).map_err(|error| {
            configuration(
                format!("the template `{template}` does not produce a JSON value: {error}"),
                "change the expression",
            )
        })
    }

    /// Returns the error of a `template` that cannot be rendered. Usually a tool call whose result
    /// the template uses failed or is missing.
    fn broken(&self, template: &str, error: &minijinja::Error) -> ModelError {
        let because =
            |why: String| format!("the script's template `{template}` cannot be rendered: {why}");
        if error.kind() != ErrorKind::UndefinedError {
            return configuration(because(fault(error)), AVAILABLE_NAMES);
        }
        let results: BTreeMap<&str, ResultView<'_>> = self
            .request
            .messages
            .iter()
            .flat_map(|message| message.tool_results())
            .flat_map(views_by_id)
            .collect();
        for id in results_named(template) {
            match results.get(id).map(|result| (result.tool, result.error)) {
                None => {
                    return configuration(
                        because(format!("the call `{id}` has no result")),
                        AVAILABLE_NAMES,
                    );
                }
                Some((tool, Some(error))) if template.contains(&format!("results.{id}.output")) => {
                    let why = format!(
                        "the call `{id}` of {tool} failed with {}: {}",
                        error.code, error.message
                    );
                    let next = format!(
                        "Fix the failing call, or write `results.{id}.error` for a call that may \
                        fail."
                    );
                    return configuration(because(why), error.suggestion.clone().unwrap_or(next));
                }
                Some(_) => {}
            }
        }
        configuration(
            because("an undefined name is used".to_owned()),
            AVAILABLE_NAMES,
        )
    }
}

/// Describes the error in a template, without the placeholder name that the engine appends.
fn fault(error: &minijinja::Error) -> String {
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

/// Returns the ids after `results.` in a template.
fn results_named(template: &str) -> impl Iterator<Item = &str> {
    let is_of_a_name = |c: char| c.is_alphanumeric() || c == '_';
    let ends = template.split("results.").skip(1);
    ends.map(move |rest| &rest[..rest.find(|c| !is_of_a_name(c)).unwrap_or(rest.len())])
        .filter(|id| !id.is_empty())
}

impl<'a> TemplateVariables<'a> {
    fn of(request: &'a ModelRequest, last: &'a str) -> Self {
        let from_users = || {
            request
                .messages
                .iter()
                .filter(|message| message.data.role == MessageRole::User)
        };
        let results = request
            .messages
            .iter()
            .flat_map(|message| message.tool_results());
        TemplateVariables {
            input: from_users()
                .next_back()
                .map(|message| message.text())
                .unwrap_or_default(),
            last,
            results: results.flat_map(views_by_id).collect(),
            agent: &request.instance.agent,
            turn: from_users().count(),
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
fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::SemiStrict);
    environment.set_fuel(Some(TEMPLATE_FUEL));
    environment
}

/// Returns whether `text` contains template syntax.
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
