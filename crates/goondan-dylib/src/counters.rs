//! Counters of loaded, retired and crashed libraries.

use std::sync::atomic::AtomicU64;

/// Counters of loaded libraries.
#[derive(Debug, Default)]
pub struct LibraryCounters {
    /// Mapped libraries, including retired ones.
    pub mapped: AtomicU64,
    /// Mapped libraries that are not called any more. Each reload of a changed library adds one.
    pub retired: AtomicU64,
    /// Completions and events for calls that were not open: late, duplicate or invalid ones.
    pub ignored: AtomicU64,
    /// Crashes of host processes (`isolation: process`).
    pub crashes: AtomicU64,
}
