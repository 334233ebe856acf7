//! Where the tool chains of a user lie: the variables that say so, and what of it a program in a sandbox may read.

use std::path::{Path, PathBuf};

/// A place of a tool chain.
struct ToolChain {
    /// Says where it is.
    variable: &'static str,
    /// Where it is below the home folder, where the variable does not say; empty where only the variable tells.
    usual: &'static str,
    /// What is read there; all of it where nothing is listed. Where keys lie is not among it.
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

/// Whether a variable says where a tool chain lies. Programs get it as they get `PATH`: without it a tool chain that lies
/// elsewhere is not found, or another one is.
pub(crate) fn is_variable(name: &str) -> bool {
    TOOL_CHAINS.iter().any(|chain| chain.variable == name)
}

/// What programs read of the tool chains of this process's user.
pub(crate) fn readable() -> Vec<PathBuf> {
    let home = std::env::home_dir();
    TOOL_CHAINS
        .iter()
        .flat_map(|chain| chain.readable(std::env::var_os(chain.variable), home.as_deref()))
        .collect()
}

impl ToolChain {
    /// What is read, where the variable is `set` so.
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
