//! Starts programs in their sandboxes.

use std::io;

use super::Layer;

/// Why a sandbox could not be put on.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct NoSandbox(pub(crate) String);

/// Whether this system has sandboxes for programs: Linux with Landlock and seccomp has.
pub fn is_there() -> bool {
    #[cfg(target_os = "linux")]
    return super::linux::is_there();
    #[cfg(not(target_os = "linux"))]
    false
}

/// Does `work`, which starts a program, inside all `layers`. A sandbox can't be taken off again, so it is put on a thread
/// that is made for it.
pub(crate) fn inside<T: Send>(layers: &[Layer], work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
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
        starting.join().unwrap_or_else(|_| Err(io::Error::other("the thread that starts a program ended early")))
    })
}

#[cfg(target_os = "linux")]
fn restrict(layers: &[Layer]) -> io::Result<()> {
    super::linux::sandbox(layers).map_err(|reason| io::Error::other(NoSandbox(reason)))
}

#[cfg(not(target_os = "linux"))]
fn restrict(_layers: &[Layer]) -> io::Result<()> {
    Err(io::Error::other(NoSandbox("there is a sandbox on Linux alone".to_owned())))
}
