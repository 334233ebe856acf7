//! Hot reload from the file system (rule R1): watches what a running swarm was made from, and reloads it when that changes.
//!
//! Each load notes what it has looked at ([`trace`]). A notice of the operating system ([`notices`]) leads to a look at
//! those files; where one differs and has come to rest, the swarm reloads, and the new load says what to watch from then on.

mod notices;
pub(crate) mod stamp;
pub(crate) mod trace;

use std::path::{Path, PathBuf};
use std::sync::Weak;
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;

use self::notices::Notices;
use self::stamp::Stamp;
use self::trace::Trace;
use crate::reload::Cause;
use crate::swarm::{Inner, Swarm};

/// How patient a watch is.
#[derive(Debug, Clone, Copy)]
pub struct WatchOptions {
    /// Files have come to rest when nothing was heard of them for that long (default 40 ms).
    pub settle: Duration,
    /// A library has come to rest when its size and times stood still for that long (default 150 ms): linkers pause.
    pub settle_library: Duration,
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
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Swarm {
    /// Reloads this swarm from now on whenever a file changes that it was made from. What comes of it is told to
    /// [`Swarm::reloads`].
    pub fn watch(&self, options: WatchOptions) -> Watch {
        let watcher = Watcher {
            swarm: self.downgrade(),
            root: absolute(&self.root()),
            ignored: self.state_root(),
            notices: Notices::open(options.quiet_check, options.poll),
            trace: Trace::default(),
            options,
        };
        Watch { task: tokio::spawn(watcher.run()) }
    }
}

struct Watcher {
    swarm: Weak<Inner>,
    root: PathBuf,
    /// The state of swarms, which may lie in the project.
    ignored: PathBuf,
    notices: Notices,
    trace: Trace,
    options: WatchOptions,
}

impl Watcher {
    async fn run(mut self) {
        // The bundle was loaded before anybody watched: what has changed since then is found by loading it once more.
        let mut noticed = Instant::now();
        if !self.reload(Cause::Watch { noticed, settled: noticed }).await {
            return;
        }
        loop {
            self.arm();
            // What changed before its folder was watched was not told.
            if self.trace.changed(&self.ignored).is_empty() {
                noticed = self.notices.next().await;
                // Folders may have appeared, and files in them, before anybody watched them.
                self.arm();
            }
            self.notices.calm(self.options.settle, LONGEST_BURST).await;
            let changed = self.trace.changed(&self.ignored);
            if changed.is_empty() {
                continue;
            }
            self.wait_for_libraries(&changed).await;
            tracing::debug!(?changed, "files have changed");
            if !self.reload(Cause::Watch { noticed, settled: Instant::now() }).await {
                return;
            }
        }
    }

    /// False where the swarm has ended.
    async fn reload(&mut self, cause: Cause) -> bool {
        let Some(inner) = self.swarm.upgrade() else { return false };
        self.trace = Swarm::of(inner).reload_for(cause).await;
        true
    }

    fn arm(&mut self) {
        let folders = self.trace.folders(&self.root, &self.ignored);
        self.notices.arm(&folders, &self.root, self.options.poll);
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
