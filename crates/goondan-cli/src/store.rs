//! `--store`: the database that several nodes share.

use clap::Args;
use goondan::database::{Database, OpenError};
use goondan::ports::store::StoreError;
use goondan::spec::Code;

use crate::exit::CliError;

/// Which database; the same words in every command that can use one.
#[derive(Debug, Clone, Args)]
pub(crate) struct StoreArgs {
    /// Keep conversations in this PostgreSQL database, postgres://USER@HOST/NAME, instead of in files
    // It is read here and not by clap, whose errors would show a password.
    #[arg(
        long,
        value_name = "URL",
        env = "GOONDAN_STORE",
        hide_env_values = true
    )]
    store: Option<String>,
}

impl StoreArgs {
    /// Whether there is one.
    pub(crate) fn is_given(&self) -> bool {
        self.store
            .as_ref()
            .is_some_and(|address| !address.is_empty())
    }

    /// The database; `None` where conversations are kept in files.
    pub(crate) fn database(&self) -> Result<Option<Database>, CliError> {
        let Some(address) = self.store.as_deref().filter(|address| !address.is_empty()) else {
            return Ok(None);
        };
        let database = address
            .parse()
            .map_err(|error| unusable(&OpenError::from(error)))?;
        Ok(Some(database))
    }

    /// The database, which must be given.
    pub(crate) fn required(&self) -> Result<Database, CliError> {
        self.database()?.ok_or_else(|| {
            CliError::usage("No database is named.")
                .suggest("Add `--store postgres://…`, or set GOONDAN_STORE.")
        })
    }
}

/// The error of a database that can't be used.
pub(crate) fn unusable(error: &OpenError) -> CliError {
    let error = goondan::StartError::from(error.clone());
    CliError {
        suggestion: error.suggestion(),
        ..CliError::failure(error.code(), error.to_string())
    }
}

/// The error of a call that the database has failed.
pub(crate) fn failed(error: &StoreError) -> CliError {
    CliError::failure(
        Code::DATABASE_ERROR,
        format!("The database can't be read: {error}."),
    )
}

/// The error of a command whose workspace another node works in by now.
pub(crate) fn taken_over() -> CliError {
    CliError::failure(
        Code::WORKSPACE_TAKEN,
        "Another node has taken over the workspace: this one has lost it.",
    )
    .suggest("Start it again: `gdn serve --store` then works for the other node.")
}
