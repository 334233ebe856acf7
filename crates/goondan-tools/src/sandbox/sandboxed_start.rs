//! Starts programs in their sandboxes, and opens files for them there.

use std::io;

use super::SandboxLayer;

/// The reason why a sandbox cannot be applied.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SandboxApplyError {
    #[cfg(target_os = "linux")]
    #[error("the process could not give up its capabilities: {0}")]
    Capabilities(#[source] rustix::io::Errno),
    #[cfg(target_os = "linux")]
    #[error("this kernel does not support the required Landlock features ({0})")]
    Rules(#[from] landlock::RulesetError),
    #[cfg(target_os = "linux")]
    #[error("this kernel does not support the required Landlock features ({0})")]
    Copy(#[from] io::Error),
    #[cfg(target_os = "linux")]
    #[error("this kernel does not support the required Landlock features (nothing was enforced)")]
    NotEnforced,
    #[cfg(target_os = "linux")]
    #[error("cannot install the seccomp filter: {0}")]
    Made(#[from] seccompiler::BackendError),
    #[cfg(target_os = "linux")]
    #[error("cannot install the seccomp filter: {0}")]
    PutOn(#[from] seccompiler::Error),
    #[cfg(not(target_os = "linux"))]
    #[error("sandboxes are supported only on Linux")]
    OtherSystem,
}

/// Returns true if this system has sandboxes: Linux with Landlock and seccomp.
pub fn is_there() -> bool {
    #[cfg(target_os = "linux")]
    return super::landlock::is_there();
    #[cfg(not(target_os = "linux"))]
    false
}

/// Runs `work` inside all `layers`; it starts a program or opens files for one. A sandbox cannot be
/// removed, so it is applied to a new thread.
pub(crate) fn run_in_sandbox<T: Send>(
    layers: &[SandboxLayer],
    work: impl FnOnce() -> io::Result<T> + Send,
) -> io::Result<T> {
    if layers.is_empty() {
        return work();
    }
    let runtime = tokio::runtime::Handle::current();
    let restricted = || {
        restrict(layers)?;
        let _here = runtime.enter();
        work()
    };
    std::thread::scope(|scope| {
        let starting = std::thread::Builder::new().spawn_scoped(scope, restricted)?;
        starting
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the sandboxed thread ended early")))
    })
}

#[cfg(target_os = "linux")]
fn restrict(layers: &[SandboxLayer]) -> io::Result<()> {
    super::landlock::sandbox(layers).map_err(io::Error::other)
}

#[cfg(not(target_os = "linux"))]
fn restrict(_layers: &[SandboxLayer]) -> io::Result<()> {
    Err(io::Error::other(SandboxApplyError::OtherSystem))
}
