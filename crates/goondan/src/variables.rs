//! Where the variables of a swarm come from (rule L8).

use std::path::{Path, PathBuf};

use goondan_spec::{Diagnostic, Environment, Files};

/// Where they come from.
pub(crate) enum Variables {
    /// From whoever started the swarm. They stay as they are.
    Given(Environment),
    /// From the process and the environment files of the project, read anew by each reload.
    OfProject {
        /// Read before the others.
        env_file: Option<PathBuf>,
    },
}

impl Variables {
    /// All of them as they are now.
    pub(crate) fn read(&self, files: &dyn Files, root: &Path) -> Result<Environment, Diagnostic> {
        match self {
            Variables::Given(environment) => Ok(environment.clone()),
            Variables::OfProject { env_file } => goondan_spec::env_files::read_env_files(
                files,
                root,
                env_file.as_deref(),
                Environment::of_process(),
            ),
        }
    }
}
