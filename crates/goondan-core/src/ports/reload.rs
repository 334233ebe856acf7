//! Port for reloads that a running tool requests.

use async_trait::async_trait;
use goondan_spec::{Diagnostic, ReloadPlan};

/// Reads the project again and activates the new generation, or changes nothing (rules R2, R3).
#[async_trait]
pub trait ProjectReloader: Send + Sync {
    /// Reloads immediately, without waiting for running turns. A running turn can therefore request
    /// a reload. The next step of that turn uses the new tools; all other changes apply from the
    /// next turn of the conversation.
    ///
    /// # Errors
    /// The project is not valid; the old generation stays active.
    async fn reload(&self) -> Result<ReloadSuccess, ReloadFailure>;
}

/// Result of a reload: a new generation is active.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReloadSuccess {
    /// Number of the new generation.
    pub generation: u64,
    /// Changes of the reload.
    pub plan: ReloadPlan,
}

/// Error of a reload: the old generation stays active.
#[derive(Debug, Clone)]
pub struct ReloadFailure {
    /// Number of the old generation.
    pub generation: u64,
    /// Errors of the project.
    pub diagnostics: Vec<Diagnostic>,
}
