//! Makes a dynamic library look like [`ToolHandler`](goondan_core::ports::tool::ToolHandler)s, and retires old generations of
//! it safely.
//!
//! Start reading at [`Libraries`]: `locate` (which file) → `staging` (a private copy) → `image` (is it a library at all) →
//! `lane` (the one thread that maps, opens, calls and closes it) → `native` (the tables themselves). A call goes
//! `handler` → `connection` → lane, and its answer comes back through `calls`. `hosted` and [`tool_host`] are the same over
//! pipes, for libraries that may crash. `extension` carries the messages of an Extension the same way; what follows from them is
//! `goondan_core::layering`. `connector` runs a Connector, always in a host (`goondan_core::connecting`). Both hear the library
//! through `line`.
//!
//! This crate deliberately does not know: YAML, models, who calls a tool, and when to reload (it notices that a file is another
//! one when it is asked to open it).
//!
//! # Why this is sound
//!
//! A library in this process is trusted code, like any crate that is linked in: a wild pointer, a stack overflow, `abort` or an
//! endless loop in it cannot be contained here. What is argued below is that a library that keeps the promises of
//! [`goondan_abi::raw`] cannot be *made* to misbehave by us, and that one that is merely careless (late, twice, never, too
//! much, after its end) does no harm.
//!
//! 1. **Nothing dangles.** A mapping is never removed, so no function pointer, no running thread, no thread-local destructor
//!    and no static of a library ever points into nothing. The host table and its `ctx` are leaked with it, so a late callback
//!    meets a live object that says `CLOSED`. The price, about a megabyte for each reload of a *changed* library, is a
//!    metric ([`LibraryMetrics::retired_mappings`]).
//! 2. **One thread calls down.** `LoadedLibrary` holds a raw pointer and is not `Send`: it lives on its lane, from `dlopen` to
//!    `close`, which takes it by value. So the library's functions are never called twice at a time nor after `close`.
//! 3. **Up-calls only enqueue.** They run on the library's threads, decode into values of our own, take a lock for one map
//!    operation or a channel's `try_send`, and return. They never call into the library, so neither side re-enters the other and
//!    no lock is held across the line.
//! 4. **No memory changes hands.** Bytes are borrowed for one call and copied by the receiver; lengths are checked before a slice
//!    is made (`HostPort::borrow`).
//! 5. **Nothing unwinds across.** Each callback catches our panics; `extern "C"` would abort otherwise. Theirs are caught by their
//!    SDK: a host cannot catch a panic of another standard library, so a library that does not declare that its panics stop
//!    inside (`FLAG_PANICS_STOP_HERE`) is refused.
//! 6. **Data before code.** Magic number, major and sizes are read from plain data before any function is called; a table field
//!    is looked at only where the stated size covers it (`raw::read_prefix`). The file is parsed first (`image`): a library that
//!    is cut short would crash the system's loader.
//! 7. **What is mapped is never written.** Each load has a file of its own, with a fresh inode, in a folder of this process.
//! 8. **Each call is answered once.** Its entry in `Calls` is removed by whoever answers: the library, the end of the grace
//!    after a cancel, the end of the library, or the drop of the future that waits. Ids are never reused, so a late or double
//!    completion finds no entry, is counted and ignored.
//!
//! # What the spikes showed
//!
//! `tests/it/spikes.rs` keeps them.
//!
//! 1. *200 reloads of a library whose thread-locals have destructors.* Each ran its own new code. Resident memory grows by
//!    0.6 MiB a reload for a release build (a file of 0.7 MB) and 1.3 MiB for a development build (6.6 MB), evenly: fifty
//!    reloads cost some tens of megabytes, which a restart gives back.
//! 2. *Panics in a worker, in a result's serialisation, in a payload's own drop.* Each ends its call alone. The payload has to be
//!    dropped inside a second catch, and what *that* throws is leaked, or the second panic would reach the edge and abort.
//! 3. *A thread that refuses to stop.* It goes on in its mapping after `close`, and is told `CLOSED` for each word. Joining such
//!    a lane on a blocking task of tokio keeps the runtime from ending; it is joined on a thread of its own, with a deadline.
//! 4. *Overwriting the build output during a call.* Nothing happens: what is mapped is a private copy.
//! 5. *A library in C.* Seventy lines and the header, no SDK.
//!
//! # What else was run
//!
//! * All tests of `tests/it` under valgrind (memcheck): no error. Two of them (`a_question_that_waits_ends_with_its_call`,
//!   `calls_of_one_library_run_at_the_same_time`) give a cancelled call 50 ms to end, which is too short there, and fail for
//!   that alone.
//! * The SDK's tests under Miri: clean. Leaks are not counted: host and library tables live as long as the process, on purpose.
//!   Miri loads no libraries, so the loader is valgrind's.
//! * Reloads under load (`tests/src/reloads`): a version that comes back while calls still run in it is not loaded again; one
//!   that is loaded adds four mappings. Besides the mappings, memory rises once, by about the size of the file for each of
//!   the allocator's arenas (glibc keeps the buffer that a file of this size was read into), and then stays.

mod calls;
mod connection;
mod connector;
mod extension;
mod failure;
mod handler;
mod hosted;
mod image;
mod lane;
mod libraries;
mod limits;
mod line;
mod link;
mod locate;
mod manifest;
mod metrics;
mod native;
mod opened;
mod operations;
mod progress;
mod staging;
mod threads;
pub mod tool_host;

pub use hosted::HostCommand;
pub use image::fault;
pub use libraries::Libraries;
pub use limits::Limits;
pub use metrics::LibraryMetrics;
