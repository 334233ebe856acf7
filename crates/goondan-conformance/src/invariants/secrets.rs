//! Invariant: no secret of the test case's environment appears in any output.

use std::path::Path;

use goondan::internal::SecretMasking;
use goondan::spec::Secret;

use crate::runner::evidence::CaseEvidence;
use crate::runner::{events, walk};

/// Substrings of a variable name that mark its value as a secret.
const SECRET_NAME_PARTS: [&str; 4] = ["KEY", "TOKEN", "SECRET", "PASSWORD"];

/// Returns the places in which a secret appears, without repeating the secret.
pub(super) fn check(evidence: &CaseEvidence<'_>) -> Vec<String> {
    let mut problems = Vec::new();
    for (name, value) in evidence
        .case
        .env
        .iter()
        .filter(|(name, value)| is_secret(name, value))
    {
        let forms = encoded_forms(value);
        let contains_secret = |text: &str| forms.iter().any(|form| text.contains(form.as_str()));
        let violation = |location: String| format!("the value of {name} occurs in {location}");
        let events = evidence
            .events
            .iter()
            .map(|event| events::to_json(event).to_string());
        problems.extend(
            events
                .filter(|text| contains_secret(text))
                .map(|_| violation("a runtime event".to_owned())),
        );
        let requests = evidence
            .requests
            .iter()
            .filter(|request| contains_secret(&format!("{request:?}")));
        problems.extend(
            requests.map(|request| violation(format!("a model request of {}", request.instance))),
        );
        let diagnostics = evidence
            .diagnostics
            .iter()
            .filter(|diagnostic| contains_secret(&format!("{diagnostic:?}")));
        problems.extend(
            diagnostics.map(|diagnostic| violation(format!("a diagnostic ({})", diagnostic.code))),
        );
        if contains_secret(&evidence.logs) {
            problems.push(violation("the logs".to_owned()));
        }
        problems.extend(
            files_with(&evidence.state_root, &forms)
                .into_iter()
                .map(|file| violation(format!("state:{file}"))),
        );
    }
    problems
}

/// Returns true if the variable name suggests a secret and the value is too long to occur by
/// chance.
fn is_secret(name: &str, value: &str) -> bool {
    let name = name.to_ascii_uppercase();
    // A shorter value also appears by chance, so it may show inside of words.
    let is_long = Secret::new(value).masking() == SecretMasking::Anywhere;
    is_long && SECRET_NAME_PARTS.iter().any(|word| name.contains(word))
}

/// Returns the value and its common encodings.
fn encoded_forms(value: &str) -> Vec<String> {
    let mut forms = vec![value.to_owned()];
    forms.extend(goondan::internal::forms_of(value));
    forms
}

/// Returns the files below `root` that contain one of the forms of a secret.
fn files_with(root: &Path, forms: &[String]) -> Vec<String> {
    let contains = |bytes: &[u8], form: &String| {
        bytes
            .windows(form.len())
            .any(|window| window == form.as_bytes())
    };
    let files = walk(root, &|_| false).unwrap_or_default();
    let contains_secret = |file: &Path| {
        let bytes = std::fs::read(file).unwrap_or_default();
        forms.iter().any(|form| contains(&bytes, form))
    };
    files
        .into_iter()
        .filter(|(_, file)| contains_secret(file))
        .map(|(path, _)| path.display().to_string())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_variables_are_recognized_by_name_and_length() {
        for name in [
            "OPENAI_API_KEY",
            "SLACK_BOT_TOKEN",
            "my_password",
            "SECRET_X",
        ] {
            assert!(is_secret(name, "long-value"), "{name}");
        }
        assert!(!is_secret("HOME", "/home/somebody"));
        assert!(!is_secret("API_KEY", "7-chars"));
    }

    #[test]
    fn files_are_searched_for_plain_and_json_encoded_secrets() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("a")).unwrap();
        std::fs::write(
            dir.path().join("a/x.jsonl"),
            serde_json::json!({"k": "pa\"ssword"}).to_string(),
        )
        .unwrap();
        std::fs::write(dir.path().join("b"), "nothing").unwrap();
        assert_eq!(
            files_with(dir.path(), &encoded_forms("pa\"ssword")),
            ["a/x.jsonl"]
        );
        assert!(files_with(&dir.path().join("nowhere"), &encoded_forms("value")).is_empty());
    }
}
