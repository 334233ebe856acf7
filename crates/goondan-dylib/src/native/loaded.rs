//! One mapped library: the handshake, and safe functions for its table.

use std::ffi::c_void;
use std::mem::{ManuallyDrop, MaybeUninit, size_of};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::Duration;

use goondan_abi::raw::{
    self, ABI_MAJOR, Bytes, ExtendingLibrary, FLAG_PANICS_STOP_HERE, Host, Library, MAGIC, Plugin,
    PutFn, SYMBOL, Status,
};
use goondan_abi::wire;

use crate::failure::LibraryFailure;

/// Maximum size of a manifest in bytes.
const MAX_MANIFEST_BYTES: usize = 4 * 1024 * 1024;

/// A library that is mapped and open. It contains a raw pointer, so the compiler keeps it on the
/// thread that created it.
pub(crate) struct LoadedLibrary {
    this: *mut c_void,
    describe: unsafe extern "C" fn(*mut c_void, *mut c_void, PutFn) -> Status,
    start: unsafe extern "C" fn(*mut c_void, u64, Bytes) -> Status,
    cancel: unsafe extern "C" fn(*mut c_void, u64),
    reply: unsafe extern "C" fn(*mut c_void, u64, Status, Bytes),
    close: unsafe extern "C" fn(*mut c_void, u32) -> Status,
    /// `None` for libraries without extensions.
    extend: Option<unsafe extern "C" fn(*mut c_void, u64, Bytes) -> Status>,
}

impl LoadedLibrary {
    /// Maps the file at `path`, reads its header, and opens it. `name` is for messages.
    ///
    /// The mapping always stays until the process ends: see `lib.rs`. `mapped` is called after
    /// mapping.
    pub(crate) fn open(
        path: &Path,
        name: &str,
        host: impl FnOnce() -> &'static Host,
        mapped: impl FnOnce(),
    ) -> Result<LoadedLibrary, LibraryFailure> {
        let mapping = map(path, name)?;
        mapped();
        let plugin = read_header(&mapping, name)?;
        let Some(open) = plugin.open else {
            return Err(incomplete(name, "open"));
        };
        let mut table = MaybeUninit::<ExtendingLibrary>::zeroed();
        // SAFETY: the header states that this is a library of the supported major version, so
        // `open` has the type `OpenFn`. The host table lives until the process ends, and `table`
        // has the stated size.
        let status = unsafe {
            open(
                host(),
                table.as_mut_ptr().cast::<Library>(),
                size_of::<ExtendingLibrary>(),
            )
        };
        if status != Status::OK {
            return Err(LibraryFailure::Refused {
                name: name.to_owned(),
                status,
            });
        }
        // SAFETY: zeroed memory is a valid `ExtendingLibrary` (`raw::Table`), and `open` wrote at
        // most a prefix of one.
        from_table(unsafe { table.assume_init() }, name)
    }

    /// Returns the manifest of the library. Fails if the library returns an error or invalid JSON.
    pub(crate) fn describe(&self, name: &str) -> Result<wire::Manifest, LibraryFailure> {
        let mut bytes: Vec<u8> = Vec::new();
        // SAFETY: `this` is open; `put` takes a `Vec<u8>`, which lives during this call.
        let status = unsafe { (self.describe)(self.this, (&raw mut bytes).cast(), put) };
        if status != Status::OK {
            return Err(LibraryFailure::NotDescribed {
                name: name.to_owned(),
                status,
            });
        }
        serde_json::from_slice(&bytes).map_err(|cause| LibraryFailure::NoManifest {
            name: name.to_owned(),
            cause,
        })
    }

    pub(crate) fn start(&self, call: u64, request: &[u8]) -> Status {
        // SAFETY: `this` is open; the bytes live during this call.
        unsafe { (self.start)(self.this, call, Bytes::of(request)) }
    }

    /// Returns true if the library accepts messages.
    pub(crate) fn extends(&self) -> bool {
        self.extend.is_some()
    }

    /// Sends a message to an extension.
    pub(crate) fn extend(&self, call: u64, message: &[u8]) -> Status {
        match self.extend {
            // SAFETY: `this` is open; the bytes live during this call.
            Some(extend) => unsafe { extend(self.this, call, Bytes::of(message)) },
            None => Status::UNKNOWN_OPERATION,
        }
    }

    pub(crate) fn cancel(&self, call: u64) {
        // SAFETY: `this` is open.
        unsafe { (self.cancel)(self.this, call) }
    }

    pub(crate) fn reply(&self, operation: u64, status: Status, bytes: &[u8]) {
        // SAFETY: `this` is open; the bytes live during this call.
        unsafe { (self.reply)(self.this, operation, status, Bytes::of(bytes)) }
    }

