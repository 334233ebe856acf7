//! `context-message`: adds a message about the swarm and the source of an input before the first
//! step.

use std::fmt::Write;
use std::sync::Arc;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::builtin::{ConfigProblem, decode};
use super::{Middleware, TurnNext};
use crate::tooling::registry::ToolCatalog;
use crate::turn::{TurnContext, TurnOutcome};
use goondan_core::JsonObject;
use goondan_core::agent_event::AgentEvent;
use goondan_core::event::TurnError;
use goondan_core::ids::hex;
use goondan_core::message::{Message, MessageEvent, MessageRole};
use goondan_core::ports::tool::AgentCatalog;
use goondan_core::reserved_names::CONTEXT_MESSAGE_KEY;

pub(super) const NAME: &str = "context-message";

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct ContextMessageConfig {
    /// Repeats the system prompt in the conversation. The model also receives it with every
    /// request.
    include_agent_prompt: bool,
    include_swarm_catalog: bool,
    include_inbound_context: bool,
    include_call_context: bool,
    /// Adds a sentence about the recipient of the answer. Requires one of the two fields above.
    include_route_summary: bool,
    /// Text added to the agent catalog.
    swarm_catalog_instruction: String,
}

struct ContextMessage {
    config: ContextMessageConfig,
}

/// Creates the middleware from its config.
pub(super) fn make(
    config: JsonObject,
    _tools: &ToolCatalog,
) -> Result<Arc<dyn Middleware>, ConfigProblem> {
    Ok(Arc::new(ContextMessage {
        config: decode(config)?,
    }))
}

struct SegmentFacts<'a> {
    prompt: Option<&'a str>,
    agents: AgentCatalog,
    event: &'a AgentEvent,
}

/// Returns the enabled segments in a fixed order; empty if there is no content.
fn text(config: &ContextMessageConfig, facts: &SegmentFacts<'_>) -> String {
    let tells_origin = config.include_inbound_context || config.include_call_context;
    let segments = [
        config
            .include_agent_prompt
            .then(|| facts.prompt.map(str::to_owned))
            .flatten(),
        config
            .include_swarm_catalog
            .then(|| catalog(&facts.agents, &config.swarm_catalog_instruction)),
        config
            .include_inbound_context
            .then(|| inbound_segment(facts.event)),
        config
            .include_call_context
            .then(|| call(facts.event))
            .flatten(),
        (config.include_route_summary && tells_origin).then(|| route_segment(facts.event)),
    ];
    segments
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join("\n\n")
}

/// Returns the segment that lists the swarm's agents.
fn catalog(agents: &AgentCatalog, instruction: &str) -> String {
    let callable = match agents.callable_agents.as_slice() {
        [] => "none".to_owned(),
        names => {
            let described_agent = |name: &String| match agents.descriptions.get(name) {
                Some(description) => format!("{name} ({})", description.trim()),
                None => name.clone(),
            };
            names
                .iter()
                .map(described_agent)
                .collect::<Vec<_>>()
                .join(", ")
        }
    };
    let mut lines = vec![
        ("swarm", agents.swarm_name.clone()),
        ("entry agent", agents.entry_agent.clone()),
        ("this agent", agents.self_agent.clone()),
        ("agents that can be called", callable),
    ];
    if !instruction.trim().is_empty() {
        lines.push(("note", instruction.trim().to_owned()));
    }
    format_segment("runtime_catalog", &lines)
}

/// Returns the segment that describes the event.
fn inbound_segment(event: &AgentEvent) -> String {
    let lines = [
        ("event", event.id.clone()),
        ("type", event.event_type.clone()),
        ("conversation", event.target.instance_key.clone()),
        (
            "time",
            event
                .created_at
                .to_rfc3339_opts(chrono::SecondsFormat::Secs, true),
        ),
    ];
    format_segment("runtime_inbound", &lines)
}

/// Returns the caller segment; `None` for an external input.
fn call(event: &AgentEvent) -> Option<String> {
    let caller = event.caller()?;
    let chain = event
        .callers
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(" > ");
    let answer = match &event.reply_to {
        Some(reply) if reply.async_ => "expected later",
        Some(_) => "the caller waits for it",
        None => "not expected",
    };
    let lines = [
        ("caller", caller.agent.clone()),
        ("caller's conversation", caller.instance_key.clone()),
        ("chain", chain),
        ("answer", answer.to_owned()),
    ];
    Some(format_segment("runtime_call", &lines))
}

/// Returns the segment that states who receives the answer.
fn route_segment(event: &AgentEvent) -> String {
    let sentence = match (event.caller(), &event.reply_to) {
        (Some(caller), Some(_)) => format!(
            "Agent {} asked; the final answer goes back to it.",
            caller.agent
        ),
        (Some(caller), None) => {
            format!("Agent {} sent this and expects no answer.", caller.agent)
        }
        (None, _) => {
            "The input came from outside the swarm; the final answer goes to its sender.".to_owned()
        }
    };
    format_segment("runtime_route", &[("route", sentence)])
}

