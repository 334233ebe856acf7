//! Sources of tools that say how they are built: which have changed, and the builds that this asks for.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Weak;

use goondan_spec::ResourceId;
use goondan_spec::kinds::ToolBuild;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::stamp::Stamp;
use crate::build::Builds;
use crate::reload::ReloadNews;
use crate::swarm::{Inner, Swarm};

/// The sources of a project's tools, as they looked when they were last looked at.
pub(super) struct ToolSources {
    builds: Builds,
    files: BTreeMap<PathBuf, Stamp>,
    folders: BTreeSet<PathBuf>,
}

impl ToolSources {
    /// As they look now.
    pub(super) fn of(builds: Builds, ignored: &Path) -> Self {
        let mut sources = ToolSources {
            builds,
            files: BTreeMap::new(),
            folders: BTreeSet::new(),
        };
        sources.changed(ignored);
        sources
    }

    /// The builds of a project that was read again. Files that were known are not forgotten: they may have changed meanwhile.
    pub(super) fn take_over(&mut self, builds: Builds) {
        self.builds = builds;
    }

    /// What builds them.
    pub(super) fn builds(&self) -> &Builds {
        &self.builds
    }

    /// The folders that they lie in.
    pub(super) fn folders(&self) -> &BTreeSet<PathBuf> {
        &self.folders
    }

    /// The builds whose sources look different from the last look.
    pub(super) fn changed(&mut self, ignored: &Path) -> Vec<ToolBuild> {
        let tree = self.builds.source_tree(ignored);
        let now: BTreeMap<PathBuf, Stamp> = tree
            .files
            .into_iter()
            .map(|path| (path.clone(), Stamp::of(&path)))
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

/// Runs builds one after another, beside everything else.
pub(super) struct Builder {
    swarm: Weak<Inner>,
    cancellation: CancellationToken,
    waiting: BTreeMap<ResourceId, ToolBuild>,
    running: Option<JoinHandle<()>>,
}

impl Builder {
    /// Builds until `cancellation`.
    pub(super) fn new(swarm: Weak<Inner>, cancellation: CancellationToken) -> Self {
        Builder {
            swarm,
            cancellation,
            waiting: BTreeMap::new(),
            running: None,
        }
    }

    /// Runs these builds, as soon as those that run are done.
    pub(super) fn want(&mut self, tools: Vec<ToolBuild>, builds: &Builds) {
        self.waiting
            .extend(tools.into_iter().map(|build| (build.tool.clone(), build)));
        if self.running.is_none() && !self.waiting.is_empty() {
            let tools: Vec<ToolBuild> = std::mem::take(&mut self.waiting).into_values().collect();
            let work = run(
                self.swarm.clone(),
                builds.clone(),
                tools,
                self.cancellation.clone(),
            );
            self.running = Some(tokio::spawn(work));
        }
    }

    /// Waits until the builds that run have ended, after they were cancelled.
    pub(super) async fn end(mut self) {
        if let Some(running) = self.running.take() {
            // What a panic was about was told.
            let _ = running.await;
        }
    }

    /// Waits until the builds that run are done; forever where none do.
    pub(super) async fn done(&mut self) {
        let Some(running) = &mut self.running else {
            return std::future::pending().await;
        };
        if let Err(error) = running.await {
            tracing::error!(%error, "building failed; this is a fault of the program");
        }
        self.running = None;
    }
}

async fn run(
    swarm: Weak<Inner>,
    builds: Builds,
    tools: Vec<ToolBuild>,
    cancellation: CancellationToken,
) {
    for tool in tools {
        if cancellation.is_cancelled() {
            return;
        }
        let tell = |news| {
            if let Some(swarm) = swarm.upgrade() {
                Swarm::of(swarm).tell(news);
            }
        };
        tell(ReloadNews::Building {
            tool: tool.tool.clone(),
            command: tool.build.command.to_string(),
        });
        let outcome = builds.run(&tool, &cancellation, &mut |_| {}).await;
        tell(ReloadNews::Built(outcome.into()));
    }
}
