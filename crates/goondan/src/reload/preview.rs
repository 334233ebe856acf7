//! Preview of a reload, without side effects.

use std::io;

use goondan_engine::plan::plan;
use goondan_spec::{BundleSnapshot, Code, Diagnostic, OsFiles, ReloadPlan, diff};

use crate::reload::file_fingerprints::FingerprintCache;
use crate::reload::plan_swarm;
use crate::start::builder::SwarmBuilder;
use crate::start::package_copies::copy_packages;
use crate::start::secrets;
use crate::workspace::running_record::LastGeneration;
use crate::workspace::{StateRoot, Workspace};

/// Comparison of a bundle with the current or last generation in its workspace.
#[derive(Debug, Clone)]
pub struct ReloadPreview {
    /// Workspace of the swarm.
    pub workspace: Workspace,
    /// Generation that the bundle is compared with.
    pub last: LastGeneration,
    /// Changes. Values of variables, and secrets in the YAML, are not compared, because they are
    /// not stored.
    pub plan: ReloadPlan,
}

/// Reason why there is no preview.
#[derive(Debug, thiserror::Error)]
pub enum PreviewError {
    /// A reload would fail with these errors.
    #[error("{} error(s) would prevent the reload", .0.len())]
    Diagnostics(Vec<Diagnostic>),
    /// No swarm has run in the workspace.
    #[error("no swarm has run in the workspace {} yet", .0.dir.display())]
    NothingRan(Workspace),
    /// Another version of the program wrote the record, so it is not comparable.
    #[error("the last run used gdn {0}, and its record can't be compared")]
    OtherVersion(String),
    /// The record cannot be read.
    #[error("the record of the last run can't be read: {0}")]
    Unreadable(#[from] io::Error),
}

impl SwarmBuilder {
    /// Returns problems that prevent a start and are only found by loading the libraries, such as
    /// missing exports. Calls no model and writes nothing. Ignores unset variables.
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
        if let Err(problem) = copy_packages(&self.bundle, &root).await {
            return vec![problem];
        }
        let tools = self.tool_sources(&root, &environment);
        tools.mcp().keep_quiet();
        let ports = tools.ports(self.models);
        let plan_result = plan(&self.bundle, swarm, 1, &ports, &environment, None).await;
        let problems = match &plan_result {
            Ok(generation) => generation.warnings.clone(),
            Err(problems) => problems.clone(),
        };
        drop(plan_result);
        tools.shutdown().await;
        problems
            .into_iter()
            .filter(|problem| problem.code != Code::ENV_MISSING)
            .collect()
    }

    /// Plans the bundle like a reload, including its libraries, and compares it with the current or
    /// last generation. Starts and writes nothing.
    pub async fn preview(self) -> Result<ReloadPreview, PreviewError> {
        let to_error = |problem: Diagnostic| PreviewError::Diagnostics(vec![problem]);
        let environment = self
            .variables
            .read(&OsFiles, self.bundle.root())
            .map_err(to_error)?;
        let swarm = self
            .bundle
            .choose_swarm(self.swarm.as_deref())
            .map_err(to_error)?;
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
            .map_err(to_error)?;
        copy_packages(&self.bundle, &root).await.map_err(to_error)?;
        let tools = self.tool_sources(&root, &environment);
        tools.mcp().keep_quiet();
        let ports = tools.ports(self.models);
        let plan_result = plan_swarm(
            &self.bundle,
            swarm,
            last.generation + 1,
            &ports,
            &environment,
            None,
            &self.redactor,
        )
        .await;
        drop(plan_result.map_err(PreviewError::Diagnostics)?);
        tools.shutdown().await;
        let snapshot = BundleSnapshot::of(
            &self.bundle,
            &swarm.id,
            &FingerprintCache::default().of(&self.bundle),
            None,
        );
        let plan = diff(&last.snapshot, &snapshot);
        Ok(ReloadPreview {
            workspace,
            last,
            plan,
        })
    }
}
