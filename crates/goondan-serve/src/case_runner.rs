//! Interface for running the test cases of the project.

use std::fmt;

use futures::future::BoxFuture;
use goondan::spec::Diagnostic;
use tokio::sync::mpsc::UnboundedSender;

use crate::wire::{CaseResultBody, CaseTotalsBody, CasesBody};

/// Runs the test cases of the project. The calling program implements it; this crate does not
/// depend on the case format.
pub trait CaseRunner: fmt::Debug + Send + Sync {
    /// Returns the test cases of the project directory, without running them.
    fn list(&self) -> BoxFuture<'_, Result<CasesBody, Diagnostic>>;

    /// Runs the test cases with these names, or all if there are none, and sends each result. Starts
    /// no further test cases once the receiver is dropped. Never calls a live model.
    fn run(
        &self,
        names: Vec<String>,
        results: UnboundedSender<CaseResultBody>,
    ) -> BoxFuture<'_, Result<CaseTotalsBody, Diagnostic>>;
}
