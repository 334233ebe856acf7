//! The guard of `Agent.spec.output`: a turn ends with JSON that fits the schema, or with an error.
//!
//! Either the request contains the schema and the model answers with text, or the model calls a
//! tool with the answer as arguments. Both are validated here. Text that fits the schema is
//! accepted in both modes.
//!
//! A model whose answer does not fit receives the errors and answers again. If a server rejects the
//! schema, the turn changes to the tool.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use goondan_spec::Code;
use goondan_spec::kinds::ExportSpec;
use serde_json::Value;

use super::{Middleware, StepNext, ToolCallNext, TurnNext};
use crate::tooling::call_arguments::checked_arguments;
use crate::tooling::call_results::error_result;
use crate::tooling::dispatch::ToolCallContext;
use crate::tooling::registry::{RegisteredTool, ToolLimits};
use crate::turn::step::{StepContext, StepOutcome};
use crate::turn::{TurnContext, TurnOutcome};
use goondan_core::JsonObject;
use goondan_core::event::{FinishReason, SwarmEvent, TurnError};
use goondan_core::message::{Message, MessagePart, MessageRole, MessageSource};
use goondan_core::ports::tool::{
    HandlerError, ToolCallResult, ToolCallStatus, ToolContext, ToolHandler, ToolOutput,
};
use goondan_core::reserved_names::ANSWER_TOOL as TOOL;
use goondan_core::schema::ArgumentSchema;

/// Source name of the guard's messages.
const NAME: &str = "structured-output";
/// Resource name of the answer tool.
const RESOURCE: &str = "answer";
/// Export name of the answer tool.
const EXPORT: &str = "submit";

/// Limit of consecutive invalid answers; the turn then fails.
const MAX_ANSWER_ATTEMPTS: u32 = 3;

pub(crate) struct StructuredOutput {
    schema: Arc<ArgumentSchema>,
    /// Requests contain the schema.
    is_sent: bool,
    /// The tool that receives the answer if requests do not contain the schema.
    tool: Arc<RegisteredTool>,
}

/// Number of consecutive invalid answers in the turn.
#[derive(Default)]
struct InvalidAnswers(u32);

/// Handler of the answer tool; the answer is already validated.
struct AnswerToolHandler;

#[async_trait]
impl ToolHandler for AnswerToolHandler {
    async fn call(
        &self,
        _ctx: &ToolContext,
        input: JsonObject,
    ) -> Result<ToolOutput, HandlerError> {
        Ok(ToolOutput::from(Value::Object(input)))
    }
}

impl StructuredOutput {
    /// Returns the guard for `schema`. Requests contain the schema if `is_sent` is true.
    pub(crate) fn new(schema: &Value, is_sent: bool) -> Self {
        let tool = Arc::new(answer_tool(schema));
        StructuredOutput {
            schema: Arc::new(ArgumentSchema::new(schema.clone())),
            is_sent,
            tool,
        }
    }

    /// Returns the answer of a step or its problems; `None` if the turn continues anyway.
    async fn answer(&self, outcome: &StepOutcome, by_tool: bool) -> Option<Result<Value, String>> {
        let is_submission = |result: &&ToolCallResult| result.tool_name == self.tool.name.as_str();
        let submission = outcome
            .results
            .iter()
            .find(is_submission)
            .filter(|_| by_tool);
        if let Some(result) = submission {
            return Some(match result.status {
                ToolCallStatus::Ok => Ok(result.output.clone().unwrap_or_default()),
                // The model reads the problems in the result of its call.
                _ => Err(String::new()),
            });
        }
        let message = outcome
            .message
            .as_ref()
            .filter(|_| !outcome.should_continue);
        let answer = self.parse_answer(&message?.text()).await;
        if !by_tool {
            return Some(answer);
        }
        // Models that do not call the tool may still write the JSON.
        Some(answer.map_err(|_| format!("Give your answer by calling `{TOOL}`, and not as text.")))
    }

    /// Returns true if the answer comes through the tool in this turn.
    fn is_by_tool(&self, turn: &TurnContext) -> bool {
        !self.is_sent || turn.progress.answer_fallback.is_active
    }

    /// Parses the answer of the model. An error is the correction that the model receives.
    async fn parse_answer(&self, text: &str) -> Result<Value, String> {
        let answer: Value = serde_json::from_str(without_fence(text)).map_err(|error| {
            format!(
                "Your answer is not valid JSON ({error}). Answer with JSON only, without other \
                    text."
            )
        })?;
        match self.schema.check_answer_in_time(&answer).await {
            Ok(()) => Ok(answer),
            Err(problems) => Err(format!(
                "Your answer does not fit the schema: {problems}. Answer again, with the whole \
                corrected JSON and nothing else."
            )),
        }
    }

    /// Validates the arguments of an answer tool call.
    async fn submit(&self, context: &ToolCallContext) -> ToolCallResult {
        let call = &context.call;
        let answers = context.message.tool_calls().count();
        let checked = match answers {
            1 => checked_arguments(&self.schema, call).await,
            _ => Err(
                HandlerError::new("the answer was rejected: other tools were called with it")
                    .code(Code::TOOL_INVALID_ARGS)
                    .suggest(format!(
                        "Call only `{TOOL}`, after all other calls have results."
                    )),
            ),
        };
        match checked {
            Ok(answer) => ToolCallResult {
                tool_call_id: call.tool_call_id.clone(),
                tool_name: call.tool_name.clone(),
                status: ToolCallStatus::Ok,
                output: Some(Value::Object(answer)),
                error: None,
                title: None,
                metadata: JsonObject::new(),
                attachments: Vec::new(),
            },
            Err(error) => error_result(call, usize::MAX, error),
        }
    }
}

