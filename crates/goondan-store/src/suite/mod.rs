//! What any store must do. An author of a store runs [`check`] in a test.

#![allow(clippy::unwrap_used, reason = "a failed check is a failed test")]

mod conversations;
mod inbox;
mod instances;
pub mod samples;
mod unreliable;

use std::panic::AssertUnwindSafe;

use futures::FutureExt as _;
use futures::future::LocalBoxFuture;
use goondan_core::ports::store::{Store, StoreError};

pub use unreliable::Unreliable;

/// A workspace that can be closed and opened again. Each check gets one of its own, which is empty.
pub trait Subject {
    /// Opens it. The handle from before was dropped.
    fn open(&self) -> Box<dyn Store>;

    /// Whether a claim shuts out who had claimed the instance before. A store that serves one process need not.
    fn fences(&self) -> bool {
        true
    }
}

/// One thing that a store must do.
pub type Check = (
    &'static str,
    for<'s> fn(&'s dyn Subject) -> LocalBoxFuture<'s, ()>,
);

/// Everything that a store must do, by name.
pub fn checks() -> impl Iterator<Item = Check> {
    [inbox::CHECKS, conversations::CHECKS, instances::CHECKS]
        .into_iter()
        .flatten()
        .copied()
}

/// Runs every check on a workspace from `fresh`. Panics at the first that fails, with its name.
pub async fn check(mut fresh: impl FnMut() -> Box<dyn Subject>) {
    for (name, check) in checks() {
        let subject = fresh();
        let outcome = AssertUnwindSafe(check(&*subject)).catch_unwind().await;
        assert!(
            outcome.is_ok(),
            "the store failed the check `{name}`; see above"
        );
    }
}

/// A call that failed without doing anything is made again.
async fn again<T>(mut call: impl AsyncFnMut() -> Result<T, StoreError>) -> T {
    for _ in 0..50 {
        match call().await {
            Ok(done) => return done,
            Err(StoreError::Fenced(id)) => panic!("nobody else has claimed {id}"),
            Err(_) => {}
        }
    }
    panic!("the store failed the same call fifty times")
}
