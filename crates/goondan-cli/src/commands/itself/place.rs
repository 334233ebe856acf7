//! Where this program is, and who installed it.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::failed;
use crate::exit::CliError;

/// Below the prefix; the installers write it.
const RECEIPT: &str = "share/gdn/receipt.json";
/// What installs and updates a program that nobody else takes care of.
#[cfg(not(windows))]
const INSTALLER: &str =
    "curl -fsSL https://github.com/goondan/gdn/releases/latest/download/install.sh | sh";
#[cfg(windows)]
const INSTALLER: &str =
    "irm https://github.com/goondan/gdn/releases/latest/download/install.ps1 | iex";

/// What an installer has done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Receipt {
    /// Which version it has installed.
    pub(super) version: String,
    /// For which system.
    pub(super) target: String,
    /// Where releases lie.
    pub(super) base: String,
}

/// A program that an installer has installed.
#[derive(Debug)]
pub(super) struct Place {
    /// The program.
    pub(super) binary: PathBuf,
    /// The folder above `bin` and `share`.
    pub(super) prefix: PathBuf,
    /// What the installer has left.
    pub(super) receipt: Receipt,
}

impl Place {
    /// This program's; an error that says how to update it where no installer has installed it.
    pub(super) fn find() -> Result<Place, CliError> {
        let binary = std::env::current_exe().and_then(|path| path.canonicalize());
        let binary = binary
            .map_err(|error| failed(format!("It can't be told where this program is: {error}.")))?;
        let prefix = binary
            .parent()
            .and_then(Path::parent)
            .unwrap_or(Path::new("/"))
            .to_owned();
        let text = fs::read(prefix.join(RECEIPT)).ok();
        let receipt = text.and_then(|text| serde_json::from_slice::<Receipt>(&text).ok());
        // Somebody else may have put a program there later.
        match receipt.filter(|receipt| receipt.version == env!("CARGO_PKG_VERSION")) {
            Some(receipt) => Ok(Place {
                binary,
                prefix,
                receipt,
            }),
            None => Err(elsewhere(&binary, &prefix)),
        }
    }

    /// Notes the version that is there from now on.
    pub(super) fn note(&self, version: String) -> std::io::Result<()> {
        let path = self.prefix.join(RECEIPT);
        let new = path.with_extension("new");
        let receipt = Receipt {
            version,
            ..self.receipt.clone()
        };
        fs::write(&new, serde_json::to_string_pretty(&receipt)? + "\n")?;
        fs::rename(new, path)
    }
}

fn elsewhere(binary: &Path, prefix: &Path) -> CliError {
    let shown = binary.display();
    match way(binary, has_wheel(prefix)) {
        Some((who, command)) => CliError::configuration(format!(
            "{who} has installed {shown}, so {who} has to update it."
        ))
        .suggest(format!("Type `{command}`.")),
        None => CliError::configuration(format!("No installer has left a receipt for {shown}."))
            .suggest(format!(
                "Update it the way it was installed, or install it by `{INSTALLER}`."
            )),
    }
}

/// Who has installed the program at `binary`, and what updates it.
fn way(binary: &Path, has_wheel: bool) -> Option<(&'static str, &'static str)> {
    let parts: Vec<&OsStr> = binary.iter().collect();
    let follow = |names: &[&str]| {
        parts
            .windows(names.len())
            .any(|part| part == names.iter().map(OsStr::new).collect::<Vec<_>>())
    };
    let rows: [(bool, &str, &str); 8] = [
        (
            follow(&["node_modules"]),
            "npm",
            "npm install --global @goondan/gdn@latest",
        ),
        (follow(&["Cellar"]), "Homebrew", "brew upgrade gdn"),
        (follow(&["nix", "store"]), "Nix", "nix profile upgrade gdn"),
        (
            follow(&["uv", "tools"]),
            "uv",
            "uv tool upgrade goondan-gdn",
        ),
        (follow(&["pipx"]), "pipx", "pipx upgrade goondan-gdn"),
        (
            has_wheel,
            "pip",
            "python -m pip install --upgrade goondan-gdn",
        ),
        (
            follow(&[".cargo", "bin"]),
            "cargo",
            "git pull && cargo install --path crates/goondan-cli",
        ),
        (
            follow(&["target"]),
            "cargo",
            "git pull && cargo build -p goondan-cli",
        ),
    ];
    rows.into_iter()
        .find(|(fits, ..)| *fits)
        .map(|(_, who, command)| (who, command))
}

/// Whether pip has left its notes below `prefix`.
fn has_wheel(prefix: &Path) -> bool {
    let pythons = fs::read_dir(prefix.join("lib"))
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path());
    let mut packages = pythons
        .map(|python| python.join("site-packages"))
        .chain([prefix.join("Lib/site-packages")]);
    packages.any(|folder| {
        let names = fs::read_dir(folder)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.file_name());
        names
            .map(|name| name.to_string_lossy().into_owned())
            .any(|name| name.starts_with("goondan_gdn-"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_installed_the_program_is_seen_by_its_path() {
        let command = |path: &str| way(Path::new(path), false).unwrap().1;
        assert!(command("/usr/lib/node_modules/@goondan/gdn-linux-x64/bin/gdn").starts_with("npm"));
        assert!(command("/opt/homebrew/Cellar/gdn/0.1.0/bin/gdn").starts_with("brew"));
        assert!(command("/nix/store/abc-gdn-0.1.0/bin/gdn").starts_with("nix"));
        assert!(command("/home/a/.local/share/uv/tools/goondan-gdn/bin/gdn").starts_with("uv"));
        assert!(command("/home/a/.local/share/pipx/venvs/goondan-gdn/bin/gdn").starts_with("pipx"));
        assert!(command("/home/a/.cargo/bin/gdn").contains("cargo install"));
        assert!(command("/home/a/gdn/target/debug/gdn").contains("cargo build"));
        assert_eq!(way(Path::new("/usr/local/bin/gdn"), false), None);
    }

    #[test]
    fn what_pip_has_left_is_seen() {
        let prefix = tempfile::tempdir().unwrap();
        assert!(!has_wheel(prefix.path()));
        let notes = prefix
            .path()
            .join("lib/python3.12/site-packages/goondan_gdn-0.1.0.dist-info");
        fs::create_dir_all(notes).unwrap();
        assert!(has_wheel(prefix.path()));
        assert!(
            way(Path::new("/venv/bin/gdn"), true)
                .unwrap()
                .1
                .contains("pip install")
        );
    }
}
