//! The tables as C sees them. `include/goondan_plugin.h` contains the same declarations; a test
//! compares the layouts.
//!
//! The obligations of both sides:
//!
//! * **Bytes** are borrowed for the call they are passed to. The receiver copies them; neither side
//!   frees memory of the other.
//! * **The host table** and its `ctx` stay valid until the process ends. Its functions may be
//!   called from any thread, at any time, even after `close`. They copy, enqueue and return; they
//!   never block and never call back into the library.
//! * **The library table** is called on one host thread, one call at a time. `this` stays valid
//!   until `close` returns; nothing is called after that.
//! * **Nothing unwinds** across the boundary in either direction.

use core::ffi::c_void;
use core::mem::{MaybeUninit, size_of};

/// The name of the one exported symbol, a [`Plugin`].
pub const SYMBOL: &str = "goondan_plugin";

/// The value of [`Plugin::magic`]: `GOONDAN` and a 1, read as a number.
pub const MAGIC: u64 = 0x474F_4F4E_4441_4E01;

/// The major version; both sides must have the same.
pub const ABI_MAJOR: u16 = 1;

/// The minor version, which counts additions since the major version: 1 added [`ExtendingLibrary`].
pub const ABI_MINOR: u16 = 1;

/// A bit of [`Plugin::flags`]: panics unwind and are caught inside the library. Languages without
/// panics also set it.
pub const FLAG_PANICS_STOP_HERE: u32 = 1;

/// The call id of log lines that belong to no call, in [`Host::log`].
pub const NO_CALL: u64 = 0;

/// The result of a function of the tables, or of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct Status(pub i32);

impl Status {
    /// Success.
    pub const OK: Status = Status(0);
    /// The bytes are invalid for the function.
    pub const BAD_ARGUMENT: Status = Status(-1);
    /// No such call is open: it never existed, was answered, or was abandoned.
    pub const UNKNOWN_CALL: Status = Status(-2);
    /// No operation has this name.
    pub const UNKNOWN_OPERATION: Status = Status(-3);
    /// The payload exceeds [`Host::max_payload`].
    pub const TOO_LARGE: Status = Status(-4);
    /// This side is closed.
    pub const CLOSED: Status = Status(-5);
    /// Too many messages are queued; try again later.
    pub const BUSY: Status = Status(-6);
    /// A panic was caught; the bytes may be an error object.
    pub const PANIC: Status = Status(-7);
    /// The call was cancelled.
    pub const CANCELLED: Status = Status(-8);
    /// An internal error of this side.
    pub const INTERNAL: Status = Status(-9);
    /// The call or the operation failed; the bytes are an error object.
    pub const FAILED: Status = Status(-10);

    /// Returns the name used in documentation and messages.
    pub fn name(self) -> &'static str {
        match self {
            Status::OK => "OK",
            Status::BAD_ARGUMENT => "BAD_ARGUMENT",
            Status::UNKNOWN_CALL => "UNKNOWN_CALL",
            Status::UNKNOWN_OPERATION => "UNKNOWN_OPERATION",
            Status::TOO_LARGE => "TOO_LARGE",
            Status::CLOSED => "CLOSED",
            Status::BUSY => "BUSY",
            Status::PANIC => "PANIC",
            Status::CANCELLED => "CANCELLED",
            Status::INTERNAL => "INTERNAL",
            Status::FAILED => "FAILED",
            _ => "unknown status",
        }
    }
}

/// Borrowed bytes.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Bytes {
    /// Pointer to the bytes. May be null only if `len` is 0.
    pub ptr: *const u8,
    /// Number of bytes.
    pub len: usize,
}

impl Bytes {
    /// Borrows `slice`. The caller must keep `slice` alive during the call that receives the
    /// result.
    pub fn of(slice: &[u8]) -> Bytes {
        Bytes {
            ptr: slice.as_ptr(),
            len: slice.len(),
        }
    }

    /// Returns the bytes; `None` for a null pointer with a length, or an impossible length.
    ///
    /// # Safety
    ///
    /// `ptr` points to `len` initialized bytes (or is null) that stay unchanged for `'a`.
    pub unsafe fn as_slice<'a>(self) -> Option<&'a [u8]> {
        if self.len == 0 {
            return Some(&[]);
        }
        if self.ptr.is_null() || isize::try_from(self.len).is_err() {
            return None;
        }
        // SAFETY: not null and not longer than any object; the caller guarantees the rest.
        Some(unsafe { core::slice::from_raw_parts(self.ptr, self.len) })
    }
}

