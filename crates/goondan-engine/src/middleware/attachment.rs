//! Attachment of extensions outside this program to a turn.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use goondan_core::event::TurnError;
use goondan_core::ports::extension::{
    AttachedExtension, ExtensionContext, ExtensionState, ExtensionTool, LayerKind, TurnTranscript,
};
use goondan_core::ports::tool::HandlerError;
use goondan_spec::Code;
use goondan_spec::kinds::ExportSpec;

use super::Middleware;
use super::hosted::{HostedLayer, extension_error};
use super::layers::{HostedExtension, MiddlewareStack, WrappingExtension};
use crate::policy::permission;
use crate::tooling::registry::{RegisteredTool, ToolLimits, ToolName};
use crate::tooling::reporter::ExtensionLog;
use crate::turn::TurnContext;

/// Limits of a tool that an extension provides; equal to the defaults of a Tool resource.
const EXTENSION_TOOL_LIMITS: ToolLimits = ToolLimits {
    error_message: 1_000,
    output: 100_000,
    timeout: Duration::from_secs(120),
};

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
