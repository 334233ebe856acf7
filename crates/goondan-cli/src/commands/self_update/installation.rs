//! Location of this program, and its installer.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::update_error;
use crate::exit::CliError;

/// Path of the receipt below the prefix, written by the installers.
const RECEIPT_PATH: &str = "share/gdn/receipt.json";
/// Command that installs a program which no package manager updates.
#[cfg(not(windows))]
const INSTALLER: &str =
    "curl -fsSL https://github.com/goondan/gdn/releases/latest/download/install.sh | sh";
#[cfg(windows)]
const INSTALLER: &str =
    "irm https://github.com/goondan/gdn/releases/latest/download/install.ps1 | iex";

/// Name in place of a package manager for a program that cargo built in a checkout.
const SOURCE: &str = "source";

/// Record that an installer leaves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct InstallReceipt {
    /// Installed version.
    pub(super) version: String,
    /// Target system, as in the archive's file name.
    pub(super) target: String,
    /// Base URL of the releases.
    pub(super) base: String,
}

/// Installation that has a receipt.
#[derive(Debug)]
pub(super) struct InstalledProgram {
    pub(super) binary: PathBuf,
    /// Directory above `bin` and `share`.
    pub(super) prefix: PathBuf,
    pub(super) receipt: InstallReceipt,
}

impl InstalledProgram {
    /// Finds the installation of this program. Fails without an install receipt for this version;
    /// the error names the command that updates the program.
    pub(super) fn find() -> Result<InstalledProgram, CliError> {
        let binary = std::env::current_exe().and_then(|path| path.canonicalize());
        let binary = binary.map_err(|error| {
            update_error(format!("Could not find the path of this program: {error}."))
        })?;
        let prefix = binary
            .parent()
            .and_then(Path::parent)
            .unwrap_or(Path::new("/"))
            .to_owned();
        let text = fs::read(prefix.join(RECEIPT_PATH)).ok();
        let receipt = text.and_then(|text| serde_json::from_slice::<InstallReceipt>(&text).ok());
        // Another version means that something else replaced the program later.
        match receipt.filter(|receipt| receipt.version == env!("CARGO_PKG_VERSION")) {
            Some(receipt) => Ok(InstalledProgram {
                binary,
                prefix,
                receipt,
            }),
            None => Err(no_receipt_error(&binary, &prefix)),
        }
    }

    /// Writes the new version to the receipt.
    pub(super) fn record_version(&self, version: String) -> std::io::Result<()> {
        let path = self.prefix.join(RECEIPT_PATH);
        let temporary_path = path.with_extension("new");
        let receipt = InstallReceipt {
            version,
            ..self.receipt.clone()
        };
        fs::write(
            &temporary_path,
            serde_json::to_string_pretty(&receipt)? + "\n",
        )?;
        fs::rename(temporary_path, path)
    }
}

/// Returns the error of a program without a receipt. It names the update command of the package
/// manager that installed the program, if that is known.
fn no_receipt_error(binary: &Path, prefix: &Path) -> CliError {
    let program_path = binary.display();
    match package_manager(binary, has_wheel(prefix)) {
        Some((SOURCE, command)) => CliError::configuration(format!(
            "{program_path} was built from source, so `gdn self update` cannot update it."
        ))
        .suggest(format!("Run `{command}` in the repository.")),
        Some((manager, command)) => CliError::configuration(format!(
            "{program_path} was installed with {manager}, so `gdn self update` cannot update it."
        ))
        .suggest(format!("Run `{command}`.")),
        None => CliError::configuration(format!(
            "{program_path} has no installation receipt, so `gdn \
            self update` cannot update it."
        ))
        .suggest(format!(
            "Update it the way it was installed, or reinstall it with `{INSTALLER}`."
        )),
    }
}

/// Returns the package manager that installed the program, and its update command.
fn package_manager(binary: &Path, has_wheel: bool) -> Option<(&'static str, &'static str)> {
    let parts: Vec<&OsStr> = binary.iter().collect();
    let follow = |names: &[&str]| {
        parts
            .windows(names.len())
            .any(|part| part == names.iter().map(OsStr::new).collect::<Vec<_>>())
    };
    let rows: [(bool, &'static str, &'static str); 9] = [
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
            follow(&["target"]) && follow(&["release"]),
            SOURCE,
            "git pull && cargo build --release -p goondan-cli",
        ),
        (
            follow(&["target"]),
            SOURCE,
            "git pull && cargo build -p goondan-cli",
        ),
    ];
    rows.into_iter()
        .find(|(fits, ..)| *fits)
        .map(|(_, manager, command)| (manager, command))
}

/// Returns true if pip metadata of the package exists below `prefix`.
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
    fn the_package_manager_is_detected_from_the_program_path() {
        let command = |path: &str| package_manager(Path::new(path), false).unwrap().1;
        assert!(command("/usr/lib/node_modules/@goondan/gdn-linux-x64/bin/gdn").starts_with("npm"));
        assert!(command("/opt/homebrew/Cellar/gdn/0.1.0/bin/gdn").starts_with("brew"));
        assert!(command("/nix/store/abc-gdn-0.1.0/bin/gdn").starts_with("nix"));
        assert!(command("/home/a/.local/share/uv/tools/goondan-gdn/bin/gdn").starts_with("uv"));
        assert!(command("/home/a/.local/share/pipx/venvs/goondan-gdn/bin/gdn").starts_with("pipx"));
        assert!(command("/home/a/.cargo/bin/gdn").contains("cargo install"));
        assert!(command("/home/a/gdn/target/debug/gdn").contains("cargo build -p"));
        assert!(command("/home/a/gdn/target/release/gdn").contains("cargo build --release"));
        assert_eq!(
            package_manager(Path::new("/usr/local/bin/gdn"), false),
            None
        );
    }

    #[test]
    fn a_pip_installation_is_detected() {
        let prefix = tempfile::tempdir().unwrap();
        assert!(!has_wheel(prefix.path()));
        let metadata = prefix
            .path()
            .join("lib/python3.12/site-packages/goondan_gdn-0.1.0.dist-info");
        fs::create_dir_all(metadata).unwrap();
        assert!(has_wheel(prefix.path()));
        assert!(
            package_manager(Path::new("/venv/bin/gdn"), true)
                .unwrap()
                .1
                .contains("pip install")
        );
    }
}
