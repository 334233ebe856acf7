//! The guard of `Agent.spec.output`: a turn ends with JSON that fits the schema, or with an error.
//!
//! Either the provider is sent the schema and the model answers with text, or the model is offered a tool whose arguments are
//! the answer. Both are checked here, whatever the provider promises; a model whose answer does not fit is told what is wrong
//! with it, and asked again.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use goondan_spec::Code;
use goondan_spec::kinds::ExportSpec;
use serde_json::Value;

use super::{Middleware, StepNext, ToolCallNext, TurnNext};
use crate::tooling::dispatch::{self, ToolCallContext};
use crate::tooling::registry::{RegisteredTool, ToolLimits};
use crate::turn::step::{StepContext, StepOutcome};
use crate::turn::{TurnContext, TurnOutcome};
use goondan_core::JsonObject;
use goondan_core::event::{FinishReason, SwarmEvent, TurnError};
use goondan_core::message::{Message, MessageSource, Part, Role};
use goondan_core::ports::tool::{
    ToolCallResult, ToolCallStatus, ToolContext, ToolError, ToolHandler, ToolOutput,
};
use goondan_core::reserved::ANSWER_TOOL as TOOL;
use goondan_core::schema::ArgumentSchema;

/// What messages of the guard name as their source.
const NAME: &str = "structured-output";
/// The resource of the tool that takes an answer.
const RESOURCE: &str = "answer";
/// Its export.
const EXPORT: &str = "submit";

/// So many answers in a row that do not fit end a turn.
const MOST_ATTEMPTS: u32 = 3;

pub(crate) struct StructuredOutput {
    schema: Arc<ArgumentSchema>,
    /// The tool that takes the answer, where the provider is not sent the schema.
    tool: Option<Arc<RegisteredTool>>,
}

/// Answers of the turn that did not fit, since the last step that did something else.
#[derive(Default)]
struct Refused(u32);

/// Takes an answer that was found to fit.
struct Taken;

#[async_trait]
impl ToolHandler for Taken {
    async fn call(&self, _ctx: &ToolContext, input: JsonObject) -> Result<ToolOutput, ToolError> {
        Ok(ToolOutput::from(Value::Object(input)))
    }
}

impl StructuredOutput {
    /// `is_sent`: the provider is sent the schema.
    pub(crate) fn new(schema: &Value, is_sent: bool) -> Self {
        let tool = (!is_sent).then(|| Arc::new(answer_tool(schema)));
        StructuredOutput {
            schema: Arc::new(ArgumentSchema::new(schema.clone())),
            tool,
        }
    }

    /// The answer that a step has given, or what is wrong with it; `None` where the turn goes on anyway.
    fn answer(&self, outcome: &StepOutcome) -> Option<Result<Value, String>> {
        let Some(tool) = &self.tool else {
            let text = outcome
                .message
                .as_ref()
                .filter(|_| !outcome.should_continue)?
                .text();
            return Some(self.read(&text));
        };
        match outcome
            .results
            .iter()
            .find(|result| result.tool_name == tool.name.as_str())
        {
            Some(result) if result.status == ToolCallStatus::Ok => {
                Some(Ok(result.output.clone().unwrap_or_default()))
            }
            // The model reads in the result of its call what is wrong.
            Some(_) => Some(Err(String::new())),
            None if outcome.should_continue || outcome.message.is_none() => None,
            None => Some(Err(format!(
                "Give your answer by calling `{TOOL}`, and not as text."
            ))),
        }
    }

    fn read(&self, text: &str) -> Result<Value, String> {
        let answer = serde_json::from_str(without_fence(text)).map_err(|error| {
            format!("Your answer is not valid JSON ({error}). Answer with JSON alone, without any other text.")
        })?;
        match self.schema.check_answer(&answer) {
            Ok(()) => Ok(answer),
            Err(problems) => Err(format!(
                "Your answer does not fit the schema: {problems}. Answer again, with the whole corrected JSON and nothing else."
            )),
        }
    }

