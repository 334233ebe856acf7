//! Delays before a crashed host process is restarted.

use std::time::Duration;

/// Number of consecutive crashes after which the process is still restarted at once.
const QUICK_CRASHES: u32 = 5;

const MAX_RESTART_DELAY: Duration = Duration::from_secs(5 * 60);

/// Returns the pause after consecutive crashes: none for the first five, then 1 s, 2 s, 4 s … 5
/// min.
pub(crate) fn pause_after(crashes: u32) -> Duration {
    match crashes.checked_sub(QUICK_CRASHES + 1) {
        None => Duration::ZERO,
        Some(doublings) => Duration::from_secs(1_u64.checked_shl(doublings).unwrap_or(u64::MAX))
            .min(MAX_RESTART_DELAY),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_quick_ones_then_doubling_up_to_five_minutes() {
        let seconds = |crashes| pause_after(crashes).as_secs();
        assert_eq!((0..=5).map(seconds).max(), Some(0));
        assert_eq!(
            (6..=15).map(seconds).collect::<Vec<_>>(),
            [1, 2, 4, 8, 16, 32, 64, 128, 256, 300]
        );
        assert_eq!(seconds(u32::MAX), 300);
    }
}
