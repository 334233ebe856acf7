//! Change detection for the sources of tools, and the builds that it triggers.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Weak;

use goondan_spec::ResourceId;
use goondan_spec::kinds::ToolBuild;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::stamp::PathStamp;
use crate::build::ToolBuilds;
use crate::reload::ReloadNews;
use crate::start::swarm::{Swarm, SwarmInner};

/// Sources of a project's tools, as of the last comparison.
pub(super) struct WatchedToolSources {
    builds: ToolBuilds,
    /// Stamps of the source files at the last comparison.
    files: BTreeMap<PathBuf, PathStamp>,
    /// Directories that contain sources.
    folders: BTreeSet<PathBuf>,
}

impl WatchedToolSources {
    /// Creates the sources with their current state.
    pub(super) fn of(builds: ToolBuilds, ignored: &Path) -> Self {
        let mut sources = WatchedToolSources {
            builds,
            files: BTreeMap::new(),
            folders: BTreeSet::new(),
        };
        sources.changed(ignored);
        sources
    }

    /// Replaces the builds after a reload. Known file stamps stay, because the files may have
    /// changed since.
    pub(super) fn replace_builds(&mut self, builds: ToolBuilds) {
        self.builds = builds;
    }

    /// Returns the builds whose sources are watched.
    pub(super) fn builds(&self) -> &ToolBuilds {
        &self.builds
    }

    /// Returns the directories with sources.
    pub(super) fn folders(&self) -> &BTreeSet<PathBuf> {
        &self.folders
    }

    /// Returns the builds whose sources changed since the last comparison.
    pub(super) fn changed(&mut self, ignored: &Path) -> Vec<ToolBuild> {
        let tree = self.builds.source_tree(ignored);
        let now: BTreeMap<PathBuf, PathStamp> = tree
            .files
            .into_iter()
            .map(|path| (path.clone(), PathStamp::of(&path)))
            .collect();
        let before = std::mem::replace(&mut self.files, now);
        self.folders = tree.folders;
        let differs = |path: &&PathBuf| before.get(*path) != self.files.get(*path);
        let paths: BTreeSet<&PathBuf> = before
            .keys()
            .chain(self.files.keys())
            .filter(differs)
            .collect();
        self.builds
            .affected_by(paths)
            .into_iter()
            .cloned()
            .collect()
    }
}

/// Runs builds sequentially in a background task.
pub(super) struct ToolBuildRunner {
    swarm: Weak<SwarmInner>,
    cancellation: CancellationToken,
    waiting: BTreeMap<ResourceId, ToolBuild>,
    running: Option<JoinHandle<()>>,
}

impl ToolBuildRunner {
    /// Creates a runner that builds until `cancellation`.
    pub(super) fn new(swarm: Weak<SwarmInner>, cancellation: CancellationToken) -> Self {
        ToolBuildRunner {
            swarm,
            cancellation,
            waiting: BTreeMap::new(),
            running: None,
        }
    }

    /// Queues builds. They start after the running ones.
    pub(super) fn enqueue_builds(&mut self, tools: Vec<ToolBuild>, builds: &ToolBuilds) {
        self.waiting
            .extend(tools.into_iter().map(|build| (build.tool.clone(), build)));
        if self.running.is_none() && !self.waiting.is_empty() {
            let tools: Vec<ToolBuild> = std::mem::take(&mut self.waiting).into_values().collect();
            let work = run_builds(
                self.swarm.clone(),
                builds.clone(),
                tools,
                self.cancellation.clone(),
            );
            self.running = Some(tokio::spawn(work));
        }
    }

    /// Waits for running builds after their cancellation.
    pub(super) async fn end(mut self) {
        if let Some(running) = self.running.take() {
            // A panic is already logged.
            let _ = running.await;
        }
    }

    /// Waits until the running builds are done; never returns without one.
    pub(super) async fn done(&mut self) {
        let Some(running) = &mut self.running else {
            return std::future::pending().await;
        };
        if let Err(error) = running.await {
            tracing::error!(%error, "the task that builds tools panicked; this is a bug in gdn");
        }
        self.running = None;
    }
}

/// Runs the builds one after the other, and notifies the subscribers of the swarm.
async fn run_builds(
    swarm: Weak<SwarmInner>,
    builds: ToolBuilds,
    tools: Vec<ToolBuild>,
    cancellation: CancellationToken,
) {
    for tool in tools {
        if cancellation.is_cancelled() {
            return;
        }
        let notify = |event| {
            if let Some(swarm) = swarm.upgrade() {
                Swarm::of(swarm).publish_reload_news(event);
            }
        };
        notify(ReloadNews::Building {
            tool: tool.tool.clone(),
            command: tool.build.command.to_string(),
        });
        let outcome = builds.run(&tool, &cancellation, &mut |_| {}).await;
        notify(ReloadNews::Built(outcome.into()));
    }
}
