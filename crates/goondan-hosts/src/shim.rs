//! The programs that load modules in a host, one for each language. They are parts of this program, and written to a file
//! that is named by what is in it: a runtime reads files.

use std::io;
use std::path::{Path, PathBuf};

use goondan_core::private;
use goondan_spec::kinds::Runtime;
use sha2::{Digest, Sha256};

const JAVASCRIPT: &str =
    concat!(include_str!("shim/host.mjs"), include_str!("shim/extensions.mjs"), include_str!("shim/connectors.mjs"));
const PYTHON: &str = concat!(
    include_str!("shim/events.py"),
    include_str!("shim/extensions.py"),
    include_str!("shim/connectors.py"),
    include_str!("shim/host.py"),
);

/// The shim of a runtime in `folder`, written there unless it is there. Blocks.
pub(crate) fn place(runtime: Runtime, folder: &Path) -> io::Result<PathBuf> {
    let (text, ending) = match runtime {
        Runtime::Node | Runtime::Bun | Runtime::Deno => (JAVASCRIPT, "mjs"),
        Runtime::Python => (PYTHON, "py"),
    };
    let name = format!("host-{}.{ending}", &hex(text.as_bytes())[..16]);
    let path = folder.join(&name);
    // What lies there may have been changed; this program trusts it no more than a name.
    if std::fs::read(&path).is_ok_and(|known| known == text.as_bytes()) {
        return Ok(path);
    }
    private::make_folder(folder)?;
    let draft = folder.join(format!("{name}.{}", std::process::id()));
    private::write(&draft, text.as_bytes())?;
    std::fs::rename(&draft, &path)?;
    Ok(path)
}

/// The SHA-256 of some bytes.
pub(crate) fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shim_that_was_changed_is_written_again() {
        let folder = tempfile::tempdir().unwrap();
        let below = folder.path().join("hosts");
        let path = place(Runtime::Python, &below).unwrap();
        std::fs::write(&path, "print('mine')").unwrap();
        assert_eq!(place(Runtime::Python, &below).unwrap(), path);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), PYTHON);
        assert_ne!(place(Runtime::Bun, &below).unwrap(), path);
    }
}
