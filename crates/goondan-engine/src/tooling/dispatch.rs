//! One tool call: catalog, arguments, policy, handler, limits. Whatever happens, a [`ToolCallResult`] comes out.

use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use goondan_spec::Code;
use tokio_util::sync::CancellationToken;

use crate::engine::Engine;
use crate::life::{Life, Stopwatch};
use crate::middleware::{Layers, ToolCallNext};
use crate::plan::AgentPlan;
use crate::policy::permission::{self, Permit};
use crate::policy::redact::Redactor;
use crate::policy::taint;
use crate::tooling::agents::AgentCalls;
use crate::tooling::excerpt::{Excerpt, excerpt};
use crate::tooling::registry::{Catalog, RegisteredTool};
use crate::tooling::reporter::Reporter;
use crate::tooling::workdir;
use goondan_core::JsonObject;
use goondan_core::event::{RuntimeEventKind, ShownError, ShownResult};
use goondan_core::ids::{InstanceId, TraceContext};
use goondan_core::inbound::{AgentEvent, Terms};
use goondan_core::limits::{bounded, cut_error_message, cut_output, head, surely_fits};
use goondan_core::message::{Message, ToolCall};
use goondan_core::narrowing::Narrowing;
use goondan_core::ports::journal::TurnJournal;
use goondan_core::ports::tool::{
    ToolCallError, ToolCallResult, ToolCallStatus, ToolContext, ToolError, ToolLogger, ToolOutput,
};
use goondan_core::private;
use goondan_core::reserved::UNTRUSTED;
use goondan_core::run_mode::RunMode;
use goondan_core::schema::ArgumentSchema;

/// A handler that was told to stop gets that long to clean up before it is dropped.
const GRACE: Duration = Duration::from_secs(2);

/// Characters of an error message where no tool sets a limit.
const DEFAULT_ERROR_LIMIT: usize = 1_000;

/// Characters of a title, and of an error message, in an event.
const LONGEST_TITLE: usize = 200;
const LONGEST_MESSAGE: usize = 600;

/// What is the same for all calls of a turn.
#[derive(Clone)]
pub struct TurnFacts {
    pub(crate) instance: InstanceId,
    pub(crate) turn_id: String,
    pub(crate) trace: TraceContext,
    /// Who is in the chain above this instance.
    pub(crate) callers: Vec<InstanceId>,
    /// Agents that are not in the chain and narrow the turn all the same.
    pub(crate) bound_by: BTreeSet<String>,
    /// The only tools that may run in the turn.
    pub(crate) narrowing: Option<Narrowing>,
    /// The agent as it was when the turn began.
    pub(crate) agent: Arc<AgentPlan>,
    pub(crate) workdir: PathBuf,
    /// What the working folder must lie in, free of links; `None` where whoever runs the swarm has chosen it, and for folders of
    /// instances.
    pub(crate) anchor: Option<PathBuf>,
    /// What wraps the turn and what is in it.
    pub(crate) layers: Arc<Layers>,
    /// Of the instance.
    pub(crate) life: Arc<Life>,
}

impl TurnFacts {
    /// The agents whose policies narrow the turn (rule S1b), with their instances where these are in the chain.
    pub(crate) fn narrowing_agents(&self) -> impl Iterator<Item = (&str, Option<&InstanceId>)> {
        let callers = self
            .callers
            .iter()
            .map(|caller| (caller.agent.as_str(), Some(caller)));
        callers.chain(self.bound_by.iter().map(|agent| (agent.as_str(), None)))
    }

    /// `event` has joined the turn. What is done from now on may be what it asks for, so it is bounded by all that would
    /// bound a turn of its own.
    pub(crate) fn join(&mut self, event: &AgentEvent) {
        let agents = event
            .callers
            .iter()
            .map(|caller| &caller.agent)
            .chain(&event.terms.bound_by);
        let strangers =
            agents.filter(|agent| self.callers.iter().all(|caller| caller.agent != **agent));
        self.bound_by.extend(strangers.cloned());
        self.narrowing = Narrowing::both(self.narrowing.as_ref(), event.terms.narrowing.as_ref());
    }

