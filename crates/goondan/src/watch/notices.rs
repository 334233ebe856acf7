//! Where the news come from that something may have changed: the operating system, or a clock.
//!
//! A notice only says "look again". What has changed is decided by comparing stamps, so a notice too many costs a few
//! milliseconds, and how a platform names its events does not matter.

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

/// News about watched folders.
pub(crate) struct Notices {
    source: Source,
    received: UnboundedReceiver<Notice>,
    /// The files that are being written, as far as the system tells.
    written: HashSet<PathBuf>,
    /// For a clock, how often; otherwise how often to look although nothing was heard.
    every: Duration,
}

/// That something may have changed.
#[derive(Debug)]
struct Notice {
    at: Instant,
    /// The file that somebody has begun to write (true), or is done with.
    writes: Option<(PathBuf, bool)>,
}

enum Source {
    /// The operating system tells. Which folder was watched under a path: another one may have taken its place.
    System {
        watcher: Box<RecommendedWatcher>,
        armed: HashMap<PathBuf, (u64, u64)>,
        scope: Arc<Mutex<Scope>>,
    },
    /// Nobody tells: everything is looked at again and again.
    Clock,
}

/// Which events are news.
#[derive(Debug, Default)]
struct Scope {
    /// Of this folder only what happens to that name.
    outermost: Option<(PathBuf, PathBuf)>,
    /// What is written into a file is news where the file has one of these names, or is YAML; in any file where there are none.
    names: Option<HashSet<OsString>>,
}

/// Why the operating system does not tell.
#[derive(Debug)]
pub(crate) struct Deaf(notify::Error);

impl Notices {
    /// Asks the operating system where that is wanted, or falls back on a clock.
    pub(crate) fn open(options: &WatchOptions) -> Self {
        let (sender, received) = unbounded_channel();
        let written = HashSet::new();
        let clock = |received| Notices {
            source: Source::Clock,
            received,
            written: HashSet::new(),
            every: options.poll,
        };
        if !options.listen {
            return clock(received);
        }
        let scope = Arc::new(Mutex::new(Scope::default()));
        match listen(sender, Arc::clone(&scope)) {
            Ok(watcher) => {
                let source = Source::System {
                    watcher: Box::new(watcher),
                    armed: HashMap::new(),
                    scope,
                };
                Notices {
                    source,
                    received,
                    written,
                    every: options.quiet_check,
                }
            }
            Err(error) => {
                warn(&Deaf(error), options.poll);
                clock(received)
            }
        }
    }

    /// Watches `folders` from now on, and no others. `root` is the project; of the folder above it nothing else matters.
    /// Where the system takes no more, `poll` becomes the rhythm of looking at everything.
    /// What is written into files of other `names` is no news.
    pub(crate) fn arm(
        &mut self,
        folders: &BTreeSet<PathBuf>,
        names: Option<HashSet<OsString>>,
        root: &Path,
        poll: Duration,
    ) {
        let Source::System {
            watcher,
            armed,
            scope,
        } = &mut self.source
        else {
            return;
        };
        let outermost = root
            .parent()
            .map(|above| (above.to_owned(), root.to_owned()));
        *scope.lock().unwrap_or_else(PoisonError::into_inner) = Scope { outermost, names };
        if let Err(deaf) = rearm(watcher, armed, folders) {
            warn(&deaf, poll);
            self.source = Source::Clock;
            self.every = poll;
        }
    }

    /// Waits for the next notice, and says when it came. A clock strikes by itself.
    pub(crate) async fn next(&mut self) -> Instant {
        tokio::select! {
            Some(notice) = self.received.recv() => self.take(notice),
            () = tokio::time::sleep(self.every) => Instant::now(),
        }
    }

    /// Waits until nobody writes a file any more, as far as the system tells; at most `limit`.
    pub(crate) async fn rest(&mut self, limit: Duration) {
        let end = tokio::time::Instant::now() + limit;
        while let Ok(notice) = self.received.try_recv() {
            self.take(notice);
        }
        while !self.written.is_empty() {
            tokio::select! {
                Some(notice) = self.received.recv() => drop(self.take(notice)),
                () = tokio::time::sleep_until(end) => return,
            }
        }
    }

    fn take(&mut self, notice: Notice) -> Instant {
        match notice.writes {
            Some((path, true)) => drop(self.written.insert(path)),
            Some((path, false)) => drop(self.written.remove(&path)),
            None => {}
        }
        notice.at
    }

    /// Waits until there was no notice for `quiet`, at most `limit`.
    pub(crate) async fn calm(&mut self, quiet: Duration, limit: Duration) {
        let end = tokio::time::Instant::now() + limit;
        loop {
            let silence = tokio::time::Instant::now() + quiet;
            tokio::select! {
                Some(notice) = self.received.recv() => drop(self.take(notice)),
                () = tokio::time::sleep_until(silence.min(end)) => {
                    // Not every system tells when somebody is done, and notices may be lost.
                    self.written.clear();
                    return;
                }
            }
        }
    }
}

