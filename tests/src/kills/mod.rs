//! Kills the host of an extension and a tool, or `gdn` itself, with SIGKILL at each of their operations, one after the other: before
//! and after everything that they ask for, and at the beginning and the end of each layer and handler. Nothing may be lost and
//! nothing done twice.
//!
//! The module ([`project`]) counts its operations in a file and does the killing itself, so each run hits another one. It is there in
//! JavaScript, in Python and as a library. [`driver`] starts `gdn`, again where it was killed, and looks at what is left.

mod driver;
mod project;

/// Goes through all operations.
pub fn run(arguments: &[String]) -> anyhow::Result<()> {
    anyhow::ensure!(arguments.is_empty(), "it takes no options");
    driver::run()
}
