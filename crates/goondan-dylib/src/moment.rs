//! Looks around for a moment before a thread goes to sleep.
//!
//! To wake a thread costs 5 µs, and some 25 in a virtual machine whose cores are idle: more than a short call takes. So who has
//! just had something to do, and will likely have more at once, looks for it a little longer.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long. What comes later is worth a wake-up.
const MOMENT: Duration = Duration::from_micros(50);

/// Looks between two pauses.
const LOOKS: u32 = 4;

/// What `look` finds within the moment. Other threads that are ready to run go first.
pub(crate) fn look_for<T>(mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let began = Instant::now();
    loop {
        for _ in 0..LOOKS {
            if let Some(found) = look() {
                return Some(found);
            }
            std::hint::spin_loop();
        }
        if began.elapsed() >= MOMENT {
            return None;
        }
        std::thread::yield_now();
    }
}

/// Whether answers come so soon that they are worth to be looked for.
#[derive(Default)]
pub(crate) struct Quickness(AtomicBool);

impl Quickness {
    /// As the last answer was.
    pub(crate) fn is_quick(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Notes how long an answer took.
    pub(crate) fn took(&self, time: Duration) {
        self.0.store(time < MOMENT * 4, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_found_and_what_is_not_is_given_up() {
        let mut looks = 0;
        let found = look_for(|| {
            looks += 1;
            (looks == 3).then_some("it")
        });
        assert_eq!(found, Some("it"));
        assert_eq!(look_for(|| None::<()>), None);
    }

    #[test]
    fn the_last_answer_decides() {
        let quickness = Quickness::default();
        assert!(!quickness.is_quick());
        quickness.took(Duration::from_micros(20));
        assert!(quickness.is_quick());
        quickness.took(Duration::from_secs(1));
        assert!(!quickness.is_quick());
    }
}
