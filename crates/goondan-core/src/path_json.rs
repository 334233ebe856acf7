//! Paths in JSON. A path need not be UTF-8, but serde refuses to write such a path.
//!
//! Use this module as `#[serde(with = "path_json")]` for records that are read again: a path that
//! is not UTF-8 becomes a list of its bytes. Use [`lossy`] for output that only people and models
//! read.

use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// JSON form of a path.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
pub enum PathJson {
    /// A path in UTF-8.
    Text(String),
    /// The bytes of any other path.
    Bytes(Vec<u8>),
}

/// A path, or a list or option of paths.
pub trait PathRecord {
    /// JSON form.
    type Json: Serialize + DeserializeOwned;
    /// Converts to the JSON form.
    fn to_json(&self) -> Self::Json;
    /// Converts from the JSON form.
    fn from_json(json: Self::Json) -> Self;
}

impl PathRecord for PathBuf {
    type Json = PathJson;

    fn to_json(&self) -> PathJson {
        match self.to_str() {
            Some(text) => PathJson::Text(text.to_owned()),
            None => bytes_of(self),
        }
    }

    fn from_json(json: PathJson) -> PathBuf {
        match json {
            PathJson::Text(text) => PathBuf::from(text),
            PathJson::Bytes(bytes) => path_of(bytes),
        }
    }
}

impl<T: PathRecord> PathRecord for Vec<T> {
    type Json = Vec<T::Json>;

    fn to_json(&self) -> Self::Json {
        self.iter().map(T::to_json).collect()
    }

    fn from_json(json: Self::Json) -> Self {
        json.into_iter().map(T::from_json).collect()
    }
}

impl<T: PathRecord> PathRecord for Option<T> {
    type Json = Option<T::Json>;

    fn to_json(&self) -> Self::Json {
        self.as_ref().map(T::to_json)
    }

    fn from_json(json: Self::Json) -> Self {
        json.map(T::from_json)
    }
}

#[cfg(unix)]
fn bytes_of(path: &Path) -> PathJson {
    use std::os::unix::ffi::OsStrExt as _;
    PathJson::Bytes(path.as_os_str().as_bytes().to_vec())
}

#[cfg(unix)]
fn path_of(bytes: Vec<u8>) -> PathBuf {
    use std::os::unix::ffi::OsStringExt as _;
    std::ffi::OsString::from_vec(bytes).into()
}

/// Writes text: paths of this system are not bytes.
#[cfg(not(unix))]
fn bytes_of(path: &Path) -> PathJson {
    PathJson::Text(path.to_string_lossy().into_owned())
}

#[cfg(not(unix))]
fn path_of(bytes: Vec<u8>) -> PathBuf {
    String::from_utf8_lossy(&bytes).into_owned().into()
}

/// Writes a path or several.
///
/// # Errors
/// Fails like `serializer`.
pub fn serialize<P: PathRecord, S: Serializer>(
    paths: &P,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    paths.to_json().serialize(serializer)
}

/// Reads a path or several.
///
/// # Errors
/// Fails if the JSON is neither text nor a list of bytes.
pub fn deserialize<'de, P: PathRecord, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<P, D::Error> {
    P::Json::deserialize(deserializer).map(P::from_json)
}

/// Writes an optional path as text, with replacement characters if it is not UTF-8.
///
/// # Errors
/// Fails like `serializer`.
pub fn lossy<S: Serializer>(path: &Option<PathBuf>, serializer: S) -> Result<S::Ok, S::Error> {
    path.as_ref()
        .map(|path| path.to_string_lossy())
        .serialize(serializer)
}

#[cfg(all(test, unix))]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;

    #[derive(Serialize, Deserialize, PartialEq, Debug)]
    struct SavedPaths {
        #[serde(with = "super")]
        path: PathBuf,
        #[serde(with = "super")]
        more: Option<Vec<PathBuf>>,
    }

    #[test]
    fn any_path_can_be_serialized_and_restored() {
        let invalid_utf8 = PathBuf::from(OsStr::from_bytes(b"/a/bad\xff"));
        let record = SavedPaths {
            path: invalid_utf8.clone(),
            more: Some(vec!["/b".into(), invalid_utf8]),
        };
        let text = serde_json::to_string(&record).unwrap();
        assert!(text.contains("\"/b\"") && text.contains("255"), "{text}");
        assert_eq!(serde_json::from_str::<SavedPaths>(&text).unwrap(), record);
    }
}
