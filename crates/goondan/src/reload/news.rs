//! Who hears of reloads: subscribers, the events of the swarm, and other processes.

use std::sync::{Arc, Mutex, PoisonError};

use goondan_core::event::RuntimeEventKind;
use goondan_spec::{Diagnostic, ResourceId, render};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::ReloadOutcome;
use crate::build::{BuildEnd, BuildOutcome};
use crate::generation::LastReload;
use crate::swarm::Swarm;

/// Of so many diagnostics the event of a failed reload has the text.
const TOLD_DIAGNOSTICS: usize = 5;
/// And no more of it than so many characters.
const LONGEST_MESSAGE: usize = 500;
/// Of the output of a failed build the event has so many lines, the last ones.
const TOLD_LINES: usize = 5;

/// What happens to a running swarm's project.
#[derive(Debug, Clone)]
pub enum ReloadNews {
    /// Sources of a tool have changed, and it is being built.
    Building {
        /// The tool.
        tool: ResourceId,
        /// The command, as a person reads it.
        command: String,
    },
    /// It is built, and the swarm reloads if that has changed its library; or it could not be built, and the old one serves on.
    Built(Arc<BuildOutcome>),
    /// A reload is over.
    Reloaded(Arc<ReloadOutcome>),
}

/// Everybody who wants to hear of it.
#[derive(Default)]
pub(crate) struct ReloadListeners(Mutex<Vec<UnboundedSender<ReloadNews>>>);

impl Swarm {
    /// Every reload from now on, whoever caused it, and the builds of a [`Swarm::watch`]. A reload that a changed file has
    /// caused and that found nothing different is not told, unless the one before had failed.
    pub fn reload_news(&self) -> UnboundedReceiver<ReloadNews> {
        let (sender, receiver) = unbounded_channel();
        self.inner()
            .reload_listeners
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(sender);
        receiver
    }

    /// Tells everybody who listens. A build that failed is an event as well.
    pub(crate) fn tell(&self, news: ReloadNews) {
        let inner = self.inner();
        match &news {
            ReloadNews::Reloaded(outcome) => inner.runtime.announce(event(outcome)),
            ReloadNews::Built(outcome)
                if !outcome.is_built() && outcome.end != BuildEnd::Cancelled =>
            {
                inner.runtime.announce(build_failed(outcome));
            }
            ReloadNews::Built(_) | ReloadNews::Building { .. } => {}
        }
        let mut listeners = inner
            .reload_listeners
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        listeners.retain(|listener| listener.send(news.clone()).is_ok());
    }
}

fn event(outcome: &ReloadOutcome) -> RuntimeEventKind {
    let duration = outcome.timing.total_ms();
    match &outcome.result {
        Ok(generation) => RuntimeEventKind::ReloadCompleted {
            generation: *generation,
            added: outcome.plan.added.clone(),
            changed: outcome.plan.changed.clone(),
            removed: outcome.plan.removed.clone(),
            agents: outcome.plan.agents.clone(),
            limits: outcome.plan.limits,
            duration,
        },
        Err(diagnostics) => {
            let messages = messages(diagnostics);
            RuntimeEventKind::ReloadFailed {
                diagnostics: messages.len(),
                messages: first(messages),
                duration,
            }
        }
    }
}

fn build_failed(outcome: &BuildOutcome) -> RuntimeEventKind {
    let lines: Vec<&str> = outcome.output.lines().collect();
    let end = lines[lines.len().saturating_sub(TOLD_LINES)..].join("\n");
    let message = format!(
        "the build of {} failed: {}\n{end}",
        outcome.tool, outcome.end
    );
    let duration = u64::try_from(outcome.duration.as_millis()).unwrap_or(u64::MAX);
    RuntimeEventKind::ReloadFailed {
        diagnostics: 1,
        messages: first(vec![message]),
        duration,
    }
}

/// A reload as other processes read of it.
pub(super) fn last_reload(number: u64, outcome: &ReloadOutcome) -> LastReload {
    LastReload {
        number,
        ok: outcome.result.is_ok(),
        plan: outcome.plan.clone(),
        messages: outcome
            .result
            .as_ref()
            .err()
            .map(|diagnostics| messages(diagnostics))
            .unwrap_or_default(),
        duration_ms: outcome.timing.total_ms(),
    }
}

/// The errors, a line each.
fn messages(diagnostics: &[Diagnostic]) -> Vec<String> {
    let errors = diagnostics
        .iter()
        .filter(|diagnostic| diagnostic.is_error());
    errors
        .map(|error| {
            render::short(std::slice::from_ref(error))
                .trim_end()
                .to_owned()
        })
        .collect()
}

/// As much of them as an event may hold (rule E2).
fn first(messages: Vec<String>) -> Vec<String> {
    messages
        .into_iter()
        .take(TOLD_DIAGNOSTICS)
        .map(|message| message.chars().take(LONGEST_MESSAGE).collect())
        .collect()
}
