//! Middleware that wraps the turns, steps and tool calls of an agent, in order.
//!
//! Built-in middleware is known when the agent is planned. Extensions outside this program register
//! their layers when they attach to a turn. Therefore an agent with such extensions gets a new
//! order for each turn.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use goondan_core::event::TurnError;
use goondan_core::ports::extension::{
    AttachedExtension, ExtensionCode, ExtensionContext, ExtensionState, ExtensionTool, LayerKind,
    TurnTranscript,
};
use goondan_core::ports::model::ToolDefinition;
use goondan_core::ports::tool::HandlerError;
use goondan_spec::Code;
use goondan_spec::kinds::ExportSpec;

use super::Middleware;
use super::hosted::{HostedLayer, StateJournal, extension_error};
use crate::policy::permission;
use crate::tooling::registry::{RegisteredTool, ToolCatalog, ToolLimits, ToolName};
use crate::tooling::reporter::ExtensionLog;
use crate::turn::TurnContext;

/// Limits of a tool that an extension provides; equal to the defaults of a Tool resource.
const EXTENSION_TOOL_LIMITS: ToolLimits = ToolLimits {
    error_message: 1_000,
    output: 100_000,
    timeout: Duration::from_secs(120),
};

/// Extensions of an agent, outermost first.
#[derive(Clone)]
pub struct AgentExtensions {
    list: Arc<[WrappingExtension]>,
    built_in: Arc<MiddlewareStack>,
}

#[derive(Clone)]
pub(crate) enum WrappingExtension {
    BuiltIn(Arc<dyn Middleware>),
    /// Built-in middleware that wraps everything else, regardless of priority.
    Outermost(Arc<dyn Middleware>),
    Hosted(HostedExtension),
}

/// Extension whose code runs outside this program.
#[derive(Clone)]
pub(crate) struct HostedExtension {
    /// Name of the Extension resource.
    pub(crate) name: String,
    pub(crate) code: Arc<dyn ExtensionCode>,
}

impl AgentExtensions {
    pub(crate) fn new(list: Vec<WrappingExtension>) -> Self {
        let built_in = list.iter().filter_map(|wrapping| match wrapping {
            WrappingExtension::BuiltIn(middleware) | WrappingExtension::Outermost(middleware) => {
                Some(Arc::clone(middleware))
            }
            WrappingExtension::Hosted(_) => None,
        });
        let middlewares: Arc<[Arc<dyn Middleware>]> = built_in.collect();
        let built_in = MiddlewareStack {
            turn: Arc::clone(&middlewares),
            step: Arc::clone(&middlewares),
            tool_call: middlewares,
            ..MiddlewareStack::default()
        };
        AgentExtensions {
            list: list.into(),
            built_in: Arc::new(built_in),
        }
    }

    /// Returns these extensions, wrapped in `outermost`.
    pub(crate) fn wrapped_in(&self, outermost: Arc<dyn Middleware>) -> Self {
        AgentExtensions::new(
            [WrappingExtension::Outermost(outermost)]
                .into_iter()
                .chain(self.list.iter().cloned())
                .collect(),
        )
    }

    /// Returns the tools that the built-in extensions add.
    pub(crate) fn tools(&self) -> impl Iterator<Item = Arc<RegisteredTool>> {
        self.built_in
            .turn
            .iter()
            .flat_map(|middleware| middleware.tools())
    }

    /// Returns the built-in middleware, for calls outside turns.
    pub(crate) fn built_in(&self) -> &Arc<MiddlewareStack> {
        &self.built_in
    }

    /// Returns true if any extension runs outside this program.
    pub(crate) fn any_hosted(&self) -> bool {
        self.hosted_extensions().next().is_some()
    }

    /// Returns the extensions that run in a runtime process.
    fn hosted_extensions(&self) -> impl Iterator<Item = &HostedExtension> {
        self.list.iter().filter_map(|wrapping| match wrapping {
            WrappingExtension::Hosted(hosted) => Some(hosted),
            WrappingExtension::BuiltIn(_) | WrappingExtension::Outermost(_) => None,
        })
    }
}

