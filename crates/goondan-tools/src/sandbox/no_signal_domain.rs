//! Replacement for `signal_domain` on systems without sandboxes. It has no values.

/// The processes of a sandboxed program.
#[derive(Debug)]
pub(crate) enum SignalDomain {}

impl SignalDomain {
    pub(crate) fn kill(&self) {
        match *self {}
    }

    pub(crate) fn end(&self, _on_end: impl FnOnce() + Send + 'static) {
        match *self {}
    }

    pub(crate) fn stop(&self) {
        match *self {}
    }

    pub(crate) fn resume(&self) {
        match *self {}
    }

    pub(crate) fn has_stopped(&self) -> bool {
        match *self {}
    }
}
