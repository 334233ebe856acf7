//! Counters for operators.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of loaded libraries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LibraryMetrics {
    /// Libraries that accept calls.
    pub serving: u64,
    /// Mappings that stay in memory without being called. Each reload of a changed library adds
    /// one.
    pub retired_mappings: u64,
    /// Completions and events for calls that were not open: late, duplicate or invalid ones.
    pub ignored_completions: u64,
    /// Crashes of host processes (`isolation: process`).
    pub host_crashes: u64,
}

#[derive(Debug, Default)]
pub(crate) struct LibraryCounters {
    pub(crate) mapped: AtomicU64,
    pub(crate) retired: AtomicU64,
    pub(crate) ignored: AtomicU64,
    pub(crate) crashes: AtomicU64,
}

impl LibraryCounters {
    pub(crate) fn read(&self) -> LibraryMetrics {
        let retired_mappings = self.retired.load(Ordering::Relaxed);
        LibraryMetrics {
            serving: self
                .mapped
                .load(Ordering::Relaxed)
                .saturating_sub(retired_mappings),
            retired_mappings,
            ignored_completions: self.ignored.load(Ordering::Relaxed),
            host_crashes: self.crashes.load(Ordering::Relaxed),
        }
    }
}
