//! The functions of the library table. Each catches what panics and turns pointers into references; nothing else.

use std::ffi::c_void;
use std::mem::size_of;
use std::time::Duration;

use super::export::Library;
use super::host::HostLink;
use super::panics;
use super::running::Running;
use crate::raw::{
    ABI_MAJOR, ABI_MINOR, Bytes, ExtendingLibrary, FLAG_PANICS_STOP_HERE, Host,
    Library as LibraryTable, MAGIC, Plugin, PutFn, Status, write_prefix,
};

/// What [`export_tools!`](crate::export_tools) makes of a list of functions.
pub trait Exported {
    /// The tools, built when a host opens the library.
    fn library() -> Library;
}

/// The symbol of a library that exports `T`.
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
/// As [`Plugin::open`]: `host` is a host table that keeps the promises of [`crate::raw`], `out` has `out_size` writable bytes.
unsafe extern "C" fn open<T: Exported>(
    host: *const Host,
    out: *mut LibraryTable,
    out_size: usize,
) -> Status {
    let opened = panics::catch(|| {
        if host.is_null() || out.is_null() {
            return Status::BAD_ARGUMENT;
        }
        // SAFETY: not null, and a host table by the caller's promise.
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
        let Ok(running) = Running::new(host, library) else {
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
        // SAFETY: the caller promises `out_size` writable bytes; of a host of minor 0 there are fewer, and the part that it
        // does not know is left out.
        unsafe { write_prefix(&table, out.cast::<ExtendingLibrary>(), out_size) };
        Status::OK
    });
    opened.unwrap_or(Status::PANIC)
}

/// Lends the library behind `this` to `body`; a panic becomes `PANIC`.
///
/// # Safety
///
/// `this` is what `open` wrote, and `close` has not been called with it.
unsafe fn with(this: *mut c_void, body: impl FnOnce(&Running) -> Status) -> Status {
    // SAFETY: `this` came from `Box::into_raw` in `open`, only `close` frees it, and the host calls on one thread.
    let running = unsafe { &*this.cast::<Running>() };
    panics::catch(|| body(running)).unwrap_or(Status::PANIC)
}

/// # Safety
///
/// As the library table: `this` is open, `put` takes `sink`.
unsafe extern "C" fn describe(this: *mut c_void, sink: *mut c_void, put: PutFn) -> Status {
    let write = |running: &Running| {
        // SAFETY: `put` belongs to `sink` by the caller's promise; the bytes live for the call.
        unsafe { put(sink, Bytes::of(running.manifest())) };
        Status::OK
    };
    // SAFETY: the caller promises that `this` is open.
    unsafe { with(this, write) }
}

/// # Safety
///
/// As the library table: `this` is open, `request` lives for the call.
unsafe extern "C" fn start(this: *mut c_void, call: u64, request: Bytes) -> Status {
    // SAFETY: the caller promises that the bytes live for this call.
    let Some(request) = (unsafe { request.as_slice() }) else {
        return Status::BAD_ARGUMENT;
    };
    // SAFETY: the caller promises that `this` is open.
    unsafe { with(this, |running| running.start(call, request)) }
}

/// # Safety
///
/// As the library table: `this` is open, `message` lives for the call.
unsafe extern "C" fn extend(this: *mut c_void, call: u64, message: Bytes) -> Status {
    // SAFETY: the caller promises that the bytes live for this call.
    let Some(message) = (unsafe { message.as_slice() }) else {
        return Status::BAD_ARGUMENT;
    };
    // SAFETY: the caller promises that `this` is open.
    unsafe { with(this, |running| running.extend(call, message)) }
}

/// # Safety
///
/// As the library table: `this` is open.
unsafe extern "C" fn cancel(this: *mut c_void, call: u64) {
    let fire = |running: &Running| {
        running.cancel(call);
        Status::OK
    };
    // SAFETY: the caller promises that `this` is open.
    unsafe { with(this, fire) };
}

/// # Safety
///
/// As the library table: `this` is open, `bytes` lives for the call.
unsafe extern "C" fn reply(this: *mut c_void, operation: u64, status: Status, bytes: Bytes) {
    // SAFETY: the caller promises that the bytes live for this call.
    let bytes = unsafe { bytes.as_slice() }.unwrap_or_default();
    let hand_on = |running: &Running| {
        running.reply(operation, status, bytes);
        Status::OK
    };
    // SAFETY: the caller promises that `this` is open.
    unsafe { with(this, hand_on) };
}

/// # Safety
///
/// As the library table: `this` is open, and is never used again.
unsafe extern "C" fn close(this: *mut c_void, grace_ms: u32) -> Status {
    let grace = Duration::from_millis(u64::from(grace_ms));
    // SAFETY: the caller promises that `this` is open.
    let status = unsafe { with(this, |running| running.close(grace)) };
    // SAFETY: the box that `open` gave away; the caller promises not to use it again. Threads that still run share no part
    // of it but what they hold an `Arc` of.
    let running = unsafe { Box::from_raw(this.cast::<Running>()) };
    let dropped = panics::catch(|| drop(running));
    if dropped.is_ok() {
        status
    } else {
        Status::PANIC
    }
}
