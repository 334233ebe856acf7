//! What comes of a reload.

use std::time::{Duration, Instant};

use goondan_spec::source::Sources;
use goondan_spec::{Diagnostic, ReloadPlan};

use super::Cause;

/// What came of a reload.
#[derive(Debug, Clone)]
pub struct ReloadOutcome {
    /// The number of the generation that serves from now on, or the errors that kept the old one in place.
    pub result: Result<u64, Vec<Diagnostic>>,
    /// What has changed; empty where the reload failed.
    pub plan: ReloadPlan,
    /// Warnings about a bundle that was taken.
    pub warnings: Vec<Diagnostic>,
    /// The texts that diagnostics point into.
    pub sources: Sources,
    /// How long it took.
    pub timing: ReloadTiming,
}

/// How long the parts of a reload took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReloadTiming {
    /// When the first file was noticed that had changed; `None` where somebody asked for the reload.
    pub noticed: Option<Instant>,
    /// From then on until all files had come to rest.
    pub settle: Duration,
    /// Reading and checking the bundle and its environment files.
    pub load: Duration,
    /// Binding models and tools; opening libraries.
    pub plan: Duration,
    /// Putting the new generation in place.
    pub swap: Duration,
}

impl ReloadTiming {
    /// The work, without the time in which files came to rest.
    pub fn total(&self) -> Duration {
        self.load + self.plan + self.swap
    }

    /// [`ReloadTiming::total`] in whole milliseconds.
    pub fn total_ms(&self) -> u64 {
        u64::try_from(self.total().as_millis()).unwrap_or(u64::MAX)
    }
}

impl ReloadOutcome {
    /// Nothing has come of it yet.
    pub(super) fn begin(cause: Cause) -> Self {
        let mut timing = ReloadTiming::default();
        if let Cause::Watch {
            noticed, settled, ..
        } = cause
        {
            timing.noticed = Some(noticed);
            timing.settle = settled - noticed;
        }
        ReloadOutcome {
            result: Err(Vec::new()),
            plan: ReloadPlan::default(),
            warnings: Vec::new(),
            sources: Sources::default(),
            timing,
        }
    }
}