    /// What bounds the turn beside its chain.
    pub(crate) fn terms(&self) -> Terms {
        Terms {
            narrowing: self.narrowing.clone(),
            bound_by: self.bound_by.clone(),
            ..Terms::default()
        }
    }
}

/// A call on its way through middleware to its handler.
pub struct ToolCallContext {
    /// The call; middleware may change its arguments.
    pub call: ToolCall,
    pub(crate) engine: Arc<Engine>,
    pub(crate) facts: Arc<TurnFacts>,
    pub(crate) step_id: String,
    pub(crate) catalog: Catalog,
    pub(crate) message: Arc<Message>,
    pub(crate) trace: TraceContext,
    pub(crate) cancel: CancellationToken,
    /// Of the call: whether a person is asked about it, or an agent is at work that it waits for.
    pub(crate) life: Arc<Life>,
    /// What its layers tell each other.
    pub(crate) metadata: JsonObject,
    /// Where an approval is recorded, and the id of its effect; nowhere for a call without a turn.
    pub(crate) approval: Option<(Arc<dyn TurnJournal>, String)>,
}

impl ToolCallContext {
    /// Who calls.
    pub fn instance(&self) -> &InstanceId {
        &self.facts.instance
    }

    /// In which turn.
    pub fn turn_id(&self) -> &str {
        &self.facts.turn_id
    }

    pub(crate) fn publish(&self, kind: RuntimeEventKind) {
        self.engine
            .bus
            .runtime(&self.facts.instance, &self.trace, kind);
    }
}

