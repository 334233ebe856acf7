//! Sources of a `secretRef` other than variables: files and the keyring of the operating system
//! (rule L8).

use std::path::{Path, PathBuf};
use std::process::Stdio;

use goondan_spec::{Bundle, Code, Diagnostic, Environment, ResourceId, ValueSource, secret_files};

/// Variable with the secrets directory, which contains `NAME/KEY` or `NAME`.
const SECRETS_DIR_VARIABLE: &str = "GOONDAN_SECRETS_DIR";

/// Variable that enables the keyring if it is `1`. Without it, `gdn` never accesses the keyring.
const KEYRING_VARIABLE: &str = "GOONDAN_KEYRING";

/// Service name of secrets in the keyring.
const KEYRING_SERVICE: &str = "goondan";

/// Exit code of `security` for a missing secret.
const NOT_IN_KEYCHAIN: i32 = 44;

/// Maximum size of a secret file, in bytes.
const MAX_SECRET_FILE_BYTES: u64 = 64 * 1024;

/// Adds the secrets that `swarm` refers to and that no variable contains. Missing secrets stay
/// missing.
pub(crate) async fn complete(
    bundle: &Bundle,
    swarm: &ResourceId,
    mut environment: Environment,
) -> Result<Environment, Diagnostic> {
    if let Some(folder) = environment.get(SECRETS_DIR_VARIABLE) {
        secret_files::declare(Path::new(folder));
    }
    for (name, key) in bundle.secret_refs(swarm) {
        let source = ValueSource::SecretRef {
            name: name.clone(),
            key: Some(key.clone()),
        };
        if environment.resolve(&source, &key).is_ok() || !is_plain(&name) || !is_plain(&key) {
            continue;
        }
        let mut secret = None;
        if let Some(folder) = environment.get(SECRETS_DIR_VARIABLE) {
            secret = read_from_folder(Path::new(folder), &name, &key)?;
        }
        if secret.is_none() && environment.get(KEYRING_VARIABLE) == Some("1") {
            secret = in_keyring(&name, &key).await?;
        }
        if let Some(value) = secret {
            environment.set_secret(&name, &key, value);
        }
    }
    Ok(environment)
}

/// Returns true if a name is safe as a path component (rule S5).
fn is_plain(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    !name.starts_with(['.', '-']) && !name.is_empty() && name.chars().all(plain)
}

/// Reads a secret from the file `<folder>/<name>/<key>`, or else from `<folder>/<name>`. Returns
/// `None` if neither file exists, or if the file is blank. An unreadable file is an error, because
/// otherwise the secret would seem to be missing.
fn read_from_folder(folder: &Path, name: &str, key: &str) -> Result<Option<String>, Diagnostic> {
    let paths: [PathBuf; 2] = [folder.join(name).join(key), folder.join(name)];
    let Some(path) = paths.iter().find(|path| path.is_file()) else {
        return Ok(None);
    };
    // A link may lead out of the directory.
    secret_files::declare(path);
    let unusable = |cause: String| {
        let message = format!(
            "The secret `Secret/{name}` can't be read from {}: {cause}.",
            path.display()
        );
        Diagnostic::new(Code::ENV_MISSING, message)
            .suggest("make it a small text file that your user can read")
    };
    let size = path
        .metadata()
        .map_err(|error| unusable(error.to_string()))?
        .len();
    if size > MAX_SECRET_FILE_BYTES {
        return Err(unusable(format!(
            "it is larger than {MAX_SECRET_FILE_BYTES} bytes"
        )));
    }
    let text = std::fs::read_to_string(path).map_err(|error| unusable(error.to_string()))?;
    Ok(Some(text.trim_end_matches(['\r', '\n']).to_owned()).filter(|text| !text.trim().is_empty()))
}

/// Reads a secret with the keyring program of the platform. A library would add about seventy
/// dependencies.
async fn in_keyring(name: &str, key: &str) -> Result<Option<String>, Diagnostic> {
    let account = format!("{name}/{key}");
    let arguments: &[&str] = match std::env::consts::OS {
        "macos" => &[
            "security",
            "find-generic-password",
            "-w",
            "-s",
            KEYRING_SERVICE,
            "-a",
            &account,
        ],
        "linux" | "freebsd" => &[
            "secret-tool",
            "lookup",
            "service",
            KEYRING_SERVICE,
            "account",
            &account,
        ],
        _ => {
            return Err(no_keyring(
                "gdn supports no keyring on this operating system",
            ));
        }
    };
    let mut command = tokio::process::Command::new(arguments[0]);
    command
        .args(&arguments[1..])
        .current_dir(goondan_core::program_search::directory_outside_projects())
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let output =
        match tokio::time::timeout(std::time::Duration::from_secs(30), command.output()).await {
            Ok(Ok(output)) => output,
            Ok(Err(error)) => {
                return Err(no_keyring(&format!(
                    "`{}` can't be started: {error}",
                    arguments[0]
                )));
            }
            Err(_) => return Err(no_keyring("the keyring did not answer within 30 seconds")),
        };
    let text = String::from_utf8_lossy(&output.stdout)
        .trim_end_matches(['\r', '\n'])
        .to_owned();
    if output.status.success() {
        return Ok(Some(text).filter(|text| !text.trim().is_empty()));
    }
    // For a missing secret, `secret-tool` prints nothing; for other failures, such as a locked
    // keyring, it prints an error.
    let complaint = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if complaint.is_empty() || output.status.code() == Some(NOT_IN_KEYCHAIN) {
        return Ok(None);
    }
    Err(no_keyring(&format!(
        "`{}` reported: {}",
        arguments[0],
        complaint.trim_end_matches('.')
    )))
}

/// Returns the error of a keyring that can't be used; `cause` completes the sentence.
fn no_keyring(cause: &str) -> Diagnostic {
    let message =
        format!("`{KEYRING_VARIABLE}=1` selects the keyring of the operating system, but {cause}.");
    Diagnostic::new(Code::ENV_MISSING, message).suggest(format!(
        "install or unlock the keyring, or put the secret into a variable or into a file in \
            `{SECRETS_DIR_VARIABLE}`"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_read_from_the_file_of_its_name_or_its_key() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("slack")).unwrap();
        std::fs::write(folder.path().join("slack/token"), "abc\n").unwrap();
        std::fs::write(folder.path().join("openai"), "sk-1").unwrap();
        let read = |name, key| read_from_folder(folder.path(), name, key).unwrap();
        assert_eq!(read("slack", "token").as_deref(), Some("abc"));
        assert_eq!(read("openai", "apiKey").as_deref(), Some("sk-1"));
        assert_eq!(read("slack", "other"), None);
        std::fs::write(folder.path().join("big"), vec![b'x'; 70_000]).unwrap();
        assert!(read_from_folder(folder.path(), "big", "k").is_err());
    }

    #[test]
    fn secret_names_cannot_contain_path_characters() {
        for name in ["..", "a/b", "", "-x", ".hidden", "a\0", "a b"] {
            assert!(!is_plain(name), "{name}");
        }
        assert!(is_plain("slack-bot.v2_x"));
    }
}
