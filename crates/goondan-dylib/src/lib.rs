//! Wraps dynamic libraries as [`ToolHandler`](goondan_core::ports::tool::ToolHandler)s, and retires
//! old generations safely.
//!
//! Start reading at [`DynamicLibraries`]. To open a library, `locate` finds its file, `staging` makes a
//! private copy, and `image` checks the file format. `library_thread` maps, opens, calls
//! and closes the library. `native` contains the tables themselves. A call passes through
//! `handler`, `connection` and the thread, and its answer returns through `calls`. `hosted` and
//! [`tool_host`] do the same over pipes, for libraries that may crash. `extension` opens Extensions,
//! and `connector` runs a Connector, always in a host process. `goondan_core::plugin_session` runs
//! the calls; this crate transports their messages.
//!
//! This crate does not depend on YAML, models or the callers of tools. It does not decide when to
//! reload, but detects a changed file when it is opened again.
//!
//! # Why this is sound
//!
//! A library in this process is trusted code, like a linked crate. This crate cannot protect the
//! process against an invalid pointer, a stack overflow, `abort` or an endless loop. The argument
//! covers two properties. A library that follows the contract of [`goondan_abi::raw`] cannot be
//! *made* to misbehave by this crate. A merely careless library (late, duplicate, missing or
//! excessive messages, or messages after its end) does no harm.
//!
//! 1. **Nothing dangles.** A mapping is never removed. So function pointers, running threads,
//!    thread-local destructors and statics of a library stay valid. The host table and its `ctx`
//!    are leaked as well, so a late callback reaches a valid object that returns `CLOSED`. Each
//!    reload of a *changed* library therefore costs about a megabyte
//!    ([`LibraryCounters::retired`]).
//! 2. **One thread calls down.** `LoadedLibrary` contains a raw pointer and is not `Send`. It stays
//!    on its thread from `dlopen` to `close`, which takes it by value. So the library's functions
//!    are never called concurrently or after `close`.
//! 3. **Up-calls only enqueue.** They run on the library's threads and decode into owned values.
//!    They take a lock for one map operation or a channel's `try_send`, and return. They never call
//!    into the library. So neither side re-enters the other, and no lock is held across the
//!    boundary.
//! 4. **No memory changes owners.** Bytes are borrowed for one call and copied by the receiver.
//!    Lengths are checked before a slice is created (`HostPort::borrow`).
//! 5. **Nothing unwinds across the boundary.** Each callback catches panics of this program;
//!    `extern "C"` would abort otherwise. The SDK catches panics of the library, because a host
//!    cannot catch a panic of another standard library. A library without `FLAG_PANICS_STOP_HERE`
//!    is refused.
//! 6. **Data before code.** Magic number, major version and sizes are read from plain data before
//!    any function is called. A table field is read only if the stated size covers it
//!    (`raw::read_prefix`). The file is parsed first (`image`), because a truncated library would
//!    crash the system's loader.
//! 7. **Mapped files are never written.** Each load uses its own file with a new inode, in a
//!    directory of this process.
//! 8. **Each call is answered once.** The party that answers a call removes its entry in `OpenCalls`.
//!    This is either the library, the end of the grace period after a cancellation, the end of the
//!    library, or the caller's dropped future. Ids are never reused, so a late or duplicate
//!    completion finds no entry. It is counted and ignored.
//!
//! # Results of the experiments
//!
//! `tests/it/abi_experiments.rs` contains the experiments.
//!
//! 1. *200 reloads of a library with thread-local destructors.* Each reload ran its new code.
//!    Resident memory grew evenly: by 0.6 MiB per reload of a release build (0.7 MB), and by 1.3
//!    MiB of a development build (6.6 MB). Fifty reloads cost some tens of megabytes until a
//!    restart.
//! 2. *Panics in a worker, in the serialization of a result, in the drop of a payload.* Each ends
//!    only its own call. The payload must be dropped inside a second catch. A payload that panics
//!    in this drop is leaked, or the second panic would reach the boundary and abort.
//! 3. *A thread that does not stop.* It continues in its mapping after `close`, and each of its
//!    calls returns `CLOSED`. Joining it on a blocking Tokio task prevents the runtime from ending.
//!    So it is joined on a separate thread, with a deadline.
//! 4. *Overwriting the build output during a call.* Nothing happens: the mapped file is a private
//!    copy.
//! 5. *A library in C.* Seventy lines and the header, no SDK.
//!
//! # Other checks
//!
//! * All tests of `tests/it` under valgrind (memcheck): no error. Two of them
//!   (`a_waiting_agent_request_ends_when_its_call_is_cancelled`, `calls_of_one_library_run_concurrently`) give
//!   a cancelled call 50 ms to end. They fail under valgrind only because that is too short.
//! * The SDK's tests under Miri: no error. Leaks are not counted: host and library tables exist as
//!   long as the process by design. Miri loads no libraries, so only valgrind covers the loader.
//! * Reloads under load (`tests/src/reloads`): a version that returns while its calls still run is
//!   not loaded again. Each loaded version adds four mappings. In addition, memory grows once per
//!   allocator arena by about the size of the file, and then stays constant. The cause is that
//!   glibc keeps the buffer of a file of this size.

mod calls;
mod connection;
mod connector;
mod counters;
mod extension;
mod failure;
mod handler;
mod hosted;
mod image;
mod libraries;
mod library_messages;
mod library_thread;
mod limits;
mod locate;
mod manifest;
mod native;
mod opened_library;
mod staging;
mod threads;
pub mod tool_host;

pub use counters::LibraryCounters;
pub use hosted::HostCommand;
pub use image::fault;
pub use libraries::DynamicLibraries;
pub use limits::LibraryLimits;