fn listen(
    sender: UnboundedSender<Notice>,
    scope: Arc<Mutex<Scope>>,
) -> notify::Result<RecommendedWatcher> {
    notify::recommended_watcher(move |event: notify::Result<Event>| {
        let is_news = match &event {
            Ok(event) => scope
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .is_news(event),
            // Something was lost: look.
            Err(_) => true,
        };
        if is_news {
            // Without a listener the watch is about to end.
            let writes = event.ok().and_then(|event| writes(&event));
            let _ = sender.send(Notice {
                at: Instant::now(),
                writes,
            });
        }
    })
}

/// The file that an event says is being written, or is no longer.
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

impl Scope {
    fn is_news(&self, event: &Event) -> bool {
        let is_change = match event.kind {
            // Reading is no change; the end of writing is.
            EventKind::Access(access) => access == AccessKind::Close(AccessMode::Write),
            _ => true,
        };
        is_change
            && (event.need_rescan()
                || event.paths.is_empty()
                || event.paths.iter().any(|path| self.covers(path, event.kind)))
    }

    fn covers(&self, path: &Path, kind: EventKind) -> bool {
        let is_content = matches!(
            kind,
            EventKind::Modify(ModifyKind::Data(_)) | EventKind::Access(_)
        );
        match (&self.outermost, &self.names) {
            (Some((above, root)), _) if path.parent() == Some(above) => path == root,
            // A log that somebody writes all the time.
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

fn rearm(
    watcher: &mut RecommendedWatcher,
    armed: &mut HashMap<PathBuf, (u64, u64)>,
    folders: &BTreeSet<PathBuf>,
) -> Result<(), Deaf> {
    // A folder that was replaced is watched no more, whatever stands under its name now.
    let is_gone = |path: &PathBuf, known: &(u64, u64)| {
        !folders.contains(path) || folder_identity(path) != Some(*known)
    };
    let gone: Vec<PathBuf> = armed
        .iter()
        .filter(|(path, known)| is_gone(path, known))
        .map(|(path, _)| path.clone())
        .collect();
    for path in gone {
        // The system may have ended it already.
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
            Err(error) if is_exhausted(&error) => return Err(Deaf(error)),
            // It is gone again, or may not be read: the next look tells.
            Err(error) => {
                tracing::debug!(folder = %folder.display(), %error, "a folder can't be watched")
            }
        }
    }
    Ok(())
}

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

fn warn(Deaf(error): &Deaf, poll: Duration) {
    tracing::warn!(
        %error,
        "the system can't tell when files change, so they are looked at every {} ms; on Linux a larger \
         fs.inotify.max_user_watches and fs.inotify.max_user_instances help",
        poll.as_millis()
    );
}

#[cfg(test)]
mod tests {
    use notify::event::DataChange;

    use super::*;

    #[test]
    fn what_a_machine_has_too_little_of_is_told_from_other_errors() {
        let io = |kind: io::Error| notify::Error::new(ErrorKind::Io(kind));
        assert!(is_exhausted(&notify::Error::new(ErrorKind::MaxFilesWatch)));
        assert!(is_exhausted(&io(io::Error::from_raw_os_error(
            TOO_MANY_OPEN_FILES
        ))));
        assert!(!is_exhausted(&io(io::ErrorKind::NotFound.into())));
    }

    #[test]
    fn reading_is_no_news_and_the_folder_above_matters_only_for_the_project() {
        let outermost = Some((PathBuf::from("/a"), PathBuf::from("/a/project")));
        let names = Some(HashSet::from([OsString::from("x")]));
        let scope = Scope { outermost, names };
        let event = |kind, path: &str| Event::new(kind).add_path(PathBuf::from(path));
        let open = EventKind::Access(AccessKind::Open(AccessMode::Any));
        let created = EventKind::Create(notify::event::CreateKind::Any);
        assert!(!scope.is_news(&event(open, "/a/project/x")));
        assert!(scope.is_news(&event(
            EventKind::Access(AccessKind::Close(AccessMode::Write)),
            "/a/project/x"
        )));
        assert!(scope.is_news(&event(created, "/a/project")));
        assert!(!scope.is_news(&event(
            EventKind::Modify(ModifyKind::Data(DataChange::Any)),
            "/a/project/log"
        )));
        assert!(scope.is_news(&event(
            EventKind::Modify(ModifyKind::Data(DataChange::Any)),
            "/a/project/new.yaml"
        )));
        assert!(!scope.is_news(&event(created, "/a/other")));
        assert!(scope.is_news(&event(created, "/elsewhere/.env")));
    }
}
