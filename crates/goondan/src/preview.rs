//! What a reload would change, without changing anything.

use std::io;

use goondan_engine::plan::plan;
use goondan_spec::{Code, Diagnostic, OsFiles, ReloadPlan, Snapshot, diff};

use crate::builder::SwarmBuilder;
use crate::contents::Contents;
use crate::generation::LastGeneration;
use crate::reload::plan_swarm;
use crate::secrets;
use crate::workspace::{StateRoot, Workspace};

/// A bundle beside what runs, or ran last, in its swarm's workspace.
#[derive(Debug, Clone)]
pub struct Preview {
    /// Where the swarm keeps its state.
    pub workspace: Workspace,
    /// What it is compared with.
    pub last: LastGeneration,
    /// What would change. The values of variables and secrets written into the YAML are not compared: nobody writes them down.
    pub plan: ReloadPlan,
}

/// Why there is nothing to show.
#[derive(Debug, thiserror::Error)]
pub enum PreviewError {
    /// A reload would be refused for this.
    #[error("{} problem(s) would keep the swarm from reloading", .0.len())]
    Diagnostics(Vec<Diagnostic>),
    /// Nothing ever ran in the workspace.
    #[error("nothing ran in the workspace {} yet", .0.dir.display())]
    NothingRan(Workspace),
    /// What was written down can't be compared: another version of the program has written it.
    #[error("the last run was by version {0}, whose notes can't be compared")]
    OtherVersion(String),
    /// What was written down can't be read.
    #[error("the notes of the last run can't be read: {0}")]
    Unreadable(#[from] io::Error),
}

impl SwarmBuilder {
    /// What would keep the swarm from starting once its libraries are loaded: exports that they do not have, and the like. No
    /// model is asked, nothing is written, and variables that are not set are no matter.
    pub async fn open_to_check(self) -> Vec<Diagnostic> {
        let swarm = match self.bundle.choose_swarm(self.swarm.as_deref()) {
            Ok(swarm) => swarm,
            Err(problem) => return vec![problem],
        };
        let environment = match self.variables.read(&OsFiles, self.bundle.root()) {
            Ok(environment) => environment,
            Err(problem) => return vec![problem],
        };
        let root = StateRoot::find(self.state_root.as_deref());
        let tools = self.tool_sources(&root, &environment);
        tools.mcp().keep_quiet();
        let ports = tools.ports(self.models);
        let planned = plan(&self.bundle, swarm, 1, &ports, &environment, None).await;
        let problems = match &planned {
            Ok(generation) => generation.warnings.clone(),
            Err(problems) => problems.clone(),
        };
        drop(planned);
        tools.shutdown().await;
        problems
            .into_iter()
            .filter(|problem| problem.code != Code::ENV_MISSING)
            .collect()
    }

    /// Plans the bundle as a reload would, opening its libraries, and compares it with what runs or ran last. Nothing is
    /// started and nothing is written.
    pub async fn preview(self) -> Result<Preview, PreviewError> {
        let refused = |problem: Diagnostic| PreviewError::Diagnostics(vec![problem]);
        let environment = self
            .variables
            .read(&OsFiles, self.bundle.root())
            .map_err(refused)?;
        let swarm = self
            .bundle
            .choose_swarm(self.swarm.as_deref())
            .map_err(refused)?;
        let root = StateRoot::find(self.state_root.as_deref());
        let workspace = self
            .workspace
            .clone()
            .unwrap_or_else(|| root.workspace_of(&self.bundle, swarm));
        let Some(last) = workspace.last_generation()? else {
            return Err(PreviewError::NothingRan(workspace));
        };
        if !last.is_comparable() {
            return Err(PreviewError::OtherVersion(last.version));
        }
        let environment = secrets::complete(&self.bundle, &swarm.id, environment)
            .await
            .map_err(refused)?;
        let tools = self.tool_sources(&root, &environment);
        tools.mcp().keep_quiet();
        let ports = tools.ports(self.models);
        let planned = plan_swarm(
            &self.bundle,
            swarm,
            last.generation + 1,
            &ports,
            &environment,
            None,
            &self.redactor,
        )
        .await;
        drop(planned.map_err(PreviewError::Diagnostics)?);
        tools.shutdown().await;
        let snapshot = Snapshot::of(
            &self.bundle,
            &swarm.id,
            &Contents::default().of(&self.bundle),
            None,
        );
        let plan = diff(&last.snapshot, &snapshot);
        Ok(Preview {
            workspace,
            last,
            plan,
        })
    }
}
