//! A tool that asks another agent, in an async and in a plain function.

use goondan_abi::sdk::{
    AgentRequest, Output, SendRequest, SpawnRequest, ToolContext, ToolError, export_tools,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// Ask another agent and give back its answer
#[derive(Deserialize, JsonSchema)]
struct Ask {
    /// The agent's name
    agent: String,
    /// The question
    question: String,
}

async fn ask(ctx: ToolContext, input: Ask) -> Result<Output, ToolError> {
    let answer = ctx
        .runtime()
        .request(AgentRequest::new(&input.agent, input.question))
        .await?;
    let output = Output::new(json!({ "answer": answer.response }))?;
    Ok(output
        .title(format!("asked {}", input.agent))
        .metadata("correlationId", answer.correlation_id))
}

fn ask_blocking(ctx: ToolContext, input: Ask) -> Result<Value, ToolError> {
    let answer = ctx
        .runtime()
        .blocking()
        .request(AgentRequest::new(input.agent, input.question))?;
    Ok(json!({ "answer": answer.response }))
}

/// Prepare a helper of the named agent, tell it the question, and say who is there
#[derive(Deserialize, JsonSchema)]
struct Delegate {
    /// The agent's name
    agent: String,
    /// What it should do
    task: String,
}

async fn delegate(ctx: ToolContext, input: Delegate) -> Result<Value, ToolError> {
    let runtime = ctx.runtime();
    let agents = runtime.catalog().await?.callable_agents;
    if !agents.contains(&input.agent) {
        let known = agents.join(", ");
        return Err(
            ToolError::new(format!("there is no agent `{}`", input.agent))
                .suggest(format!("ask one of {known}")),
        );
    }
    let helper = runtime.spawn(SpawnRequest::new(&input.agent)).await?;
    let mut message = SendRequest::new(&input.agent, input.task);
    message.instance_key = Some(helper.instance_key.clone());
    let sent = runtime.send(message).await?;
    let helpers: Vec<String> = runtime
        .list(false)
        .await?
        .into_iter()
        .map(|agent| agent.instance_key)
        .collect();
    Ok(json!({ "helper": helper.instance_key, "accepted": sent.accepted, "helpers": helpers }))
}

export_tools! {
    tools = [ask, ask_blocking => named("ask-blocking"), delegate],
}
