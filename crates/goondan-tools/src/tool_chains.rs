//! Locations of the user's tool chains: their environment variables, and the paths that sandboxed
//! programs may read.

use std::path::{Path, PathBuf};

/// The location of a tool chain.
struct ToolChain {
    /// Environment variable with the location.
    variable: &'static str,
    /// Default location below the home directory; empty if there is none.
    usual: &'static str,
    /// Readable parts; all if empty. They contain no keys.
    parts: &'static [&'static str],
}

const fn at(
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
    at(
        "CARGO_HOME",
        ".cargo",
        &["bin", "config.toml", "env", "git", "registry"],
    ),
    at("RUSTUP_HOME", ".rustup", &[]),
    at("PYENV_ROOT", ".pyenv", &[]),
    at("NVM_DIR", ".nvm", &[]),
    at("VOLTA_HOME", ".volta", &[]),
    at("ASDF_DATA_DIR", ".asdf", &[]),
    at("SDKMAN_DIR", ".sdkman", &[]),
    at("RBENV_ROOT", ".rbenv", &[]),
    at("BUN_INSTALL", ".bun", &["bin"]),
    at("DENO_INSTALL_ROOT", ".deno", &["bin"]),
    at("PNPM_HOME", ".local/share/pnpm", &[]),
    at("GOPATH", "go", &["pkg"]),
    at("GOROOT", "", &[]),
    at("JAVA_HOME", "", &[]),
];

/// Returns true for a variable with the location of a tool chain. Programs receive these variables
/// like `PATH`, because they would otherwise find no tool chain or the wrong one.
pub(crate) fn is_variable(name: &str) -> bool {
    TOOL_CHAINS.iter().any(|chain| chain.variable == name)
}

/// Returns the readable paths of the user's tool chains.
pub(crate) fn readable() -> Vec<PathBuf> {
    let home = std::env::home_dir();
    TOOL_CHAINS
        .iter()
        .flat_map(|chain| chain.readable(std::env::var_os(chain.variable), home.as_deref()))
        .collect()
}

impl ToolChain {
    /// Returns the readable paths if the variable has the value `set`.
    fn readable(&self, set: Option<std::ffi::OsString>, home: Option<&Path>) -> Vec<PathBuf> {
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
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_chain_is_read_where_its_variable_says_and_where_it_usually_is() {
        let [cargo, .., java] = &TOOL_CHAINS;
        let read = |chain: &ToolChain, set: Option<&str>| {
            let paths = chain.readable(set.map(Into::into), Some(Path::new("/home/u")));
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
        assert_eq!(read(java, Some("/opt/java")), ["/opt/java"]);
        assert!(read(java, None).is_empty() && read(java, Some("relative")).is_empty());
    }
}
