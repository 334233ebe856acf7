//! Files of `/etc` that every user may read. Other files there are secrets: password hashes, host
//! keys, the token of a server.
//!
//! The owner of a file can make it readable for every user, also in a sandbox. So the mode counts
//! only for files of other users. As root, only the settings of a list are readable.

use std::fs::{DirEntry, Metadata};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Directory of the system settings.
pub(super) const SETTINGS_DIR: &str = "/etc";

/// Settings without secrets that programs need, as root. A `*` at the end matches any rest of the
/// name.
const PUBLIC_SETTINGS: [&str; 66] = [
    "ImageMagick-*",
    "X11",
    "alpine-release",
    "alternatives",
    "apt",
    "bash.bashrc",
    "bash_completion.d",
    "bindresvport.blacklist",
    "ca-certificates",
    "ca-certificates.conf",
    "centos-release",
    "crypto-policies",
    "debian_version",
    "dpkg",
    "ethertypes",
    "fedora-release",
    "fonts",
    "gai.conf",
    "gitconfig",
    "glvnd",
    "group",
    "gss",
    "gtk-*",
    "host.conf",
    "hostname",
    "hosts",
    "inputrc",
    "issue",
    "java*",
    "ld-musl-*",
    "ld.so.*",
    "libaudit.conf",
    "libnl*",
    "locale.alias",
    "locale.conf",
    "locale.gen",
    "localtime",
    "login.defs",
    "lsb-release",
    "machine-id",
    "magic",
    "magic.mime",
    "mailcap",
    "manpath.config",
    "mime.types",
    "mke2fs.conf",
    "mtab",
    "nanorc",
    "networks",
    "nsswitch.conf",
    "os-release",
    "papersize",
    "passwd",
    "perl",
    "pki",
    "profile",
    "profile.d",
    "protocols",
    "python*",
    "resolv.conf",
    "rpc",
    "services",
    "shells",
    "ssl",
    "terminfo",
    "timezone",
];
/// Names of directories with private keys, in each of the settings.
const PRIVATE_DIRECTORIES: [&str; 3] = ["private", "auth.conf.d", "keys"];

const WORLD_READ: u32 = 0o4;
const WORLD_SEARCH: u32 = 0o1;

/// Returns the files and directories of `/etc` that every user may read. Determined once, because
/// that takes longer than starting a program. Files that are created later in a directory with
/// secrets are not among them.
pub(super) fn readable_settings() -> &'static [PathBuf] {
    static SETTINGS: OnceLock<Vec<PathBuf>> = OnceLock::new();
    SETTINGS.get_or_init(|| {
        let directory = Path::new(SETTINGS_DIR);
        match std::fs::metadata("/proc/self").map_or(0, |own| own.uid()) {
            0 => settings_of_root(directory),
            own => match readable_below(directory, Some(own)) {
                ReadableEntries::All => vec![directory.to_owned()],
                ReadableEntries::Only(paths) => paths,
            },
        }
    })
}

/// Returns the readable entries of `directory` that belong to the settings of the list.
#[expect(clippy::disallowed_methods, reason = "agents can't change `/etc`")]
fn settings_of_root(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let public_entries =
        entries.filter(|entry| entry.file_name().to_str().is_some_and(is_public_setting));
    let readable = public_entries.flat_map(|entry| match readable_entries(&entry, None) {
        Some(ReadableEntries::All) => vec![entry.path()],
        Some(ReadableEntries::Only(paths)) => paths,
        None => Vec::new(),
    });
    readable.collect()
}

/// Returns true for the name of a setting of the list.
fn is_public_setting(name: &str) -> bool {
    PUBLIC_SETTINGS
        .iter()
        .any(|listed| match listed.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => *listed == name,
        })
}

/// Part of a directory that every user may read.
enum ReadableEntries {
    All,
    Only(Vec<PathBuf>),
}

