//! The boundary between this program and a library's machine code. It contains the only unsafe code
//! of the host; `lib.rs` explains why it is sound.

mod callbacks;
mod loaded;

pub(crate) use callbacks::HostPort;
pub(crate) use loaded::LoadedLibrary;