/// Formats lines between tags. Keys and ids are external data, so line breaks in them are removed.
fn format_segment(name: &str, lines: &[(&str, String)]) -> String {
    let mut text = format!("<{name}>\n");
    for (label, value) in lines {
        let value = value.split_whitespace().collect::<Vec<_>>().join(" ");
        // Writing to a String does not fail.
        let _ = writeln!(text, "{label}: {value}");
    }
    format!("{text}</{name}>")
}

/// Returns the hash of a context message; `None` for any other message.
fn context_hash(message: &Message) -> Option<&str> {
    message
        .metadata
        .get(CONTEXT_MESSAGE_KEY)
        .and_then(|marker| marker.get("sha256"))
        .and_then(Value::as_str)
}

impl ContextMessage {
    /// Appends the message after the input, unless it is already in the conversation. Removes
    /// outdated context messages of earlier turns.
    async fn add_message(&self, context: &mut TurnContext) -> Result<(), TurnError> {
        let text = {
            let prompt = context.agent().system.as_deref();
            text(
                &self.config,
                &SegmentFacts {
                    prompt,
                    agents: context.agents(),
                    event: context.event(),
                },
            )
        };
        let hash = hex(&Sha256::digest(text.as_bytes()));
        let messages = context.conversation().messages();
        let context_messages: Vec<(String, bool)> = messages
            .iter()
            .filter_map(|message| Some((message.id.clone(), context_hash(message)? == hash)))
            .collect();
        let is_current = context_messages.iter().any(|(_, same)| *same);
        for (target_id, _) in context_messages.into_iter().filter(|(_, same)| !same) {
            context.emit(MessageEvent::Remove { target_id }).await?;
        }
        if is_current || text.is_empty() {
            return Ok(());
        }
        let metadata = JsonObject::from_iter([(
            CONTEXT_MESSAGE_KEY.to_owned(),
            serde_json::json!({"sha256": hash}),
        )]);
        let message = context.new_message(MessageRole::System, NAME, &text, metadata);
        context.emit(MessageEvent::Append { message }).await
    }
}

#[async_trait]
impl Middleware for ContextMessage {
    fn name(&self) -> &str {
        NAME
    }

    async fn turn(
        &self,
        context: &mut TurnContext,
        next: TurnNext<'_>,
    ) -> Result<TurnOutcome, TurnError> {
        self.add_message(context).await?;
        next.run(context).await
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;

    use super::*;
    use goondan_core::agent_event::{EventTrace, ReplyTo};
    use goondan_core::ids::InstanceId;

    fn event(callers: &[&str], replies: bool) -> AgentEvent {
        let callers: Vec<InstanceId> = callers
            .iter()
            .map(|agent| InstanceId::new(*agent, "main\nx: y"))
            .collect();
        let reply_to = callers.last().filter(|_| replies).map(|caller| ReplyTo {
            caller: caller.clone(),
            turn_id: "turn-0".to_owned(),
            correlation_id: "req-1".to_owned(),
            async_: false,
            timeout_ms: None,
            terms: Default::default(),
        });
        AgentEvent {
            id: "evt-1".to_owned(),
            event_type: "agent.request".to_owned(),
            created_at: DateTime::UNIX_EPOCH,
            target: InstanceId::new("worker", "main"),
            input: "hello".to_owned(),
            files: Vec::new(),
            history: Vec::new(),
            metadata: JsonObject::new(),
            instructions: None,
            trace: EventTrace {
                trace_id: "0".repeat(32),
                parent_span_id: None,
                caller: None,
            },
            callers,
            reply_to,
            terms: Default::default(),
        }
    }

    fn context_text(config: &ContextMessageConfig, event: &AgentEvent) -> String {
        let agents = AgentCatalog {
            swarm_name: "pair".to_owned(),
            entry_agent: "boss".to_owned(),
            self_agent: "worker".to_owned(),
            available_agents: vec!["boss".to_owned(), "worker".to_owned()],
            callable_agents: vec!["boss".to_owned()],
            descriptions: Default::default(),
        };
        text(
            config,
            &SegmentFacts {
                prompt: Some("You are terse."),
                agents,
                event,
            },
        )
    }

    #[test]
    fn all_segments_appear_in_order() {
        let config = ContextMessageConfig {
            include_agent_prompt: true,
            include_swarm_catalog: true,
            include_inbound_context: true,
            include_call_context: true,
            include_route_summary: true,
            swarm_catalog_instruction: "Ask boss first.".to_owned(),
        };
        insta::assert_snapshot!(context_text(&config, &event(&["boss"], true)));
    }

    #[test]
    fn an_external_input_has_no_caller() {
        let config = ContextMessageConfig {
            include_call_context: true,
            include_route_summary: true,
            ..ContextMessageConfig::default()
        };
        insta::assert_snapshot!(context_text(&config, &event(&[], false)));
    }

    #[test]
    fn a_route_summary_without_another_origin_segment_is_empty() {
        let config = ContextMessageConfig {
            include_route_summary: true,
            ..ContextMessageConfig::default()
        };
        assert_eq!(context_text(&config, &event(&["boss"], false)), "");
    }
}
