//! Change notifications, from the operating system or from a timer.
//!
//! A notification only triggers a comparison of file stamps. So an unnecessary one costs a few
//! milliseconds, and the event types of a platform do not matter.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use notify::event::{AccessKind, AccessMode, CreateKind, ModifyKind, RenameMode};
use notify::{ErrorKind, Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::WatchOptions;
use super::stamp::folder_identity;

/// Change notifications of watched directories.
pub(crate) struct ChangeNotifications {
    source: NotificationSource,
    received: UnboundedReceiver<ChangeNotification>,
    /// Files that are being written, as far as the platform reports it.
    written: HashSet<PathBuf>,
    /// Polling interval of the timer, or the additional polling interval with notifications.
    every: Duration,
}

/// Notification of a possible change.
#[derive(Debug)]
struct ChangeNotification {
    at: Instant,
    /// File whose write started (true) or ended (false).
    writes: Option<(PathBuf, bool)>,
}

/// Source of notifications.
enum NotificationSource {
    /// Notifications of the operating system. The identity of each watched directory detects a
    /// replacement at the same path.
    System {
        watcher: Box<RecommendedWatcher>,
        armed: HashMap<PathBuf, (u64, u64)>,
        scope: Arc<Mutex<NotificationFilter>>,
    },
    /// Timer without notifications.
    Clock,
}

/// Filter for relevant events.
#[derive(Debug, Default)]
struct NotificationFilter {
    /// Parent directory in which only this path matters.
    outermost: Option<(PathBuf, PathBuf)>,
    /// Names of files whose content matters, in addition to YAML files; `None` for all files.
    names: Option<HashSet<OsString>>,
}

/// Error that prevents change notifications.
#[derive(Debug)]
pub(crate) struct WatchUnavailable(notify::Error);

impl ChangeNotifications {
    /// Opens the notifications of the operating system if they are enabled, or else a timer.
    pub(crate) fn open(options: &WatchOptions) -> Self {
        let (sender, received) = unbounded_channel();
        let written = HashSet::new();
        let clock = |received| ChangeNotifications {
            source: NotificationSource::Clock,
            received,
            written: HashSet::new(),
            every: options.poll,
        };
        if !options.listen {
            return clock(received);
        }
        let scope = Arc::new(Mutex::new(NotificationFilter::default()));
        match listen(sender, Arc::clone(&scope)) {
            Ok(watcher) => {
                let source = NotificationSource::System {
                    watcher: Box::new(watcher),
                    armed: HashMap::new(),
                    scope,
                };
                ChangeNotifications {
                    source,
                    received,
                    written,
                    every: options.quiet_check,
                }
            }
            Err(error) => {
                warn(&WatchUnavailable(error), options.poll);
                clock(received)
            }
        }
    }

    /// Watches exactly these directories. In the parent directory of `root`, the project, only the
    /// project itself matters. If the watch limit is reached, a timer polls at the interval `poll`.
    /// Content changes of files with other names than `names` are ignored.
    pub(crate) fn arm(
        &mut self,
        folders: &BTreeSet<PathBuf>,
        names: Option<HashSet<OsString>>,
        root: &Path,
        poll: Duration,
    ) {
        let NotificationSource::System {
            watcher,
            armed,
            scope,
        } = &mut self.source
        else {
            return;
        };
        let outermost = root
            .parent()
            .map(|parent| (parent.to_owned(), root.to_owned()));
        *scope.lock().unwrap_or_else(PoisonError::into_inner) =
            NotificationFilter { outermost, names };
        if let Err(error) = rearm(watcher, armed, folders) {
            warn(&error, poll);
            self.source = NotificationSource::Clock;
            self.every = poll;
        }
    }

    /// Waits for the next notification or timer event and returns its time.
    pub(crate) async fn next(&mut self) -> Instant {
        tokio::select! {
            Some(notice) = self.received.recv() => self.track_write(notice),
            () = tokio::time::sleep(self.every) => Instant::now(),
        }
    }

    /// Waits until no file is being written, as far as the platform reports it, but at most
    /// `limit`.
    pub(crate) async fn wait_until_written(&mut self, limit: Duration) {
        let end = tokio::time::Instant::now() + limit;
        while let Ok(notice) = self.received.try_recv() {
            self.track_write(notice);
        }
        while !self.written.is_empty() {
            tokio::select! {
                Some(notice) = self.received.recv() => drop(self.track_write(notice)),
                () = tokio::time::sleep_until(end) => return,
            }
        }
    }

    /// Updates the set of files that are being written, and returns the time of the notification.
    fn track_write(&mut self, notice: ChangeNotification) -> Instant {
        match notice.writes {
            Some((path, true)) => drop(self.written.insert(path)),
            Some((path, false)) => drop(self.written.remove(&path)),
            None => {}
        }
        notice.at
    }

    /// Waits until there is no notification for `quiet`, but at most `limit`.
    pub(crate) async fn wait_until_quiet(&mut self, quiet: Duration, limit: Duration) {
        let end = tokio::time::Instant::now() + limit;
        loop {
            let silence = tokio::time::Instant::now() + quiet;
            tokio::select! {
                Some(notice) = self.received.recv() => drop(self.track_write(notice)),
                () = tokio::time::sleep_until(silence.min(end)) => {
                    // Not every platform reports the end of a write, and notifications can be lost.
                    self.written.clear();
                    return;
                }
            }
        }
    }
}

/// Starts the notifications of the operating system. `scope` filters the events.
fn listen(
    sender: UnboundedSender<ChangeNotification>,
    scope: Arc<Mutex<NotificationFilter>>,
) -> notify::Result<RecommendedWatcher> {
    notify::recommended_watcher(move |event: notify::Result<Event>| {
        let is_relevant = match &event {
            Ok(event) => scope
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .is_relevant(event),
            // Events were lost, so the files must be compared.
            Err(_) => true,
        };
        if is_relevant {
            // The receiver is only dropped when the watch ends.
            let writes = event.ok().and_then(|event| writes(&event));
            let _ = sender.send(ChangeNotification {
                at: Instant::now(),
                writes,
            });
        }
    })
}

/// Returns the file whose write an event starts or ends.
fn writes(event: &Event) -> Option<(PathBuf, bool)> {
    let is_begin = match event.kind {
        EventKind::Create(CreateKind::Folder) => return None,
        EventKind::Create(_) | EventKind::Modify(ModifyKind::Data(_) | ModifyKind::Any) => true,
        EventKind::Access(AccessKind::Close(AccessMode::Write)) | EventKind::Remove(_) => false,
        EventKind::Modify(ModifyKind::Name(RenameMode::From)) => false,
        _ => return None,
    };
    Some((event.paths.first()?.clone(), is_begin))
}

impl NotificationFilter {
    /// Returns true if an event may mean a change that matters.
    fn is_relevant(&self, event: &Event) -> bool {
        let is_change = match event.kind {
            // Only the end of a write counts as access, not a read.
            EventKind::Access(access) => access == AccessKind::Close(AccessMode::Write),
            _ => true,
        };
        is_change
            && (event.need_rescan()
                || event.paths.is_empty()
                || event.paths.iter().any(|path| self.covers(path, event.kind)))
    }

    /// Returns true if an event of this path matters.
    fn covers(&self, path: &Path, kind: EventKind) -> bool {
        let is_content = matches!(
            kind,
            EventKind::Modify(ModifyKind::Data(_)) | EventKind::Access(_)
        );
        match (&self.outermost, &self.names) {
            (Some((parent, root)), _) if path.parent() == Some(parent) => path == root,
            // Excludes log files, which change continuously.
            (_, Some(names)) if is_content => {
                let is_yaml = path
                    .extension()
                    .is_some_and(|suffix| suffix == "yaml" || suffix == "yml");
                is_yaml || path.file_name().is_some_and(|name| names.contains(name))
            }
            _ => true,
        }
    }
}

/// Watches exactly `folders`. Fails if the system limit is reached.
fn rearm(
    watcher: &mut RecommendedWatcher,
    armed: &mut HashMap<PathBuf, (u64, u64)>,
    folders: &BTreeSet<PathBuf>,
) -> Result<(), WatchUnavailable> {
    // A replaced directory is no longer watched, even if its path exists again.
    let is_gone = |path: &PathBuf, identity: &(u64, u64)| {
        !folders.contains(path) || folder_identity(path) != Some(*identity)
    };
    let outdated: Vec<PathBuf> = armed
        .iter()
        .filter(|(path, identity)| is_gone(path, identity))
        .map(|(path, _)| path.clone())
        .collect();
    for path in outdated {
        // The operating system may have removed the watch already.
        let _ = watcher.unwatch(&path);
        armed.remove(&path);
    }
    for folder in folders
        .iter()
        .filter(|folder| !armed.contains_key(*folder))
        .cloned()
        .collect::<Vec<_>>()
    {
        let Some(identity) = folder_identity(&folder) else {
            continue;
        };
        match watcher.watch(&folder, RecursiveMode::NonRecursive) {
            Ok(()) => drop(armed.insert(folder, identity)),
            Err(error) if is_exhausted(&error) => return Err(WatchUnavailable(error)),
            // The directory is gone or unreadable; the next comparison detects it.
            Err(error) => {
                tracing::debug!(folder = %folder.display(), %error, "a directory can't be watched")
            }
        }
    }
    Ok(())
}

/// Returns true if the error is a limit of the operating system.
fn is_exhausted(error: &notify::Error) -> bool {
    match &error.kind {
        ErrorKind::MaxFilesWatch => true,
        ErrorKind::Io(error) => {
            matches!(
                error.kind(),
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
            ) || error.raw_os_error() == Some(TOO_MANY_OPEN_FILES)
        }
        _ => false,
    }
}

/// `EMFILE` on Unix.
const TOO_MANY_OPEN_FILES: i32 = 24;

/// Warns that gdn polls instead.
fn warn(WatchUnavailable(error): &WatchUnavailable, poll: Duration) {
    tracing::warn!(
        %error,
        "the system can't report file changes, so gdn checks the files every {} ms; on Linux, \
            raise fs.inotify.max_user_watches and fs.inotify.max_user_instances",
        poll.as_millis()
    );
}

#[cfg(test)]
mod tests {
    use notify::event::DataChange;

    use super::*;

    #[test]
    fn exhausted_resources_are_distinguished_from_other_errors() {
        let io = |kind: io::Error| notify::Error::new(ErrorKind::Io(kind));
        assert!(is_exhausted(&notify::Error::new(ErrorKind::MaxFilesWatch)));
        assert!(is_exhausted(&io(io::Error::from_raw_os_error(
            TOO_MANY_OPEN_FILES
        ))));
        assert!(!is_exhausted(&io(io::ErrorKind::NotFound.into())));
    }

    #[test]
    fn only_events_that_may_change_the_project_are_relevant() {
        let outermost = Some((PathBuf::from("/a"), PathBuf::from("/a/project")));
        let names = Some(HashSet::from([OsString::from("x")]));
        let scope = NotificationFilter { outermost, names };
        let event = |kind, path: &str| Event::new(kind).add_path(PathBuf::from(path));
        let open = EventKind::Access(AccessKind::Open(AccessMode::Any));
        let created = EventKind::Create(notify::event::CreateKind::Any);
        assert!(!scope.is_relevant(&event(open, "/a/project/x")));
        assert!(scope.is_relevant(&event(
            EventKind::Access(AccessKind::Close(AccessMode::Write)),
            "/a/project/x"
        )));
        assert!(scope.is_relevant(&event(created, "/a/project")));
        assert!(!scope.is_relevant(&event(
            EventKind::Modify(ModifyKind::Data(DataChange::Any)),
            "/a/project/log"
        )));
        assert!(scope.is_relevant(&event(
            EventKind::Modify(ModifyKind::Data(DataChange::Any)),
            "/a/project/new.yaml"
        )));
        assert!(!scope.is_relevant(&event(created, "/a/other")));
        assert!(scope.is_relevant(&event(created, "/elsewhere/.env")));
    }
}
