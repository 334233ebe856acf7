//! Builds of tools (`Tool.spec.build`), and the source files that they depend on.
//!
//! A build is a command of the user's own project. It has the permissions and the whole environment
//! of this process.

mod command;
mod sources;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use goondan_spec::build_sources::{self, BuildSourceRule};
use goondan_spec::kinds::ToolBuild;
use goondan_spec::{Bundle, ResourceId};
use tokio_util::sync::CancellationToken;

pub(crate) use self::sources::SourceTree;
use crate::start::project::Project;

/// Tools of a project that declare a build.
#[derive(Debug, Clone)]
pub struct ToolBuilds {
    root: PathBuf,
    tools: Vec<BuildableTool>,
}

/// Tool with its sources.
#[derive(Debug, Clone)]
struct BuildableTool {
    plan: ToolBuild,
    sources: BuildSourceRule,
}

/// Outcome of a build.
#[derive(Debug, Clone)]
pub struct BuildOutcome {
    /// Tool that the build was for.
    pub tool: ResourceId,
    /// Command in readable form.
    pub command: String,
    /// End state of the build.
    pub end: BuildEnd,
    /// Output lines of both streams. The middle of a long output is omitted.
    pub output: String,
    /// Duration of the build.
    pub duration: Duration,
}

/// End state of a build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BuildEnd {
    /// The build succeeded.
    Built,
    /// The command failed with this exit code; `None` if a signal ended it.
    Failed(Option<i32>),
    /// The command could not be started, for the contained reason.
    NotStarted(String),
    /// The build exceeded the contained time limit and was terminated with all its processes.
    TimedOut(Duration),
    /// The build was cancelled and terminated with all its processes.
    Cancelled,
}

impl BuildOutcome {
    /// Returns true if the build succeeded.
    pub fn is_built(&self) -> bool {
        self.end == BuildEnd::Built
    }
}

impl std::fmt::Display for BuildEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            BuildEnd::Built => f.write_str("built"),
            BuildEnd::Failed(Some(code)) => write!(f, "it ended with exit code {code}"),
            BuildEnd::Failed(None) => f.write_str("a signal ended it"),
            BuildEnd::NotStarted(why) => write!(f, "it could not be started: {why}"),
            BuildEnd::TimedOut(limit) => write!(
                f,
                "it took longer than {} ms and was stopped",
                limit.as_millis()
            ),
            BuildEnd::Cancelled => f.write_str("it was cancelled"),
        }
    }
}

impl ToolBuilds {
    /// Returns the builds of a bundle.
    pub fn of_bundle(bundle: &Bundle) -> Self {
        ToolBuilds::new(bundle.root(), bundle.builds())
    }

    /// Returns the builds of a project, including entries that do not exist yet.
    pub fn of_project(project: &Project) -> Self {
        ToolBuilds::new(&project.root, &project.builds)
    }

    /// Returns an empty set of builds for a project.
    pub(crate) fn none_of(project: &Project) -> Self {
        ToolBuilds::new(&project.root, &[])
    }

    /// Creates the builds of the tools in the project at `root`.
    fn new(root: &Path, builds: &[ToolBuild]) -> Self {
        let root = std::path::absolute(root).unwrap_or_else(|_| root.to_owned());
        let buildable = |plan: &ToolBuild| BuildableTool {
            sources: BuildSourceRule::of(&root, plan),
            plan: plan.clone(),
        };
        ToolBuilds {
            tools: builds.iter().map(buildable).collect(),
            root,
        }
    }

    /// Returns the builds in load order.
    pub fn tools(&self) -> impl ExactSizeIterator<Item = &ToolBuild> {
        self.tools.iter().map(|tool| &tool.plan)
    }

    /// Returns the builds with a source among the `changed` files. Paths are absolute or relative
    /// to the project directory.
    pub fn affected_by<P: AsRef<Path>>(
        &self,
        changed: impl IntoIterator<Item = P>,
    ) -> Vec<&ToolBuild> {
        let changed: Vec<PathBuf> = changed
            .into_iter()
            .map(|path| build_sources::join_lexically(&self.root, path.as_ref()))
            .collect();
        let is_affected =
            |tool: &&BuildableTool| changed.iter().any(|path| tool.sources.contains(path));
        self.tools
            .iter()
            .filter(is_affected)
            .map(|tool| &tool.plan)
            .collect()
    }

    /// Returns the directories that contain all sources, absolute and without duplicates. A watch
    /// observes them.
    pub fn source_folders(&self) -> Vec<PathBuf> {
        let mut folders: Vec<PathBuf> = self
            .tools
            .iter()
            .flat_map(|tool| tool.sources.folders())
            .map(Path::to_owned)
            .collect();
        folders.sort();
        folders.dedup();
        folders
    }

    /// Lists the possible source files in these directories at this moment.
    pub(crate) fn source_tree(&self, ignored: &Path) -> SourceTree {
        let mut tree = SourceTree::default();
        for folder in self.source_folders() {
            sources::walk(&folder, ignored, &mut tree);
        }
        tree
    }

    /// Runs one build. `on_line` is called with each output line of both streams.
    pub async fn run(
        &self,
        tool: &ToolBuild,
        cancellation: &CancellationToken,
        on_line: &mut (dyn FnMut(&str) + Send),
    ) -> BuildOutcome {
        let started = Instant::now();
        let (end, output) = command::run(&self.root, &tool.build, cancellation, on_line).await;
        let duration = started.elapsed();
        BuildOutcome {
            tool: tool.tool.clone(),
            command: tool.build.command.to_string(),
            end,
            output,
            duration,
        }
    }
}

#[cfg(test)]
mod tests;
