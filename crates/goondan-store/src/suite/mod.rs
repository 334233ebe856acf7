//! What any store must do. An author of a store runs [`check`] in a test of his own.

#![allow(clippy::unwrap_used, reason = "a failed check is a failed test")]

mod conversations;
mod inbox;
mod instances;
pub mod samples;

use goondan_core::ports::store::Store;

/// A workspace that can be closed and opened again. Each check gets one of its own, which is empty.
pub trait Workspace {
    /// Opens it. The handle from before was dropped.
    fn open(&self) -> Box<dyn Store>;
}

/// One thing that a store must do.
pub type Check = (&'static str, fn(&dyn Workspace));

/// Everything that a store must do, by name.
pub fn checks() -> impl Iterator<Item = Check> {
    [inbox::CHECKS, conversations::CHECKS, instances::CHECKS].into_iter().flatten().copied()
}

/// Runs every check on a workspace from `fresh`. Panics at the first that fails, with its name.
pub fn check(mut fresh: impl FnMut() -> Box<dyn Workspace>) {
    for (name, check) in checks() {
        let workspace = fresh();
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check(&*workspace)));
        assert!(outcome.is_ok(), "the store failed the check `{name}`; see above");
    }
}
