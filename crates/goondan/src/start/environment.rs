//! Variables of a swarm (rule L8).

use std::path::{Path, PathBuf};

use goondan_spec::{Bundle, Diagnostic, Environment, FileAccess};

use super::project::environment;
use super::secrets;

/// Returns the variables and secrets of a project, for commands without a running swarm. An untrusted
/// project gets only the variables of this process.
///
/// # Errors
/// An environment file or a source of secrets is unusable.
pub async fn project_variables(
    bundle: &Bundle,
    env_file: Option<&Path>,
    is_trusted: bool,
) -> Result<Environment, Diagnostic> {
    if !is_trusted {
        return Ok(Environment::of_process());
    }
    let variables = environment(bundle.root(), env_file)?;
    match bundle.choose_swarm(None) {
        Ok(swarm) => secrets::complete(bundle, &swarm.id, variables).await,
        Err(_) => Ok(variables),
    }
}

/// Source of the variables.
pub(crate) enum VariableSource {
    /// Fixed variables from the caller.
    Given(Environment),
    /// Process environment and the environment files of the project. Each reload reads them again.
    OfProject {
        /// Additional file with precedence over the others.
        env_file: Option<PathBuf>,
    },
}

impl VariableSource {
    /// Returns the current variables.
    pub(crate) fn read(
        &self,
        files: &dyn FileAccess,
        root: &Path,
    ) -> Result<Environment, Diagnostic> {
        match self {
            VariableSource::Given(environment) => Ok(environment.clone()),
            VariableSource::OfProject { env_file } => goondan_spec::env_files::read_env_files(
                files,
                root,
                env_file.as_deref(),
                Environment::of_process(),
            ),
        }
    }
}
