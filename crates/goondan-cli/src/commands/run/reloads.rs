//! Reloads of a running swarm: `--watch`, SIGHUP, and what is told of them.

use std::sync::Arc;

use goondan::{ReloadOutcome, Swarm, Watch, WatchOptions};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinHandle;

use super::signals::Hangups;
use crate::output::{Output, outcome_words};

/// Watches the project where that is wanted, reloads at SIGHUP, and hears of every reload. Ends when it is dropped.
pub(crate) struct Reloads {
    told: UnboundedReceiver<Arc<ReloadOutcome>>,
    /// The generation that serves.
    serving: u64,
    hangups: JoinHandle<()>,
    _watch: Option<Watch>,
}

impl Reloads {
    /// From now on.
    pub(crate) fn begin(swarm: &Swarm, watch: bool, hangups: Hangups) -> Self {
        Reloads {
            told: swarm.reloads(),
            serving: swarm.generation(),
            hangups: tokio::spawn(reload_at(hangups, swarm.clone())),
            _watch: watch.then(|| swarm.watch(WatchOptions::default())),
        }
    }

    /// Waits for the next reload, and puts it in words for people.
    pub(crate) async fn next(&mut self) -> String {
        let Some(outcome) = self.told.recv().await else { return std::future::pending().await };
        if let Ok(generation) = outcome.result {
            self.serving = generation;
        }
        outcome_words(&outcome, self.serving, Output::stderr_has_colour())
    }
}

impl Drop for Reloads {
    fn drop(&mut self) {
        self.hangups.abort();
    }
}

async fn reload_at(mut hangups: Hangups, swarm: Swarm) {
    loop {
        hangups.next().await;
        // What comes of it is told to everybody who listens.
        drop(swarm.reload().await);
    }
}
