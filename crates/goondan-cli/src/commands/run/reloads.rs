//! Reloads of a running swarm: `--watch`, SIGHUP, and what is told of them.

use goondan::inside::shown;
use goondan::{BuildEnd, ReloadNews, Swarm, Watch, WatchOptions};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinHandle;

use super::signals::Hangups;
use crate::output::{Output, build_words, outcome_words};

/// Watches the project where that is wanted, reloads at SIGHUP, and hears of every reload. Ends when it is dropped.
pub(crate) struct Reloads {
    news: UnboundedReceiver<ReloadNews>,
    /// The generation that serves.
    serving: u64,
    hangups: JoinHandle<()>,
    watch: Option<Watch>,
}

impl Reloads {
    /// From now on.
    pub(crate) fn begin(swarm: &Swarm, watch: bool, hangups: Hangups) -> Self {
        Reloads {
            news: swarm.reload_news(),
            serving: swarm.generation(),
            hangups: tokio::spawn(reload_at(hangups, swarm.clone())),
            watch: watch.then(|| swarm.watch(WatchOptions::default())),
        }
    }

    /// Waits for the next thing to tell people, and puts it in words.
    pub(crate) async fn next(&mut self) -> String {
        loop {
            let Some(news) = self.news.recv().await else {
                return std::future::pending().await;
            };
            match news {
                ReloadNews::Building { tool, command } => {
                    return format!("Building {}: {}", shown::line(tool), shown::line(command));
                }
                ReloadNews::Built(outcome)
                    if outcome.is_built() || outcome.end == BuildEnd::Cancelled => {}
                ReloadNews::Built(outcome) => return build_words(&outcome, self.serving),
                ReloadNews::Reloaded(outcome) => {
                    self.serving = outcome.result.as_ref().copied().unwrap_or(self.serving);
                    return outcome_words(&outcome, self.serving, Output::stderr_has_colour());
                }
            }
        }
    }

    /// Ends the watch, with a build that runs.
    pub(crate) async fn end(&mut self) {
        if let Some(watch) = self.watch.take() {
            watch.end().await;
        }
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
