//! Line input where the swarm runs, and output of the answers.

use std::sync::Mutex as Lock;
use std::sync::PoisonError;

use tokio::sync::{Mutex, mpsc};

/// Maximum number of buffered lines.
const MAX_BUFFERED_LINES: usize = 64;

type ConsoleOpener = Box<dyn FnOnce(mpsc::Sender<String>) + Send>;

/// A terminal or a pipe. Reading starts with the first request for a line.
pub struct LineConsole {
    open: Lock<Option<ConsoleOpener>>,
    lines: Mutex<Option<mpsc::Receiver<String>>>,
    /// Keeps the channel of a silent console open.
    _held: Option<mpsc::Sender<String>>,
    print: Box<dyn Fn(&str) + Send + Sync>,
}

impl LineConsole {
    /// Creates a console. `open` is called on first use and sends lines; `print` shows answers.
    pub fn new(
        open: impl FnOnce(mpsc::Sender<String>) + Send + 'static,
        print: impl Fn(&str) + Send + Sync + 'static,
    ) -> Self {
        LineConsole {
            open: Lock::new(Some(Box::new(open))),
            lines: Mutex::new(None),
            _held: None,
            print: Box::new(print),
        }
    }

    /// Creates a console without input that never ends.
    pub fn silent() -> Self {
        let (sender, receiver) = mpsc::channel(1);
        LineConsole {
            open: Lock::new(None),
            lines: Mutex::new(Some(receiver)),
            _held: Some(sender),
            print: Box::new(|_| {}),
        }
    }

    /// Returns the next line, or `None` at the end. Each line is delivered to one caller.
    pub(crate) async fn line(&self) -> Option<String> {
        let mut lines = self.lines.lock().await;
        if let Some(open) = self
            .open
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
        {
            let (sender, receiver) = mpsc::channel(MAX_BUFFERED_LINES);
            *lines = Some(receiver);
            open(sender);
        }
        lines.as_mut()?.recv().await
    }

    /// Writes a line to the terminal.
    pub(crate) fn print(&self, text: &str) {
        (self.print)(text);
    }
}
