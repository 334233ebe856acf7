//! `--store`: the database that several nodes share.

use clap::{Arg, Args};
use goondan::ports::store::StoreError;
use goondan::spec::Code;
use goondan::workspace::database::{PostgresOpenError, SharedDatabase};

use crate::exit::CliError;

/// Database option, shared by all commands that can use a database.
#[derive(Debug, Clone, Args)]
pub(crate) struct StoreArgs {
    /// Store conversations in this PostgreSQL database (postgres://USER@HOST/NAME) instead of the
    /// local state directory
    // Parsed here and not by clap, whose errors would show a password.
    #[arg(
        long,
        value_name = "URL",
        env = "GOONDAN_STORE",
        hide_env_values = true
    )]
    store: Option<String>,
}

/// Returns a change of the `--store` help for commands that start no swarm. `verb` is what they do
/// with the database, such as `Read from`.
pub(crate) fn help(verb: &str) -> impl FnOnce(Arg) -> Arg {
    let text = format!(
        "{verb} this PostgreSQL database (postgres://USER@HOST/NAME) instead of the local state \
        directory"
    );
    move |arg| arg.help(text)
}

impl StoreArgs {
    /// Returns true if a database is named.
    pub(crate) fn is_given(&self) -> bool {
        self.store
            .as_ref()
            .is_some_and(|address| !address.is_empty())
    }

    /// Returns the database, or `None` if conversations are kept in files.
    pub(crate) fn database(&self) -> Result<Option<SharedDatabase>, CliError> {
        let Some(address) = self.store.as_deref().filter(|address| !address.is_empty()) else {
            return Ok(None);
        };
        let database = address
            .parse()
            .map_err(|error| unusable_error(&PostgresOpenError::from(error)))?;
        Ok(Some(database))
    }

    /// Returns the database. Fails if none is named.
    pub(crate) fn required(&self) -> Result<SharedDatabase, CliError> {
        self.database()?.ok_or_else(|| {
            CliError::usage("No database is set.")
                .suggest("Add `--store postgres://…`, or set GOONDAN_STORE.")
        })
    }
}

/// Returns the error for a database that cannot be opened, with the code and the suggestion of a
/// swarm that cannot start for this reason.
pub(crate) fn unusable_error(error: &PostgresOpenError) -> CliError {
    let start_error = goondan::StartError::from(error.clone());
    CliError {
        suggestion: start_error.suggestion(),
        ..CliError::failure(start_error.code(), start_error.to_string())
    }
}

/// Returns the error for a failed database call.
pub(crate) fn read_error(error: &StoreError) -> CliError {
    CliError::failure(
        Code::DATABASE_ERROR,
        format!("The database can't be read: {error}."),
    )
}

/// Returns the error for a workspace that another node has taken over.
pub(crate) fn taken_over_error() -> CliError {
    CliError::failure(
        Code::WORKSPACE_TAKEN,
        "This node lost the workspace: another node has taken over.",
    )
    .suggest(
        "Start the node again with `gdn serve --store`; it then works as a worker or on \
        standby.",
    )
}
