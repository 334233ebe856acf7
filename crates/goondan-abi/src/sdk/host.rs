//! The host's table, made safe to call.

use std::ffi::c_void;

use serde::Serialize;

use crate::raw::{self, Bytes, Host, Status};

/// The host, as a library reaches it from any of its threads.
#[derive(Clone, Copy)]
pub(super) struct HostLink {
    ctx: *mut c_void,
    complete: unsafe extern "C" fn(*mut c_void, u64, Status, Bytes) -> Status,
    progress: unsafe extern "C" fn(*mut c_void, u64, Bytes) -> Status,
    log: unsafe extern "C" fn(*mut c_void, u64, Bytes) -> Status,
    request: unsafe extern "C" fn(*mut c_void, u64, u64, Bytes, Bytes) -> Status,
    cancelled: unsafe extern "C" fn(*mut c_void, u64) -> i32,
}

// SAFETY: by contract the host's functions may be called from any thread, and `ctx` stays valid until the process ends.
unsafe impl Send for HostLink {}
// SAFETY: as for `Send`; several threads may call at the same time.
unsafe impl Sync for HostLink {}

impl HostLink {
    /// Reads the host's table; `None` where it lacks a function that this version needs.
    ///
    /// # Safety
    ///
    /// `table` points at a host table whose `struct_size` is true and which keeps the promises of [`raw`].
    pub(super) unsafe fn read(table: *const Host) -> Option<HostLink> {
        // SAFETY: `ctx` and `struct_size` are there in every version; the pointer is good by the caller's promise.
        let size = unsafe { (&raw const (*table).struct_size).read_unaligned() };
        // SAFETY: the caller promises that the size is true.
        let table = unsafe { raw::read_prefix(table, size as usize) };
        Some(HostLink {
            ctx: table.ctx,
            complete: table.complete?,
            progress: table.progress?,
            log: table.log?,
            request: table.request?,
            cancelled: table.cancelled?,
        })
    }

    /// Answers `call`.
    pub(super) fn complete(&self, call: u64, status: Status, payload: &impl Serialize) -> Status {
        let Ok(payload) = serde_json::to_vec(payload) else {
            return Status::BAD_ARGUMENT;
        };
        // SAFETY: the host's promise at `read`; the bytes live for this call.
        unsafe { (self.complete)(self.ctx, call, status, Bytes::of(&payload)) }
    }

    /// Tells whoever watches `call`.
    pub(super) fn progress(&self, call: u64, payload: &impl Serialize) -> Status {
        let Ok(payload) = serde_json::to_vec(payload) else {
            return Status::BAD_ARGUMENT;
        };
        // SAFETY: the host's promise at `read`; the bytes live for this call.
        unsafe { (self.progress)(self.ctx, call, Bytes::of(&payload)) }
    }

    /// Logs about `call`, or [`raw::NO_CALL`].
    pub(super) fn log(&self, call: u64, payload: &impl Serialize) -> Status {
        let Ok(payload) = serde_json::to_vec(payload) else {
            return Status::BAD_ARGUMENT;
        };
        // SAFETY: the host's promise at `read`; the bytes live for this call.
        unsafe { (self.log)(self.ctx, call, Bytes::of(&payload)) }
    }

    /// Asks for `name`; the answer comes as a reply to `operation`.
    pub(super) fn request(
        &self,
        call: u64,
        operation: u64,
        name: &str,
        payload: &impl Serialize,
    ) -> Status {
        let Ok(payload) = serde_json::to_vec(payload) else {
            return Status::BAD_ARGUMENT;
        };
        // SAFETY: the host's promise at `read`; both byte strings live for this call.
        unsafe {
            (self.request)(
                self.ctx,
                call,
                operation,
                Bytes::of(name.as_bytes()),
                Bytes::of(&payload),
            )
        }
    }

    /// Whether `call` should end.
    pub(super) fn cancelled(&self, call: u64) -> bool {
        // SAFETY: the host's promise at `read`.
        unsafe { (self.cancelled)(self.ctx, call) != 0 }
    }
}
