//! Exported names of a server's tools.
//!
//! Models accept at most 64 characters of `[A-Za-z0-9_-]`, including the name of the Tool and `__`.
//! A name that fits is kept. In other names, invalid characters become `_`. If the result is too
//! long or not unique, it ends in a hash of the server's name for the tool. The exported name is
//! therefore stable as long as the server's name is.

use std::collections::{HashMap, HashSet};

use goondan_core::ids::hex;
use sha2::{Digest, Sha256};

/// Maximum length of a tool name for models.
const MAX_NAME_LENGTH: usize = 64;
/// Minimum length that leaves names distinguishable.
const MIN_OWN_LENGTH: usize = 12;
/// Number of hash digits in a name.
const HASH_DIGITS: usize = 6;

/// Maximum length of a Tool's name that leaves space for its tools' names.
pub(crate) const MAX_TOOL_NAME_LENGTH: usize = MAX_NAME_LENGTH - 2 - MIN_OWN_LENGTH;

/// Returns the exported name of each server tool for the Tool `tool`, in the order of
/// `server_names`. The result is `None` for a name that occurred before in `server_names`.
pub(crate) fn assign<'n>(tool: &str, server_names: &[&'n str]) -> Vec<Option<String>> {
    let room = MAX_NAME_LENGTH
        .saturating_sub(tool.len() + 2)
        .max(MIN_OWN_LENGTH);
    let plain: Vec<String> = server_names
        .iter()
        .map(|name| normalize_name(name))
        .collect();
    let mut names_by_plain: HashMap<&str, Vec<&str>> = HashMap::new();
    for (plain_name, server_name) in plain.iter().zip(server_names) {
        let same_plain = names_by_plain.entry(plain_name).or_default();
        if !same_plain.contains(server_name) {
            same_plain.push(server_name);
        }
    }
    let mut seen_names: HashSet<&'n str> = HashSet::new();
    let mut name = |plain: &String, server_name: &'n str| {
        if !seen_names.insert(server_name) {
            return None;
        }
        // A tool whose name needs no change keeps the name, even if others collide with it.
        let is_unchanged = plain.as_str() == server_name;
        let collides = names_by_plain[plain.as_str()].len() > 1 && !is_unchanged;
        Some(if collides || plain.len() > room {
            hashed_name(plain, server_name, room)
        } else {
            plain.clone()
        })
    };
    plain
        .iter()
        .zip(server_names)
        .map(|(plain, server_name)| name(plain, server_name))
        .collect()
}

/// Returns the first of `candidates` that is short enough for the Tool `tool` and not in `used`.
pub(crate) fn free_name<'c>(tool: &str, used: &[&str], candidates: &[&'c str]) -> Option<&'c str> {
    let room = MAX_NAME_LENGTH.saturating_sub(tool.len() + 2);
    candidates
        .iter()
        .copied()
        .find(|name| name.len() <= room && !used.contains(name))
}

/// Replaces characters that models do not accept, and removes `__`.
pub(crate) fn normalize_name(name: &str) -> String {
    let mut plain = String::with_capacity(name.len());
    for c in name.chars() {
        let c = if c.is_ascii_alphanumeric() || c == '-' {
            c
        } else {
            '_'
        };
        if c != '_' || !plain.ends_with('_') {
            plain.push(c);
        }
    }
    let trimmed = plain.trim_start_matches(['_', '-']);
    if trimmed.is_empty() {
        "tool".to_owned()
    } else {
        trimmed.to_owned()
    }
}

/// Shortens `plain` and appends a hash of the server's name, so that the result has at most `room`
/// characters.
fn hashed_name(plain: &str, server_name: &str, room: usize) -> String {
    let hash = hex(&Sha256::digest(server_name.as_bytes()));
    let prefix = plain[..plain.len().min(room - HASH_DIGITS - 1)].trim_end_matches(['_', '-']);
    format!("{prefix}-{}", &hash[..HASH_DIGITS])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn assigned(tool: &str, own: &[&str]) -> Vec<String> {
        assign(tool, own)
            .into_iter()
            .map(|name| name.unwrap_or_else(|| "-".to_owned()))
            .collect()
    }

    #[test]
    fn valid_tool_names_are_kept() {
        assert_eq!(
            assigned("git", &["git_status", "log-all", "X9"]),
            ["git_status", "log-all", "X9"]
        );
    }

    #[test]
    fn invalid_characters_in_tool_names_are_replaced() {
        assert_eq!(
            assigned("t", &["files.read", "a__b", "__x", "ü", "größe"]),
            ["files_read", "a_b", "x", "tool", "gr_e"]
        );
    }

    #[test]
    fn colliding_names_get_a_suffix_and_exact_names_are_kept() {
        let both = assigned("t", &["a.b", "a_b", "a/b", "a_b"]);
        assert_eq!((both[1].as_str(), both[3].as_str()), ("a_b", "-"));
        assert!(
            both[0].starts_with("a_b-") && both[2].starts_with("a_b-") && both[0] != both[2],
            "{both:?}"
        );
        // The order of the tools does not matter.
        assert_eq!(
            assigned("t", &["a/b", "a.b", "a_b"]),
            [both[2].clone(), both[0].clone(), "a_b".to_owned()]
        );
    }

    #[test]
    fn free_name_returns_a_short_unused_name() {
        let names = ["read-resource", "resources"];
        assert_eq!(free_name("t", &["read"], &names), Some("read-resource"));
        assert_eq!(
            free_name("t", &["read-resource"], &names),
            Some("resources")
        );
        let longest = "t".repeat(MAX_TOOL_NAME_LENGTH);
        assert_eq!(free_name(&longest, &[], &names), Some("resources"));
        assert_eq!(free_name("t", &names, &names), None);
    }

    proptest! {
        #[test]
        fn assigned_names_are_valid_and_unique(tool in "[a-z]{1,50}", own in proptest::collection::btree_set("\\PC{0,90}|[a-z_.]{1,8}", 0..12)) {
            let own: Vec<&str> = own.iter().map(String::as_str).collect();
            let names: Vec<String> = assign(&tool, &own).into_iter().flatten().collect();
            prop_assert_eq!(names.len(), own.len());
            for name in &names {
                prop_assert!(tool.len() + 2 + name.len() <= MAX_NAME_LENGTH, "{}", name);
                prop_assert!(!name.contains("__") && name.starts_with(|c: char| c.is_ascii_alphanumeric()));
                prop_assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-')));
            }
            let unique: HashSet<&String> = names.iter().collect();
            prop_assert_eq!(unique.len(), names.len());
        }
    }
}