/// Middleware of a turn, outermost first.
#[derive(Default)]
pub(crate) struct MiddlewareStack {
    pub(crate) turn: Arc<[Arc<dyn Middleware>]>,
    pub(crate) step: Arc<[Arc<dyn Middleware>]>,
    pub(crate) tool_call: Arc<[Arc<dyn Middleware>]>,
    /// Contexts of the hosted extensions, with their saved state.
    pub(crate) extension_contexts: Vec<(String, Arc<ExtensionContext>)>,
    /// Tools that hosted extensions provide.
    tools: Vec<Arc<RegisteredTool>>,
    /// Cached catalog with these tools. Offering the same catalog again lets a model client encode
    /// it only once.
    offered: Mutex<Option<(Arc<[ToolDefinition]>, ToolCatalog)>>,
    /// Conversation for hosted extensions; `None` if there are none.
    transcript: Option<Arc<TurnTranscript>>,
}

impl MiddlewareStack {
    /// Returns the tools of the agent and of its extensions. A later tool replaces an earlier tool
    /// of the same name.
    pub(crate) fn catalog(&self, agent_tools: ToolCatalog) -> ToolCatalog {
        if self.tools.is_empty() {
            return agent_tools;
        }
        let mut offered = self.offered.lock().unwrap_or_else(PoisonError::into_inner);
        match &*offered {
            Some((of, catalog)) if Arc::ptr_eq(of, agent_tools.definitions()) => catalog.clone(),
            _ => {
                let of = Arc::clone(agent_tools.definitions());
                let catalog = agent_tools.with(&self.tools);
                *offered = Some((of, catalog.clone()));
                catalog
            }
        }
    }

    /// Returns the changes of this turn; `None` if no hosted extension needs them.
    pub(crate) fn transcript(&self) -> Option<&Arc<TurnTranscript>> {
        self.transcript.as_ref()
    }

    /// Returns the journal of extension states; `None` without hosted extensions.
    pub(crate) fn state_journal(&self) -> Option<StateJournal<'_>> {
        (!self.extension_contexts.is_empty()).then_some(StateJournal(&self.extension_contexts))
    }
}

/// Attaches the hosted extensions to a turn.
pub(crate) async fn attach_extensions(context: &mut TurnContext) -> Result<(), TurnError> {
    let extensions = context.facts.agent.extensions.clone();
    if !extensions.any_hosted() {
        return Ok(());
    }
    let transcript = Arc::new(TurnTranscript::new(
        context.conversation().messages().to_vec(),
    ));
    let mut gathered = RegisteredLayers::default();
    for wrapping in extensions.list.iter() {
        match wrapping {
            WrappingExtension::BuiltIn(middleware) => gathered.built_in(middleware, 0.0),
            WrappingExtension::Outermost(middleware) => {
                gathered.built_in(middleware, f64::NEG_INFINITY)
            }
            WrappingExtension::Hosted(hosted) => {
                let state = context.state(&hosted.name).await?;
                let extension_context =
                    Arc::new(extension_context(context, hosted, state, &transcript));
                let attached = Arc::clone(&hosted.code)
                    .attach(Arc::clone(&extension_context))
                    .await;
                if context.cancel.is_cancelled() {
                    return Err(crate::turn::cancelled_error());
                }
                let attached = attached.map_err(|error| extension_error(&hosted.name, error))?;
                gathered.add_hosted(hosted, attached, extension_context)?;
            }
        }
    }
    context
        .engine
        .bus
        .extension_subscribers()
        .attach_extensions(context.instance(), std::mem::take(&mut gathered.attached));
    let layers = gathered.into_stack(transcript);
    Arc::make_mut(&mut context.facts).layers = Arc::new(layers);
    Ok(())
}

