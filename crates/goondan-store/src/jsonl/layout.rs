//! Names of files and directories, and the encoding of keys as names (rule C3).

use std::fmt::Write;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use goondan_core::ids::{InstanceId, hex};

/// Directory of all workspaces below the state root.
pub const WORKSPACES: &str = "workspaces";
/// Directory of a workspace's instances.
pub const INSTANCES: &str = "instances";
pub const INBOX: &str = "inbox.jsonl";
/// State of a workspace at its clean end.
pub const CHECKPOINT: &str = "checkpoint.jsonl";
/// List of conversations at the last clean end.
pub const CONVERSATIONS: &str = "conversations.jsonl";
pub const METADATA: &str = "metadata.json";
/// Folded messages.
pub const BASE: &str = "messages/base.jsonl";
pub const EVENTS: &str = "messages/events.jsonl";
pub const JOURNAL: &str = "messages/journal.jsonl";
/// Runtime events for observers.
pub const RUNTIME_EVENTS: &str = "messages/runtime-events.jsonl";
/// Earlier runtime events: the previous [`RUNTIME_EVENTS`], after it grew too large.
pub const OLDER_RUNTIME_EVENTS: &str = "messages/runtime-events.jsonl.1";
/// Directory of extension state, one file each.
pub const EXTENSIONS: &str = "extensions";
pub const DEAD_LETTERS: &str = "messages/dead-letters.json";
/// Complete outputs that were truncated for the model.
pub const FILES: &str = "files";
/// Working directory of the instance's tools.
pub const WORKDIR: &str = "workdir";

/// Lock file of a workspace, which holds the id of the process that uses the workspace.
pub const LOCK: &str = "lock";
/// File with the address and the token of the process that uses the workspace.
pub const CONTROL_ENDPOINT: &str = "control.json";
/// Files of a workspace that only the process of a running swarm needs.
const PROCESS_FILES: [&str; 2] = [LOCK, CONTROL_ENDPOINT];

/// Number of directories between the workspace and an instance's files:
/// `instances/<instance>/messages/`.
pub(super) const INSTANCE_FILE_DEPTH: usize = 3;

/// Maximum length of a name in bytes; longer names are truncated and end in a hash. File systems
/// accept 255 bytes.
const MAX_NAME_BYTES: usize = 200;

/// Returns the workspace id for a swarm's instance key: lower case, `a-z 0-9 . _ -`, at most 128
/// characters. An empty result becomes `default`.
pub fn workspace_id(swarm_instance_key: &str) -> String {
    let mut id = String::new();
    for c in swarm_instance_key.trim().to_lowercase().chars() {
        let c = if c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '_') {
            c
        } else {
            '-'
        };
        if !(c == '-' && id.ends_with('-')) {
            id.push(c);
        }
    }
    id.truncate(128);
    // A name of only dots would refer to the directory itself or its parent.
    match id.trim_matches('-') {
        "" | "." | ".." => "default".to_owned(),
        id => id.to_owned(),
    }
}

/// Returns the directory of a workspace.
pub fn workspace_dir(state_root: &Path, swarm_instance_key: &str) -> PathBuf {
    state_root
        .join(WORKSPACES)
        .join(workspace_id(swarm_instance_key))
}

/// Returns the directory of an instance.
pub fn instance_dir(workspace: &Path, id: &InstanceId) -> PathBuf {
    workspace.join(INSTANCES).join(file_name(&id.to_string()))
}

/// Returns the paths of the files that a clean end writes. A copy of them would describe other files.
pub(super) fn checkpoint_files(workspace: &Path) -> [PathBuf; 2] {
    [CHECKPOINT, CONVERSATIONS].map(|name| workspace.join(name))
}

/// Returns the paths of the files that only the process of a running swarm needs.
pub(super) fn process_files(workspace: &Path) -> [PathBuf; 2] {
    PROCESS_FILES.map(|name| workspace.join(name))
}

