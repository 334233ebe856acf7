//! The tables, as C sees them. `include/goondan_plugin.h` says the same; a test compares the layouts.
//!
//! Who keeps what promise:
//!
//! * **Bytes** are borrowed for the call they are passed to. The receiver copies; nobody frees anybody's memory.
//! * **The host table** and its `ctx` stay valid until the process ends. Its functions may be called from any thread, at any
//!   time, also after `close`; they copy, enqueue and return, never block and never call back into the library.
//! * **The library table** is called on one thread of the host's, one call at a time. `this` stays valid until
//!   `close` returns; nothing is called after that.
//! * **Nothing unwinds** across the line in either direction.

use core::ffi::c_void;
use core::mem::{MaybeUninit, size_of};

/// The name of the one exported symbol, a [`Plugin`].
pub const SYMBOL: &str = "goondan_plugin";

/// What [`Plugin::magic`] holds: `GOONDAN` and a 1, read as a number.
pub const MAGIC: u64 = 0x474F_4F4E_4441_4E01;

/// Both sides must agree on this.
pub const ABI_MAJOR: u16 = 1;

/// Counts what was appended since the major began: [`ExtendingLibrary`] came with 1.
pub const ABI_MINOR: u16 = 1;

/// A bit of [`Plugin::flags`]: panics unwind and are caught inside the library. Languages without panics set it too.
pub const FLAG_PANICS_STOP_HERE: u32 = 1;

/// Not about a call, in [`Host::log`].
pub const NO_CALL: u64 = 0;

/// How a function across the line ended, and how a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct Status(pub i32);

impl Status {
    /// Done.
    pub const OK: Status = Status(0);
    /// The bytes are not what the function takes.
    pub const BAD_ARGUMENT: Status = Status(-1);
    /// No such call is open: it never was, is answered, or was given up.
    pub const UNKNOWN_CALL: Status = Status(-2);
    /// No operation of that name.
    pub const UNKNOWN_OPERATION: Status = Status(-3);
    /// More bytes than [`Host::max_payload`].
    pub const TOO_LARGE: Status = Status(-4);
    /// This side is shut.
    pub const CLOSED: Status = Status(-5);
    /// Too much is waiting already; try again later.
    pub const BUSY: Status = Status(-6);
    /// A panic was caught; the bytes may be an error object.
    pub const PANIC: Status = Status(-7);
    /// The call was cancelled.
    pub const CANCELLED: Status = Status(-8);
    /// A fault of this side.
    pub const INTERNAL: Status = Status(-9);
    /// The call or the operation failed; the bytes are an error object.
    pub const FAILED: Status = Status(-10);

    /// The word for it, as documentation and messages have it.
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
            _ => "a status that this version does not know",
        }
    }
}

/// Borrowed bytes.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Bytes {
    /// May be null only where `len` is 0.
    pub ptr: *const u8,
    /// How many.
    pub len: usize,
}

impl Bytes {
    /// Borrows `slice`. Whoever passes the result on keeps `slice` alive for that call.
    pub fn of(slice: &[u8]) -> Bytes {
        Bytes {
            ptr: slice.as_ptr(),
            len: slice.len(),
        }
    }

    /// The bytes; `None` for a null pointer with a length, or a length that no memory has.
    ///
    /// # Safety
    ///
    /// `ptr` points at `len` initialised bytes (or is null) that stay unchanged for `'a`.
    pub unsafe fn as_slice<'a>(self) -> Option<&'a [u8]> {
        if self.len == 0 {
            return Some(&[]);
        }
        if self.ptr.is_null() || isize::try_from(self.len).is_err() {
            return None;
        }
        // SAFETY: not null and not longer than any object; the rest is what the caller promises.
        Some(unsafe { core::slice::from_raw_parts(self.ptr, self.len) })
    }
}

/// Takes what [`Library::describe`] writes.
pub type PutFn = unsafe extern "C" fn(sink: *mut c_void, bytes: Bytes);

/// [`Plugin::open`].
pub type OpenFn =
    unsafe extern "C" fn(host: *const Host, out: *mut Library, out_size: usize) -> Status;

/// What the symbol `goondan_plugin` is: plain data that a host reads before it calls anything.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Plugin {
    /// [`MAGIC`].
    pub magic: u64,
    /// The major that the library was built against.
    pub abi_major: u16,
    /// The minor that the library was built against.
    pub abi_minor: u16,
    /// Size of this structure as the library knows it.
    pub struct_size: u32,
    /// Size of [`Library`] as the library knows it.
    pub library_size: u32,
    /// [`FLAG_PANICS_STOP_HERE`].
    pub flags: u32,
    /// Fills `out`, which the host has zeroed, with at most `out_size` bytes of a [`Library`].
    pub open: Option<OpenFn>,
}

/// What the host calls: all on one thread, one after another.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Library {
    /// The library's own; first argument of everything below.
    pub this: *mut c_void,
    /// Writes the manifest (`wire::Manifest`) into `put`, in one piece or several.
    pub describe:
        Option<unsafe extern "C" fn(this: *mut c_void, sink: *mut c_void, put: PutFn) -> Status>,
    /// Begins a call (`wire::CallRequest`) and returns promptly. `OK`: [`Host::complete`] will come exactly once for it.
    pub start: Option<unsafe extern "C" fn(this: *mut c_void, call: u64, request: Bytes) -> Status>,
    /// Asks a call to end soon. May come for a call that is over.
    pub cancel: Option<unsafe extern "C" fn(this: *mut c_void, call: u64)>,
    /// The answer to [`Host::request`]: a result (`OK`), or an error object.
    pub reply: Option<
        unsafe extern "C" fn(this: *mut c_void, operation: u64, status: Status, bytes: Bytes),
    >,
    /// Ends the library's own threads, within `grace_ms` milliseconds. `OK`: none is left.
    pub close: Option<unsafe extern "C" fn(this: *mut c_void, grace_ms: u32) -> Status>,
}

