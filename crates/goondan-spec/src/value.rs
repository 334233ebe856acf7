//! Configured values from external sources, and secrets that cannot be printed (rule L8).

use std::collections::BTreeMap;
use std::fmt;

pub use crate::env_files::read_env_files;

/// Minimum length of a secret that is masked everywhere, in characters.
const MIN_MASKED_ANYWHERE_CHARS: usize = 8;
/// Minimum length of a secret that is masked as a separate word, in characters.
const MIN_MASKED_WORD_CHARS: usize = 4;
/// Parts of variable names that suggest a secret value.
const SECRET_WORDS: [&str; 5] = ["KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL"];

/// Source of a configured string.
#[derive(Clone, PartialEq, Eq)]
pub enum ValueSource {
    /// Literal value in the file. Treated as a secret, because users often write API keys here.
    Value(Secret),
    /// Environment variable of that name.
    Env(String),
    /// Key of a `Secret/<name>`.
    SecretRef {
        /// Name after `Secret/`.
        name: String,
        /// Key inside the secret. Default: the name of the field that uses it.
        key: Option<String>,
    },
}

impl fmt::Debug for ValueSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ValueSource::Value(_) => f.write_str("value: ***"),
            ValueSource::Env(name) => write!(f, "valueFrom.env: {name}"),
            ValueSource::SecretRef { name, key } => {
                write!(
                    f,
                    "valueFrom.secretRef: Secret/{name}#{}",
                    key.as_deref().unwrap_or("-")
                )
            }
        }
    }
}

/// Plain string from the file, or a value source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TextOrSource {
    /// String that is not a secret.
    Plain(String),
    /// Value that is treated as a secret.
    Source(ValueSource),
}

/// String that neither `Debug` nor serde can output.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Secret(String);

impl Secret {
    /// Wraps `value`.
    pub fn new(value: impl Into<String>) -> Self {
        Secret(value.into())
    }

    /// Returns the value. Review every call for leaks.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

/// Masking mode of a secret. Short values need care because they also occur by chance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretMasking {
    /// Masks every occurrence.
    Anywhere,
    /// Masks only occurrences without an adjacent letter or digit.
    WholeWord,
    /// Does not mask the value.
    Never,
}