/// Returns what every user may read in a directory, without files of the user `owner`. Links are left out: rules apply to their
/// targets, and a target in `/etc` has a rule of its own.
#[expect(clippy::disallowed_methods, reason = "agents can't change `/etc`")]
fn readable_below(directory: &Path, owner: Option<u32>) -> ReadableEntries {
    let Ok(entries) = std::fs::read_dir(directory) else {
        return ReadableEntries::Only(Vec::new());
    };
    let mut is_all = true;
    let mut paths = Vec::new();
    for entry in entries.flatten() {
        match readable_entries(&entry, owner) {
            Some(ReadableEntries::All) => paths.push(entry.path()),
            Some(ReadableEntries::Only(inner)) => {
                is_all = false;
                paths.extend(inner);
            }
            None => {}
        }
    }
    if is_all {
        ReadableEntries::All
    } else {
        ReadableEntries::Only(paths)
    }
}

/// Returns what every user may read of an entry; `None` for links and vanished entries.
fn readable_entries(entry: &DirEntry, owner: Option<u32>) -> Option<ReadableEntries> {
    let metadata = entry.metadata().ok()?;
    let may_access = |metadata: &Metadata, wanted| {
        metadata.permissions().mode() & wanted == wanted && Some(metadata.uid()) != owner
    };
    let is_private = PRIVATE_DIRECTORIES
        .iter()
        .any(|name| entry.file_name() == *name);
    if metadata.is_symlink() {
        None
    } else if metadata.is_dir() && owner.is_none() && is_private {
        // A secret that is created there later must not be readable either.
        Some(ReadableEntries::Only(Vec::new()))
    } else if metadata.is_dir() && may_access(&metadata, WORLD_READ | WORLD_SEARCH) {
        Some(readable_below(&entry.path(), owner))
    } else if !metadata.is_dir() && may_access(&metadata, WORLD_READ) {
        Some(ReadableEntries::All)
    } else {
        Some(ReadableEntries::Only(Vec::new()))
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, create_dir, set_permissions, write};

    use super::*;

    #[test]
    fn only_world_readable_entries_are_listed() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        for name in ["open", "mixed", "closed"] {
            create_dir(at(name)).unwrap();
            write(at(name).join("a"), "x").unwrap();
            write(at(name).join("b"), "x").unwrap();
        }
        let mode = |name: &str, mode| set_permissions(at(name), Permissions::from_mode(mode));
        for name in ["open", "mixed"] {
            mode(name, 0o755).unwrap();
            mode(&format!("{name}/a"), 0o644).unwrap();
            mode(&format!("{name}/b"), 0o644).unwrap();
        }
        mode("mixed/b", 0o640).unwrap();
        mode("closed", 0o700).unwrap();
        std::os::unix::fs::symlink(at("closed/a"), at("open/link")).unwrap();
        let ReadableEntries::Only(mut paths) = readable_below(directory.path(), None) else {
            panic!("the directory contains unreadable files");
        };
        paths.sort();
        assert_eq!(paths, [at("mixed/a"), at("open")]);
        assert!(matches!(
            readable_below(&at("open"), None),
            ReadableEntries::All
        ));
        let owner = directory.path().metadata().unwrap().uid();
        let own = readable_below(directory.path(), Some(owner));
        assert!(matches!(own, ReadableEntries::Only(paths) if paths.is_empty()));
    }

    #[test]
    fn settings_of_root_contains_only_listed_names() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        for name in ["ssl/certs", "ssl/private", "python3.11"] {
            std::fs::create_dir_all(at(name)).unwrap();
        }
        for name in ["passwd", "shadow", "my-service.conf", "ssl/private/key"] {
            write(at(name), "x").unwrap();
            set_permissions(at(name), Permissions::from_mode(0o644)).unwrap();
        }
        let mut paths = settings_of_root(directory.path());
        paths.sort();
        assert_eq!(paths, [at("passwd"), at("python3.11"), at("ssl/certs")]);
    }
}
