//! Hot reload from the file system (rule R1): watches what a running swarm was made from, and reloads it when that changes.
//!
//! Each load notes what it has looked at ([`trace`]). A notice of the operating system ([`notices`]) leads to a look at
//! those files; where one differs and has come to rest, the swarm reloads, and the new load says what to watch from then on.

mod notices;
mod sources;
pub(crate) mod stamp;
pub(crate) mod texts;
pub(crate) mod trace;

use std::collections::{BTreeSet, HashSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use goondan_spec::kinds::ToolBuild;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use self::notices::Notices;
use self::sources::{Builder, ToolSources};
use self::stamp::Stamp;
use self::trace::Trace;
use crate::beside::beside;
use crate::build::Builds;
use crate::identity::canonical;
use crate::reload::Cause;
use crate::swarm::{Inner, Swarm};

/// How patient a watch is.
#[derive(Debug, Clone, Copy)]
pub struct WatchOptions {
    /// Files that do not load, or are gone, have come to rest when nothing was heard of them for that long (default 40 ms). What
    /// is written whole and loads is taken up at once.
    pub settle: Duration,
    /// A library has come to rest when its size and times stood still for that long (default 150 ms): linkers pause.
    pub settle_library: Duration,
    /// Whether the operating system is asked to tell of changes (default yes).
    pub listen: bool,
    /// How often files are looked at where the system does not tell of changes (default 1 s).
    pub poll: Duration,
    /// How often files are looked at although the system said nothing (default 5 s): some network file systems are silent.
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

/// Whatever goes on changing is loaded after that long all the same.
const LONGEST_BURST: Duration = Duration::from_secs(2);
/// A library that goes on changing is loaded after that long all the same.
const LONGEST_LINK: Duration = Duration::from_secs(30);

/// A running watch. It ends when this is dropped, or with its swarm.
#[derive(Debug)]
pub struct Watch {
    task: JoinHandle<()>,
    cancellation: CancellationToken,
}

impl Watch {
    /// Ends it, and waits until a build that runs has ended with all that it had started.
    pub async fn end(mut self) {
        self.cancellation.cancel();
        // It was asked to, so a panic is all that can be wrong, and that was told.
        let _ = (&mut self.task).await;
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.cancellation.cancel();
    }
}

impl Swarm {
    /// Reloads this swarm from now on whenever a file changes that it was made from, and builds tools whose sources change.
    /// What comes of it is told to [`Swarm::reload_news`].
    pub fn watch(&self, options: WatchOptions) -> Watch {
        let (ignored, cancellation) = (
            self.state_beside(&absolute(&self.root())),
            CancellationToken::new(),
        );
        let sight = Sight {
            root: absolute(&self.root()),
            trace: Trace::default(),
            sources: ToolSources::of(Builds::of_bundle(&self.bundle()), &ignored),
            ignored,
        };
        let watcher = Watcher {
            swarm: self.downgrade(),
            notices: Notices::open(&options),
            sight: Arc::new(Mutex::new(sight)),
            builder: Builder::new(self.downgrade(), cancellation.clone()),
            options,
        };
        Watch {
            task: tokio::spawn(watcher.run_until(cancellation.clone())),
            cancellation,
        }
    }
}

impl Swarm {
    /// The folder of the state, as far as the project in `root` does not lie in it: then it is that of this swarm alone.
    fn state_beside(&self, root: &Path) -> PathBuf {
        let state = self.state_root();
        match canonical(root).starts_with(canonical(&state)) {
            true => self.workspace_dir(),
            false => state,
        }
    }
}

/// What is looked at.
struct Sight {
    root: PathBuf,
    /// The state of swarms, which may lie in the project.
    ignored: PathBuf,
    trace: Trace,
    sources: ToolSources,
}

impl Sight {
    fn folders(&self) -> BTreeSet<PathBuf> {
        let mut folders = self.trace.folders(&self.root, &self.ignored);
        folders.extend(self.sources.folders().iter().cloned());
        folders
    }

    /// The names of the files whose content matters; none where any may be a source of a tool.
    fn names(&self) -> Option<HashSet<OsString>> {
        self.sources
            .folders()
            .is_empty()
            .then(|| self.trace.names())
    }

    fn changed(&self) -> Vec<PathBuf> {
        self.trace.changed(&self.ignored)
    }

    /// The builds that changed sources ask for, once each.
    fn outdated(&mut self) -> (Vec<ToolBuild>, Builds) {
        (
            self.sources.changed(&self.ignored),
            self.sources.builds().clone(),
        )
    }
}

struct Watcher {
    swarm: Weak<Inner>,
    notices: Notices,
    sight: Arc<Mutex<Sight>>,
    builder: Builder,
    options: WatchOptions,
}

impl Watcher {
    async fn run_until(mut self, cancellation: CancellationToken) {
        tokio::select! {
            () = cancellation.cancelled() => {}
            () = self.run() => {}
        }
        self.builder.end().await;
    }

    async fn run(&mut self) {
        // The bundle was loaded before anybody watched: what has changed since then is found by loading it once more.
        let mut noticed = Instant::now();
        let mut alive = self
            .reload(Cause::Watch {
                is_hasty: false,
                noticed,
                settled: noticed,
            })
            .await
            .is_some();
        while alive {
            self.arm().await;
            noticed = Instant::now();
            // What changed before its folder was watched was not told.
            if self.look(|sight| sight.changed().is_empty()).await {
                noticed = tokio::select! {
                    noticed = self.notices.next() => noticed,
                    () = self.builder.done() => Instant::now(),
                };
                // Folders may have appeared, and files in them, before anybody watched them.
                self.arm().await;
            }
            let hasty = self.take_up_at_once(noticed).await;
            self.notices.calm(self.options.settle, LONGEST_BURST).await;
            let ((outdated, builds), changed) =
                self.look(|sight| (sight.outdated(), sight.changed())).await;
            self.builder.want(outdated, &builds);
            if hasty == Some(false) || !changed.is_empty() {
                self.wait_for_libraries(&changed).await;
                tracing::debug!(?changed, "files have changed");
                let cause = Cause::Watch {
                    is_hasty: false,
                    noticed,
                    settled: Instant::now(),
                };
                alive = self.reload(cause).await.is_some();
            }
        }
    }

    /// Takes up what is whole and loads, without waiting for what else may come. False where it does not load: then it may be
    /// half of something. `None` where nothing was tried: a file is gone or empty, as between two steps of an editor, or a
    /// library has changed.
    async fn take_up_at_once(&mut self, noticed: Instant) -> Option<bool> {
        self.notices.rest(self.options.settle).await;
        let changed = self.look(|sight| sight.changed()).await;
        let is_whole = |path: &PathBuf| {
            !is_library(path)
                && path
                    .metadata()
                    .is_ok_and(|metadata| metadata.is_dir() || metadata.len() > 0)
        };
        if changed.is_empty() || !changed.iter().all(is_whole) {
            return None;
        }
        tracing::debug!(?changed, "files have changed");
        self.reload(Cause::Watch {
            is_hasty: true,
            noticed,
            settled: Instant::now(),
        })
        .await
    }

    /// Whether the project could be taken up; `None` where the swarm has ended.
    async fn reload(&mut self, cause: Cause) -> Option<bool> {
        let inner = self.swarm.upgrade()?;
        let (looked, is_taken_up) = Swarm::of(inner).reload_for(cause).await;
        self.look(|sight| {
            sight.trace = looked.trace;
            sight.sources.take_over(looked.builds);
        })
        .await;
        Some(is_taken_up)
    }

    async fn arm(&mut self) {
        let (folders, names, root) = self
            .look(|sight| (sight.folders(), sight.names(), sight.root.clone()))
            .await;
        self.notices.arm(&folders, names, &root, self.options.poll);
    }

    /// Looks at files where that may take its time.
    async fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&mut Sight) -> T + Send + 'static,
    ) -> T {
        let sight = Arc::clone(&self.sight);
        beside(move || look(&mut sight.lock().unwrap_or_else(PoisonError::into_inner))).await
    }

    async fn wait_for_libraries(&self, changed: &[PathBuf]) {
        let libraries: Vec<&PathBuf> = changed.iter().filter(|path| is_library(path)).collect();
        let end = Instant::now() + LONGEST_LINK;
        let mut before: Vec<Stamp> = libraries.iter().map(|path| Stamp::of(path)).collect();
        while !libraries.is_empty() && Instant::now() < end {
            tokio::time::sleep(self.options.settle_library).await;
            let now: Vec<Stamp> = libraries.iter().map(|path| Stamp::of(path)).collect();
            if now == before {
                return;
            }
            before = now;
        }
    }
}

fn is_library(path: &Path) -> bool {
    let suffix = path.extension().and_then(|suffix| suffix.to_str());
    matches!(suffix, Some("so" | "dylib" | "dll"))
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
