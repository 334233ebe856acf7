//! Signals to processes.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProcessSignal(pub(crate) i32);

impl ProcessSignal {
    /// Requests termination. The number is the same on all systems.
    pub(crate) const TERMINATE: ProcessSignal = ProcessSignal(15);
    #[cfg(unix)]
    pub(crate) const STOP: ProcessSignal = ProcessSignal(nix::libc::SIGSTOP);
    #[cfg(unix)]
    pub(crate) const CONTINUE: ProcessSignal = ProcessSignal(nix::libc::SIGCONT);

    /// Sends the signal to a group. Succeeds if it has already ended.
    #[cfg(unix)]
    pub(crate) fn send_to(self, group: u32) {
        use nix::sys::signal::{Signal, killpg};
        let group = i32::try_from(group).map(nix::unistd::Pid::from_raw);
        let _ = group.map(|group| Signal::try_from(self.0).map(|signal| killpg(group, signal)));
    }

    /// Signals do not exist on this platform.
    #[cfg(not(unix))]
    pub(crate) fn send_to(self, _group: u32) {}

    /// Parses a name such as `SIGINT` or `int`; `None` for an unknown signal.
    #[cfg(unix)]
    pub(crate) fn parse(name: &str) -> Option<ProcessSignal> {
        let name = name.trim().to_ascii_uppercase();
        let name = if name.starts_with("SIG") {
            name
        } else {
            format!("SIG{name}")
        };
        name.parse::<nix::sys::signal::Signal>()
            .ok()
            .map(|signal| ProcessSignal(signal as i32))
    }

    /// Signals do not exist on this platform.
    #[cfg(not(unix))]
    pub(crate) fn parse(_name: &str) -> Option<ProcessSignal> {
        None
    }
}
