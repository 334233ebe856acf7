//! What extensions keep for an instance: one JSON file each.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::layout;
use super::lines::replace_file;
use crate::ports::store::StoreError;

/// A file that is no JSON was edited by hand: it is told and counts as missing, so that the agent goes on.
pub(super) fn read(instance: &Path, extension: &str) -> Result<Option<Value>, StoreError> {
    let path = path(instance, extension);
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(cause) => return Err(StoreError::new("read", &path, &cause)),
    };
    let parsed = serde_json::from_slice(&bytes);
    Ok(parsed.inspect_err(|error| tracing::warn!(path = %path.display(), %error, "no JSON; it counts as missing")).ok())
}

pub(super) fn write(instance: &Path, extension: &str, state: &Value) -> Result<(), StoreError> {
    let path = path(instance, extension);
    replace_file(&path, format!("{state:#}\n").as_bytes(), true)
}

fn path(instance: &Path, extension: &str) -> PathBuf {
    instance.join(layout::EXTENSIONS).join(format!("{}.json", layout::file_name(extension)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(read(dir.path(), "tool-search"), Ok(None));
        write(dir.path(), "tool-search", &json!({"selectedTools": ["a__b"]})).unwrap();
        assert_eq!(read(dir.path(), "tool-search"), Ok(Some(json!({"selectedTools": ["a__b"]}))));
        assert!(dir.path().join("extensions/tool-search.json").is_file());
    }

    #[test]
    fn a_broken_file_counts_as_missing() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), "x", &json!(1)).unwrap();
        fs::write(dir.path().join("extensions/x.json"), "{").unwrap();
        assert_eq!(read(dir.path(), "x"), Ok(None));
    }
}
