//! The functions of the library table. They only catch panics and convert pointers to references.

use std::ffi::c_void;
use std::mem::size_of;
use std::time::Duration;

use super::export::Library;
use super::host::HostLink;
use super::panics;
use super::running_library::RunningLibrary;
use crate::raw::{
    ABI_MAJOR, ABI_MINOR, Bytes, ExtendingLibrary, FLAG_PANICS_STOP_HERE, Host,
    Library as LibraryTable, MAGIC, Plugin, PutFn, Status, write_prefix,
};

/// Implemented by [`export_tools!`](crate::export_tools) for a list of functions.
pub trait Exported {
    /// Returns the tools. Called when a host opens the library.
    fn library() -> Library;
}

/// Returns the symbol value of a library that exports `T`.
pub const fn plugin<T: Exported>() -> Plugin {
    Plugin {
        magic: MAGIC,
        abi_major: ABI_MAJOR,
        abi_minor: ABI_MINOR,
        struct_size: size_of::<Plugin>() as u32,
        library_size: size_of::<ExtendingLibrary>() as u32,
        flags: FLAG_PANICS_STOP_HERE,
        open: Some(open::<T>),
    }
}

/// # Safety
///
/// Same contract as for [`Plugin::open`]: `host` is a host table that fulfills the contract of
/// [`crate::raw`], and `out` has `out_size` writable bytes.
unsafe extern "C" fn open<T: Exported>(
    host: *const Host,
    out: *mut LibraryTable,
    out_size: usize,
) -> Status {
    let opened = panics::catch(|| {
        if host.is_null() || out.is_null() {
            return Status::BAD_ARGUMENT;
        }
        // SAFETY: not null, and the caller guarantees a host table.
        let Some(host) = (unsafe { HostLink::read(host) }) else {
            return Status::BAD_ARGUMENT;
        };
        panics::report_to(host);
        super::logging::forward();
        let library = T::library();
        let extend: Option<unsafe extern "C" fn(*mut c_void, u64, Bytes) -> Status> =
            match library.is_extending() {
                true => Some(extend),
                false => None,
            };
        let Ok(running) = RunningLibrary::new(host, library) else {
            return Status::INTERNAL;
        };
        let library = LibraryTable {
            this: Box::into_raw(Box::new(running)).cast(),
            describe: Some(describe),
            start: Some(start),
            cancel: Some(cancel),
            reply: Some(reply),
            close: Some(close),
        };
        let table = ExtendingLibrary { library, extend };
        // SAFETY: the caller guarantees `out_size` writable bytes. A host of minor version 0
        // provides fewer, and the part that it does not know is omitted.
        unsafe { write_prefix(&table, out.cast::<ExtendingLibrary>(), out_size) };
        Status::OK
    });
    opened.unwrap_or(Status::PANIC)
}

/// Lends the library of `this` to `body`; a panic becomes `PANIC`.
///
/// # Safety
///
/// `open` wrote `this`, and `close` has not been called with it.
unsafe fn with(this: *mut c_void, body: impl FnOnce(&RunningLibrary) -> Status) -> Status {
    // SAFETY: `this` comes from `Box::into_raw` in `open`, only `close` frees it, and the host
    // calls on one thread.
    let running = unsafe { &*this.cast::<RunningLibrary>() };
    panics::catch(|| body(running)).unwrap_or(Status::PANIC)
}

/// # Safety
///
/// Same contract as for the library table: `this` is open, and `put` takes `sink`.
unsafe extern "C" fn describe(this: *mut c_void, sink: *mut c_void, put: PutFn) -> Status {
    let write = |running: &RunningLibrary| {
        // SAFETY: the caller guarantees that `put` belongs to `sink`; the bytes live during the
        // call.
        unsafe { put(sink, Bytes::of(running.manifest())) };
        Status::OK
    };
    // SAFETY: the caller guarantees that `this` is open.
    unsafe { with(this, write) }
}

/// # Safety
///
/// Same contract as for the library table: `this` is open, and `request` is valid during the call.
unsafe extern "C" fn start(this: *mut c_void, call: u64, request: Bytes) -> Status {
    // SAFETY: the caller guarantees that the bytes live during this call.
    let Some(request) = (unsafe { request.as_slice() }) else {
        return Status::BAD_ARGUMENT;
    };
    // SAFETY: the caller guarantees that `this` is open.
    unsafe { with(this, |running| running.start(call, request)) }
}

/// # Safety
///
/// Same contract as for the library table: `this` is open, and `message` is valid during the call.
unsafe extern "C" fn extend(this: *mut c_void, call: u64, message: Bytes) -> Status {
    // SAFETY: the caller guarantees that the bytes live during this call.
    let Some(message) = (unsafe { message.as_slice() }) else {
        return Status::BAD_ARGUMENT;
    };
    // SAFETY: the caller guarantees that `this` is open.
    unsafe { with(this, |running| running.extend(call, message)) }
}

/// # Safety
///
/// Same contract as for the library table: `this` is open.
unsafe extern "C" fn cancel(this: *mut c_void, call: u64) {
    let fire = |running: &RunningLibrary| {
        running.cancel(call);
        Status::OK
    };
    // SAFETY: the caller guarantees that `this` is open.
    unsafe { with(this, fire) };
}

/// # Safety
///
/// Same contract as for the library table: `this` is open, and `bytes` is valid during the call.
unsafe extern "C" fn reply(this: *mut c_void, operation: u64, status: Status, bytes: Bytes) {
    // SAFETY: the caller guarantees that the bytes live during this call.
    let bytes = unsafe { bytes.as_slice() }.unwrap_or_default();
    let hand_on = |running: &RunningLibrary| {
        running.reply(operation, status, bytes);
        Status::OK
    };
    // SAFETY: the caller guarantees that `this` is open.
    unsafe { with(this, hand_on) };
}

/// # Safety
///
/// Same contract as for the library table: `this` is open, and is never used again.
unsafe extern "C" fn close(this: *mut c_void, grace_ms: u32) -> Status {
    let grace = Duration::from_millis(u64::from(grace_ms));
    // SAFETY: the caller guarantees that `this` is open.
    let status = unsafe { with(this, |running| running.close(grace)) };
    // SAFETY: the box comes from `open`, and the caller guarantees not to use it again. Running
    // threads only use parts that they own through an `Arc`.
    let running = unsafe { Box::from_raw(this.cast::<RunningLibrary>()) };
    let dropped = panics::catch(|| drop(running));
    if dropped.is_ok() {
        status
    } else {
        Status::PANIC
    }
}