/// Runs a call through the agent's middleware, with its events.
pub(crate) async fn call(mut context: ToolCallContext) -> ToolCallResult {
    let started = Stopwatch::start(&context.life);
    context.facts.life.show();
    let (tool_call_id, tool_name) = (
        context.call.tool_call_id.clone(),
        context.call.tool_name.clone(),
    );
    let (step_id, turn_id) = (context.step_id.clone(), context.facts.turn_id.clone());
    let Excerpt {
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
    let mut result = ToolCallNext::new(&layers.tool_call).run(&mut context).await;
    clean(&context.engine.redactor, &mut result);
    let duration = started.millis(&context.life);
    context.facts.life.show();
    let (status, shown) = (result.status, shown(&context.engine.redactor, &result));
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

/// What can be seen of a result that holds no secret.
pub(crate) fn shown(redactor: &Redactor, result: &ToolCallResult) -> Box<ShownResult> {
    let output = result
        .output
        .as_ref()
        .map(|output| excerpt(redactor, output));
    let is_cut = output.as_ref().is_some_and(|output| output.is_cut);
    let error = result.error.as_ref().map(|error| ShownError {
        code: head(&error.code, LONGEST_TITLE).to_owned(),
        message: cut_error_message(&error.message, LONGEST_MESSAGE),
    });
    Box::new(ShownResult {
        title: result
            .title
            .as_deref()
            .map(|title| head(title, LONGEST_TITLE).to_owned()),
        metadata: bounded(&result.metadata),
        output: output.map(|output| output.value).unwrap_or_default(),
        is_cut,
        error,
    })
}

/// A result goes to the model's provider, to the disk and to whoever watches: no secret of this run goes along.
fn clean(redactor: &Redactor, result: &mut ToolCallResult) {
    if let Some(output) = &mut result.output {
        redactor.clean_value(output);
    }
    if let Some(error) = &mut result.error {
        redactor.clean(&mut error.message);
        let more = [&mut error.name, &mut error.suggestion, &mut error.help_url];
        more.into_iter()
            .flatten()
            .for_each(|text| redactor.clean(text));
    }
    if let Some(title) = &mut result.title {
        redactor.clean(title);
    }
    redactor.clean_object(&mut result.metadata);
}

/// The call itself, behind all middleware.
pub(crate) async fn core(context: &mut ToolCallContext) -> ToolCallResult {
    // Middleware makes the catalog of a step; what is out of bounds stays so whatever it put in.
    let is_in_bounds = |tool: &&Arc<RegisteredTool>| {
        context
            .facts
            .narrowing
            .as_ref()
            .is_none_or(|left| left.allows(tool.builtin.as_deref()))
    };
    let Some(tool) = context
        .catalog
        .get(&context.call.tool_name)
        .filter(is_in_bounds)
        .cloned()
    else {
        return failed(&context.call, DEFAULT_ERROR_LIMIT, not_in_catalog(context));
    };
    let outcome = match permitted_arguments(context, &tool).await {
        Ok((arguments, permit)) => run_handler(context, &tool, arguments, permit).await,
        Err(error) => return failed(&context.call, tool.limits.error_message, error),
    };
    let is_untrusted = taint::is_untrusted(&context.engine, &tool);
    let outcome = match is_untrusted {
        // A tool does not say of itself what is to be trusted.
        false => outcome.map(|mut output| {
            output.metadata.shift_remove(UNTRUSTED);
            output
        }),
        true => marked(context, &tool, outcome).await,
    };
    match outcome {
        Ok(output) => succeeded(context, &tool, output).await,
        Err(error) => failed(&context.call, tool.limits.error_message, error),
    }
}

/// The arguments with defaults filled in, of a call that may run, and what it may do.
async fn permitted_arguments(
    context: &ToolCallContext,
    tool: &RegisteredTool,
) -> Result<(JsonObject, Permit), ToolError> {
    let arguments = checked_arguments(&tool.schema, &context.call)?;
    let permit = permission::permit(context, tool, &arguments).await?;
    Ok((arguments, permit))
}

/// The arguments of a call with defaults filled in, or what the model is told of them.
pub(crate) fn checked_arguments(
    schema: &ArgumentSchema,
    call: &ToolCall,
) -> Result<JsonObject, ToolError> {
    schema.check(&call.input).map_err(|invalid| {
        ToolError::new(invalid.message)
            .code(Code::TOOL_INVALID_ARGS)
            .suggest(invalid.suggestion)
    })
}

fn not_in_catalog(context: &ToolCallContext) -> ToolError {
    let names: Vec<&str> = context.catalog.names().collect();
    let near = goondan_spec::closest(&context.call.tool_name, &names);
    let near = near
        .map(|near| format!("Did you mean `{near}`? "))
        .unwrap_or_default();
    let names = if names.is_empty() {
        "none".to_owned()
    } else {
        names.join(", ")
    };
    ToolError::new(format!(
        "there is no tool `{}` in this step",
        context.call.tool_name
    ))
    .code(Code::TOOL_NOT_IN_CATALOG)
    .suggest(format!("{near}Tools that can be called: {names}."))
}

/// Runs the handler with time-out, cancel and panic guard. The future runs right here; when this is dropped, so is it.
async fn run_handler(
    context: &ToolCallContext,
    tool: &RegisteredTool,
    arguments: JsonObject,
    permit: Permit,
) -> Result<ToolOutput, ToolError> {
    // A built-in tool that needs no permission works in no folder.
    let workdir = match tool.builtin.is_none() || !tool.spec.permissions.is_empty() {
        true => workdir::settle(context).await?,
        false => context.facts.workdir.clone(),
    };
    let cancellation = context.cancel.child_token();
    let Permit { granted, run_mode } = permit;
    let tool_context = ToolContext {
        granted,
        run_mode,
        workdir,
        ..tool_context(context, tool, cancellation.clone())
    };
    let running = AssertUnwindSafe(tool.handler.call(&tool_context, arguments)).catch_unwind();
    tokio::pin!(running);
    let stopped = tokio::select! {
        // Most handlers are done at once: then neither a timer nor a waiter is set up.
        biased;
        outcome = &mut running => return outcome.unwrap_or_else(|panic| Err(panicked(tool, panic.as_ref()))),
        () = context.life.silence(tool.limits.timeout) => timed_out(tool),
        () = context.cancel.cancelled() => cancelled(tool),
    };
    cancellation.cancel();
    // What it still returns is of no use: the call is answered. It only gets the time to clean up.
    let _ = tokio::time::timeout(GRACE, &mut running).await;
    Err(stopped)
}

/// An outcome that may hold what a stranger wrote, an error not less than an output. Where the conversation can't be
/// marked, nothing of it gets in.
async fn marked(
    context: &ToolCallContext,
    tool: &RegisteredTool,
    outcome: Result<ToolOutput, ToolError>,
) -> Result<ToolOutput, ToolError> {
    if let Err(error) =
        taint::mark(&context.engine, &context.facts.instance, tool.name.as_str()).await
    {
        return Err(ToolError::new(format!(
            "its output is untrusted, and that could not be recorded: {error}"
        )));
    }
    let mut output = outcome?;
    output.metadata.insert(UNTRUSTED.to_owned(), true.into());
    Ok(output)
}

fn timed_out(tool: &RegisteredTool) -> ToolError {
    ToolError::new(format!(
        "{} did not finish within {} ms",
        tool.name,
        tool.limits.timeout.as_millis()
    ))
    .code(Code::TOOL_TIMEOUT)
    .suggest(format!(
        "Ask for less at once, or raise `{}` of the Tool.",
        tool.timeout_field
    ))
}

fn cancelled(tool: &RegisteredTool) -> ToolError {
    ToolError::new(format!("{} was cancelled before it finished", tool.name))
        .code(Code::TOOL_CANCELLED)
}

fn panicked(tool: &RegisteredTool, panic: &(dyn std::any::Any + Send)) -> ToolError {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned());
    ToolError::new(format!("{} panicked: {text}", tool.name))
        .code(Code::TOOL_PANIC)
        .suggest("This is a fault of the tool. Try other arguments or another tool.")
}

pub(crate) fn tool_context(
    context: &ToolCallContext,
    tool: &RegisteredTool,
    cancellation: CancellationToken,
) -> ToolContext {
    let facts = &context.facts;
    let reporter = Arc::new(Reporter::of(context, tool));
    ToolContext {
        agent_name: facts.instance.agent.clone(),
        instance_key: facts.instance.instance_key.clone(),
        turn_id: facts.turn_id.clone(),
        trace_id: context.trace.trace_id.clone(),
        caller: context.engine.tracing.caller(&context.trace),
        tool_call_id: context.call.tool_call_id.clone(),
        message: Arc::clone(&context.message),
        workdir: facts.workdir.clone(),
        project_dir: context.engine.generation.load().project.clone(),
        sandboxes: permission::sandboxes(context),
        granted: tool.spec.permissions.clone(),
        run_mode: RunMode::Shell,
        runtime: Arc::new(AgentCalls::of_call(context, cancellation.clone())),
        logger: Arc::clone(&reporter) as Arc<dyn ToolLogger>,
        progress: reporter,
        cancellation,
    }
}

async fn succeeded(
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
                    tracing::warn!(path = %path.display(), %error, "the whole of a cut output was not saved");
                }
                cut.output
            }
        },
    );
    result
}

async fn save(path: &std::path::Path, text: &str) -> std::io::Result<()> {
    let (path, text) = (path.to_owned(), text.to_owned());
    let write = move || {
        path.parent().map_or(Ok(()), private::make_folder)?;
        private::write(&path, text.as_bytes())
    };
    tokio::task::spawn_blocking(write)
        .await
        .map_err(std::io::Error::other)?
}

pub(crate) fn failed(call: &ToolCall, limit: usize, error: ToolError) -> ToolCallResult {
    ToolCallResult {
        tool_call_id: call.tool_call_id.clone(),
        tool_name: call.tool_name.clone(),
        status: ToolCallStatus::Error,
        output: None,
        error: Some(ToolCallError {
            name: error.name,
            message: cut_error_message(&error.message, limit),
            code: error.code.unwrap_or_else(|| Code::TOOL_FAILED.into()),
            suggestion: error.suggestion,
            help_url: error.help_url,
        }),
        title: None,
        metadata: JsonObject::new(),
        attachments: Vec::new(),
    }
}
