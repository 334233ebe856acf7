//! Makes the entries of tools that say how (`Tool.spec.build`), and knows which files they are made from.
//!
//! A build is a command of the user's own project: it has the rights and the whole environment of this process.

mod command;
mod sources;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use goondan_spec::kinds::ToolBuild;
use goondan_spec::{Bundle, ResourceId};
use tokio_util::sync::CancellationToken;

pub(crate) use self::sources::SourceTree;
use self::sources::Sources;
use crate::project::Project;

/// The tools of a project that say how they are built.
#[derive(Debug, Clone)]
pub struct Builds {
    root: PathBuf,
    tools: Vec<Buildable>,
}

/// A tool with what it is made from.
#[derive(Debug, Clone)]
struct Buildable {
    plan: ToolBuild,
    sources: Sources,
}

/// What came of building a tool.
#[derive(Debug, Clone)]
pub struct BuildOutcome {
    /// Whose entry was to be made.
    pub tool: ResourceId,
    /// The command, as a person reads it.
    pub command: String,
    /// How it ended.
    pub end: BuildEnd,
    /// What it printed on both streams, line by line; the middle is left out where it was long.
    pub output: String,
    /// How long it took.
    pub duration: Duration,
}

/// How a build ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BuildEnd {
    /// With success.
    Built,
    /// With another exit code than 0, or none where a signal ended it.
    Failed(Option<i32>),
    /// It could not be started; the sentence says why.
    NotStarted(String),
    /// It took longer than it may, so it was ended with all that it had started.
    TimedOut(Duration),
    /// It was cancelled and ended with all that it had started.
    Cancelled,
}

impl BuildOutcome {
    /// Whether the entry is made.
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
                "it took longer than {} ms and was ended",
                limit.as_millis()
            ),
            BuildEnd::Cancelled => f.write_str("it was cancelled"),
        }
    }
}

impl Builds {
    /// Those of a bundle.
    pub fn of_bundle(bundle: &Bundle) -> Self {
        Builds::new(bundle.root(), bundle.builds())
    }

    /// Those of a project, whether its entries are there already or not.
    pub fn of_project(project: &Project) -> Self {
        Builds::new(&project.root, &project.builds)
    }

    /// None, of a project whose tools are not to be built.
    pub(crate) fn none_of(project: &Project) -> Self {
        Builds::new(&project.root, &[])
    }

    fn new(root: &Path, builds: &[ToolBuild]) -> Self {
        let root = std::path::absolute(root).unwrap_or_else(|_| root.to_owned());
        let buildable = |plan: &ToolBuild| Buildable {
            sources: Sources::of(&root, plan),
            plan: plan.clone(),
        };
        Builds {
            tools: builds.iter().map(buildable).collect(),
            root,
        }
    }

    /// The tools, in load order.
    pub fn tools(&self) -> impl ExactSizeIterator<Item = &ToolBuild> {
        self.tools.iter().map(|tool| &tool.plan)
    }

    /// The tools that one of the `changed` files is a source of. Paths are absolute, or relative to the project's folder.
    pub fn affected_by<P: AsRef<Path>>(
        &self,
        changed: impl IntoIterator<Item = P>,
    ) -> Vec<&ToolBuild> {
        let changed: Vec<PathBuf> = changed
            .into_iter()
            .map(|path| sources::plain(&self.root, path.as_ref()))
            .collect();
        let touched = |tool: &&Buildable| changed.iter().any(|path| tool.sources.contain(path));
        self.tools
            .iter()
            .filter(touched)
            .map(|tool| &tool.plan)
            .collect()
    }

    /// The folders (absolute, without repetitions) below which all sources lie: what a watcher looks at.
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

    /// Everything below those folders that may be a source, as it is now.
    pub(crate) fn source_tree(&self, ignored: &Path) -> SourceTree {
        let mut tree = SourceTree::default();
        for folder in self.source_folders() {
            sources::walk(&folder, ignored, &mut tree);
        }
        tree
    }

    /// Runs one build. `heard` gets each line of its output, of either stream, as it is printed.
    pub async fn run(
        &self,
        tool: &ToolBuild,
        cancellation: &CancellationToken,
        heard: &mut (dyn FnMut(&str) + Send),
    ) -> BuildOutcome {
        let started = Instant::now();
        let (end, output) = command::run(&self.root, &tool.build, cancellation, heard).await;
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
