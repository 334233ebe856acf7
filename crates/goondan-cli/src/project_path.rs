//! Location of a command's project: an explicit path, or the nearest one at or above the current
//! directory, as in git and cargo.

use std::path::{Path, PathBuf};

use clap::Args;

use crate::exit::CliError;
use crate::output::CommandOutput;
use crate::project;

/// Project as a positional argument.
#[derive(Debug, Clone, Args)]
pub(crate) struct ProjectPathArg {
    /// Project directory or its goondan.yaml [default: the current directory, or the nearest one
    /// above with a goondan.yaml]
    #[arg(value_name = "PATH")]
    project: Option<PathBuf>,
}

/// Project as an option, for commands with other arguments.
#[derive(Debug, Clone, Args)]
pub(crate) struct ProjectPathOption {
    /// Project directory or its goondan.yaml [default: the current directory, or the nearest one
    /// above with a goondan.yaml]
    #[arg(short, long, value_name = "PATH")]
    project: Option<PathBuf>,
}

/// Project as a positional argument or an option.
#[derive(Debug, Clone, Args)]
pub(crate) struct ProjectPathArgOrOption {
    #[command(flatten)]
    positional: ProjectPathArg,
    /// The same, as for other commands
    #[arg(
        short = 'p',
        long = "project",
        id = "project_option",
        value_name = "PATH",
        conflicts_with = "project"
    )]
    option: Option<PathBuf>,
}

impl ProjectPathArgOrOption {
    /// Returns the project path, or `None` if there is no project. Prints a note if the project is
    /// found above the current directory.
    pub(crate) fn find_optional(
        &self,
        output: &CommandOutput,
    ) -> Result<Option<PathBuf>, CliError> {
        let given_path = self.option.as_deref().or(self.positional.given_path());
        find_optional_path(given_path, output)
    }
}

impl ProjectPathArg {
    /// Returns the project path. Prints a note if it is found above the current directory.
    pub(crate) fn find(&self, output: &CommandOutput) -> Result<PathBuf, CliError> {
        find_path(self.project.as_deref(), output)
    }

    /// Returns the path that the user gave.
    pub(crate) fn given_path(&self) -> Option<&Path> {
        self.project.as_deref()
    }

    /// Removes and returns the argument if it is an input instead of a path: it contains whitespace
    /// and no file has this name.
    pub(crate) fn take_text(&mut self) -> Option<String> {
        let is_text = |path: &mut PathBuf| {
            let text = path.to_str();
            text.is_some_and(|text| text.contains(char::is_whitespace))
                && std::fs::symlink_metadata(path).is_err()
        };
        let text = self.project.take_if(is_text)?;
        text.into_os_string().into_string().ok()
    }

    /// Returns the path like [`ProjectPathArg::find`], or `None` if there is no project.
    pub(crate) fn find_optional(
        &self,
        output: &CommandOutput,
    ) -> Result<Option<PathBuf>, CliError> {
        find_optional_path(self.project.as_deref(), output)
    }
}

impl ProjectPathOption {
    /// Returns the project path, or `None` if there is no project. Prints a note if the project is
    /// found above the current directory.
    pub(crate) fn find_optional(
        &self,
        output: &CommandOutput,
    ) -> Result<Option<PathBuf>, CliError> {
        find_optional_path(self.project.as_deref(), output)
    }

    /// Returns the path that the user gave.
    pub(crate) fn given_path(&self) -> Option<&Path> {
        self.project.as_deref()
    }

    /// Returns the project path. Prints a note if the project is found above the current directory.
    /// Fails if there is no project.
    pub(crate) fn find(&self, output: &CommandOutput) -> Result<PathBuf, CliError> {
        find_path(self.project.as_deref(), output)
    }
}

/// Returns the given path, or the project around the current directory. Fails if there is none.
fn find_path(given: Option<&Path>, output: &CommandOutput) -> Result<PathBuf, CliError> {
    find_optional_path(given, output)?.ok_or_else(|| {
        if let Some(error) = project::manifest_error(Path::new(".")) {
            return error;
        }
        CliError::configuration(
            "There is no goondan.yaml in this directory or in a parent \
            directory.",
        )
        .suggest("Create a project with `gdn init`, or name the directory of a project.")
    })
}

/// Returns the given path, or the project around the current directory; `None` if there is none.
fn find_optional_path(
    given: Option<&Path>,
    output: &CommandOutput,
) -> Result<Option<PathBuf>, CliError> {
    match given {
        Some(path) => Ok(Some(path.to_owned())),
        None => find_around(output),
    }
}

/// Returns the project around the current directory, if any. Prints a note if it is a parent
/// directory.
pub(crate) fn find_around(output: &CommandOutput) -> Result<Option<PathBuf>, CliError> {
    let current_dir = Path::new(".");
    if goondan::manifest_in(current_dir).is_some() {
        return Ok(Some(current_dir.to_owned()));
    }
    let Some(parent_project) = goondan::around(current_dir) else {
        return Ok(None);
    };
    output.note(&format!(
        "Using the project in {}.",
        parent_project.display()
    ))?;
    Ok(Some(parent_project))
}
