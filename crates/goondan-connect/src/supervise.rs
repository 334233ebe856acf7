//! Keeps a connection receiving: what fails is tried again after a while, and disturbs nobody else.

use std::sync::Arc;
use std::time::Duration;

use crate::desk::Desk;
use crate::status::{State, Status};

/// The first wait after a failure. It doubles with each that follows soon.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// Who has received for so long begins again with the first wait.
const GOOD_WHILE: chrono::TimeDelta = chrono::TimeDelta::seconds(120);

/// Receives until it is dropped, or there is nothing more to receive.
pub(crate) async fn receive(desk: Arc<Desk>) {
    let mut wait = FIRST_WAIT;
    loop {
        tell(&desk, State::Running, None);
        let began = desk.now();
        // In a task of its own, so that a panic is a failure like any other.
        let mut receiving = Abort(tokio::spawn(receive_once(Arc::clone(&desk))));
        let why = match (&mut receiving.0).await {
            Ok(Err(why)) => why,
            Ok(Ok(())) => {
                tracing::info!(
                    connection = desk.bound.name,
                    "a connection has ended by itself"
                );
                return tell(
                    &desk,
                    State::Stopped,
                    Some("It has ended by itself.".to_owned()),
                );
            }
            Err(panic) => format!("a fault of gdn: {panic}"),
        };
        if desk.now() - began > GOOD_WHILE {
            wait = FIRST_WAIT;
        }
        tracing::warn!(
            connection = desk.bound.name,
            "a connection has failed and starts again in {wait:?}: {why}"
        );
        tell(&desk, State::Failing, Some(why));
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(LONGEST_WAIT);
    }
}

async fn receive_once(desk: Arc<Desk>) -> Result<(), String> {
    let platform = Arc::clone(&desk.platform);
    platform.receive(&desk).await
}

/// Writes down how the connection does.
pub(crate) fn tell(desk: &Desk, state: State, why: Option<String>) {
    Status {
        state,
        since: desk.now(),
        why,
    }
    .write(&desk.folder);
}

/// A task that ends with whoever waits for it.
pub(crate) struct Abort<T>(pub(crate) tokio::task::JoinHandle<T>);

impl<T> Drop for Abort<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
