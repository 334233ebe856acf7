//! Hot reload from the file system (rule R1): watches the files of a running swarm and reloads it
//! when they change.
//!
//! Each load records the files that it accessed (`load_trace`). A notification from the operating
//! system (`fs_events`) triggers a comparison of these files. If a file differs and is stable, the
//! swarm reloads. The new load determines the next files to watch.

pub(crate) mod file_cache;
mod fs_events;
pub(crate) mod load_trace;
mod sources;
pub(crate) mod stamp;

use std::collections::{BTreeSet, HashSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use goondan_spec::kinds::ToolBuild;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use self::fs_events::ChangeNotifications;
use self::load_trace::LoadTrace;
use self::sources::{ToolBuildRunner, WatchedToolSources};
use self::stamp::PathStamp;
use crate::blocking::run_blocking;
use crate::build::ToolBuilds;
use crate::reload::ReloadCause;
use crate::start::swarm::{Swarm, SwarmInner};
use crate::workspace::identity::canonical;

/// Timing of a watch.
#[derive(Debug, Clone, Copy)]
pub struct WatchOptions {
    /// Quiet time after which incomplete or deleted files count as stable. Default: 40 ms. Complete
    /// files that load are applied at once.
    pub settle: Duration,
    /// Time without changes after which a library counts as stable. Default: 150 ms. Linkers pause
    /// between writes.
    pub settle_library: Duration,
    /// Enables change notifications of the operating system. Default: true.
    pub listen: bool,
    /// Polling interval without change notifications. Default: 1 s.
    pub poll: Duration,
    /// Polling interval in addition to change notifications, because some network file systems send
    /// none. Default: 5 s.
    pub quiet_check: Duration,
}

impl Default for WatchOptions {
    fn default() -> Self {
        WatchOptions {
            settle: Duration::from_millis(40),
            settle_library: Duration::from_millis(150),
            listen: true,
            poll: Duration::from_secs(1),
            quiet_check: Duration::from_secs(5),
        }
    }
}

/// Maximum wait for files that keep changing.
const MAX_BURST_WAIT: Duration = Duration::from_secs(2);
/// Maximum wait for a library that keeps changing.
const MAX_LINK_WAIT: Duration = Duration::from_secs(30);

/// Running watch. It ends when it is dropped, or with its swarm.
#[derive(Debug)]
pub struct ProjectWatch {
    task: JoinHandle<()>,
    cancellation: CancellationToken,
}

impl ProjectWatch {
    /// Stops the watch, and waits until a running build is terminated with all its processes.
    pub async fn end(mut self) {
        self.cancellation.cancel();
        // After the cancellation, only a panic can fail the task, and it is already logged.
        let _ = (&mut self.task).await;
    }
}

impl Drop for ProjectWatch {
    fn drop(&mut self) {
        self.cancellation.cancel();
    }
}

impl Swarm {
    /// Reloads this swarm whenever one of its files changes, and builds tools whose sources change.
    /// The outcomes are sent to [`Swarm::reload_news`].
    pub fn watch(&self, options: WatchOptions) -> ProjectWatch {
        let (ignored, cancellation) = (
            self.state_directory(&absolute(&self.root())),
            CancellationToken::new(),
        );
        let files = WatchedFiles {
            root: absolute(&self.root()),
            trace: LoadTrace::default(),
            sources: WatchedToolSources::of(ToolBuilds::of_bundle(&self.bundle()), &ignored),
            ignored,
        };
        let watcher = WatchTask {
            swarm: self.downgrade(),
            notices: ChangeNotifications::open(&options),
            files: Arc::new(Mutex::new(files)),
            builder: ToolBuildRunner::new(self.downgrade(), cancellation.clone()),
            options,
        };
        ProjectWatch {
            task: tokio::spawn(watcher.run_until(cancellation.clone())),
            cancellation,
        }
    }
}

impl Swarm {
    /// Returns the state root if the project in `root` is outside of it, or else only this swarm's
    /// directory.
    fn state_directory(&self, root: &Path) -> PathBuf {
        let state = self.state_root();
        match canonical(root).starts_with(canonical(&state)) {
            true => self.workspace_dir(),
            false => state,
        }
    }
}

/// Watched files.
struct WatchedFiles {
    root: PathBuf,
    /// Directory of swarm state, which can be inside the project.
    ignored: PathBuf,
    trace: LoadTrace,
    sources: WatchedToolSources,
}

impl WatchedFiles {
    /// Returns the directories to watch.
    fn folders(&self) -> BTreeSet<PathBuf> {
        let mut folders = self.trace.folders(&self.root, &self.ignored);
        folders.extend(self.sources.folders().iter().cloned());
        folders
    }

    /// Returns the names of the files whose content matters; `None` if every file can be a source
    /// of a tool.
    fn names(&self) -> Option<HashSet<OsString>> {
        self.sources
            .folders()
            .is_empty()
            .then(|| self.trace.names())
    }

    /// Returns the changed files, except those of the swarm's own state.
    fn changed(&self) -> Vec<PathBuf> {
        self.trace.changed(&self.ignored)
    }

    /// Returns the builds with changed sources, each only once.
    fn outdated(&mut self) -> (Vec<ToolBuild>, ToolBuilds) {
        (
            self.sources.changed(&self.ignored),
            self.sources.builds().clone(),
        )
    }
}

/// Task of a running watch.
struct WatchTask {
    swarm: Weak<SwarmInner>,
    notices: ChangeNotifications,
    files: Arc<Mutex<WatchedFiles>>,
    builder: ToolBuildRunner,
    options: WatchOptions,
}

impl WatchTask {
    /// Watches until the swarm ends or `cancellation` is cancelled, then ends the builds.
    async fn run_until(mut self, cancellation: CancellationToken) {
        tokio::select! {
            () = cancellation.cancelled() => {}
            () = self.run() => {}
        }
        self.builder.end().await;
    }

    /// Reloads the swarm after each change, until the swarm ends.
    async fn run(&mut self) {
        // The bundle was loaded before the watch started. One more load finds the changes since
        // then.
        let mut noticed = Instant::now();
        let mut alive = self
            .reload(ReloadCause::Watch {
                is_hasty: false,
                noticed,
                settled: noticed,
            })
            .await
            .is_some();
        while alive {
            self.arm().await;
            noticed = Instant::now();
            // Changes before the directories were watched produced no notification.
            if self.with_files(|files| files.changed().is_empty()).await {
                noticed = tokio::select! {
                    noticed = self.notices.next() => noticed,
                    () = self.builder.done() => Instant::now(),
                };
                // New directories and their files may have appeared before they were watched.
                self.arm().await;
            }
            let early_reload = self.reload_complete_files(noticed).await;
            self.notices
                .wait_until_quiet(self.options.settle, MAX_BURST_WAIT)
                .await;
            let ((outdated, builds), changed) = self
                .with_files(|files| (files.outdated(), files.changed()))
                .await;
            self.builder.enqueue_builds(outdated, &builds);
            if early_reload == Some(false) || !changed.is_empty() {
                self.wait_for_libraries(&changed).await;
                tracing::debug!(?changed, "files have changed");
                let cause = ReloadCause::Watch {
                    is_hasty: false,
                    noticed,
                    settled: Instant::now(),
                };
                alive = self.reload(cause).await.is_some();
            }
        }
    }

    /// Reloads at once if all changed files are complete. Returns false if the project does not
    /// load, because a file may be half written. Returns `None` without a reload for deleted or
    /// empty files and for libraries.
    async fn reload_complete_files(&mut self, noticed: Instant) -> Option<bool> {
        self.notices.wait_until_written(self.options.settle).await;
        let changed = self.with_files(|files| files.changed()).await;
        let is_complete = |path: &PathBuf| {
            !is_library(path)
                && path
                    .metadata()
                    .is_ok_and(|metadata| metadata.is_dir() || metadata.len() > 0)
        };
        if changed.is_empty() || !changed.iter().all(is_complete) {
            return None;
        }
        tracing::debug!(?changed, "files have changed");
        self.reload(ReloadCause::Watch {
            is_hasty: true,
            noticed,
            settled: Instant::now(),
        })
        .await
    }

    /// Reloads the project. Returns true on success, and `None` if the swarm has ended.
    async fn reload(&mut self, cause: ReloadCause) -> Option<bool> {
        let inner = self.swarm.upgrade()?;
        let (inputs, is_successful) = Swarm::of(inner).reload_for(cause).await;
        self.with_files(|files| {
            files.trace = inputs.trace;
            files.sources.replace_builds(inputs.builds);
        })
        .await;
        Some(is_successful)
    }

    /// Watches the directories of the current files.
    async fn arm(&mut self) {
        let (folders, names, root) = self
            .with_files(|files| (files.folders(), files.names(), files.root.clone()))
            .await;
        self.notices.arm(&folders, names, &root, self.options.poll);
    }

    /// Accesses the watched files in a blocking thread.
    async fn with_files<T: Send + 'static>(
        &self,
        access: impl FnOnce(&mut WatchedFiles) -> T + Send + 'static,
    ) -> T {
        let files = Arc::clone(&self.files);
        run_blocking(move || access(&mut files.lock().unwrap_or_else(PoisonError::into_inner)))
            .await
    }

    /// Waits until the changed libraries are stable, but at most [`MAX_LINK_WAIT`].
    async fn wait_for_libraries(&self, changed: &[PathBuf]) {
        let libraries: Vec<&PathBuf> = changed.iter().filter(|path| is_library(path)).collect();
        let end = Instant::now() + MAX_LINK_WAIT;
        let mut before: Vec<PathStamp> = libraries.iter().map(|path| PathStamp::of(path)).collect();
        while !libraries.is_empty() && Instant::now() < end {
            tokio::time::sleep(self.options.settle_library).await;
            let now: Vec<PathStamp> = libraries.iter().map(|path| PathStamp::of(path)).collect();
            if now == before {
                return;
            }
            before = now;
        }
    }
}

/// Returns true if the path has the suffix of a dynamic library.
fn is_library(path: &Path) -> bool {
    let suffix = path.extension().and_then(|suffix| suffix.to_str());
    matches!(suffix, Some("so" | "dylib" | "dll"))
}

/// Returns the absolute path, or the path itself if the current directory is unknown.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
