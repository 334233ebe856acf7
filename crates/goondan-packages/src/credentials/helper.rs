//! Programs that keep keys: `docker-credential-NAME`, which Docker's own configuration names.
//!
//! Only the person's configuration chooses the program, and it is looked for where `PATH` leads, never in the folder of a project.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde::Deserialize;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;

use super::Basic;
use crate::error::plain;

/// What the names of the programs begin with.
const PREFIX: &str = "docker-credential-";
/// A program may ask a person to unlock something.
const PATIENCE: Duration = Duration::from_secs(60);
/// So much of what a program says is read, in bytes.
const LARGEST: u64 = 64 * 1024;
/// So much of what is wrong is told, in characters.
const TOLD: usize = 200;
/// The name that stands for a token that other ones are got with.
const IDENTITY: &str = "<token>";
/// How Docker names its own registry.
const HUB: (&str, &str) = ("registry-1.docker.io", "https://index.docker.io/v1/");

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Kept {
    username: String,
    secret: String,
}

/// What the program keeps for `host`: nothing, a key, or why that is not known.
pub(super) async fn ask(name: &str, host: &str, path: &str) -> Result<Option<Basic>, String> {
    let program = find(name, path)?;
    let said = tokio::time::timeout(PATIENCE, run(&program, host)).await;
    let (succeeded, said) = match said {
        Err(_) => {
            return Err(format!(
                "`{PREFIX}{name}` did not answer within {} s",
                PATIENCE.as_secs()
            ));
        }
        Ok(Err(error)) => return Err(format!("`{PREFIX}{name}` can't be run: {error}")),
        Ok(Ok(said)) => said,
    };
    if !succeeded {
        let words: String = String::from_utf8_lossy(&said)
            .trim()
            .chars()
            .take(TOLD)
            .collect();
        // It has no code of its own for this.
        return match words.contains("credentials not found") {
            true => Ok(None),
            false => Err(plain(&format!("`{PREFIX}{name}` failed: {words}"))),
        };
    }
    // Its words may be the key, so they are not repeated.
    let kept: Kept = serde_json::from_slice(&said)
        .map_err(|_| format!("`{PREFIX}{name}` does not answer as its protocol wants it"))?;
    match kept {
        Kept { username, .. } if username == IDENTITY => Err(format!(
            "`{PREFIX}{name}` keeps an identity token, and gdn needs a name and a password"
        )),
        Kept { username, secret } => Ok(Some(Basic {
            user: username,
            password: secret,
        })),
    }
}

/// The program, in one of the folders that `path` lists. What is relative there depends on where somebody stands.
fn find(name: &str, path: &str) -> Result<PathBuf, String> {
    let is_usual = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || !name.chars().all(is_usual) {
        return Err(plain(&format!(
            "`{name}` is not the name of a credential helper"
        )));
    }
    let file = format!("{PREFIX}{name}{}", std::env::consts::EXE_SUFFIX);
    let folders = std::env::split_paths(path).filter(|folder| folder.is_absolute());
    let found = folders
        .map(|folder| folder.join(&file))
        .find(|program| program.is_file());
    found.ok_or_else(|| format!("there is no `{file}` in PATH, which Docker's configuration names"))
}

/// Whether it succeeded, and what it said.
async fn run(program: &Path, host: &str) -> std::io::Result<(bool, Vec<u8>)> {
    let mut command = Command::new(program);
    command
        .arg("get")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    let mut child = command.spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        let server = if host == HUB.0 { HUB.1 } else { host };
        // One that does not listen says so with its code.
        let _ = stdin.write_all(server.as_bytes()).await;
    }
    let mut said = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        stdout.take(LARGEST).read_to_end(&mut said).await?;
    }
    Ok((child.wait().await?.success(), said))
}
