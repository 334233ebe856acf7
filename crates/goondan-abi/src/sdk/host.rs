//! Safe functions for the host's table.

use std::ffi::c_void;

use serde::Serialize;

use crate::raw::{self, Bytes, Host, Status};

/// The host table as a library uses it, from any of its threads.
#[derive(Clone, Copy)]
pub(super) struct HostLink {
    ctx: *mut c_void,
    complete: unsafe extern "C" fn(*mut c_void, u64, Status, Bytes) -> Status,
    progress: unsafe extern "C" fn(*mut c_void, u64, Bytes) -> Status,
    log: unsafe extern "C" fn(*mut c_void, u64, Bytes) -> Status,
    request: unsafe extern "C" fn(*mut c_void, u64, u64, Bytes, Bytes) -> Status,
    cancelled: unsafe extern "C" fn(*mut c_void, u64) -> i32,
}

// SAFETY: by contract the host's functions may be called from any thread, and `ctx` stays valid
// until the process ends.
unsafe impl Send for HostLink {}
// SAFETY: the same as for `Send`; several threads may call concurrently.
unsafe impl Sync for HostLink {}

impl HostLink {
    /// Reads the host's table; `None` if it lacks a function that this version needs.
    ///
    /// # Safety
    ///
    /// `table` points to a host table with a correct `struct_size` that fulfills the contract of
    /// [`raw`].
    pub(super) unsafe fn read(table: *const Host) -> Option<HostLink> {
        // SAFETY: `ctx` and `struct_size` exist in every version; the caller guarantees the
        // pointer.
        let size = unsafe { (&raw const (*table).struct_size).read_unaligned() };
        // SAFETY: the caller guarantees that the size is correct.
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

    /// Reports the result of a call. Returns the status of the host.
    pub(super) fn complete(&self, call: u64, status: Status, payload: &impl Serialize) -> Status {
        let Ok(payload) = serde_json::to_vec(payload) else {
            return Status::BAD_ARGUMENT;
        };
        // SAFETY: guaranteed by the caller of `read`; the bytes live during this call.
        unsafe { (self.complete)(self.ctx, call, status, Bytes::of(&payload)) }
    }

    /// Reports the progress of a call. Returns the status of the host.
    pub(super) fn progress(&self, call: u64, payload: &impl Serialize) -> Status {
        let Ok(payload) = serde_json::to_vec(payload) else {
            return Status::BAD_ARGUMENT;
        };
        // SAFETY: guaranteed by the caller of `read`; the bytes live during this call.
        unsafe { (self.progress)(self.ctx, call, Bytes::of(&payload)) }
    }

    /// Logs a line for `call`, or [`raw::NO_CALL`].
    pub(super) fn log(&self, call: u64, payload: &impl Serialize) -> Status {
        let Ok(payload) = serde_json::to_vec(payload) else {
            return Status::BAD_ARGUMENT;
        };
        // SAFETY: guaranteed by the caller of `read`; the bytes live during this call.
        unsafe { (self.log)(self.ctx, call, Bytes::of(&payload)) }
    }

    /// Requests the operation `name`. Its answer is a reply to `operation`.
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
        // SAFETY: guaranteed by the caller of `read`; both byte strings live during this call.
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

    /// Returns true if `call` should end.
    pub(super) fn cancelled(&self, call: u64) -> bool {
        // SAFETY: guaranteed by the caller of `read`.
        unsafe { (self.cancelled)(self.ctx, call) != 0 }
    }
}
