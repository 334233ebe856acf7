//! Reloading, as a running tool may ask for it.

use async_trait::async_trait;
use goondan_spec::{Diagnostic, ReloadPlan};

/// Reads the project again and puts the new generation in place, or changes nothing (rules R2, R3).
#[async_trait]
pub trait Reloader: Send + Sync {
    /// Reloads now. Nothing that runs is waited for, so a turn may ask for it: its own next step sees the new tools, its next
    /// turn everything else.
    async fn reload(&self) -> Result<Reloaded, NotReloaded>;
}

/// A new generation serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reloaded {
    /// Its number.
    pub generation: u64,
    /// What has changed.
    pub plan: ReloadPlan,
}

/// The old generation serves on.
#[derive(Debug, Clone)]
pub struct NotReloaded {
    /// Its number.
    pub generation: u64,
    /// What is wrong with the project.
    pub diagnostics: Vec<Diagnostic>,
}
