//! The programs that load modules in a runtime process, one per language. They are embedded in this
//! binary and written to a file named by its hash, because runtimes read files.

use std::io;
use std::path::{Path, PathBuf};

use goondan_core::private_files;
use goondan_spec::kinds::ScriptRuntime;
use sha2::{Digest, Sha256};

const JAVASCRIPT_SHIM: &str = concat!(
    include_str!("shim/host.mjs"),
    include_str!("shim/extensions.mjs"),
    include_str!("shim/connectors.mjs")
);
const PYTHON_SHIM: &str = concat!(
    include_str!("shim/events.py"),
    include_str!("shim/extensions.py"),
    include_str!("shim/connectors.py"),
    include_str!("shim/project_modules.py"),
    include_str!("shim/host.py"),
);

/// Returns the path of a runtime's shim in `folder`, and writes the file if it is missing. Blocks.
pub(crate) fn write_shim(runtime: ScriptRuntime, folder: &Path) -> io::Result<PathBuf> {
    let (text, ending) = match runtime {
        ScriptRuntime::Node | ScriptRuntime::Bun | ScriptRuntime::Deno => (JAVASCRIPT_SHIM, "mjs"),
        ScriptRuntime::Python => (PYTHON_SHIM, "py"),
    };
    let path = folder.join(format!("host-{}.{ending}", &hex(text.as_bytes())[..16]));
    // An existing file may have been modified, so compare its contents.
    if std::fs::read(&path).is_ok_and(|known| known == text.as_bytes()) {
        return Ok(path);
    }
    private_files::create_directory(folder)?;
    private_files::replace(&path, text.as_bytes())?;
    Ok(path)
}

/// Returns a SHA-256 hash in hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::thread;

    use super::*;

    #[test]
    fn a_modified_shim_is_written_again() {
        let directory = tempfile::tempdir().unwrap();
        let hosts_directory = directory.path().join("hosts");
        let path = write_shim(ScriptRuntime::Python, &hosts_directory).unwrap();
        std::fs::write(&path, "print('mine')").unwrap();
        assert_eq!(
            write_shim(ScriptRuntime::Python, &hosts_directory).unwrap(),
            path
        );
        assert_eq!(std::fs::read_to_string(&path).unwrap(), PYTHON_SHIM);
        assert_ne!(
            write_shim(ScriptRuntime::Bun, &hosts_directory).unwrap(),
            path
        );
    }

    #[test]
    fn concurrent_writes_all_return_a_complete_shim() {
        let directory = tempfile::tempdir().unwrap();
        for round in 0..50 {
            let hosts_directory = directory.path().join(round.to_string());
            let start = Barrier::new(4);
            thread::scope(|scope| {
                let writers: Vec<_> = (0..4)
                    .map(|_| {
                        scope.spawn(|| {
                            start.wait();
                            write_shim(ScriptRuntime::Node, &hosts_directory)
                        })
                    })
                    .collect();
                for writer in writers {
                    let path = writer.join().unwrap().unwrap();
                    assert_eq!(std::fs::read_to_string(path).unwrap(), JAVASCRIPT_SHIM);
                }
            });
            assert_eq!(
                std::fs::read_dir(&hosts_directory).unwrap().count(),
                1,
                "no temporary file is left"
            );
        }
    }
}
