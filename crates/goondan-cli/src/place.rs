//! Where the project of a command is: where it is told, else around this folder, as git and cargo find theirs.

use std::path::{Path, PathBuf};

use clap::Args;

use crate::exit::CliError;
use crate::output::Output;
use crate::project;

/// The project as the argument of a command.
#[derive(Debug, Clone, Args)]
pub(crate) struct ProjectPath {
    /// The project folder, or its goondan.yaml [default: this folder, or the nearest one above with a goondan.yaml]
    #[arg(value_name = "PATH")]
    project: Option<PathBuf>,
}

/// The project as an option, of a command that has other arguments.
#[derive(Debug, Clone, Args)]
pub(crate) struct ProjectOption {
    /// The project folder, or its goondan.yaml [default: this folder, or the nearest one above with a goondan.yaml]
    #[arg(short, long, value_name = "PATH")]
    project: Option<PathBuf>,
}

impl ProjectPath {
    /// Where it is; says so where nobody named it and it is not this folder.
    pub(crate) fn find(&self, output: &Output) -> Result<PathBuf, CliError> {
        find(self.project.as_deref(), output)
    }

    /// What was written, where something was.
    pub(crate) fn given(&self) -> Option<&Path> {
        self.project.as_deref()
    }

    /// As [`ProjectPath::find`]; none where there is none.
    pub(crate) fn known(&self, output: &Output) -> Result<Option<PathBuf>, CliError> {
        known(self.project.as_deref(), output)
    }
}

impl ProjectOption {
    /// As [`ProjectPath::known`].
    pub(crate) fn known(&self, output: &Output) -> Result<Option<PathBuf>, CliError> {
        known(self.project.as_deref(), output)
    }

    /// As [`ProjectPath::given`].
    pub(crate) fn given(&self) -> Option<&Path> {
        self.project.as_deref()
    }

    /// As [`ProjectPath::find`].
    pub(crate) fn find(&self, output: &Output) -> Result<PathBuf, CliError> {
        find(self.project.as_deref(), output)
    }
}

fn find(given: Option<&Path>, output: &Output) -> Result<PathBuf, CliError> {
    known(given, output)?.ok_or_else(|| {
        if let Some(error) = project::odd_manifest(Path::new(".")) {
            return error;
        }
        CliError::configuration("There is no goondan.yaml in this folder, nor in one above it.")
            .suggest("Create a project with `gdn init`, or name the folder that holds one.")
    })
}

fn known(given: Option<&Path>, output: &Output) -> Result<Option<PathBuf>, CliError> {
    match given {
        Some(path) => Ok(Some(path.to_owned())),
        None => around(output),
    }
}

/// The project that this folder lies in, which is told where it is one above; none where there is none.
pub(crate) fn around(output: &Output) -> Result<Option<PathBuf>, CliError> {
    let here = Path::new(".");
    if goondan::manifest_in(here).is_some() {
        return Ok(Some(here.to_owned()));
    }
    let Some(above) = goondan::around(here) else {
        return Ok(None);
    };
    output.note(&format!("Using the project in {}.", above.display()))?;
    Ok(Some(above))
}
