//! Reload notifications for subscribers, the event stream and other processes.

use std::sync::{Arc, Mutex, PoisonError};

use goondan_core::event::RuntimeEventKind;
use goondan_spec::{Diagnostic, ResourceId, render};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::ReloadOutcome;
use crate::build::{BuildEnd, BuildOutcome};
use crate::start::swarm::Swarm;
use crate::workspace::running_record::LastReload;

/// Maximum number of diagnostics in the event of a failed reload.
const MAX_EVENT_DIAGNOSTICS: usize = 5;
/// Maximum length of each diagnostic in the event, in characters.
const MAX_EVENT_MESSAGE_CHARS: usize = 500;
/// Number of final output lines in the event of a failed build.
const MAX_EVENT_OUTPUT_LINES: usize = 5;

/// Reload or build of a running swarm's project.
#[derive(Debug, Clone)]
pub enum ReloadNews {
    /// Sources of a tool changed, and its build started.
    Building {
        /// Tool that is built.
        tool: ResourceId,
        /// Command in readable form.
        command: String,
    },
    /// A build ended. After a success, the swarm reloads if the library changed. After a failure,
    /// the old library stays in use.
    Built(Arc<BuildOutcome>),
    /// A reload ended.
    Reloaded(Arc<ReloadOutcome>),
}

/// Subscribers of reload notifications.
#[derive(Default)]
pub(crate) struct ReloadListeners(Mutex<Vec<UnboundedSender<ReloadNews>>>);

impl Swarm {
    /// Subscribes to all reloads and to the builds of a [`Swarm::watch`]. A reload caused by a
    /// changed file is omitted if nothing differs, unless the previous reload failed.
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

    /// Notifies all subscribers. A failed build is also published as an event.
    pub(crate) fn publish_reload_news(&self, event: ReloadNews) {
        let inner = self.inner();
        match &event {
            ReloadNews::Reloaded(outcome) => inner.runtime.announce(reload_event(outcome)),
            ReloadNews::Built(outcome)
                if !outcome.is_built() && outcome.end != BuildEnd::Cancelled =>
            {
                inner.runtime.announce(build_failed_event(outcome));
            }
            ReloadNews::Built(_) | ReloadNews::Building { .. } => {}
        }
        let mut listeners = inner
            .reload_listeners
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        listeners.retain(|listener| listener.send(event.clone()).is_ok());
    }
}

/// Returns the event of an ended reload.
fn reload_event(outcome: &ReloadOutcome) -> RuntimeEventKind {
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
                messages: truncated_messages(messages),
                duration,
            }
        }
    }
}

/// Returns the event of a failed build, with the last lines of its output.
fn build_failed_event(outcome: &BuildOutcome) -> RuntimeEventKind {
    let lines: Vec<&str> = outcome.output.lines().collect();
    let end = lines[lines.len().saturating_sub(MAX_EVENT_OUTPUT_LINES)..].join("\n");
    let message = format!(
        "the build of {} failed: {}\n{end}",
        outcome.tool, outcome.end
    );
    let duration = u64::try_from(outcome.duration.as_millis()).unwrap_or(u64::MAX);
    RuntimeEventKind::ReloadFailed {
        diagnostics: 1,
        messages: truncated_messages(vec![message]),
        duration,
    }
}

/// Returns the record of a reload for other processes.
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

/// Formats the errors, one line each.
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

/// Truncates messages to the size limits of an event (rule E2).
fn truncated_messages(messages: Vec<String>) -> Vec<String> {
    messages
        .into_iter()
        .take(MAX_EVENT_DIAGNOSTICS)
        .map(|message| message.chars().take(MAX_EVENT_MESSAGE_CHARS).collect())
        .collect()
}