/// Receives the output of [`Library::describe`].
pub type PutFn = unsafe extern "C" fn(sink: *mut c_void, bytes: Bytes);

/// The type of [`Plugin::open`].
pub type OpenFn =
    unsafe extern "C" fn(host: *const Host, out: *mut Library, out_size: usize) -> Status;

/// The value of the symbol `goondan_plugin`: plain data that a host reads before it calls any
/// function.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Plugin {
    /// Always [`MAGIC`].
    pub magic: u64,
    /// The major version that the library was built with.
    pub abi_major: u16,
    /// The minor version that the library was built with.
    pub abi_minor: u16,
    /// Size of this structure in the library's version.
    pub struct_size: u32,
    /// Size of [`Library`] in the library's version.
    pub library_size: u32,
    /// Flags such as [`FLAG_PANICS_STOP_HERE`].
    pub flags: u32,
    /// Writes at most `out_size` bytes of a [`Library`] to `out`, which the host has zeroed.
    pub open: Option<OpenFn>,
}

/// The functions that the host calls, all on one thread, one after another.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Library {
    /// Private pointer of the library, the first argument of all functions below.
    pub this: *mut c_void,
    /// Writes the manifest (`wire::Manifest`) to `put`, in one or several pieces.
    pub describe:
        Option<unsafe extern "C" fn(this: *mut c_void, sink: *mut c_void, put: PutFn) -> Status>,
    /// Begins a call (`wire::CallRequest`) and returns promptly. After `OK`, the library calls
    /// [`Host::complete`] exactly once for it.
    pub start: Option<unsafe extern "C" fn(this: *mut c_void, call: u64, request: Bytes) -> Status>,
    /// Requests the end of a call. The call may already be over.
    pub cancel: Option<unsafe extern "C" fn(this: *mut c_void, call: u64)>,
    /// Delivers the answer to [`Host::request`]: a result (`OK`), or an error object.
    pub reply: Option<
        unsafe extern "C" fn(this: *mut c_void, operation: u64, status: Status, bytes: Bytes),
    >,
    /// Ends the library's own threads within `grace_ms` milliseconds. `OK` means that none is left.
    pub close: Option<unsafe extern "C" fn(this: *mut c_void, grace_ms: u32) -> Status>,
}

/// A [`Library`] with extensions, since minor version 1. `open` writes it if the host has space for
/// it.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ExtendingLibrary {
    /// The table of every library.
    pub library: Library,
    /// Delivers a message to an extension (`wire::ExtensionMessage`) and returns promptly. It ends
    /// like [`Library::start`], with a `wire::CallEndGuard` as its output. Messages with [`NO_CALL`] are
    /// not completed. Null if the library has no extension.
    pub extend:
        Option<unsafe extern "C" fn(this: *mut c_void, call: u64, message: Bytes) -> Status>,
}

/// The functions that a library calls, from any thread and at any time.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Host {
    /// Private pointer of the host, the first argument of all functions below.
    pub ctx: *mut c_void,
    /// Size of this structure in the host's version.
    pub struct_size: u32,
    /// The host's major version.
    pub abi_major: u16,
    /// The host's minor version.
    pub abi_minor: u16,
    /// Maximum size of a payload in bytes. Larger ones are refused with `TOO_LARGE`.
    pub max_payload: u64,
    /// Answers a call: `OK` with a `wire::ToolOutput`, any other status with a `wire::ToolError` or
    /// no bytes. A refused payload also answers the call, with an error that states the reason.
    pub complete: Option<
        unsafe extern "C" fn(ctx: *mut c_void, call: u64, status: Status, bytes: Bytes) -> Status,
    >,
    /// Reports progress (`wire::Progress`) to observers.
    pub progress: Option<unsafe extern "C" fn(ctx: *mut c_void, call: u64, bytes: Bytes) -> Status>,
    /// Logs a line (`wire::LogLine`) for a call or [`NO_CALL`].
    pub log: Option<unsafe extern "C" fn(ctx: *mut c_void, call: u64, bytes: Bytes) -> Status>,
    /// Requests a host operation by name, such as `runtime.request`. After `OK`, [`Library::reply`]
    /// is called for `operation`, a number that the library chooses.
    pub request: Option<
        unsafe extern "C" fn(
            ctx: *mut c_void,
            call: u64,
            operation: u64,
            name: Bytes,
            bytes: Bytes,
        ) -> Status,
    >,
    /// Returns 1 if the call should end: it was cancelled or answered, or never existed.
    pub cancelled: Option<unsafe extern "C" fn(ctx: *mut c_void, call: u64) -> i32>,
}

