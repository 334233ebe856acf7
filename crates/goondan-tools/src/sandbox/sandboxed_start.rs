//! Starts programs in their sandboxes, and opens files for them there.

use std::io;
use std::sync::Arc;

use super::{SandboxLayer, SignalDomain};

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
    #[error("{} is or contains a symbolic link", .0.display())]
    Link(std::path::PathBuf),
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
pub fn is_supported() -> bool {
    #[cfg(target_os = "linux")]
    return super::landlock::is_supported();
    #[cfg(not(target_os = "linux"))]
    false
}

/// Starts a program inside all `layers`, by `work`. Returns the domain of a sandboxed program, if the
/// kernel has such domains. The layers of a program that sandboxes itself are empty.
pub(crate) fn start_in_sandbox<T: Send + 'static>(
    is_sandboxed: bool,
    layers: Arc<[SandboxLayer]>,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<(T, Option<SignalDomain>)> {
    #[cfg(target_os = "linux")]
    if is_sandboxed && SignalDomain::is_supported() {
        let runtime = tokio::runtime::Handle::current();
        let (done, domain) = SignalDomain::start(move || {
            let _here = runtime.enter();
            run_in_sandbox(&layers, work)
        })?;
        return Ok((done, Some(domain)));
    }
    #[cfg(not(target_os = "linux"))]
    let _ = is_sandboxed;
    Ok((run_in_sandbox(&layers, work)?, None))
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
        apply_layers(layers)?;
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
fn apply_layers(layers: &[SandboxLayer]) -> io::Result<()> {
    super::landlock::apply_layers(layers)
        .and_then(|()| super::system_calls::protect_current_thread())
        .map_err(io::Error::other)
}

#[cfg(not(target_os = "linux"))]
fn apply_layers(_layers: &[SandboxLayer]) -> io::Result<()> {
    Err(io::Error::other(SandboxApplyError::OtherSystem))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::process::Command;

    use nix::unistd::gettid;

    use super::*;

    /// The starting thread is in the sandbox of the program, so a signal would reach this process.
    #[tokio::test]
    async fn a_program_cannot_signal_the_thread_that_started_it() {
        if !is_supported() {
            return;
        }
        let layer = SandboxLayer {
            read: ["/usr", "/bin", "/lib", "/lib64"].map(Into::into).into(),
            ..SandboxLayer::default()
        };
        let signals = || {
            let script = format!("kill -0 $$ && ! kill -0 {}", gettid());
            Command::new("/bin/sh").args(["-c", &script]).status()
        };
        assert!(run_in_sandbox(&[layer], signals).unwrap().success());
    }
}