/// Creates the context of an extension for this turn.
fn extension_context(
    context: &TurnContext,
    hosted: &HostedExtension,
    state: Option<serde_json::Value>,
    transcript: &Arc<TurnTranscript>,
) -> ExtensionContext {
    ExtensionContext {
        instance: context.instance().clone(),
        turn_id: context.turn_id().to_owned(),
        trace_id: context.trace_id().to_owned(),
        workdir: context.facts.workdir.clone(),
        sandboxes: permission::sandboxes_of(&context.engine, &context.facts),
        state: ExtensionState::new(state),
        transcript: Arc::clone(transcript),
        logger: Arc::new(ExtensionLog::for_extension(context, &hosted.name)),
        cancellation: context.cancel.clone(),
    }
}

/// Layers with their priorities, before sorting.
#[derive(Default)]
struct RegisteredLayers {
    turn: Vec<(f64, Arc<dyn Middleware>)>,
    step: Vec<(f64, Arc<dyn Middleware>)>,
    tool_call: Vec<(f64, Arc<dyn Middleware>)>,
    extension_contexts: Vec<(String, Arc<ExtensionContext>)>,
    tools: Vec<Arc<RegisteredTool>>,
    attached: Vec<Arc<dyn AttachedExtension>>,
}

impl RegisteredLayers {
    /// Adds the three layers of a built-in extension. They have the default priority.
    fn built_in(&mut self, middleware: &Arc<dyn Middleware>, priority: f64) {
        for list in [&mut self.turn, &mut self.step, &mut self.tool_call] {
            list.push((priority, Arc::clone(middleware)));
        }
    }

    /// Adds the layers and tools of an attached extension.
    fn add_hosted(
        &mut self,
        hosted: &HostedExtension,
        attached: Arc<dyn AttachedExtension>,
        extension_context: Arc<ExtensionContext>,
    ) -> Result<(), TurnError> {
        for (index, layer) in attached.layers().iter().enumerate() {
            let middleware: Arc<dyn Middleware> = Arc::new(HostedLayer::new(
                &hosted.name,
                Arc::clone(&attached),
                index,
                layer.kind,
            ));
            let list = match layer.kind {
                LayerKind::Turn => &mut self.turn,
                LayerKind::Step => &mut self.step,
                LayerKind::ToolCall => &mut self.tool_call,
            };
            list.push((layer.priority, middleware));
        }
        for tool in attached.tools() {
            self.tools.push(
                to_registered_tool(tool).map_err(|error| extension_error(&hosted.name, error))?,
            );
        }
        self.extension_contexts
            .push((hosted.name.clone(), extension_context));
        self.attached.push(attached);
        Ok(())
    }

    /// Sorts the layers by priority.
    fn into_stack(self, transcript: Arc<TurnTranscript>) -> MiddlewareStack {
        MiddlewareStack {
            turn: sort_by_priority(self.turn),
            step: sort_by_priority(self.step),
            tool_call: sort_by_priority(self.tool_call),
            extension_contexts: self.extension_contexts,
            tools: self.tools,
            offered: Mutex::default(),
            transcript: Some(transcript),
        }
    }
}

/// Sorts by priority, lowest outermost. Equal priorities keep the registration order.
fn sort_by_priority(mut layers: Vec<(f64, Arc<dyn Middleware>)>) -> Arc<[Arc<dyn Middleware>]> {
    layers.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    layers.into_iter().map(|(_, layer)| layer).collect()
}

/// Converts a tool of an extension. Fails if its name is not a tool name.
fn to_registered_tool(tool: ExtensionTool) -> Result<Arc<RegisteredTool>, HandlerError> {
    let name: ToolName =
        tool.name
            .parse()
            .map_err(|error: crate::tooling::registry::InvalidToolName| {
                HandlerError::new(error.to_string())
                    .code(Code::EXT_INIT)
                    .suggest("Name the tool `<extension>__<tool>`.")
            })?;
    let spec = ExportSpec {
        name: name.export().to_owned(),
        description: tool.description,
        parameters: tool.parameters,
        ..ExportSpec::default()
    };
    Ok(Arc::new(RegisteredTool::new(
        name.resource(),
        spec,
        tool.handler,
        EXTENSION_TOOL_LIMITS,
    )))
}
