//! Values that come from elsewhere, and secrets that cannot be printed (rule L8).

use std::collections::BTreeMap;
use std::fmt;

pub use crate::env_files::read_env_files;

/// The shortest secret that is masked wherever it appears, in characters.
const ANYWHERE_CHARS: usize = 8;
/// The shortest secret that is masked as a whole word, in characters.
const WHOLE_WORD_CHARS: usize = 4;
/// Words in the name of a variable that suggest a secret value.
const SECRET_WORDS: [&str; 5] = ["KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL"];

/// Where a configured string comes from: exactly one of the three.
#[derive(Clone, PartialEq, Eq)]
pub enum ValueSource {
    /// Written in the file. Treated as secret all the same: an API key is often put here.
    Value(Secret),
    /// The environment variable of that name.
    Env(String),
    /// A key of a `Secret/<name>`.
    SecretRef {
        /// The name behind `Secret/`.
        name: String,
        /// The key inside the secret; defaults to the field that uses it.
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

/// A string that is written in the file, or a value from elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TextOrSource {
    /// A string that is not a secret.
    Plain(String),
    /// A value that is treated as a secret.
    Source(ValueSource),
}

/// A string that neither `Debug` nor `Display` shows and that serde cannot write.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Secret(String);

impl Secret {
    /// Wraps `value`.
    pub fn new(value: impl Into<String>) -> Self {
        Secret(value.into())
    }

    /// The value itself. Every call is a place to look at in a review.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

/// The extent to which a secret is masked. A short value also appears by chance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Masking {
    /// It is masked wherever it appears.
    Anywhere,
    /// It is masked only where no letter and no digit is next to it.
    WholeWord,
    /// It is not masked.
    Never,
}

impl Secret {
    /// The extent to which the value is masked. Spaces around it do not count.
    pub fn masking(&self) -> Masking {
        match self.0.trim().chars().count() {
            ANYWHERE_CHARS.. => Masking::Anywhere,
            WHOLE_WORD_CHARS.. => Masking::WholeWord,
            _ => Masking::Never,
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// The variables that value sources see. The process environment is only one way to fill it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Environment {
    variables: BTreeMap<String, String>,
}

impl Environment {
    /// The environment of this process. Names or values that are no Unicode are left out.
    pub fn of_process() -> Self {
        let unicode = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Environment {
            variables: std::env::vars_os().filter_map(unicode).collect(),
        }
    }

    /// The value of `name`; blank counts as missing.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.variables
            .get(name)
            .map(String::as_str)
            .filter(|value| !value.trim().is_empty())
    }

    /// Adds `name` unless it is there already: what was set first wins.
    pub fn set_default(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.variables
            .entry(name.into())
            .or_insert_with(|| value.into());
    }

    /// Adds the value of a `secretRef` that was found elsewhere, unless a variable has it.
    pub fn set_secret(&mut self, name: &str, key: &str, value: impl Into<String>) {
        let [first, ..] = secret_names(name, key);
        self.set_default(first, value);
    }

    /// All variables, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.variables
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The values of variables that are named like secrets.
    pub fn named_like_secrets(&self) -> impl Iterator<Item = Secret> {
        let is_secret = |name: &str| {
            let name = name.to_ascii_uppercase();
            SECRET_WORDS.iter().any(|word| name.contains(word))
        };
        self.iter()
            .filter(move |(name, _)| is_secret(name))
            .map(|(_, value)| Secret::new(value))
    }

    /// The value of a header or a variable called `field`, or the names of the variables that are not set.
    pub fn resolve_text(&self, value: &TextOrSource, field: &str) -> Result<Secret, Vec<String>> {
        match value {
            TextOrSource::Plain(text) => Ok(Secret::new(text)),
            TextOrSource::Source(source) => self.resolve(source, field),
        }
    }

    /// The value behind `source`, or the variable names that were tried in vain.
    ///
    /// A `secretRef` looks at `GOONDAN_SECRET_<NAME>_<KEY>`, `GOONDAN_SECRET_<NAME>`, `SECRET_<NAME>_<KEY>` and
    /// `SECRET_<NAME>`, in that order.
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

fn secret_names(name: &str, key: &str) -> [String; 4] {
    let (name, key) = (token(name), token(key));
    [
        format!("GOONDAN_SECRET_{name}_{key}"),
        format!("GOONDAN_SECRET_{name}"),
        format!("SECRET_{name}_{key}"),
        format!("SECRET_{name}"),
    ]
}

fn token(text: &str) -> String {
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
        assert_eq!(masking("12345678"), Masking::Anywhere);
        assert_eq!(masking("1234567 "), Masking::WholeWord);
        assert_eq!(masking("ééééé"), Masking::WholeWord);
        assert_eq!(masking("1234"), Masking::WholeWord);
        assert_eq!(masking("123"), Masking::Never);
        assert_eq!(masking(" "), Masking::Never);
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
