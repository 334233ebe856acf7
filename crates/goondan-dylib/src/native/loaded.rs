//! One mapped library: the handshake, and its table made safe to call.

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

use crate::failure::Failure;

/// The largest manifest that is read.
const MAX_MANIFEST: usize = 4 * 1024 * 1024;

/// A library that is mapped and open. It holds a raw pointer, so the compiler keeps it on the thread that made it.
pub(crate) struct LoadedLibrary {
    this: *mut c_void,
    describe: unsafe extern "C" fn(*mut c_void, *mut c_void, PutFn) -> Status,
    start: unsafe extern "C" fn(*mut c_void, u64, Bytes) -> Status,
    cancel: unsafe extern "C" fn(*mut c_void, u64),
    reply: unsafe extern "C" fn(*mut c_void, u64, Status, Bytes),
    close: unsafe extern "C" fn(*mut c_void, u32) -> Status,
    /// Libraries without extensions have none.
    extend: Option<unsafe extern "C" fn(*mut c_void, u64, Bytes) -> Status>,
}

impl LoadedLibrary {
    /// Maps the file at `path`, reads its header, and opens it. `name` is for messages.
    ///
    /// The mapping stays for the life of the process, whatever happens: see `lib.rs`. `mapped` is called once it is there.
    pub(crate) fn open(
        path: &Path,
        name: &str,
        host: impl FnOnce() -> &'static Host,
        mapped: impl FnOnce(),
    ) -> Result<LoadedLibrary, Failure> {
        let mapping = map(path, name)?;
        mapped();
        let plugin = read_header(&mapping, name)?;
        let Some(open) = plugin.open else {
            return Err(incomplete(name, "open"));
        };
        let mut table = MaybeUninit::<ExtendingLibrary>::zeroed();
        // SAFETY: the header says that this is a library of our major, so `open` has the type of `OpenFn`; the host table
        // lives until the process ends, and `table` has the bytes that are promised.
        let status = unsafe {
            open(
                host(),
                table.as_mut_ptr().cast::<Library>(),
                size_of::<ExtendingLibrary>(),
            )
        };
        if status != Status::OK {
            return Err(Failure::Refused {
                name: name.to_owned(),
                status,
            });
        }
        // SAFETY: zeroed memory is an `ExtendingLibrary` (`raw::Table`), and `open` wrote at most a prefix of one.
        from_table(unsafe { table.assume_init() }, name)
    }

    /// What the library says of itself.
    pub(crate) fn describe(&self, name: &str) -> Result<wire::Manifest, Failure> {
        let mut bytes: Vec<u8> = Vec::new();
        // SAFETY: `this` is open; `put` takes a `Vec<u8>`, which lives for this call.
        let status = unsafe { (self.describe)(self.this, (&raw mut bytes).cast(), put) };
        if status != Status::OK {
            return Err(Failure::NotDescribed {
                name: name.to_owned(),
                status,
            });
        }
        serde_json::from_slice(&bytes).map_err(|cause| Failure::NoManifest {
            name: name.to_owned(),
            cause,
        })
    }

    /// Begins a call.
    pub(crate) fn start(&self, call: u64, request: &[u8]) -> Status {
        // SAFETY: `this` is open; the bytes live for this call.
        unsafe { (self.start)(self.this, call, Bytes::of(request)) }
    }

    /// Whether it has extensions.
    pub(crate) fn extends(&self) -> bool {
        self.extend.is_some()
    }

    /// Begins what an extension is told.
    pub(crate) fn extend(&self, call: u64, message: &[u8]) -> Status {
        match self.extend {
            // SAFETY: `this` is open; the bytes live for this call.
            Some(extend) => unsafe { extend(self.this, call, Bytes::of(message)) },
            None => Status::UNKNOWN_OPERATION,
        }
    }

    /// Asks a call to end.
    pub(crate) fn cancel(&self, call: u64) {
        // SAFETY: `this` is open.
        unsafe { (self.cancel)(self.this, call) }
    }

    /// Answers an operation.
    pub(crate) fn reply(&self, operation: u64, status: Status, bytes: &[u8]) {
        // SAFETY: `this` is open; the bytes live for this call.
        unsafe { (self.reply)(self.this, operation, status, Bytes::of(bytes)) }
    }

    /// Closes the library. True where it says that none of its threads is left.
    pub(crate) fn close(self, grace: Duration) -> bool {
        let grace = u32::try_from(grace.as_millis()).unwrap_or(u32::MAX);
        // SAFETY: `this` is open; `self` is gone after this, so nothing is called again.
        unsafe { (self.close)(self.this, grace) == Status::OK }
    }
}

