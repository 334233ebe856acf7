//! Which layers wrap the turns, steps and tool calls of an agent, and in which order.
//!
//! Those of built-in extensions are known when the agent is planned. Those of the others register when they take their seats at
//! a turn; so the order is made anew for each turn where an agent has any.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use goondan_core::event::TurnError;
use goondan_core::ports::extension::{
    AttachedExtension, ExtensionCode, LayerKind, OfferedTool, Seat, SeatState, Transcript,
};
use goondan_core::ports::model::ToolDefinition;
use goondan_core::ports::tool::ToolError;
use goondan_spec::Code;
use goondan_spec::kinds::ExportSpec;

use super::Middleware;
use super::hosted::{HostedLayer, Journalist, failed};
use crate::policy::permission;
use crate::tooling::registry::{Catalog, RegisteredTool, ToolLimits, ToolName};
use crate::tooling::reporter::ExtensionLog;
use crate::turn::TurnContext;

/// Limits of a tool that an extension offers: those of a Tool of which nothing is said.
const LIMITS: ToolLimits = ToolLimits {
    error_message: 1_000,
    output: 100_000,
    timeout: Duration::from_secs(120),
};

/// The extensions of an agent, outermost first.
#[derive(Clone)]
pub struct Extensions {
    list: Arc<[Wrapping]>,
    /// The layers of the built-in ones.
    built_in: Arc<Layers>,
}

/// One of them.
#[derive(Clone)]
pub(crate) enum Wrapping {
    /// Middleware of this program.
    BuiltIn(Arc<dyn Middleware>),
    /// The same, outside of everything else whatever its priority.
    Outermost(Arc<dyn Middleware>),
    /// Code that runs elsewhere.
    Hosted(Hosted),
}

/// An extension whose code runs elsewhere.
#[derive(Clone)]
pub(crate) struct Hosted {
    /// Its resource.
    pub(crate) name: String,
    pub(crate) code: Arc<dyn ExtensionCode>,
}

impl Extensions {
    pub(crate) fn new(list: Vec<Wrapping>) -> Self {
        let built_in = list.iter().filter_map(|wrapping| match wrapping {
            Wrapping::BuiltIn(middleware) | Wrapping::Outermost(middleware) => {
                Some(Arc::clone(middleware))
            }
            Wrapping::Hosted(_) => None,
        });
        let all: Arc<[Arc<dyn Middleware>]> = built_in.collect();
        let built_in = Layers {
            turn: Arc::clone(&all),
            step: Arc::clone(&all),
            tool_call: all,
            ..Layers::default()
        };
        Extensions {
            list: list.into(),
            built_in: Arc::new(built_in),
        }
    }

    /// These inside of `outermost`.
    pub(crate) fn inside(&self, outermost: Arc<dyn Middleware>) -> Self {
        Extensions::new(
            [Wrapping::Outermost(outermost)]
                .into_iter()
                .chain(self.list.iter().cloned())
                .collect(),
        )
    }

    /// The tools that the built-in ones add.
    pub(crate) fn tools(&self) -> impl Iterator<Item = Arc<RegisteredTool>> {
        self.built_in
            .turn
            .iter()
            .flat_map(|middleware| middleware.tools())
    }

    /// The layers of the built-in ones, for what happens outside of turns.
    pub(crate) fn built_in(&self) -> &Arc<Layers> {
        &self.built_in
    }

    /// Whether the code of any of them runs elsewhere.
    pub(crate) fn any_hosted(&self) -> bool {
        self.hosted().next().is_some()
    }

    fn hosted(&self) -> impl Iterator<Item = &Hosted> {
        self.list.iter().filter_map(|wrapping| match wrapping {
            Wrapping::Hosted(hosted) => Some(hosted),
            Wrapping::BuiltIn(_) | Wrapping::Outermost(_) => None,
        })
    }
}

/// The layers of a turn, outermost first.
#[derive(Default)]
pub(crate) struct Layers {
    pub(crate) turn: Arc<[Arc<dyn Middleware>]>,
    pub(crate) step: Arc<[Arc<dyn Middleware>]>,
    pub(crate) tool_call: Arc<[Arc<dyn Middleware>]>,
    /// What hosted extensions keep.
    pub(crate) seats: Vec<(String, Arc<Seat>)>,
    /// What they offer.
    tools: Vec<Arc<RegisteredTool>>,
    /// A catalog with these tools, so that the same is offered again: a client encodes it once.
    offered: Mutex<Option<(Arc<[ToolDefinition]>, Catalog)>>,
    /// What they see of the conversation; nothing where there are none.
    transcript: Option<Arc<Transcript>>,
}

impl Layers {
    /// The tools of an agent with those of its extensions. A later one of the same name takes the place of the earlier one.
    pub(crate) fn catalog(&self, own: Catalog) -> Catalog {
        if self.tools.is_empty() {
            return own;
        }
        let mut offered = self.offered.lock().unwrap_or_else(PoisonError::into_inner);
        match &*offered {
            Some((of, catalog)) if Arc::ptr_eq(of, own.definitions()) => catalog.clone(),
            _ => {
                let of = Arc::clone(own.definitions());
                let catalog = own.with(&self.tools);
                *offered = Some((of, catalog.clone()));
                catalog
            }
        }
    }

