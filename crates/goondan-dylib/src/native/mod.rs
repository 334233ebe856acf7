//! Where this program and a library's machine code touch. The only unsafe code of the host; `lib.rs` has the whole argument.

mod callbacks;
mod loaded;

pub(crate) use callbacks::HostPort;
pub(crate) use loaded::LoadedLibrary;
