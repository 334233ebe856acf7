//! Middleware that wraps the turns, steps and tool calls of an agent, in order.
//!
//! Built-in middleware is known when the agent is planned. Extensions outside this program register
//! their layers when they attach to a turn. Therefore an agent with such extensions gets a new
//! order for each turn.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use goondan_core::ports::extension::{ExtensionCode, ExtensionContext, TurnTranscript};
use goondan_core::ports::model::ToolDefinition;

use super::Middleware;
use super::hosted::StateJournal;
use crate::tooling::registry::{RegisteredTool, ToolCatalog};

/// Extensions of an agent, outermost first.
#[derive(Clone)]
pub struct AgentExtensions {
    pub(super) list: Arc<[WrappingExtension]>,
    pub(super) built_in: Arc<MiddlewareStack>,
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

    /// Returns the possible state names: those of all built-in extensions, and those of this
    /// agent's hosted extensions.
    pub(crate) fn state_names(&self) -> BTreeSet<&str> {
        let mut names: BTreeSet<&str> = super::builtin::names().collect();
        names.extend(self.hosted_extensions().map(|hosted| &*hosted.name));
        names
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
    pub(super) tools: Vec<Arc<RegisteredTool>>,
    /// Cached catalog with these tools. Offering the same catalog again lets a model client encode
    /// it only once.
    pub(super) offered: Mutex<Option<(Arc<[ToolDefinition]>, ToolCatalog)>>,
    /// Conversation for hosted extensions; `None` if there are none.
    pub(super) transcript: Option<Arc<TurnTranscript>>,
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
