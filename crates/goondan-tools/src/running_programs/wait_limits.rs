//! Limits of waits for other programs.

use std::time::Duration;

/// Time to wait for the end of programs that may write approved files.
pub(super) const WRITER_WAIT_TIMEOUT: Duration = Duration::from_secs(3);

/// Time to wait for other processes of the user: for their programs that may write approved files, or
/// for the start of their approved calls.
pub(super) const OTHER_PROCESS_TIMEOUT: Duration = Duration::from_secs(10);

/// Interval at which a waiting program checks the others again. The end of an orphan and of a program
/// of another process sends no notification.
pub(super) const RECHECK_INTERVAL: Duration = Duration::from_millis(50);