impl Secret {
    /// Returns the masking mode for the value's length without surrounding white space.
    pub fn masking(&self) -> SecretMasking {
        match self.0.trim().chars().count() {
            MIN_MASKED_ANYWHERE_CHARS.. => SecretMasking::Anywhere,
            MIN_MASKED_WORD_CHARS.. => SecretMasking::WholeWord,
            _ => SecretMasking::Never,
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Variables that value sources read. The process environment is only one possible origin.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Environment {
    variables: BTreeMap<String, String>,
}

impl Environment {
    /// Returns the environment of this process. Skips names and values that are not Unicode.
    pub fn of_process() -> Self {
        let to_unicode = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Environment {
            variables: std::env::vars_os().filter_map(to_unicode).collect(),
        }
    }

    /// Returns the value of `name`. A blank value counts as missing.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.variables
            .get(name)
            .map(String::as_str)
            .filter(|value| !value.trim().is_empty())
    }

    /// Adds `name` unless it is already set.
    pub fn set_default(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.variables
            .entry(name.into())
            .or_insert_with(|| value.into());
    }

    /// Adds a resolved `secretRef` value, unless its variable is already set.
    pub fn set_secret(&mut self, name: &str, key: &str, value: impl Into<String>) {
        let [first, ..] = secret_names(name, key);
        self.set_default(first, value);
    }

    /// Returns all variables, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.variables
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Returns the values of variables whose names suggest a secret.
    pub fn named_like_secrets(&self) -> impl Iterator<Item = Secret> {
        let is_secret = |name: &str| {
            let name = name.to_ascii_uppercase();
            SECRET_WORDS.iter().any(|word| name.contains(word))
        };
        self.iter()
            .filter(move |(name, _)| is_secret(name))
            .map(|(_, value)| Secret::new(value))
    }

    /// Resolves the header or variable `field`.
    ///
    /// # Errors
    /// Returns the names of the variables that are not set.
    pub fn resolve_text(&self, value: &TextOrSource, field: &str) -> Result<Secret, Vec<String>> {
        match value {
            TextOrSource::Plain(text) => Ok(Secret::new(text)),
            TextOrSource::Source(source) => self.resolve(source, field),
        }
    }

    /// Resolves `source`. `field` is the default key of a `secretRef`.
    ///
    /// A `secretRef` tries `GOONDAN_SECRET_<NAME>_<KEY>`, `GOONDAN_SECRET_<NAME>`,
    /// `SECRET_<NAME>_<KEY>` and `SECRET_<NAME>`, in that order.
    ///
    /// # Errors
    /// Returns the names of the variables that were tried.
    pub fn resolve(&self, source: &ValueSource, field: &str) -> Result<Secret, Vec<String>> {
        let candidates = match source {
            ValueSource::Value(secret) => return Ok(secret.clone()),
            ValueSource::Env(name) => vec![name.clone()],
            ValueSource::SecretRef { name, key } => {
                secret_names(name, key.as_deref().unwrap_or(field)).to_vec()
            }
        };
        match candidates.iter().find_map(|name| self.get(name)) {
            Some(value) => Ok(Secret::new(value)),
            None => Err(candidates),
        }
    }
}

impl FromIterator<(String, String)> for Environment {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(pairs: I) -> Self {
        Environment {
            variables: pairs.into_iter().collect(),
        }
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.variables.keys()).finish()
    }
}

/// Returns the environment variables that may contain a secret, in the order of their precedence.
fn secret_names(name: &str, key: &str) -> [String; 4] {
    let (name, key) = (variable_part(name), variable_part(key));
    [
        format!("GOONDAN_SECRET_{name}_{key}"),
        format!("GOONDAN_SECRET_{name}"),
        format!("SECRET_{name}_{key}"),
        format!("SECRET_{name}"),
    ]
}

/// Converts a name to a part of a variable name: upper case, other characters become `_`.
fn variable_part(text: &str) -> String {
    text.chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() {
                c.to_ascii_uppercase()
            } else {
                '_'
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_never_printed() {
        let source = ValueSource::Value(Secret::new("sk-123"));
        assert_eq!(
            format!("{source:?} {:?}", Secret::new("sk-123")),
            "value: *** ***"
        );
    }

    #[test]
    fn short_secrets_are_masked_less() {
        let masking = |value: &str| Secret::new(value).masking();
        assert_eq!(masking("12345678"), SecretMasking::Anywhere);
        assert_eq!(masking("1234567 "), SecretMasking::WholeWord);
        assert_eq!(masking("ééééé"), SecretMasking::WholeWord);
        assert_eq!(masking("1234"), SecretMasking::WholeWord);
        assert_eq!(masking("123"), SecretMasking::Never);
        assert_eq!(masking(" "), SecretMasking::Never);
    }

    #[test]
    fn a_secret_ref_tries_four_names_in_order() {
        let env: Environment = [("SECRET_SLACK_BOT".to_owned(), "t".to_owned())]
            .into_iter()
            .collect();
        let by_name = ValueSource::SecretRef {
            name: "slack-bot".into(),
            key: Some("token".into()),
        };
        assert_eq!(env.resolve(&by_name, "apiKey"), Ok(Secret::new("t")));
        let missing = ValueSource::SecretRef {
            name: "other".into(),
            key: None,
        };
        assert_eq!(
            env.resolve(&missing, "apiKey").unwrap_err(),
            [
                "GOONDAN_SECRET_OTHER_APIKEY",
                "GOONDAN_SECRET_OTHER",
                "SECRET_OTHER_APIKEY",
                "SECRET_OTHER"
            ]
        );
    }
}