/// A table for which zeroed bytes are valid, so that a shorter table of an older version can be
/// extended with zeros.
///
/// # Safety
///
/// Zeroed memory is a valid value of the type.
pub unsafe trait Table: Copy {}

// SAFETY: integers, and optional function pointers whose `None` is null.
unsafe impl Table for Plugin {}
// SAFETY: a raw pointer and optional function pointers, whose `None` is null.
unsafe impl Table for Library {}
// SAFETY: a table, and an optional function pointer whose `None` is null.
unsafe impl Table for ExtendingLibrary {}
// SAFETY: a raw pointer, integers and optional function pointers, whose `None` is null.
unsafe impl Table for Host {}

/// Reads a `T`: its first `size` bytes (at most all) come from `source`, and the rest is zero.
///
/// # Safety
///
/// `source` points to `size` readable, initialized bytes of a `T` of the same major version. It
/// need not be aligned.
pub unsafe fn read_prefix<T: Table>(source: *const T, size: usize) -> T {
    let mut value = MaybeUninit::<T>::zeroed();
    let length = size.min(size_of::<T>());
    // SAFETY: `length` is within both: the caller guarantees the source, and the target is a whole
    // `T`.
    unsafe {
        core::ptr::copy_nonoverlapping(source.cast::<u8>(), value.as_mut_ptr().cast::<u8>(), length)
    };
    // SAFETY: zeros are valid by `Table`, and the copied fields come from a side that has them at
    // the same offsets.
    unsafe { value.assume_init() }
}

/// Writes the first `size` bytes (at most all) of `value` to `target`.
///
/// # Safety
///
/// `target` points to `size` writable bytes. It need not be aligned.
pub unsafe fn write_prefix<T: Table>(value: &T, target: *mut T, size: usize) {
    let length = size.min(size_of::<T>());
    // SAFETY: `length` is within both: the source is a whole `T`, and the caller guarantees the
    // target.
    unsafe {
        core::ptr::copy_nonoverlapping(
            core::ptr::from_ref(value).cast::<u8>(),
            target.cast::<u8>(),
            length,
        )
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_prefix_zero_fills_short_tables_and_truncates_long_ones() {
        let whole = Plugin {
            magic: MAGIC,
            abi_major: 1,
            abi_minor: 7,
            struct_size: 16,
            library_size: 48,
            flags: FLAG_PANICS_STOP_HERE,
            open: None,
        };
        // SAFETY: `whole` is larger than the 16 bytes that are read.
        let short = unsafe { read_prefix(&raw const whole, 16) };
        assert_eq!(
            (short.magic, short.abi_minor, short.struct_size, short.flags),
            (MAGIC, 7, 16, 0)
        );
        // SAFETY: at most a whole `Plugin` is read, for any size.
        let long = unsafe { read_prefix(&raw const whole, 10_000) };
        assert_eq!(long.flags, FLAG_PANICS_STOP_HERE);
    }

    #[test]
    fn null_bytes_are_empty_and_invalid_lengths_are_rejected() {
        assert_eq!(
            // SAFETY: null is allowed.
            unsafe {
                Bytes {
                    ptr: core::ptr::null(),
                    len: 0,
                }
                .as_slice()
            },
            Some(&[][..])
        );
        assert_eq!(
            // SAFETY: null is allowed.
            unsafe {
                Bytes {
                    ptr: core::ptr::null(),
                    len: 3,
                }
                .as_slice()
            },
            None
        );
        assert_eq!(
            // SAFETY: an impossible length is rejected before anything is read.
            unsafe {
                Bytes {
                    ptr: [1_u8].as_ptr(),
                    len: usize::MAX,
                }
                .as_slice()
            },
            None
        );
    }
}