type Mapping = ManuallyDrop<libloading::Library>;

/// Maps a library, all symbols bound now and none of them visible to others.
fn map(path: &Path, name: &str) -> Result<Mapping, Failure> {
    // SAFETY: loading runs the library's initialisers: it is trusted like any code that is linked in. The file is a private
    // copy that nobody writes to, and `image::check` has seen that it is whole.
    let mapped = unsafe { system_open(path) };
    mapped.map(ManuallyDrop::new).map_err(|cause| {
        // The system's own words are behind the error, and they name the copy.
        let words = std::error::Error::source(&cause)
            .map_or_else(|| cause.to_string(), ToString::to_string);
        Failure::NotLoaded {
            name: name.to_owned(),
            words: words.replace(&*path.to_string_lossy(), name),
            cause,
        }
    })
}

#[cfg(unix)]
unsafe fn system_open(path: &Path) -> Result<libloading::Library, libloading::Error> {
    use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
    // SAFETY: the caller's promise.
    unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }.map(Into::into)
}

#[cfg(not(unix))]
unsafe fn system_open(path: &Path) -> Result<libloading::Library, libloading::Error> {
    // SAFETY: the caller's promise.
    unsafe { libloading::Library::new(path) }
}

/// Reads the header as plain data, before anything in the library is called, and checks that it is one that we know.
fn read_header(mapping: &Mapping, name: &str) -> Result<Plugin, Failure> {
    // SAFETY: the type is a raw pointer: nothing is read here, whatever the symbol is.
    let symbol = unsafe { mapping.get::<*const Plugin>(SYMBOL) };
    let header: *const Plugin = *symbol.map_err(|_| Failure::NoSymbol {
        name: name.to_owned(),
    })?;
    const START: usize = std::mem::offset_of!(Plugin, library_size);
    // SAFETY: an exported object of a tool library begins with these sixteen bytes in every version; of anything else that is
    // called so, that many bytes of a mapped segment are read, and the magic number tells.
    let start = unsafe { raw::read_prefix(header, START) };
    if start.magic != MAGIC {
        return Err(Failure::OtherSymbol {
            name: name.to_owned(),
        });
    }
    if start.abi_major != ABI_MAJOR {
        return Err(Failure::OtherMajor {
            name: name.to_owned(),
            theirs: start.abi_major,
        });
    }
    // SAFETY: with this magic and major, the library has as many bytes there as it says.
    let plugin = unsafe { raw::read_prefix(header, start.struct_size as usize) };
    if plugin.flags & FLAG_PANICS_STOP_HERE == 0 {
        return Err(Failure::PanicsAbort {
            name: name.to_owned(),
        });
    }
    Ok(plugin)
}

fn incomplete(name: &str, function: &'static str) -> Failure {
    Failure::Incomplete {
        name: name.to_owned(),
        function,
    }
}

fn from_table(table: ExtendingLibrary, name: &str) -> Result<LoadedLibrary, Failure> {
    let ExtendingLibrary {
        library: table,
        extend,
    } = table;
    let missing = |function| move || incomplete(name, function);
    Ok(LoadedLibrary {
        this: table.this,
        describe: table.describe.ok_or_else(missing("describe"))?,
        start: table.start.ok_or_else(missing("start"))?,
        cancel: table.cancel.ok_or_else(missing("cancel"))?,
        reply: table.reply.ok_or_else(missing("reply"))?,
        close: table.close.ok_or_else(missing("close"))?,
        extend,
    })
}

/// Takes a piece of the manifest. What is too much is left out, so that the JSON does not parse.
///
/// # Safety
///
/// `sink` is the `Vec<u8>` that `describe` passed, and `bytes` lives for the call.
unsafe extern "C" fn put(sink: *mut c_void, bytes: Bytes) {
    // SAFETY: `describe` passed a `Vec<u8>` that nothing else touches until the library returns.
    let collected = unsafe { &mut *sink.cast::<Vec<u8>>() };
    // SAFETY: the caller lends the bytes for this call.
    let Some(piece) = (unsafe { bytes.as_slice() }) else {
        return;
    };
    // Nothing here panics but the allocator; that must not unwind into the library either.
    let _ = catch_unwind(AssertUnwindSafe(|| {
        if collected.len().saturating_add(piece.len()) <= MAX_MANIFEST {
            collected.extend_from_slice(piece);
        }
    }));
}
