//! The host table: the functions that a library calls from any of its threads.
//!
//! Each function copies its arguments, decodes them on the library's thread, and forwards them
//! without blocking. None of them calls into the library or lets a panic escape.

use std::ffi::c_void;
use std::mem::size_of;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use goondan_abi::raw::{ABI_MAJOR, ABI_MINOR, Bytes, Host, Status};
use goondan_abi::wire::operation;
use goondan_core::plugin_session::RunningMessage;
use goondan_core::ports::tool::HandlerError;
use goondan_spec::Code;
use serde::de::DeserializeOwned;

use crate::library_messages::{LibraryCallbacks, Outcome};

/// The target of a host table's `ctx`. Leaked, because a library may call at any time until the
/// process ends.
pub(crate) struct HostPort {
    callbacks: Arc<dyn LibraryCallbacks>,
    max_payload: u64,
}

impl HostPort {
    /// Creates the table for one library. It is never freed, like the mapping of the library that
    /// uses it.
    pub(crate) fn leak(callbacks: Arc<dyn LibraryCallbacks>, max_payload: u64) -> &'static Host {
        let port: &'static HostPort = Box::leak(Box::new(HostPort {
            callbacks,
            max_payload,
        }));
        Box::leak(Box::new(Host {
            ctx: std::ptr::from_ref(port).cast_mut().cast::<c_void>(),
            struct_size: size_of::<Host>() as u32,
            abi_major: ABI_MAJOR,
            abi_minor: ABI_MINOR,
            max_payload,
            complete: Some(complete),
            progress: Some(progress),
            log: Some(log),
            request: Some(request),
            cancelled: Some(cancelled),
        }))
    }

    /// Returns the bytes that a library lends, if they are valid and within the size limit.
    ///
    /// # Safety
    ///
    /// `bytes` fulfills the contract of [`Bytes`] as long as the result is used.
    unsafe fn borrow<'a>(&self, bytes: Bytes) -> Result<&'a [u8], Status> {
        if bytes.len as u64 > self.max_payload {
            return Err(Status::TOO_LARGE);
        }
        // SAFETY: the caller guarantees it.
        unsafe { bytes.as_slice() }.ok_or(Status::BAD_ARGUMENT)
    }

    /// Decodes a payload.
    ///
    /// # Safety
    ///
    /// Same contract as for [`HostPort::borrow`], during this call.
    unsafe fn decode<T: DeserializeOwned>(&self, bytes: Bytes) -> Result<T, Status> {
        // SAFETY: the caller guarantees it.
        let bytes = unsafe { self.borrow(bytes) }?;
        serde_json::from_slice(bytes).map_err(|_| Status::BAD_ARGUMENT)
    }

    /// Ends a call with the result that the library reported. Returns the status for the library.
    fn complete(&self, call: u64, status: Status, bytes: Result<&[u8], Status>) -> Status {
        let (outcome, refusal) = match bytes {
            Ok(bytes) => read_outcome(status, bytes),
            Err(refused) => (Err(self.refused_output(refused)), Some(refused)),
        };
        match self.callbacks.complete(call, outcome) {
            Status::OK => refusal.unwrap_or(Status::OK),
            other => other,
        }
    }

    /// Returns the error of a call whose result was refused.
    fn refused_output(&self, refused: Status) -> HandlerError {
        match refused {
            Status::TOO_LARGE => HandlerError::new(format!(
                "its result is larger than {} bytes",
                self.max_payload
            ))
            .code(Code::TOOL_FAILED)
            .suggest("Request less per call."),
            _ => HandlerError::new("its result is not in readable memory").code(Code::TOOL_FAILED),
        }
    }
}

/// Parses the result of a call. Also returns the status to report if the bytes are invalid.
fn read_outcome(status: Status, bytes: &[u8]) -> (Outcome, Option<Status>) {
    if status == Status::OK {
        return match serde_json::from_slice(bytes) {
            Ok(output) => (Ok(output), None),
            Err(cause) => {
                let error = HandlerError::new(format!("its result is not valid JSON: {cause}"));
                (
                    Err(error.code(Code::TOOL_FAILED)),
                    Some(Status::BAD_ARGUMENT),
                )
            }
        };
    }
    let reported = serde_json::from_slice::<HandlerError>(bytes).ok();
    let mut error =
        reported.unwrap_or_else(|| HandlerError::new(format!("it ended with {}", status.name())));
    match status {
        Status::PANIC => error.code = Some(Code::TOOL_PANIC.into()),
        Status::CANCELLED => error.code = Some(Code::TOOL_CANCELLED.into()),
        _ => {}
    }
    (Err(error), None)
}

