//! What is typed where the swarm runs, a line at a time, and where answers to it are shown.

use std::sync::Mutex as Lock;
use std::sync::PoisonError;

use tokio::sync::{Mutex, mpsc};

/// How many lines may wait.
const MOST_LINES: usize = 64;

type Open = Box<dyn FnOnce(mpsc::Sender<String>) + Send>;

/// A terminal, or a pipe. Nothing is read before somebody wants a line.
pub struct Console {
    open: Lock<Option<Open>>,
    lines: Mutex<Option<mpsc::Receiver<String>>>,
    /// Keeps a console open on which nobody types.
    _held: Option<mpsc::Sender<String>>,
    print: Box<dyn Fn(&str) + Send + Sync>,
}

impl Console {
    /// One whose lines `open` sends, beginning when it is called, and that shows answers by `print`.
    pub fn new(
        open: impl FnOnce(mpsc::Sender<String>) + Send + 'static,
        print: impl Fn(&str) + Send + Sync + 'static,
    ) -> Self {
        Console {
            open: Lock::new(Some(Box::new(open))),
            lines: Mutex::new(None),
            _held: None,
            print: Box::new(print),
        }
    }

    /// One on which nobody types, and that has no end.
    pub fn silent() -> Self {
        let (sender, receiver) = mpsc::channel(1);
        Console {
            open: Lock::new(None),
            lines: Mutex::new(Some(receiver)),
            _held: Some(sender),
            print: Box::new(|_| {}),
        }
    }

    /// The next line; `None` where there are no more. Each line goes to one who asks.
    pub(crate) async fn line(&self) -> Option<String> {
        let mut lines = self.lines.lock().await;
        if let Some(open) = self
            .open
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
        {
            let (sender, receiver) = mpsc::channel(MOST_LINES);
            *lines = Some(receiver);
            open(sender);
        }
        lines.as_mut()?.recv().await
    }

    pub(crate) fn print(&self, text: &str) {
        (self.print)(text);
    }
}
