//! Credential helpers: programs `docker-credential-NAME`, named in Docker's configuration.
//!
//! Only the user's configuration selects a helper. It is searched in `PATH`, and never in a
//! project.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use goondan_core::program_search::directory_outside_projects;
use serde::Deserialize;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;

use super::BasicCredentials;
use crate::error::escape_line;

/// Prefix of the program names.
const HELPER_PROGRAM_PREFIX: &str = "docker-credential-";
/// Maximum time for an answer. A helper may ask the user to unlock a store.
const HELPER_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum size of an answer in bytes.
const MAX_HELPER_RESPONSE_BYTES: u64 = 64 * 1024;
/// Maximum number of characters in an error message.
const MAX_HELPER_ERROR_CHARS: usize = 200;
/// User name that marks an identity token.
const IDENTITY_TOKEN_USER: &str = "<token>";
/// Docker's registry host, and its name in credential stores.
const DOCKER_HUB_HOSTS: (&str, &str) = ("registry-1.docker.io", "https://index.docker.io/v1/");

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct HelperResponse {
    username: String,
    secret: String,
}

/// Returns the credentials of `host`: none, a user name and password, or the error of the helper.
pub(super) async fn read_credentials(
    name: &str,
    host: &str,
    path: &str,
) -> Result<Option<BasicCredentials>, String> {
    let program = find(name, path)?;
    let output = tokio::time::timeout(HELPER_TIMEOUT, run(&program, host)).await;
    let (succeeded, output) = match output {
        Err(_) => {
            return Err(format!(
                "`{HELPER_PROGRAM_PREFIX}{name}` did not answer within {} s",
                HELPER_TIMEOUT.as_secs()
            ));
        }
        Ok(Err(error)) => {
            return Err(format!(
                "`{HELPER_PROGRAM_PREFIX}{name}` cannot be run: {error}"
            ));
        }
        Ok(Ok(output)) => output,
    };
    if !succeeded {
        let reason: String = String::from_utf8_lossy(&output)
            .trim()
            .chars()
            .take(MAX_HELPER_ERROR_CHARS)
            .collect();
        // The protocol has no exit code for missing credentials.
        return if reason.contains("credentials not found") {
            Ok(None)
        } else {
            Err(escape_line(&format!(
                "`{HELPER_PROGRAM_PREFIX}{name}` failed: {reason}"
            )))
        };
    }
    // The answer may contain the password, so it is not repeated in the error.
    let response: HelperResponse = serde_json::from_slice(&output)
        .map_err(|_| format!("`{HELPER_PROGRAM_PREFIX}{name}` returned an invalid answer"))?;
    match response {
        HelperResponse { username, .. } if username == IDENTITY_TOKEN_USER => Err(format!(
            "`{HELPER_PROGRAM_PREFIX}{name}` returned an identity token, but gdn needs a user \
            name and a password"
        )),
        HelperResponse { username, secret } => Ok(Some(BasicCredentials {
            user: username,
            password: secret,
        })),
    }
}

/// Finds the program in the directories of `path`. Relative directories are ignored, because they
/// depend on the working directory.
fn find(name: &str, path: &str) -> Result<PathBuf, String> {
    let is_usual = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || !name.chars().all(is_usual) {
        return Err(escape_line(&format!(
            "`{name}` is not the name of a credential helper"
        )));
    }
    let file = format!(
        "{HELPER_PROGRAM_PREFIX}{name}{}",
        std::env::consts::EXE_SUFFIX
    );
    let folders = std::env::split_paths(path).filter(|folder| folder.is_absolute());
    let helper = folders
        .map(|folder| folder.join(&file))
        .find(|program| program.is_file());
    helper.ok_or_else(|| format!("`{file}`, which Docker's configuration uses, is not in PATH"))
}

/// Runs the helper for a host. Returns true if it succeeded, and its output up to a limit.
async fn run(program: &Path, host: &str) -> std::io::Result<(bool, Vec<u8>)> {
    let mut command = Command::new(program);
    command
        .arg("get")
        .current_dir(directory_outside_projects())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    let mut child = command.spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        let server = if host == DOCKER_HUB_HOSTS.0 {
            DOCKER_HUB_HOSTS.1
        } else {
            host
        };
        // A program that does not read its input reports that with its exit code.
        let _ = stdin.write_all(server.as_bytes()).await;
    }
    let mut output = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        stdout
            .take(MAX_HELPER_RESPONSE_BYTES)
            .read_to_end(&mut output)
            .await?;
    }
    Ok((child.wait().await?.success(), output))
}
