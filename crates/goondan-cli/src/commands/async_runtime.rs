//! Runtime of asynchronous commands.

use std::future::Future;
use std::time::Duration;

use crate::exit::CliError;

/// Time that tasks get at shutdown to drop their resources.
/// Dropping a tool call kills the command that it started.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(500);

/// Runs an asynchronous command. Tasks that still run afterwards are dropped; state is on disk.
pub(crate) fn block_on<T>(
    command: impl Future<Output = Result<T, CliError>>,
) -> Result<T, CliError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let outcome = runtime.block_on(command);
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
    outcome
}