/// Runs `body` with the port of `ctx`. Catches panics of this program.
///
/// # Safety
///
/// `ctx` belongs to a table made by [`HostPort::leak`].
unsafe fn with(ctx: *mut c_void, body: impl FnOnce(&HostPort) -> Status) -> Status {
    if ctx.is_null() {
        return Status::BAD_ARGUMENT;
    }
    // SAFETY: `leak` stored a `HostPort` there, which is `Sync` and never freed.
    let port = unsafe { &*ctx.cast_const().cast::<HostPort>() };
    catch_unwind(AssertUnwindSafe(|| body(port))).unwrap_or(Status::INTERNAL)
}

/// # Safety
///
/// Same contract as for [`Host::complete`]: `ctx` belongs to the table, the bytes are valid during
/// the call.
unsafe extern "C" fn complete(ctx: *mut c_void, call: u64, status: Status, bytes: Bytes) -> Status {
    let answer = |port: &HostPort| {
        // SAFETY: the caller lends the bytes for this call.
        let bytes = unsafe { port.borrow(bytes) };
        port.complete(call, status, bytes)
    };
    // SAFETY: the caller passes the table's own `ctx`.
    unsafe { with(ctx, answer) }
}

/// # Safety
///
/// Same contract as for [`Host::progress`]: `ctx` belongs to the table, the bytes are valid during
/// the call.
unsafe extern "C" fn progress(ctx: *mut c_void, call: u64, bytes: Bytes) -> Status {
    let forward = |port: &HostPort| {
        // SAFETY: the caller lends the bytes for this call.
        let progress = unsafe { port.decode(bytes) };
        progress.map_or_else(
            |refused| refused,
            |progress| {
                port.callbacks
                    .event(call, RunningMessage::Progress(progress))
            },
        )
    };
    // SAFETY: the caller passes the table's own `ctx`.
    unsafe { with(ctx, forward) }
}

/// # Safety
///
/// Same contract as for [`Host::log`]: `ctx` belongs to the table, the bytes are valid during the
/// call.
unsafe extern "C" fn log(ctx: *mut c_void, call: u64, bytes: Bytes) -> Status {
    let forward = |port: &HostPort| {
        // SAFETY: the caller lends the bytes for this call.
        let line = unsafe { port.decode(bytes) };
        line.map_or_else(
            |refused| refused,
            |line| port.callbacks.event(call, RunningMessage::Log(line)),
        )
    };
    // SAFETY: the caller passes the table's own `ctx`.
    unsafe { with(ctx, forward) }
}

/// # Safety
///
/// Same contract as for [`Host::request`]: `ctx` belongs to the table, both byte strings are valid
/// during the call.
unsafe extern "C" fn request(
    ctx: *mut c_void,
    call: u64,
    operation: u64,
    name: Bytes,
    bytes: Bytes,
) -> Status {
    let ask = |port: &HostPort| {
        // SAFETY: the caller lends the bytes for this call.
        let name = match unsafe { port.borrow(name) }.map(str::from_utf8) {
            Ok(Ok(name)) => name,
            Ok(Err(_)) => return Status::BAD_ARGUMENT,
            Err(refused) => return refused,
        };
        let known = [
            &operation::ALL[..],
            &operation::OF_LAYERS,
            &operation::OF_CONNECTORS,
        ];
        if !known.iter().any(|names| names.contains(&name)) {
            return Status::UNKNOWN_OPERATION;
        }
        // SAFETY: the caller lends the bytes for this call.
        match unsafe { port.decode(bytes) } {
            Ok(payload) => port.callbacks.event(
                call,
                RunningMessage::Request {
                    operation,
                    name: name.to_owned(),
                    payload,
                },
            ),
            Err(refused) => refused,
        }
    };
    // SAFETY: the caller passes the table's own `ctx`.
    unsafe { with(ctx, ask) }
}

/// # Safety
///
/// Same contract as for [`Host::cancelled`]: `ctx` belongs to the table.
unsafe extern "C" fn cancelled(ctx: *mut c_void, call: u64) -> i32 {
    let answer = |port: &HostPort| {
        if port.callbacks.is_cancelled(call) {
            Status(1)
        } else {
            Status(0)
        }
    };
    // SAFETY: the caller passes the table's own `ctx`.
    let Status(answer) = unsafe { with(ctx, answer) };
    answer
}
