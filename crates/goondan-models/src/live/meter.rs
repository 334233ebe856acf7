//! Watches what comes over the wire, below genai's events.

use std::sync::{Mutex, MutexGuard, PoisonError};

use genai::chat::{ChatFrameSink, FrameCtx, RawFrameRef};
use tokio::time::Instant;

/// How much of the first frame is kept, in characters: enough to tell HTML from JSON.
const SAMPLE: usize = 200;

/// Counts frames and remembers when the last one came.
pub(crate) struct Meter {
    seen: Mutex<Seen>,
}

/// What came so far.
#[derive(Debug)]
struct Seen {
    frames: usize,
    bytes: usize,
    last: Instant,
    sample: String,
}

impl Meter {
    /// Starts the clock.
    pub(crate) fn new() -> Self {
        Meter {
            seen: Mutex::new(Seen {
                frames: 0,
                bytes: 0,
                last: Instant::now(),
                sample: String::new(),
            }),
        }
    }

    /// Frames that held data.
    pub(crate) fn frames(&self) -> usize {
        self.seen().frames
    }

    /// All their bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.seen().bytes
    }

    /// When the last frame came, with or without data; the beginning before that.
    pub(crate) fn last(&self) -> Instant {
        self.seen().last
    }

    /// How the first frame begins.
    pub(crate) fn sample(&self) -> String {
        self.seen().sample.clone()
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ChatFrameSink for Meter {
    fn on_frame(&self, _: &FrameCtx, frame: RawFrameRef<'_>) {
        let mut seen = self.seen();
        seen.last = Instant::now();
        seen.bytes += frame.data.len();
        if frame.data.trim().is_empty() {
            return;
        }
        if seen.frames == 0 {
            seen.sample = frame.data.chars().take(SAMPLE).collect();
        }
        seen.frames += 1;
    }
}
