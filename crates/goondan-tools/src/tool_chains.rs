//! Locations of the user's tool chains: their environment variables, and the paths that sandboxed
//! programs may read.

use std::path::{Path, PathBuf};

use crate::settings_with_keys::has_keys;

/// The location of a tool chain.
struct ToolChain {
    /// Environment variable with the location.
    variable: &'static str,
    /// Default location below the home directory; empty if there is none.
    usual: &'static str,
    /// Readable parts; all if empty. They contain no keys: package managers store those next to
    /// them, such as in `.nvm/.npmrc`.
    parts: &'static [&'static str],
}

const fn tool_chain(
    variable: &'static str,
    usual: &'static str,
    parts: &'static [&'static str],
) -> ToolChain {
    ToolChain {
        variable,
        usual,
        parts,
    }
}

const TOOL_CHAINS: [ToolChain; 14] = [
    tool_chain(
        "CARGO_HOME",
        ".cargo",
        &["bin", "config.toml", "env", "git", "registry"],
    ),
    tool_chain("RUSTUP_HOME", ".rustup", &["settings.toml", "toolchains"]),
    tool_chain(
        "PYENV_ROOT",
        ".pyenv",
        &[
            "bin",
            "completions",
            "libexec",
            "plugins",
            "pyenv.d",
            "shims",
            "version",
            "versions",
        ],
    ),
    tool_chain(
        "NVM_DIR",
        ".nvm",
        &["alias", "bash_completion", "nvm-exec", "nvm.sh", "versions"],
    ),
    tool_chain(
        "VOLTA_HOME",
        ".volta",
        &["bin", "hooks.json", "layout.v4", "tools"],
    ),
    tool_chain(
        "ASDF_DATA_DIR",
        ".asdf",
        &["asdf.sh", "bin", "installs", "lib", "plugins", "shims"],
    ),
    tool_chain(
        "SDKMAN_DIR",
        ".sdkman",
        &["bin", "candidates", "contrib", "libexec", "src"],
    ),
    tool_chain(
        "RBENV_ROOT",
        ".rbenv",
        &[
            "bin", "libexec", "plugins", "rbenv.d", "shims", "version", "versions",
        ],
    ),
    tool_chain("BUN_INSTALL", ".bun", &["bin"]),
    tool_chain("DENO_INSTALL_ROOT", ".deno", &["bin"]),
    tool_chain("PNPM_HOME", ".local/share/pnpm", &[]),
    tool_chain("GOPATH", "go", &["pkg"]),
    tool_chain("GOROOT", "", &[]),
    tool_chain("JAVA_HOME", "", &[]),
];

/// Readable parts of tool chains with settings of the user. They are left out if they contain keys.
const SETTINGS_FILES: [&str; 3] = ["config.toml", "hooks.json", "settings.toml"];

/// Returns true for a variable with the location of a tool chain. Programs receive these variables
/// like `PATH`, because without them they find no tool chain or the wrong one.
pub(crate) fn is_variable(name: &str) -> bool {
    TOOL_CHAINS.iter().any(|chain| chain.variable == name)
}

/// Returns the readable paths of the user's tool chains.
pub(crate) fn readable_paths() -> Vec<PathBuf> {
    let home = std::env::home_dir();
    TOOL_CHAINS
        .iter()
        .flat_map(|chain| chain.readable_paths(std::env::var_os(chain.variable), home.as_deref()))
        .collect()
}

impl ToolChain {
    /// Returns the readable paths if the variable has the value `set`.
    fn readable_paths(&self, set: Option<std::ffi::OsString>, home: Option<&Path>) -> Vec<PathBuf> {
        let set = set
            .iter()
            .flat_map(std::env::split_paths)
            .filter(|folder| folder.is_absolute());
        let usual = home
            .filter(|_| !self.usual.is_empty())
            .map(|home| home.join(self.usual));
        let folders = set.chain(usual);
        match self.parts {
            [] => folders.collect(),
            parts => folders
                .flat_map(|folder| parts.iter().map(move |part| folder.join(part)))
                .filter(|path| !is_settings_file(path) || !has_keys(path))
                .collect(),
        }
    }
}

/// Returns true for a file in which the user of a tool chain may write keys.
fn is_settings_file(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default();
    SETTINGS_FILES.iter().any(|file| name == *file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tool_chain_paths_use_the_variable_and_the_home_directory() {
        let [cargo, .., java] = &TOOL_CHAINS;
        let read = |chain: &ToolChain, set: Option<&str>| {
            let paths = chain.readable_paths(set.map(Into::into), Some(Path::new("/home/u")));
            paths
                .into_iter()
                .map(|path| path.display().to_string())
                .collect::<Vec<_>>()
        };
        let moved = read(cargo, Some("/srv/cargo"));
        assert!(
            moved.contains(&"/srv/cargo/registry".to_owned())
                && moved.contains(&"/home/u/.cargo/bin".to_owned())
        );
        assert!(
            !moved
                .iter()
                .any(|path| path.ends_with("credentials.toml") || path == "/srv/cargo"),
            "{moved:?}"
        );
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("config.toml");
        std::fs::write(&config, "[registries.x]\ntoken = \"s\"\n").unwrap();
        let with_key = read(cargo, folder.path().to_str());
        assert!(!with_key.contains(&config.display().to_string()));
        assert_eq!(read(java, Some("/opt/java")), ["/opt/java"]);
        assert!(read(java, None).is_empty() && read(java, Some("relative")).is_empty());
    }
}
