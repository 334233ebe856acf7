//! A host program for one library, equivalent to `gdn tool-host PATH`.

use std::io;
use std::path::Path;

fn main() -> io::Result<()> {
    let path = std::env::args_os()
        .nth(1)
        .ok_or_else(|| io::Error::other("usage: tool-host PATH"))?;
    goondan_dylib::tool_host::run(Path::new(&path))
}
