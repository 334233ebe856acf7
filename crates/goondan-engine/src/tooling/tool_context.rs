//! Context that a handler receives.

use std::sync::Arc;

use goondan_core::ports::tool::{ToolContext, ToolLogger};
use goondan_core::run_mode::RunMode;
use tokio_util::sync::CancellationToken;

use super::call_context::ToolCallContext;
use crate::policy::permission;
use crate::tooling::agents::AgentCalls;
use crate::tooling::registry::RegisteredTool;
use crate::tooling::reporter::ToolCallReporter;

/// Creates the context that a tool receives for this call.
pub(crate) fn tool_context(
    context: &ToolCallContext,
    tool: &RegisteredTool,
    cancellation: CancellationToken,
    reporter: Arc<ToolCallReporter>,
) -> ToolContext {
    let facts = &context.facts;
    ToolContext {
        agent_name: facts.instance.agent.clone(),
        instance_key: facts.instance.instance_key.clone(),
        turn_id: facts.turn_id.clone(),
        trace_id: context.trace.trace_id.clone(),
        caller: context.engine.tracing.caller_trace(&context.trace),
        tool_call_id: context.call.tool_call_id.clone(),
        message: Arc::clone(&context.message),
        workdir: facts.workdir.clone(),
        project_dir: context.engine.generation.load().project.clone(),
        sandboxes: permission::sandboxes(context),
        granted: tool.spec.permissions.clone(),
        run_mode: RunMode::Shell,
        approved_files: Arc::default(),
        approved_code: None,
        runtime: Arc::new(AgentCalls::of_call(context, cancellation.clone())),
        logger: Arc::clone(&reporter) as Arc<dyn ToolLogger>,
        progress: reporter,
        cancellation,
    }
}