#[async_trait]
impl Middleware for StructuredOutput {
    fn name(&self) -> &str {
        NAME
    }

    fn tools(&self) -> Vec<Arc<RegisteredTool>> {
        if self.is_sent {
            Vec::new()
        } else {
            vec![Arc::clone(&self.tool)]
        }
    }

    async fn turn(
        &self,
        context: &mut TurnContext,
        next: TurnNext<'_>,
    ) -> Result<TurnOutcome, TurnError> {
        if self.is_sent {
            context.progress.answer_fallback.tool = Some(Arc::clone(&self.tool));
        }
        let mut outcome = next.run(context).await?;
        if outcome.finish_reason == FinishReason::MaxSteps {
            // The last message of the model is not an answer.
            outcome.response = None;
        }
        Ok(outcome)
    }

    async fn step(
        &self,
        context: &mut StepContext<'_>,
        next: StepNext<'_>,
    ) -> Result<StepOutcome, TurnError> {
        let mut outcome = next.run(context).await?;
        let by_tool = self.is_by_tool(context.turn());
        match self.answer(&outcome, by_tool).await {
            None => context.turn().note::<InvalidAnswers>().0 = 0,
            Some(Ok(answer)) => {
                if !outcome.results.is_empty() {
                    outcome.message = Some(append_answer(context, &answer).await?);
                }
                outcome.should_continue = false;
                context.turn().progress.output = Some(answer);
            }
            Some(Err(problem)) => {
                reject_answer(context.turn(), &problem).await?;
                outcome.should_continue = true;
            }
        }
        Ok(outcome)
    }

    async fn tool_call(
        &self,
        context: &mut ToolCallContext,
        next: ToolCallNext<'_>,
    ) -> ToolCallResult {
        if context.call.tool_name == TOOL && context.catalog.get(TOOL).is_some() {
            // Giving an answer needs no permission.
            self.submit(context).await
        } else {
            next.run(context).await
        }
    }
}

/// Creates the tool through which the model submits an answer that fits `schema`.
fn answer_tool(schema: &Value) -> RegisteredTool {
    let spec = ExportSpec {
        description: "Submits your final answer. Call only this tool, once, when done; do not \
            answer with text."
            .to_owned(),
        parameters: schema.clone(),
        read_only: true,
        idempotent: true,
        ..ExportSpec::named(EXPORT)
    };
    let limits = ToolLimits {
        error_message: 1_000,
        output: usize::MAX,
        timeout: Duration::from_secs(10),
    };
    RegisteredTool::new(RESOURCE, spec, Arc::new(AnswerToolHandler), limits)
}

/// Appends the answer from a tool call as the final text of the turn.
async fn append_answer(
    context: &mut StepContext<'_>,
    answer: &Value,
) -> Result<Arc<Message>, TurnError> {
    let text = answer.to_string();
    let is_new = context.is_new.load(Ordering::Relaxed);
    let source = MessageSource::Assistant {
        step_id: context.step_id().to_owned(),
    };
    let turn = context.turn();
    if is_new {
        let (instance, turn_id) = (turn.instance().clone(), turn.turn_id().to_owned());
        turn.engine.bus.publish(SwarmEvent::Text {
            instance,
            turn_id,
            delta: text.clone(),
        });
    }
    turn.append(
        MessageRole::Assistant,
        vec![MessagePart::text(text)],
        source,
    )
    .await
}

/// Counts an invalid answer and sends `problem` to the model. `problem` is empty if the model has
/// already received it as the result of its call. Fails with `MODEL_OUTPUT` after
/// [`MAX_ANSWER_ATTEMPTS`].
async fn reject_answer(turn: &mut TurnContext, problem: &str) -> Result<(), TurnError> {
    let InvalidAnswers(count) = turn.note::<InvalidAnswers>();
    *count += 1;
    if *count >= MAX_ANSWER_ATTEMPTS {
        let message = format!(
            "the model gave {MAX_ANSWER_ATTEMPTS} answers in a row that do not fit the agent's \
            `output`"
        );
        let message = if problem.is_empty() {
            message
        } else {
            format!("{message}; the last problem was: {problem}")
        };
        return Err(TurnError::new(Code::MODEL_OUTPUT, message).suggest(
            "Explain the fields in the prompt, simplify the schema, or use another model.",
        ));
    }
    match problem {
        "" => Ok(()),
        problem => turn.append_text(MessageRole::User, NAME, problem).await,
    }
}

/// Removes the Markdown code fence that some models put around JSON.
fn without_fence(text: &str) -> &str {
    let text = text.trim();
    let inside = text
        .strip_prefix("```")
        .and_then(|rest| rest.strip_suffix("```"));
    inside.map_or(text, |inside| {
        inside.strip_prefix("json").unwrap_or(inside).trim()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_surrounding_code_fence_is_removed() {
        assert_eq!(without_fence("```json\n{\"a\": 1}\n```\n"), "{\"a\": 1}");
        assert_eq!(without_fence(" ```\n[]\n``` "), "[]");
        assert_eq!(without_fence("{\"a\": \"```\"}"), "{\"a\": \"```\"}");
        assert_eq!(
            without_fence("Here: ```json\n{}\n```"),
            "Here: ```json\n{}\n```"
        );
    }

    #[test]
    fn the_answer_tool_has_the_reserved_name() {
        assert_eq!(
            answer_tool(&serde_json::json!({"type": "object"}))
                .name
                .as_str(),
            TOOL
        );
    }
}
