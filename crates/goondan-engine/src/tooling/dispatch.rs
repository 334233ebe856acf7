//! One tool call: catalog, arguments, policy, handler, limits. Always returns a [`ToolCallResult`].

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use goondan_spec::Code;

use super::call_arguments::checked_arguments;
pub use super::call_context::{ToolCallContext, TurnScope};
pub(crate) use super::call_results::{error_result, shown_result};
pub(crate) use super::tool_context::tool_context;
use crate::activity::ActiveStopwatch;
use crate::middleware::ToolCallNext;
use crate::policy::permission::{self, CallPermit};
use crate::policy::redact::SecretRedactor;
use crate::policy::untrusted_content;
use crate::tooling::excerpt::{ValueExcerpt, excerpt};
use crate::tooling::registry::RegisteredTool;
use crate::tooling::reporter::ToolCallReporter;
use crate::tooling::workdir;
use goondan_core::event::RuntimeEventKind;
use goondan_core::limits::{cut_output, surely_fits};
use goondan_core::ports::tool::{
    HandlerError, ToolCallResult, ToolCallStatus, ToolContext, ToolOutput,
};
use goondan_core::reserved_names::UNTRUSTED_KEY;
use goondan_core::{JsonObject, private_files};

/// Time that a cancelled handler has to clean up; then the handler is dropped.
const CANCEL_GRACE: Duration = Duration::from_secs(2);

/// Maximum characters of an error message if no tool sets a limit.
const DEFAULT_ERROR_CHARS: usize = 1_000;

/// Runs a call through the agent's middleware, with its runtime events.
pub(crate) async fn call(mut context: ToolCallContext) -> ToolCallResult {
    let started = ActiveStopwatch::start(&context.tracker);
    context.facts.tracker.record_heartbeat();
    let (tool_call_id, tool_name) = (
        context.call.tool_call_id.clone(),
        context.call.tool_name.clone(),
    );
    let (step_id, turn_id) = (context.step_id.clone(), context.facts.turn_id.clone());
    let ValueExcerpt {
        value: arguments,
        is_cut,
    } = excerpt(&context.engine.redactor, &context.call.input);
    context.publish(RuntimeEventKind::ToolCalled {
        tool_call_id: tool_call_id.clone(),
        tool_name: tool_name.clone(),
        step_id: step_id.clone(),
        turn_id: turn_id.clone(),
        arguments,
        is_cut,
    });
    let layers = Arc::clone(&context.facts.layers);
    let mut result = ToolCallNext::new(&layers.tool_call, |context| Box::pin(run_core(context)))
        .run(&mut context)
        .await;
    redact_result(&context.engine.redactor, &mut result);
    let duration = started.elapsed_millis(&context.tracker);
    context.facts.tracker.record_heartbeat();
    let (status, shown) = (
        result.status,
        shown_result(&context.engine.redactor, &result),
    );
    context.publish(RuntimeEventKind::ToolCompleted {
        tool_call_id,
        tool_name,
        step_id,
        turn_id,
        status,
        duration,
        shown,
    });
    result
}

/// Removes secrets from a result, which is sent to the model provider, the store and subscribers.
fn redact_result(redactor: &SecretRedactor, result: &mut ToolCallResult) {
    if let Some(output) = &mut result.output {
        redactor.clean_output(output);
    }
    if let Some(error) = &mut result.error {
        redactor.clean(&mut error.message);
        let optional_texts = [&mut error.name, &mut error.suggestion, &mut error.help_url];
        for text in optional_texts.into_iter().flatten() {
            redactor.clean(text);
        }
    }
    if let Some(title) = &mut result.title {
        redactor.clean(title);
    }
    redactor.clean_object(&mut result.metadata);
    for attachment in &mut result.attachments {
        redactor.clean(&mut attachment.media_type);
        if let Some(name) = &mut attachment.name {
            redactor.clean(name);
        }
    }
}

