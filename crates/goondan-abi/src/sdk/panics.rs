//! Catches panics inside the library, because the host uses another standard library and cannot
//! catch them.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

use super::host::HostLink;
use crate::raw::NO_CALL;
use crate::wire::{JsonObject, LogLevel, LogLine};

/// The host that receives log lines from all parts of this library.
static HOST_LINK: OnceLock<HostLink> = OnceLock::new();

thread_local! {
    /// The call that this thread works for. It has no destructor, so that it never outlives its
    /// thread.
    static CURRENT_CALL: Cell<u64> = const { Cell::new(NO_CALL) };
}

/// Runs `body`, and converts a panic to its message.
pub(super) fn catch<T>(body: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(body)).map_err(|payload| {
        let message = message_of(payload.as_ref());
        discard(payload);
        message
    })
}

/// Drops a payload. If its drop panics, the new payload is leaked and not dropped.
fn discard(payload: Box<dyn Any + Send>) {
    if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(second);
    }
}

/// Returns the message of a panic.
fn message_of(payload: &(dyn Any + Send)) -> String {
    let text = payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned())
}

/// Assigns this thread's log lines to `call` until the result is dropped.
pub(super) fn working_for(call: u64) -> impl Drop {
    struct Reset(u64);
    impl Drop for Reset {
        fn drop(&mut self) {
            CURRENT_CALL.set(self.0);
        }
    }
    Reset(CURRENT_CALL.replace(call))
}

/// Logs a line for the call that this thread works for.
pub(super) fn log(line: &LogLine) {
    if let Some(host) = HOST_LINK.get() {
        host.log(CURRENT_CALL.get(), line);
    }
}

/// Sends panics to the host's log instead of standard error. Has an effect only once per copy of
/// the library.
pub(super) fn report_to(host: HostLink) {
    if HOST_LINK.set(host).is_err() {
        return;
    }
    std::panic::set_hook(Box::new(|info| {
        let mut fields = JsonObject::new();
        if let Some(location) = info.location() {
            fields.insert("at".to_owned(), location.to_string().into());
        }
        let message = format!(
            "panicked: {}",
            info.payload_as_str().unwrap_or("no message")
        );
        log(&LogLine {
            level: LogLevel::Error,
            message,
            target: None,
            fields,
        });
    }));
}
