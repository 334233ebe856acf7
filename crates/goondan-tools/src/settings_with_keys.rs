//! Recognizes settings files of the user that contain keys. Sandboxed programs must not read them.

use std::io::ErrorKind;
use std::path::Path;

use goondan_spec::regular_file;

/// Maximum size in bytes of a settings file that is checked. A larger one counts as a file with keys.
const MAX_SETTINGS_BYTES: u64 = 1024 * 1024;

/// Texts that occur only near keys, in lower case.
const KEY_TEXTS: [&str; 6] = [
    "token",
    "password",
    "passwd",
    "passphrase",
    "extraheader",
    "private key",
];

/// Names with keys, in lower case, also between `-` and `_`.
const KEY_NAMES: [&str; 2] = ["apikey", "secret"];

/// Names of settings with keys, in lower case.
const KEY_SETTINGS: [&str; 3] = ["pass", "pwd", "smtppass"];

/// Parts of the names of variables with keys, in lower case.
const VARIABLE_PARTS: [&str; 3] = ["key", "secret", "credential"];

/// Returns true if a settings file can contain keys: credentials in a URL, headers of requests, or a
/// name that suggests a key. Accesses the file system.
pub(crate) fn has_keys(path: &Path) -> bool {
    match regular_file::read(path, MAX_SETTINGS_BYTES) {
        Ok(bytes) => text_has_keys(&String::from_utf8_lossy(&bytes)),
        Err(error) => error.kind() != ErrorKind::NotFound,
    }
}

/// Returns true if the text of a settings file suggests a key. Escapes can hide any text.
fn text_has_keys(text: &str) -> bool {
    let has_escape = ["\\u", "\\U", "\\x"].iter().any(|it| text.contains(it));
    let text = plain_text(&text.to_lowercase());
    let is_separator = |c: char| !(c.is_alphanumeric() || matches!(c, '_' | '-'));
    has_escape
        || KEY_TEXTS.iter().any(|key| text.contains(key))
        || text.split(is_separator).any(is_credential_name)
        || text.lines().any(sets_key)
        || text.split_whitespace().any(has_credentials)
}

/// Returns true if a line assigns a value to a setting with a key.
fn sets_key(line: &str) -> bool {
    let name = line.split_once('=').map(|(name, _)| name.trim());
    name.is_some_and(|name| KEY_SETTINGS.contains(&name))
}

/// Returns the text without quotes, backslashes and continued lines, which may split a URL.
fn plain_text(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '"' | '\'' => {}
            '\\' => {
                while rest.next_if(|c| matches!(c, '\r' | '\n')).is_some() {
                    while rest.next_if(|c| matches!(c, ' ' | '\t')).is_some() {}
                }
            }
            c => plain.push(c),
        }
    }
    plain
}

/// Returns true if a setting or variable with this name may contain a credential. `name` is in lower
/// case.
fn is_credential_name(name: &str) -> bool {
    let mut parts = name.split(['_', '-']);
    let is_variable = name.contains('_');
    parts.any(|part| KEY_NAMES.contains(&part))
        || (is_variable && VARIABLE_PARTS.iter().any(|part| name.contains(part)))
}

/// Returns true if a word contains a URL with a user and a password, or a web URL with a user, which
/// may be a token: `https://user:password@host`, also without a scheme.
fn has_credentials(word: &str) -> bool {
    let mut scheme = "";
    word.split("://").any(|part| {
        let authority = part.split(['/', '?', '#']).next().unwrap_or_default();
        let is_web = scheme.ends_with("http") || scheme.ends_with("https");
        scheme = part;
        authority
            .rsplit_once('@')
            .is_some_and(|(user, _)| is_web || user.contains(':'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_with_keys_are_recognized_and_others_are_not() {
        for text in [
            "[registries.x]\ntoken = \"s\"\n",
            "[registries.x]\n\"to\\u006ben\" = \"s\"\n",
            "[source.x]\nregistry = 'https://user:pw@host/index'\n",
            "[source.x]\nregistry = \"sparse+https://tok3n@host/index/\"\n",
            "[http]\nproxy = \"http://user:pw@proxy\"\n",
            "[http]\nproxy = \"user:pw@proxy:80\"\n",
            "[env]\nAWS_ACCESS_KEY_ID = \"x\"\n",
            "[env]\nMY_SECRET = { value = \"x\" }\n",
            "[http]\nextraHeader = Authorization: Basic eA==\n",
            "[http \"https://h\"]\n\textraheader = \"X-A: b\"\n",
            "[url \"https://x:y@github.com/\"]\ninsteadOf = https://github.com/\n",
            "[url \"https://abc123@github.com/\"]\ninsteadOf = gh:\n",
            "[url \"https:\\//x:y@github.com/\"]\ninsteadOf = gh:\n",
            "[http]\nproxy = http://us\\\n  er:pw@proxy\n",
            "[sendemail]\nsmtpPass = x\n",
            "[imap]\n  pass = x\n",
            "[credential]\nhelper = \"!f() { echo username=a; echo password=b; }; f\"\n",
        ] {
            assert!(text_has_keys(text), "{text}");
        }
        for text in [
            "[user]\nname = Ada\nemail = ada@example.com\nsigningKey = ABCDEF\n",
            "[user]\nsigningkey = key::ssh-ed25519 AAAA ada@example.com\n",
            "[credential]\nhelper = /usr/lib/git-core/git-credential-libsecret\n",
            "[credential]\nhelper = pass-git-helper\n",
            "[credential \"https://github.com\"]\nhelper = !gh auth git-credential\n",
            "[url \"git@github.com:\"]\ninsteadOf = https://github.com/\n",
            "[url \"ssh://git@github.com:22/\"]\ninsteadOf = https://github.com/\n",
            "[alias]\nlg = log --format='%h %an <%ae>'\n",
            "[build]\njobs = 2\nrustflags = [\"-C\", \"link-arg=-s\"]\n",
            "[source.crates-io]\nreplace-with = \"mirror\"\n[source.mirror]\n\
             registry = \"sparse+https://mirror.example/index/\"\n",
            "[target.x86_64-unknown-linux-gnu]\nlinker = \"clang\"\n",
        ] {
            assert!(!text_has_keys(text), "{text}");
        }
    }
}