/// Runs the call itself, inside all middleware.
async fn run_core(context: &mut ToolCallContext) -> ToolCallResult {
    // Middleware builds the catalog of a step but must not add tools outside the turn's
    // restrictions.
    let is_in_bounds = |tool: &&Arc<RegisteredTool>| {
        context
            .facts
            .narrowing
            .as_ref()
            .is_none_or(|narrowing| narrowing.allows(tool.builtin.as_deref()))
    };
    let Some(tool) = context
        .catalog
        .get(&context.call.tool_name)
        .filter(is_in_bounds)
        .cloned()
    else {
        return error_result(
            &context.call,
            DEFAULT_ERROR_CHARS,
            unavailable_tool_error(context),
        );
    };
    let outcome = match permitted_arguments(context, &tool).await {
        Ok((arguments, permit)) => run_handler(context, &tool, arguments, permit).await,
        Err(error) => return error_result(&context.call, tool.limits.error_message, error),
    };
    let is_untrusted = untrusted_content::is_untrusted(&context.engine, &tool);
    let outcome = if is_untrusted {
        taint_output(context, &tool, outcome).await
    } else {
        // A tool must not decide about the trust in its own output.
        outcome.map(|mut output| {
            output.metadata.shift_remove(UNTRUSTED_KEY);
            output
        })
    };
    match outcome {
        Ok(output) => success_result(context, &tool, output).await,
        Err(error) => error_result(&context.call, tool.limits.error_message, error),
    }
}

/// Returns the permit of a call and its arguments with defaults filled in.
async fn permitted_arguments(
    context: &ToolCallContext,
    tool: &RegisteredTool,
) -> Result<(JsonObject, CallPermit), HandlerError> {
    let arguments = checked_arguments(&tool.schema, &context.call).await?;
    let permit = permission::check_call(context, tool, &arguments).await?;
    Ok((arguments, permit))
}

/// Returns the error for an unavailable tool, with a similar name and all names.
fn unavailable_tool_error(context: &ToolCallContext) -> HandlerError {
    let (name, agent) = (&context.call.tool_name, &context.facts.agent);
    if let Some(unavailable) = agent.unavailable.iter().find(|tool| tool.has_export(name)) {
        let message = format!("the tool `{name}` is unavailable: {}", unavailable.reason);
        return HandlerError::new(message)
            .code(Code::TOOL_NOT_IN_CATALOG)
            .suggest("Continue without this tool, or report the reason to the user.");
    }
    let names: Vec<&str> = context.catalog.names().collect();
    let closest_name = goondan_spec::closest(&context.call.tool_name, &names);
    let name_hint = closest_name
        .map(|name| format!("Did you mean `{name}`? "))
        .unwrap_or_default();
    let names = if names.is_empty() {
        "none".to_owned()
    } else {
        names.join(", ")
    };
    HandlerError::new(format!(
        "there is no tool `{}` in this step",
        context.call.tool_name
    ))
    .code(Code::TOOL_NOT_IN_CATALOG)
    .suggest(format!("{name_hint}Tools that can be called: {names}."))
}

/// Runs the handler with time-out, cancellation and panic guard. Dropping this future also drops
/// the handler.
async fn run_handler(
    context: &ToolCallContext,
    tool: &RegisteredTool,
    arguments: JsonObject,
    permit: CallPermit,
) -> Result<ToolOutput, HandlerError> {
    // Built-in tools without permissions do not use the working directory.
    let workdir = if tool.builtin.is_none() || !tool.spec.permissions.is_empty() {
        workdir::prepare_workdir(context).await?
    } else {
        context.facts.workdir.clone()
    };
    let cancellation = context.cancel.child_token();
    let CallPermit {
        granted,
        run_mode,
        approved_files,
        approved_code,
    } = permit;
    let reporter = Arc::new(ToolCallReporter::for_call(context, tool));
    let tool_context = ToolContext {
        granted,
        run_mode,
        approved_files,
        approved_code,
        workdir,
        ..tool_context(context, tool, cancellation.clone(), Arc::clone(&reporter))
    };
    let _working = context.facts.tracker.wait_for(&context.tracker);
    let running = AssertUnwindSafe(tool.handler.call(&tool_context, arguments)).catch_unwind();
    tokio::pin!(running);
    let stopped = tokio::select! {
        // Most handlers finish at once; polling them first avoids setting up timers.
        biased;
        outcome = &mut running => {
            reporter.publish_rest();
            return outcome.unwrap_or_else(|panic| Err(panic_error(tool, panic.as_ref())));
        }
        never = reporter.publish_output() => match never {},
        () = context.tracker.wait_for_silence(tool.limits.timeout) => call_timeout_error(tool),
        () = context.cancel.cancelled() => cancelled_error(tool),
    };
    cancellation.cancel();
    // The result is discarded: the call is already answered. The handler only gets time to clean
    // up.
    let _ = tokio::time::timeout(CANCEL_GRACE, &mut running).await;
    reporter.publish_rest();
    Err(stopped)
}

