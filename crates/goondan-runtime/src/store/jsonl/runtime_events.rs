//! `runtime-events.jsonl`: what happened, for people and programs that watch. Never used for recovery.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use super::layout;
use super::lines::Appender;
use crate::event::RuntimeEvent;
use crate::ids::InstanceId;

/// That many files stay open.
const OPEN_FILES: usize = 64;

/// Appends events to the files of their instances, on a thread of its own.
pub(super) struct RuntimeEventLog {
    events: Option<Sender<RuntimeEvent>>,
    writer: Option<JoinHandle<()>>,
}

impl RuntimeEventLog {
    /// The log of the workspace in that folder.
    pub(super) fn open(workspace: PathBuf) -> std::io::Result<Self> {
        let (events, queue) = channel();
        let writer =
            std::thread::Builder::new().name("gdn-events".to_owned()).spawn(move || write(&queue, &workspace))?;
        Ok(RuntimeEventLog { events: Some(events), writer: Some(writer) })
    }

    /// Appends `event`, soon.
    pub(super) fn append(&self, event: RuntimeEvent) {
        if let Some(events) = &self.events {
            // The writer only ends with the log.
            let _ = events.send(event);
        }
    }
}

impl Drop for RuntimeEventLog {
    /// Waits until everything is written.
    fn drop(&mut self) {
        self.events = None;
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}

fn write(queue: &Receiver<RuntimeEvent>, workspace: &std::path::Path) {
    let mut files: HashMap<InstanceId, Appender> = HashMap::new();
    while let Ok(event) = queue.recv() {
        let id = event.instance();
        if files.len() >= OPEN_FILES && !files.contains_key(&id) {
            files.clear();
        }
        let path = || layout::instance_dir(workspace, &id).join(layout::RUNTIME_EVENTS);
        let appender = files.entry(id.clone()).or_insert_with(|| Appender::new(path()));
        if let Err(error) = appender.append(&event) {
            tracing::warn!(instance = %id, %error, "a runtime event was not written");
        }
    }
}
