//! Checks that every store must pass. The tests of a store call [`check`].

#![allow(clippy::unwrap_used, reason = "test support: a failed check may panic")]

mod conversations;
mod inbox;
mod instances;
pub mod samples;
mod unreliable_store;

use std::panic::AssertUnwindSafe;

use futures::FutureExt as _;
use futures::future::LocalBoxFuture;
use goondan_core::ports::store::{Store, StoreError};

pub use unreliable_store::UnreliableStore;

/// A workspace that can be closed and reopened. Each check gets its own empty workspace.
pub trait ReopenableWorkspace {
    /// Opens the workspace. The previous handle is already dropped.
    fn open(&self) -> Box<dyn Store>;

    /// Returns true if a claim fences off earlier claims of the instance. A store for a single
    /// process need not do so.
    fn fences_claims(&self) -> bool {
        true
    }
}

/// One requirement on a store, with its name.
pub type Check = (
    &'static str,
    for<'s> fn(&'s dyn ReopenableWorkspace) -> LocalBoxFuture<'s, ()>,
);

/// Returns all checks with their names.
pub fn checks() -> impl Iterator<Item = Check> {
    [inbox::CHECKS, conversations::CHECKS, instances::CHECKS]
        .into_iter()
        .flatten()
        .copied()
}

/// Runs every check on a workspace from `fresh`. Panics with the name of the first failed check.
pub async fn check(mut fresh: impl FnMut() -> Box<dyn ReopenableWorkspace>) {
    for (name, check) in checks() {
        let workspace = fresh();
        let outcome = AssertUnwindSafe(check(&*workspace)).catch_unwind().await;
        assert!(
            outcome.is_ok(),
            "the store failed the check `{name}`; see above"
        );
    }
}

/// Retries a call that failed without any effect.
async fn retry_call<T>(mut call: impl AsyncFnMut() -> Result<T, StoreError>) -> T {
    for _ in 0..50 {
        match call().await {
            Ok(done) => return done,
            Err(StoreError::Fenced(id)) => {
                panic!("the claim of {id} was fenced off without another claim")
            }
            Err(_) => {}
        }
    }
    panic!("the store failed the same call fifty times")
}