/// Marks the conversation as tainted before untrusted output is added. Errors may also contain
/// untrusted content. If the taint cannot be stored, the output is withheld.
async fn taint_output(
    context: &ToolCallContext,
    tool: &RegisteredTool,
    outcome: Result<ToolOutput, HandlerError>,
) -> Result<ToolOutput, HandlerError> {
    if let Err(error) =
        untrusted_content::mark(&context.engine, &context.facts.instance, tool.name.as_str()).await
    {
        return Err(HandlerError::new(format!(
            "its output is untrusted, and recording that failed: {error}"
        )));
    }
    let mut output = outcome?;
    output
        .metadata
        .insert(UNTRUSTED_KEY.to_owned(), true.into());
    Ok(output)
}

/// Returns the error for a call that exceeded its time limit.
fn call_timeout_error(tool: &RegisteredTool) -> HandlerError {
    HandlerError::new(format!(
        "{} did not finish within {} ms",
        tool.name,
        tool.limits.timeout.as_millis()
    ))
    .code(Code::TOOL_TIMEOUT)
    .suggest(format!(
        "Request less at once, or raise `{}` of the Tool.",
        tool.timeout_field
    ))
}

/// Returns the error for a cancelled call.
fn cancelled_error(tool: &RegisteredTool) -> HandlerError {
    HandlerError::new(format!("{} was cancelled before it finished", tool.name))
        .code(Code::TOOL_CANCELLED)
}

/// Returns the error for a tool that panicked, with the panic message.
fn panic_error(tool: &RegisteredTool, panic: &(dyn std::any::Any + Send)) -> HandlerError {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned());
    // A failed assertion has a message of several lines.
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    HandlerError::new(format!("{} panicked: {text}", tool.name))
        .code(Code::TOOL_PANIC)
        .suggest("This is a bug in the tool. Try other arguments or another tool.")
}

/// Returns the result of a successful call. An output over the limit is cut, and its full text is
/// saved in a file.
async fn success_result(
    context: &ToolCallContext,
    tool: &RegisteredTool,
    output: ToolOutput,
) -> ToolCallResult {
    let mut result = ToolCallResult {
        tool_call_id: context.call.tool_call_id.clone(),
        tool_name: context.call.tool_name.clone(),
        status: ToolCallStatus::Ok,
        output: None,
        error: None,
        title: output.title,
        metadata: output.metadata,
        attachments: output.attachments,
    };
    if surely_fits(&output.output, tool.limits.output) {
        result.output = Some(output.output);
        return result;
    }
    let name = format!("{}-{}.txt", context.step_id, context.call.tool_call_id);
    let path = context
        .engine
        .store
        .output_file(&context.facts.instance, &name);
    result.output = Some(
        match cut_output(
            &output.output,
            tool.limits.output,
            &path.display().to_string(),
        ) {
            None => output.output,
            Some(cut) => {
                if let Err(error) = save(&path, &context.engine.redactor.text(&cut.whole)).await {
                    tracing::warn!(path = %path.display(), %error, "failed to save the full text \
                        of a truncated output; it is lost");
                }
                cut.output
            }
        },
    );
    result
}

/// Writes a private file; creates its directory if necessary.
async fn save(path: &std::path::Path, text: &str) -> std::io::Result<()> {
    let (path, text) = (path.to_owned(), text.to_owned());
    let write = move || {
        path.parent()
            .map_or(Ok(()), private_files::create_directory)?;
        private_files::write(&path, text.as_bytes())
    };
    tokio::task::spawn_blocking(write)
        .await
        .map_err(std::io::Error::other)?
}