    /// What hosted extensions see of the conversation.
    pub(crate) fn transcript(&self) -> Option<&Arc<Transcript>> {
        self.transcript.as_ref()
    }

    /// What hosted extensions keep, with how often they have set it.
    pub(crate) fn journalist(&self) -> Option<Journalist<'_>> {
        (!self.seats.is_empty()).then_some(Journalist(&self.seats))
    }
}

/// Has the hosted extensions of a turn take their seats.
pub(crate) async fn attach(context: &mut TurnContext) -> Result<(), TurnError> {
    let extensions = context.facts.agent.extensions.clone();
    if !extensions.any_hosted() {
        return Ok(());
    }
    let transcript = Arc::new(Transcript::new(context.conversation().messages().to_vec()));
    let mut gathered = Gathered::default();
    for wrapping in extensions.list.iter() {
        match wrapping {
            Wrapping::BuiltIn(middleware) => gathered.built_in(middleware, 0.0),
            Wrapping::Outermost(middleware) => gathered.built_in(middleware, f64::NEG_INFINITY),
            Wrapping::Hosted(hosted) => {
                let state = context.state(&hosted.name).await?;
                let seat = Arc::new(seat(context, hosted, state, &transcript));
                let attached = Arc::clone(&hosted.code).attach(Arc::clone(&seat)).await;
                if context.cancel.is_cancelled() {
                    return Err(crate::turn::cancelled());
                }
                let attached = attached.map_err(|error| failed(&hosted.name, error))?;
                gathered.hosted(hosted, attached, seat)?;
            }
        }
    }
    context
        .engine
        .bus
        .ears()
        .seat(context.instance(), std::mem::take(&mut gathered.attached));
    let layers = gathered.layers(transcript);
    Arc::make_mut(&mut context.facts).layers = Arc::new(layers);
    Ok(())
}

fn seat(
    context: &TurnContext,
    hosted: &Hosted,
    state: Option<serde_json::Value>,
    transcript: &Arc<Transcript>,
) -> Seat {
    Seat {
        instance: context.instance().clone(),
        turn_id: context.turn_id().to_owned(),
        trace_id: context.trace_id().to_owned(),
        workdir: context.facts.workdir.clone(),
        sandboxes: permission::sandboxes_of(&context.engine, &context.facts),
        state: SeatState::new(state),
        transcript: Arc::clone(transcript),
        logger: Arc::new(ExtensionLog::of(context, &hosted.name)),
        cancellation: context.cancel.clone(),
    }
}

/// Layers with what decides on their order.
#[derive(Default)]
struct Gathered {
    turn: Vec<(f64, Arc<dyn Middleware>)>,
    step: Vec<(f64, Arc<dyn Middleware>)>,
    tool_call: Vec<(f64, Arc<dyn Middleware>)>,
    seats: Vec<(String, Arc<Seat>)>,
    tools: Vec<Arc<RegisteredTool>>,
    attached: Vec<Arc<dyn AttachedExtension>>,
}

impl Gathered {
    /// A built-in extension has one layer of each kind; its priority is that of those that state none.
    fn built_in(&mut self, middleware: &Arc<dyn Middleware>, priority: f64) {
        for list in [&mut self.turn, &mut self.step, &mut self.tool_call] {
            list.push((priority, Arc::clone(middleware)));
        }
    }

    fn hosted(
        &mut self,
        hosted: &Hosted,
        attached: Arc<dyn AttachedExtension>,
        seat: Arc<Seat>,
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
            self.tools
                .push(registered(tool).map_err(|error| failed(&hosted.name, error))?);
        }
        self.seats.push((hosted.name.clone(), seat));
        self.attached.push(attached);
        Ok(())
    }

    fn layers(self, transcript: Arc<Transcript>) -> Layers {
        Layers {
            turn: in_order(self.turn),
            step: in_order(self.step),
            tool_call: in_order(self.tool_call),
            seats: self.seats,
            tools: self.tools,
            offered: Mutex::default(),
            transcript: Some(transcript),
        }
    }
}

/// Lower priorities lie further out; where they are the same, who came first does.
fn in_order(mut layers: Vec<(f64, Arc<dyn Middleware>)>) -> Arc<[Arc<dyn Middleware>]> {
    layers.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    layers.into_iter().map(|(_, layer)| layer).collect()
}

fn registered(tool: OfferedTool) -> Result<Arc<RegisteredTool>, ToolError> {
    let name: ToolName =
        tool.name
            .parse()
            .map_err(|error: crate::tooling::registry::NotAToolName| {
                ToolError::new(error.to_string())
                    .code(Code::EXT_INIT)
                    .suggest("Call it `<extension>__<tool>`.")
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
        LIMITS,
    )))
}
