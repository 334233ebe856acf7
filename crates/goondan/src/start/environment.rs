//! Variables of a swarm (rule L8).

use std::path::{Path, PathBuf};

use goondan_spec::{Diagnostic, Environment, FileAccess};

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
