//! JSON formats of the context that layers receive.

use goondan_core::JsonObject;
use goondan_core::agent_event::AgentEvent;
use serde_json::{Value, json};

use crate::tooling::dispatch::{ToolCallContext, TurnScope};
use crate::tooling::registry::ToolCatalog;
use crate::turn::TurnContext;
use crate::turn::step::StepContext;

/// Metadata that extensions share during a turn.
#[derive(Default)]
pub(super) struct TurnMetadata(pub(super) JsonObject);

/// Returns the fields for a turn layer, without the conversation.
pub(super) fn turn(context: &mut TurnContext) -> JsonObject {
    let mut fields = common_fields(&context.facts);
    fields.insert("inputEvent".to_owned(), input_event(context.event()));
    fields.insert("runtime".to_owned(), runtime_fields(context));
    fields.insert(
        "metadata".to_owned(),
        Value::Object(context.note::<TurnMetadata>().0.clone()),
    );
    fields
}

/// Returns the fields for a step layer, without the conversation.
pub(super) fn step(context: &mut StepContext<'_>) -> JsonObject {
    let (index, step_id) = (context.index, context.step_id().to_owned());
    let (catalog, metadata) = (catalog(&context.catalog), context.metadata.clone());
    let turn = context.turn();
    let mut fields = common_fields(&turn.facts);
    let event = input_event(turn.event());
    let turn_fields = json!({
        "id": turn.turn_id(),
        "agentName": turn.instance().agent,
        "instanceKey": turn.instance().instance_key,
        "inputEvent": event,
        "metadata": turn.note::<TurnMetadata>().0,
    });
    fields.insert("turn".to_owned(), turn_fields);
    fields.insert("inputEvent".to_owned(), event);
    fields.insert("stepIndex".to_owned(), index.into());
    fields.insert("stepId".to_owned(), step_id.into());
    fields.insert("runtime".to_owned(), runtime_fields(turn));
    fields.insert("toolCatalog".to_owned(), catalog);
    fields.insert("metadata".to_owned(), Value::Object(metadata));
    fields
}

/// Returns the fields for a tool-call layer.
pub(super) fn tool_call(context: &ToolCallContext) -> JsonObject {
    let mut fields = common_fields(&context.facts);
    let index = context
        .step_id
        .rsplit('-')
        .next()
        .and_then(|index| index.parse::<u32>().ok());
    fields.insert("stepIndex".to_owned(), index.into());
    fields.insert(
        "toolName".to_owned(),
        context.call.tool_name.as_str().into(),
    );
    fields.insert(
        "toolCallId".to_owned(),
        context.call.tool_call_id.as_str().into(),
    );
    fields.insert("args".to_owned(), context.call.input.clone());
    fields.insert(
        "metadata".to_owned(),
        Value::Object(context.metadata.clone()),
    );
    fields
}

/// Returns the fields that every layer receives.
fn common_fields(facts: &TurnScope) -> JsonObject {
    let mut fields = JsonObject::new();
    fields.insert("agentName".to_owned(), facts.instance.agent.as_str().into());
    fields.insert(
        "instanceKey".to_owned(),
        facts.instance.instance_key.as_str().into(),
    );
    fields.insert("turnId".to_owned(), facts.turn_id.as_str().into());
    fields.insert("traceId".to_owned(), facts.trace.trace_id.as_str().into());
    fields
}

/// Returns the tool definitions as JSON.
fn catalog(catalog: &ToolCatalog) -> Value {
    json!(catalog.definitions())
}

/// Returns the kind and name of the sender. An external sender is identified only by the event
/// type.
fn sender_of(event: &AgentEvent) -> (&'static str, &str) {
    match event.callers.last() {
        Some(caller) => ("agent", &caller.agent),
        None => ("connector", &event.event_type),
    }
}

/// Returns the event of the turn as an extension receives it.
fn input_event(event: &AgentEvent) -> Value {
    let (kind, name) = sender_of(event);
    let mut shape = json!({
        "id": event.id,
        "type": event.event_type,
        "createdAt": event.created_at,
        "traceId": event.trace.trace_id,
        "source": {"kind": kind, "name": name},
        "input": event.input,
        "instanceKey": event.target.instance_key,
        "metadata": event.metadata,
    });
    if let Some(reply) = &event.reply_to {
        shape["replyTo"] =
            json!({"target": reply.caller.agent, "correlationId": reply.correlation_id});
    }
    shape
}

/// Returns the data about the agent, the swarm, the event and its callers.
fn runtime_fields(context: &TurnContext) -> Value {
    let event = context.event();
    let (kind, name) = sender_of(event);
    let agent = context.agent();
    let root = context
        .engine
        .generation
        .load()
        .project
        .display()
        .to_string();
    let mut shape = json!({
        "agent": {"name": agent.name, "bundleRoot": root},
        "swarm": context.agents(),
        "inbound": {
            "eventId": event.id,
            "eventType": event.event_type,
            "sourceKind": kind,
            "sourceName": name,
            "createdAt": event.created_at,
            "instanceKey": event.target.instance_key,
            "eventMetadata": event.metadata,
        },
    });
    if let Some(system) = &agent.system {
        shape["agent"]["prompt"] = json!({"system": system});
    }
    if let Some(caller) = event.callers.last() {
        let stack: Vec<String> = event.callers.iter().map(ToString::to_string).collect();
        shape["call"] = json!({
            "callerAgent": caller.agent,
            "callerInstanceKey": caller.instance_key,
            "callStack": stack,
        });
        if let Some(reply) = &event.reply_to {
            shape["call"]["callerTurnId"] = reply.turn_id.as_str().into();
            shape["call"]["replyTo"] =
                json!({"target": reply.caller.agent, "correlationId": reply.correlation_id});
        }
    }
    shape
}
