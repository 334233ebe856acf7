//! Reloads of a running swarm through `--watch` and SIGHUP, and notices about them.

use goondan::internal::untrusted_text;
use goondan::{BuildEnd, ProjectWatch, ReloadNews, Swarm, WatchOptions};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinHandle;

use super::signals::HangupSignals;
use crate::output::{CommandOutput, build_words, outcome_words};

/// Reloads at SIGHUP, watches the project if requested, and collects notices until dropped.
pub(crate) struct ReloadNotices {
    news: UnboundedReceiver<ReloadNews>,
    /// Current generation.
    serving: u64,
    hangups: JoinHandle<()>,
    watch: Option<ProjectWatch>,
}

impl ReloadNotices {
    /// Starts to collect notices, and to watch the project if `watch` is set.
    pub(crate) fn begin(swarm: &Swarm, watch: bool, hangups: HangupSignals) -> Self {
        ReloadNotices {
            news: swarm.reload_news(),
            serving: swarm.generation(),
            hangups: tokio::spawn(reload_at_hangups(hangups, swarm.clone())),
            watch: watch.then(|| swarm.watch(WatchOptions::default())),
        }
    }

    /// Waits for the next notice and returns it as text.
    pub(crate) async fn next(&mut self) -> String {
        loop {
            let Some(event) = self.news.recv().await else {
                return std::future::pending().await;
            };
            match event {
                ReloadNews::Building { tool, command } => {
                    return format!(
                        "Building {}: {}",
                        untrusted_text::line(tool),
                        untrusted_text::line(command)
                    );
                }
                ReloadNews::Built(outcome)
                    if outcome.is_built() || outcome.end == BuildEnd::Cancelled => {}
                ReloadNews::Built(outcome) => return build_words(&outcome, self.serving),
                ReloadNews::Reloaded(outcome) => {
                    self.serving = outcome.result.as_ref().copied().unwrap_or(self.serving);
                    return outcome_words(
                        &outcome,
                        self.serving,
                        CommandOutput::stderr_has_colour(),
                    );
                }
            }
        }
    }

    /// Stops watching, and a build that runs.
    pub(crate) async fn end(&mut self) {
        if let Some(watch) = self.watch.take() {
            watch.end().await;
        }
    }
}

impl Drop for ReloadNotices {
    fn drop(&mut self) {
        self.hangups.abort();
    }
}

/// Reloads the swarm at each SIGHUP, forever.
async fn reload_at_hangups(mut hangups: HangupSignals, swarm: Swarm) {
    loop {
        hangups.next().await;
        // Subscribers receive the outcome.
        drop(swarm.reload().await);
    }
}
