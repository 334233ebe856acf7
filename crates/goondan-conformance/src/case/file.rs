//! Project files of a test case.

use std::borrow::Cow;
use std::fmt;
use std::path::{Component, Path};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// Largest size of a repeated string, in bytes.
const MAX_REPEATED_BYTES: usize = 64 << 20;

/// Path inside the project directory, with `/` as separator.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, JsonSchema)]
#[schemars(transparent)]
#[schemars(rename = "ProjectPath")]
pub struct CaseFilePath(String);

impl CaseFilePath {
    /// Accepts relative paths without `.` and `..`.
    pub fn new(path: impl Into<String>) -> Result<Self, String> {
        let path = path.into();
        let plain = |component| matches!(component, Component::Normal(_));
        if path.is_empty() || path.contains('\\') || !Path::new(&path).components().all(plain) {
            return Err(format!(
                "`{path}` is not a path inside the project directory, such as `tools/x/run.sh`"
            ));
        }
        Ok(CaseFilePath(path))
    }

    /// Returns the path, relative to the project directory.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for CaseFilePath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        CaseFilePath::new(String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

/// Content and mode of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileContent {
    /// File content.
    pub bytes: Vec<u8>,
    /// Unix permission bits. `None`: the system default.
    pub mode: Option<u32>,
}

impl From<&str> for FileContent {
    fn from(text: &str) -> Self {
        FileContent {
            bytes: text.as_bytes().to_vec(),
            mode: None,
        }
    }
}

/// Long form of a file content. Requires exactly one of `content`, `base64` and `repeat`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct LongForm {
    /// Content as a string.
    content: Option<String>,
    /// Content in Base64.
    base64: Option<String>,
    /// Content as a repeated string.
    repeat: Option<RepeatedText>,
    /// Unix permission bits in octal, as a string: `"755"`.
    mode: Option<String>,
}

/// A repeated string.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Repeat")]
struct RepeatedText {
    text: String,
    times: usize,
}

impl TryFrom<LongForm> for FileContent {
    type Error = String;

    fn try_from(form: LongForm) -> Result<Self, String> {
        let bytes = match (form.content, form.base64, form.repeat) {
            (Some(text), None, None) => text.into_bytes(),
            (None, Some(text), None) => {
                let compact: String = text.split_whitespace().collect();
                STANDARD
                    .decode(compact)
                    .map_err(|error| format!("`base64` is not Base64: {error}"))?
            }
            (None, None, Some(repeat)) => repeat_text(&repeat)?,
            _ => {
                return Err("a file has exactly one of `content`, `base64` and `repeat`".to_owned());
            }
        };
        let mode = form.mode.as_deref().map(parse_mode).transpose()?;
        Ok(FileContent { bytes, mode })
    }
}

/// Returns the repeated text. Fails if it is too large.
fn repeat_text(repeat: &RepeatedText) -> Result<Vec<u8>, String> {
    match repeat.text.len().checked_mul(repeat.times) {
        Some(size) if size <= MAX_REPEATED_BYTES => {
            Ok(repeat.text.repeat(repeat.times).into_bytes())
        }
        _ => Err(format!(
            "`repeat` makes more than {} MiB",
            MAX_REPEATED_BYTES >> 20
        )),
    }
}

/// Parses permission bits such as `755`.
pub(super) fn parse_mode(text: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(text, 8)
        .ok()
        .filter(|mode| *mode <= 0o7777);
    mode.ok_or_else(|| format!("`mode: {text}` is not an octal mode such as \"755\""))
}

impl<'de> Deserialize<'de> for FileContent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ContentVisitor)
    }
}

/// Accepts a string or the long form. An untagged enum would lose the cause and the position of an
/// error.
struct ContentVisitor;

impl<'de> Visitor<'de> for ContentVisitor {
    type Value = FileContent;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the text of the file, or a map with `content`, `base64` or `repeat`")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<FileContent, E> {
        Ok(FileContent::from(text))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<FileContent, A::Error> {
        let form = LongForm::deserialize(de::value::MapAccessDeserializer::new(map))?;
        FileContent::try_from(form).map_err(de::Error::custom)
    }
}

impl JsonSchema for FileContent {
    fn schema_name() -> Cow<'static, str> {
        "FileContent".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let long_form = generator.subschema_for::<LongForm>();
        json_schema!({"anyOf": [{"type": "string"}, long_form]})
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn content(value: Value) -> Result<FileContent, String> {
        serde_json::from_value(value).map_err(|error| error.to_string())
    }

    #[test]
    fn file_contents_are_read_in_every_form() {
        let bytes = |value| content(value).map(|content| content.bytes);
        assert_eq!(bytes(json!("text")).as_deref(), Ok(b"text".as_slice()));
        assert_eq!(
            bytes(json!({"base64": "aGk=\n"})).as_deref(),
            Ok(b"hi".as_slice())
        );
        assert_eq!(
            bytes(json!({"repeat": {"text": "ab", "times": 3}})).as_deref(),
            Ok(b"ababab".as_slice())
        );
        let script = content(json!({"content": "#!/bin/sh\n", "mode": "755"})).expect("a script");
        assert_eq!(
            script,
            FileContent {
                bytes: b"#!/bin/sh\n".to_vec(),
                mode: Some(0o755)
            }
        );
    }

    #[test]
    fn invalid_file_contents_have_error_messages() {
        let error = |value| content(value).expect_err("an error");
        insta::assert_snapshot!(
            [
                error(json!({"content": "a", "base64": "YQ=="})),
                error(json!({"mode": "755"})),
                error(json!({"content": "a", "mode": "rwx"})),
                error(json!({"content": "a", "mod": "755"})),
                error(json!({"base64": "?"})),
                error(json!({"repeat": {"text": "x", "times": u64::MAX}})),
                error(json!(["a"])),
            ]
            .join("\n")
        );
    }

    #[test]
    fn paths_stay_inside_the_project() {
        for path in ["a", "tools/x/run.sh", ".squad/a.md", "a b/ü"] {
            assert_eq!(
                CaseFilePath::new(path).map(|p| p.as_str().to_owned()),
                Ok(path.to_owned())
            );
        }
        for path in ["", "/etc/passwd", "../x", "a/../../x", "a\\..\\x"] {
            assert!(CaseFilePath::new(path).is_err(), "{path}");
        }
    }
}
