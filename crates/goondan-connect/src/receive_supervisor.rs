//! Keeps a connection receiving: failures are retried with back-off and do not affect other
//! connections.

use std::sync::Arc;
use std::time::Duration;

use crate::connection_runtime::ConnectionRuntime;
use crate::status::{ConnectionState, ConnectionStatus};

/// First wait after a failure. It doubles after each further failure.
const FIRST_RESTART_WAIT: Duration = Duration::from_secs(1);
const MAX_RESTART_WAIT: Duration = Duration::from_secs(60);
/// Time without a failure after which the next wait is the first one again.
const BACKOFF_RESET_TIME: chrono::TimeDelta = chrono::TimeDelta::seconds(120);

/// Receives events until it is dropped or the platform ends.
pub(crate) async fn receive(runtime: Arc<ConnectionRuntime>) {
    let mut wait = FIRST_RESTART_WAIT;
    loop {
        write_connection_status(&runtime, ConnectionState::Running, None);
        let began = runtime.now();
        // A separate task turns a panic into an ordinary failure.
        let mut receiving = AbortOnDrop(tokio::spawn(receive_once(Arc::clone(&runtime))));
        let reason = match (&mut receiving.0).await {
            Ok(Err(reason)) => reason,
            Ok(Ok(())) => {
                tracing::info!(connection = runtime.bound.name, "a connection ended");
                return write_connection_status(
                    &runtime,
                    ConnectionState::Stopped,
                    Some("The connection ended.".to_owned()),
                );
            }
            Err(panic) => format!("internal error in gdn: {panic}"),
        };
        if runtime.now() - began > BACKOFF_RESET_TIME {
            wait = FIRST_RESTART_WAIT;
        }
        tracing::warn!(
            connection = runtime.bound.name,
            "a connection failed; restarting in {wait:?}: {reason}"
        );
        write_connection_status(&runtime, ConnectionState::Failing, Some(reason));
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(MAX_RESTART_WAIT);
    }
}

/// Receives events until the platform connection ends.
async fn receive_once(runtime: Arc<ConnectionRuntime>) -> Result<(), String> {
    let platform = Arc::clone(&runtime.platform);
    platform.receive(&runtime).await
}

/// Writes the status file of the connection.
pub(crate) fn write_connection_status(
    runtime: &ConnectionRuntime,
    state: ConnectionState,
    why: Option<String>,
) {
    ConnectionStatus {
        state,
        since: runtime.now(),
        why,
    }
    .write(&runtime.folder);
}

/// A task that is aborted when this is dropped.
pub(crate) struct AbortOnDrop<T>(pub(crate) tokio::task::JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