/// A [`Library`] that has extensions: since minor 1. `open` writes it where the host has room for it.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ExtendingLibrary {
    /// The table of every library.
    pub library: Library,
    /// Begins what an extension is told (`wire::ExtensionMessage`) and returns promptly; ends like [`Library::start`], with a
    /// `wire::Ended` as its output. Nothing is completed for [`NO_CALL`]. Null where there is no extension.
    pub extend:
        Option<unsafe extern "C" fn(this: *mut c_void, call: u64, message: Bytes) -> Status>,
}

/// What a library calls: from any thread, at any time.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Host {
    /// The host's own; first argument of everything below.
    pub ctx: *mut c_void,
    /// Size of this structure as the host knows it.
    pub struct_size: u32,
    /// The host's major.
    pub abi_major: u16,
    /// The host's minor.
    pub abi_minor: u16,
    /// More bytes than that in one payload are refused with `TOO_LARGE`.
    pub max_payload: u64,
    /// Answers a call: `OK` with a `wire::ToolOutput`, anything else with a `wire::ToolError` or nothing. A refused payload
    /// answers the call too, with an error that says why.
    pub complete: Option<
        unsafe extern "C" fn(ctx: *mut c_void, call: u64, status: Status, bytes: Bytes) -> Status,
    >,
    /// Tells whoever watches (`wire::Progress`).
    pub progress: Option<unsafe extern "C" fn(ctx: *mut c_void, call: u64, bytes: Bytes) -> Status>,
    /// Logs (`wire::LogLine`), about a call or [`NO_CALL`].
    pub log: Option<unsafe extern "C" fn(ctx: *mut c_void, call: u64, bytes: Bytes) -> Status>,
    /// Asks the host for something by name, such as `runtime.request`. `OK`: [`Library::reply`] will come for `operation`, a
    /// number of the library's choice.
    pub request: Option<
        unsafe extern "C" fn(
            ctx: *mut c_void,
            call: u64,
            operation: u64,
            name: Bytes,
            bytes: Bytes,
        ) -> Status,
    >,
    /// 1 where the call should end: it was cancelled, is answered, or never was.
    pub cancelled: Option<unsafe extern "C" fn(ctx: *mut c_void, call: u64) -> i32>,
}

/// A table for which all bytes zero is a value, so that a shorter one of an older neighbour can be completed with zeros.
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

/// A `T` whose first `size` bytes (or all, where `size` is larger) come from `source` and whose rest is zero.
///
/// # Safety
///
/// `source` points at `size` readable, initialised bytes of a `T` of the same major. It need not be aligned.
pub unsafe fn read_prefix<T: Table>(source: *const T, size: usize) -> T {
    let mut value = MaybeUninit::<T>::zeroed();
    let length = size.min(size_of::<T>());
    // SAFETY: `length` is within both: the caller promises the source, the target is a whole `T`.
    unsafe {
        core::ptr::copy_nonoverlapping(source.cast::<u8>(), value.as_mut_ptr().cast::<u8>(), length)
    };
    // SAFETY: zeros are a value by `Table`, and the copied fields were written by a neighbour that has them in the same places.
    unsafe { value.assume_init() }
}

/// Writes the first `size` bytes (at most all) of `value` to `target`.
///
/// # Safety
///
/// `target` points at `size` writable bytes. It need not be aligned.
pub unsafe fn write_prefix<T: Table>(value: &T, target: *mut T, size: usize) {
    let length = size.min(size_of::<T>());
    // SAFETY: `length` is within both: the source is a whole `T`, the caller promises the target.
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
    fn a_shorter_table_is_completed_with_zeros_and_a_longer_one_is_cut() {
        let whole = Plugin {
            magic: MAGIC,
            abi_major: 1,
            abi_minor: 7,
            struct_size: 16,
            library_size: 48,
            flags: FLAG_PANICS_STOP_HERE,
            open: None,
        };
        // SAFETY: `whole` has more bytes than are read.
        let short = unsafe { read_prefix(&raw const whole, 16) };
        assert_eq!(
            (short.magic, short.abi_minor, short.struct_size, short.flags),
            (MAGIC, 7, 16, 0)
        );
        // SAFETY: at most a whole `Plugin` is read, however large the size.
        let long = unsafe { read_prefix(&raw const whole, 10_000) };
        assert_eq!(long.flags, FLAG_PANICS_STOP_HERE);
    }

    #[test]
    fn null_bytes_are_empty_or_refused() {
        // SAFETY: null is allowed.
        assert_eq!(
            unsafe {
                Bytes {
                    ptr: core::ptr::null(),
                    len: 0,
                }
                .as_slice()
            },
            Some(&[][..])
        );
        // SAFETY: null is allowed.
        assert_eq!(
            unsafe {
                Bytes {
                    ptr: core::ptr::null(),
                    len: 3,
                }
                .as_slice()
            },
            None
        );
        // SAFETY: an impossible length is refused before anything is read.
        assert_eq!(
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
