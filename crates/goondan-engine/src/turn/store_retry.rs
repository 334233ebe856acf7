//! Waits for a store that is unavailable. An outage is not the result of a call, so the call
//! waits.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use goondan_core::ids::InstanceId;
use goondan_core::ports::store::StoreError;

/// First wait. It doubles with each attempt, up to [`MAX_WAIT`].
const FIRST_WAIT: Duration = Duration::from_millis(250);
const MAX_WAIT: Duration = Duration::from_secs(10);

/// Waits between the attempts of a store operation.
pub(crate) struct StoreRetry<'a> {
    instance: &'a InstanceId,
    cancel: &'a CancellationToken,
    wait: Duration,
}

impl<'a> StoreRetry<'a> {
    pub(crate) fn new(instance: &'a InstanceId, cancel: &'a CancellationToken) -> Self {
        StoreRetry {
            instance,
            cancel,
            wait: FIRST_WAIT,
        }
    }

    /// Waits before the next attempt. Returns false if another attempt can't help: the call is
    /// cancelled, or `error` stays.
    pub(crate) async fn wait(&mut self, error: &StoreError) -> bool {
        if !error.is_passing() {
            return false;
        }
        tracing::warn!(instance = %self.instance, %error, "store unavailable; retrying");
        let wait = self.wait;
        self.wait = (wait * 2).min(MAX_WAIT);
        tokio::select! {
            () = tokio::time::sleep(wait) => true,
            () = self.cancel.cancelled() => false,
        }
    }
}
