//! Outcome of a reload.

use std::time::{Duration, Instant};

use goondan_spec::source::SourceTexts;
use goondan_spec::{Diagnostic, ReloadPlan};

/// Outcome of a reload.
#[derive(Debug, Clone)]
pub struct ReloadOutcome {
    /// Number of the new generation, or the errors that kept the old one in place.
    pub result: Result<u64, Vec<Diagnostic>>,
    /// Changes; empty if the reload failed.
    pub plan: ReloadPlan,
    /// Warnings about an applied bundle.
    pub warnings: Vec<Diagnostic>,
    /// Source texts that the diagnostics refer to.
    pub sources: SourceTexts,
    /// Timing of the reload.
    pub timing: ReloadTiming,
}

/// Durations of the phases of a reload.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReloadTiming {
    /// Time of the first noticed change; `None` for an explicit reload.
    pub noticed: Option<Instant>,
    /// Time from the first change until all files were stable.
    pub settle: Duration,
    /// Time for loading and checking the bundle and its environment files.
    pub load: Duration,
    /// Time for binding models and tools and for opening libraries.
    pub plan: Duration,
    /// Time for swapping in the new generation.
    pub swap: Duration,
}

impl ReloadTiming {
    /// Returns the processing time, without the time until the files were stable.
    pub fn total(&self) -> Duration {
        self.load + self.plan + self.swap
    }

    /// Returns [`ReloadTiming::total`] in milliseconds.
    pub fn total_ms(&self) -> u64 {
        u64::try_from(self.total().as_millis()).unwrap_or(u64::MAX)
    }
}

impl ReloadOutcome {
    /// Creates the outcome at the start of a reload.
    pub(super) fn begin(cause: ReloadCause) -> Self {
        let mut timing = ReloadTiming::default();
        if let ReloadCause::Watch {
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
            sources: SourceTexts::default(),
            timing,
        }
    }
}

/// Cause of a reload.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ReloadCause {
    /// Explicit request. It always makes a new generation, including without changes.
    Asked,
    /// Changed file.
    Watch {
        /// Files may still change. A load error is then neither a failure nor reported.
        is_hasty: bool,
        /// Time at which the change was noticed.
        noticed: Instant,
        /// Time at which the files were stable.
        settled: Instant,
    },
}