    /// Closes the library. Returns true if it reports that none of its threads is left.
    pub(crate) fn close(self, grace: Duration) -> bool {
        let grace = u32::try_from(grace.as_millis()).unwrap_or(u32::MAX);
        // SAFETY: `this` is open; `self` is consumed, so nothing is called again.
        unsafe { (self.close)(self.this, grace) == Status::OK }
    }
}

type Mapping = ManuallyDrop<libloading::Library>;

/// Maps a library. All symbols are bound immediately, and none is visible to other libraries.
fn map(path: &Path, name: &str) -> Result<Mapping, LibraryFailure> {
    // SAFETY: loading runs the library's initializers, which are trusted like linked code. The file
    // is a private copy that no program writes, and `image::check` has verified that it is
    // complete.
    let mapped = unsafe { system_open(path) };
    mapped.map(ManuallyDrop::new).map_err(|cause| {
        // The source error contains the system's message, which includes the path of the copy.
        let words = std::error::Error::source(&cause)
            .map_or_else(|| cause.to_string(), ToString::to_string);
        LibraryFailure::NotLoaded {
            name: name.to_owned(),
            words: words.replace(&*path.to_string_lossy(), name),
            cause,
        }
    })
}

#[cfg(unix)]
unsafe fn system_open(path: &Path) -> Result<libloading::Library, libloading::Error> {
    use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
    // SAFETY: the caller guarantees it.
    unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }.map(Into::into)
}

#[cfg(not(unix))]
unsafe fn system_open(path: &Path) -> Result<libloading::Library, libloading::Error> {
    // SAFETY: the caller guarantees it.
    unsafe { libloading::Library::new(path) }
}

/// Reads the header as plain data, before any function of the library is called, and checks its
/// version.
fn read_header(mapping: &Mapping, name: &str) -> Result<Plugin, LibraryFailure> {
    // SAFETY: the type is a raw pointer, so nothing is read here.
    let symbol = unsafe { mapping.get::<*const Plugin>(SYMBOL) };
    let header: *const Plugin = *symbol.map_err(|_| LibraryFailure::NoSymbol {
        name: name.to_owned(),
    })?;
    const START: usize = std::mem::offset_of!(Plugin, library_size);
    // SAFETY: the exported object of every library version begins with these sixteen bytes. If
    // another object has this name, the same number of bytes is read from a mapped segment, and the
    // magic number differs.
    let start = unsafe { raw::read_prefix(header, START) };
    if start.magic != MAGIC {
        return Err(LibraryFailure::OtherSymbol {
            name: name.to_owned(),
        });
    }
    if start.abi_major != ABI_MAJOR {
        return Err(LibraryFailure::OtherMajor {
            name: name.to_owned(),
            theirs: start.abi_major,
        });
    }
    // SAFETY: with this magic number and major version, the object has the stated size.
    let plugin = unsafe { raw::read_prefix(header, start.struct_size as usize) };
    if plugin.flags & FLAG_PANICS_STOP_HERE == 0 {
        return Err(LibraryFailure::PanicsAbort {
            name: name.to_owned(),
        });
    }
    Ok(plugin)
}

/// Returns the error of a library that lacks a function.
fn incomplete(name: &str, function: &'static str) -> LibraryFailure {
    LibraryFailure::Incomplete {
        name: name.to_owned(),
        function,
    }
}

/// Checks the function table of an opened library.
fn from_table(table: ExtendingLibrary, name: &str) -> Result<LoadedLibrary, LibraryFailure> {
    let ExtendingLibrary {
        library: table,
        extend,
    } = table;
    let missing_function = |function| move || incomplete(name, function);
    Ok(LoadedLibrary {
        this: table.this,
        describe: table.describe.ok_or_else(missing_function("describe"))?,
        start: table.start.ok_or_else(missing_function("start"))?,
        cancel: table.cancel.ok_or_else(missing_function("cancel"))?,
        reply: table.reply.ok_or_else(missing_function("reply"))?,
        close: table.close.ok_or_else(missing_function("close"))?,
        extend,
    })
}

/// Appends a piece of the manifest. Excess pieces are dropped, so that the JSON does not parse.
///
/// # Safety
///
/// `sink` is the `Vec<u8>` that `describe` passed, and `bytes` is valid during the call.
unsafe extern "C" fn put(sink: *mut c_void, bytes: Bytes) {
    // SAFETY: `describe` passed a `Vec<u8>` that no other code uses until the library returns.
    let collected = unsafe { &mut *sink.cast::<Vec<u8>>() };
    // SAFETY: the caller lends the bytes for this call.
    let Some(piece) = (unsafe { bytes.as_slice() }) else {
        return;
    };
    // Only the allocator can panic here; that must not unwind into the library either.
    let _ = catch_unwind(AssertUnwindSafe(|| {
        if collected.len().saturating_add(piece.len()) <= MAX_MANIFEST_BYTES {
            collected.extend_from_slice(piece);
        }
    }));
}