/// Returns the paths of the existing extension records of an instance, and of its file of failed
/// events, which may not exist. An unreadable directory counts as empty.
pub(super) fn json_files(instance: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(instance.join(EXTENSIONS));
    let entries = entries.into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "json")
        })
        .collect();
    paths.push(instance.join(DEAD_LETTERS));
    paths.sort();
    paths
}

/// Returns a unique file name for `key`. Bytes that file systems do not permit become `%XX`, and
/// long names end in a hash of the whole key.
pub fn file_name(key: &str) -> String {
    let mut name = String::with_capacity(key.len());
    for (index, byte) in key.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' => name.push(char::from(byte)),
            b'A'..=b'Z' if !IGNORES_NAME_CASE => name.push(char::from(byte)),
            b'.' if index > 0 => name.push('.'),
            b':' if !cfg!(windows) => name.push(':'),
            _ => write!(name, "%{byte:02X}").expect("a String takes everything"),
        }
    }
    if name.len() <= MAX_NAME_BYTES {
        name
    } else {
        shortened_name(&name, key)
    }
}

/// Decodes a name made by [`file_name`]; `None` if the name was shortened.
pub fn key_of(name: &str) -> Option<String> {
    let mut key = Vec::with_capacity(name.len());
    let mut rest = name.as_bytes();
    while let Some((first, remainder)) = rest.split_first() {
        if *first == b'%' {
            let digits = std::str::from_utf8(remainder.get(..2)?).ok()?;
            key.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &remainder[2..];
        } else {
            key.push(*first);
            rest = remainder;
        }
    }
    let key = String::from_utf8(key).ok()?;
    (file_name(&key) == name).then_some(key)
}

/// Returns the instance of a directory name; `None` if the name was shortened.
pub fn instance_id(folder: &str) -> Option<InstanceId> {
    let key = key_of(folder)?;
    let (agent, instance_key) = key.split_once(':')?;
    Some(InstanceId::new(agent, instance_key))
}

/// True on platforms whose file systems ignore the case of names.
const IGNORES_NAME_CASE: bool = cfg!(any(windows, target_os = "macos"));

/// Shortens a long file name and adds a hash of the whole key.
fn shortened_name(name: &str, key: &str) -> String {
    let digest = Sha256::digest(key.as_bytes());
    let hash = hex(&digest[..16]);
    // No unshortened name contains `~`, so shortened names cannot collide with them.
    format!("{}~{hash}", &name[..MAX_NAME_BYTES - 33])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_plain_key_is_unchanged_in_its_file_name() {
        assert_eq!(
            file_name("assistant:main"),
            if cfg!(windows) {
                "assistant%3Amain"
            } else {
                "assistant:main"
            }
        );
    }

    #[test]
    fn hostile_keys_become_valid_file_names() {
        for key in ["../../etc", ".", "..", "a/b", "a\\b", "", "a\0b", "CON:x"] {
            let name = file_name(key);
            assert!(
                !name.contains(['/', '\\', '\0']) && name != "." && name != "..",
                "{key:?} became {name:?}"
            );
        }
    }

    #[test]
    fn a_workspace_id_is_a_slug() {
        for (key, id) in [
            ("My Swarm!", "my-swarm"),
            ("", "default"),
            ("..", "default"),
            ("a--b__c", "a-b__c"),
            ("주", "default"),
        ] {
            assert_eq!(workspace_id(key), id, "{key:?}");
        }
    }

    proptest! {
        #[test]
        fn the_key_can_be_read_from_a_name_that_is_not_shortened(key in ".{0,120}") {
            let name = file_name(&key);
            prop_assert_eq!(key_of(&name), (!name.contains('~')).then_some(key));
        }

        #[test]
        fn different_keys_have_different_file_names(a in ".{0,300}", b in ".{0,300}") {
            prop_assert!(file_name(&a).len() <= MAX_NAME_BYTES);
            prop_assert_eq!(a == b, file_name(&a) == file_name(&b));
        }
    }
}