    /// What the call of the tool comes to.
    fn submit(&self, context: &ToolCallContext) -> ToolCallResult {
        let call = &context.call;
        let answers = context.message.tool_calls().count();
        let checked = match answers {
            1 => dispatch::checked_arguments(&self.schema, call),
            _ => Err(
                ToolError::new("the answer was not taken: other tools were called beside it")
                    .code(Code::TOOL_INVALID_ARGS)
                    .suggest(format!(
                        "Call `{TOOL}` alone, once the results of all other calls are there."
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
            Err(error) => dispatch::failed(call, usize::MAX, error),
        }
    }
}

#[async_trait]
impl Middleware for StructuredOutput {
    fn name(&self) -> &str {
        NAME
    }

    fn tools(&self) -> Vec<Arc<RegisteredTool>> {
        self.tool.iter().cloned().collect()
    }

    async fn turn(
        &self,
        context: &mut TurnContext,
        next: TurnNext<'_>,
    ) -> Result<TurnOutcome, TurnError> {
        let mut outcome = next.run(context).await?;
        if outcome.finish_reason == FinishReason::MaxSteps {
            // What was said last is no answer.
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
        match self.answer(&outcome) {
            None => context.turn().note::<Refused>().0 = 0,
            Some(Ok(answer)) => {
                if self.tool.is_some() {
                    outcome.message = Some(say(context, &answer).await?);
                }
                outcome.should_continue = false;
                context.turn().progress.output = Some(answer);
            }
            Some(Err(problem)) => {
                refuse(context.turn(), &problem).await?;
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
        match context.call.tool_name == TOOL && self.tool.is_some() {
            // Giving an answer needs no permission.
            true => self.submit(context),
            false => next.run(context).await,
        }
    }
}

fn answer_tool(schema: &Value) -> RegisteredTool {
    let spec = ExportSpec {
        description: "Gives your final answer. Call it alone, once, when you are done; do not answer with text."
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
    RegisteredTool::new(RESOURCE, spec, Arc::new(Taken), limits)
}

/// Makes the answer that came in a call the text that the turn ends with.
async fn say(context: &mut StepContext<'_>, answer: &Value) -> Result<Arc<Message>, TurnError> {
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
    turn.append(Role::Assistant, vec![Part::text(text)], source)
        .await
}

/// Tells the model what is wrong, unless it was told too often.
async fn refuse(turn: &mut TurnContext, problem: &str) -> Result<(), TurnError> {
    let refused = turn.note::<Refused>();
    refused.0 += 1;
    if refused.0 >= MOST_ATTEMPTS {
        let message = format!(
            "the model gave {MOST_ATTEMPTS} answers in a row that do not fit the agent's `output`"
        );
        let message = if problem.is_empty() {
            message
        } else {
            format!("{message}; it was told: {problem}")
        };
        return Err(TurnError::new(Code::MODEL_OUTPUT, message)
            .suggest("Say in the prompt what the fields mean, make the schema simpler, or use another model."));
    }
    match problem {
        "" => Ok(()),
        problem => turn.append_text(Role::User, NAME, problem).await,
    }
}

/// JSON without the fence of Markdown that some models put around it.
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
    fn a_fence_is_taken_off_and_nothing_else_is() {
        assert_eq!(without_fence("```json\n{\"a\": 1}\n```\n"), "{\"a\": 1}");
        assert_eq!(without_fence(" ```\n[]\n``` "), "[]");
        assert_eq!(without_fence("{\"a\": \"```\"}"), "{\"a\": \"```\"}");
        assert_eq!(
            without_fence("Here: ```json\n{}\n```"),
            "Here: ```json\n{}\n```"
        );
    }

    #[test]
    fn the_name_of_the_tool_is_made_of_its_parts() {
        assert_eq!(
            answer_tool(&serde_json::json!({"type": "object"}))
                .name
                .as_str(),
            TOOL
        );
    }
}
