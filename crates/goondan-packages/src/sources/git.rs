//! Packages in git repositories, through the program `git`. There is no checkout: git creates a tar
//! of a commit, which is unpacked like other untrusted archives. So hooks and links of the
//! repository have no effect, and its attributes run no filters on the user's machine.

use std::fmt;
use std::fs;
use std::io;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use semver::Version;
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;

use super::{CandidateVersion, ExactLocation, FetchedArchive};
use crate::archive::{MAX_TAR_BYTES, from_tar, pack};
use crate::error::{PackageError, Result};

/// Maximum time of one git command.
const GIT_COMMAND_TIMEOUT: Duration = Duration::from_secs(10 * 60);
/// Maximum size in bytes of the retained error output.
const MAX_ERROR_OUTPUT_BYTES: u64 = 64 * 1024;
/// Git attributes that override the attributes of a repository. A filter is a local program that
/// would run on files of the repository. The other attributes would change files of the same commit
/// between machines.
const CHECKOUT_ATTRIBUTES: &str = "* -filter -ident -text !working-tree-encoding\n";
/// Permitted schemes. Other schemes of git can run programs.
const PERMITTED_SCHEMES: [&str; 3] = ["https", "ssh", "file"];

/// A repository, with an optional revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitReference {
    /// URL including its scheme.
    url: String,
    /// A tag, a branch or a commit.
    at: Option<String>,
}

impl GitReference {
    /// Parses `git+https://host/repository#tag`.
    pub(super) fn parse(text: &str) -> Result<GitReference> {
        let rest = text.strip_prefix("git+").unwrap_or(text);
        let (url, at) = rest
            .split_once('#')
            .map_or((rest, None), |(url, at)| (url, Some(at)));
        let scheme = url
            .split_once("://")
            .map(|(scheme, _)| scheme)
            .unwrap_or_default();
        let is_plain = |at: &str| {
            let is_usual = |c: char| c.is_ascii_alphanumeric() || "-_./+".contains(c);
            !at.is_empty() && !at.starts_with('-') && !at.contains("..") && at.chars().all(is_usual)
        };
        if !PERMITTED_SCHEMES.contains(&scheme)
            || url.contains(char::is_whitespace)
            || at.is_some_and(|at| !is_plain(at))
            || url::Url::parse(url).is_ok_and(|url| crate::http::is_link_local(&url))
        {
            return Err(PackageError::source(format!(
                "`{text}` is not the URL of a git repository."
            ))
            .suggest("write `git+https://host/repository#tag`"));
        }
        // ssh would parse a host with a leading dash as an option.
        if url
            .split_once("://")
            .is_some_and(|(_, rest)| rest.starts_with('-'))
        {
            return Err(PackageError::source(format!("`{text}` has no host.")));
        }
        Ok(GitReference {
            url: url.to_owned(),
            at: at.map(str::to_owned),
        })
    }

    /// Returns true if the URL refers to this machine or to a private network.
    pub(super) fn is_internal(&self) -> bool {
        self.url.starts_with("file:")
            || url::Url::parse(&self.url).is_ok_and(|url| crate::http::is_internal(&url))
    }

    /// Returns the reference to another revision of the same repository.
    fn with_revision(&self, at: &str) -> GitReference {
        GitReference {
            url: self.url.clone(),
            at: Some(at.to_owned()),
        }
    }
}

impl fmt::Display for GitReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "git+{}", self.url)?;
        self.at.iter().try_for_each(|at| write!(f, "#{at}"))
    }
}

/// Returns the versions in the tags, or only the stated revision.
pub(super) async fn candidates(reference: &GitReference) -> Result<Vec<CandidateVersion>> {
    if reference.at.is_some() {
        return Ok(vec![CandidateVersion {
            version: None,
            pin: ExactLocation::Git(reference.clone()),
        }]);
    }
    let directory = empty_folder()?;
    let tag_list = run_git(
        directory.path(),
        &["ls-remote", "--tags", "--refs", "--", &reference.url],
    )
    .await?;
    let tag_list = String::from_utf8_lossy(&tag_list).into_owned();
    let tags = tag_list
        .lines()
        .filter_map(|line| line.split_once("refs/tags/").map(|(_, tag)| tag));
    let version_of_tag = |tag: &str| {
        let version = Version::parse(tag.strip_prefix('v').unwrap_or(tag)).ok()?;
        Some(CandidateVersion {
            version: Some(version),
            pin: ExactLocation::Git(reference.with_revision(tag)),
        })
    };
    let candidates: Vec<CandidateVersion> = tags.filter_map(version_of_tag).collect();
    if candidates.is_empty() {
        // Without version tags, use the default branch.
        Ok(vec![CandidateVersion {
            version: None,
            pin: ExactLocation::Git(reference.clone()),
        }])
    } else {
        Ok(candidates)
    }
}

/// Fetches one revision with the installed `git`, and packs its files.
pub(super) async fn fetch(reference: &GitReference) -> Result<FetchedArchive> {
    let directory = empty_folder()?;
    let folder = directory.path();
    run_git(folder, &["init", "--quiet", "--bare", "."]).await?;
    let info = folder.join("info");
    let written = fs::create_dir_all(&info)
        .and_then(|()| fs::write(info.join("attributes"), CHECKOUT_ATTRIBUTES));
    written.map_err(|error| PackageError::io("written", &info, &error))?;
    let at = reference.at.as_deref().unwrap_or("HEAD");
    let fetch = [
        "fetch",
        "--quiet",
        "--depth",
        "1",
        "--no-tags",
        "--no-recurse-submodules",
    ];
    let single_fetch = run_git(folder, &[&fetch[..], &["--", &reference.url, at]].concat()).await;
    let revision = match single_fetch {
        Ok(_) => "FETCH_HEAD".to_owned(),
        // Not every server permits fetching a commit by its id, so fetch all references.
        Err(error) if !is_commit(at) => return Err(error),
        Err(_) => {
            let all_refs = ["+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*"];
            run_git(
                folder,
                &[
                    &[
                        "fetch",
                        "--quiet",
                        "--no-recurse-submodules",
                        "--",
                        &reference.url,
                    ],
                    &all_refs[..],
                ]
                .concat(),
            )
            .await?;
            at.to_owned()
        }
    };
    let commit = run_git(
        folder,
        &[
            "rev-parse",
            "--verify",
            "--end-of-options",
            &format!("{revision}^{{commit}}"),
        ],
    )
    .await?;
    let commit = String::from_utf8_lossy(&commit).trim().to_owned();
    let tar = run_git(folder, &["archive", "--format=tar", &commit]).await?;
    let work = tokio::task::spawn_blocking(move || repack_tar(&tar));
    let archive = work
        .await
        .map_err(|panic| PackageError::source(panic.to_string()))??;
    Ok(FetchedArchive {
        archive,
        resolved: reference.with_revision(&commit).to_string(),
        is_archive: false,
    })
}

/// Returns true if the revision is a full commit id.
fn is_commit(at: &str) -> bool {
    at.len() >= 40 && at.chars().all(|c| c.is_ascii_hexdigit())
}

/// Converts the tar output of `git archive` to a package archive.
fn repack_tar(tar: &[u8]) -> Result<Vec<u8>> {
    let directory = empty_folder()?;
    from_tar(tar, directory.path())?;
    Ok(pack(directory.path())?.archive)
}

/// Environment variables that select a repository.
const REPOSITORY_VARIABLES: [&str; 7] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_NAMESPACE",
];

/// Creates an empty temporary directory.
fn empty_folder() -> Result<TempDir> {
    tempfile::tempdir().map_err(|error| PackageError::io("created", &std::env::temp_dir(), &error))
}

/// Runs git without prompts. It runs in a temporary directory: in a project, git would read its
/// `.git/config`, which can name programs.
async fn run_git(folder: &Path, arguments: &[&str]) -> Result<Vec<u8>> {
    let mut command = Command::new("git");
    command.args(["-c", "protocol.allow=never"]);
    for scheme in PERMITTED_SCHEMES {
        command.args(["-c", &format!("protocol.{scheme}.allow=always")]);
    }
    command.args([
        "-c",
        "core.hooksPath=",
        "-c",
        "core.fsmonitor=false",
        "-c",
        "submodule.recurse=false",
    ]);
    command.args(arguments).env("GIT_TERMINAL_PROMPT", "0");
    if std::env::var_os("GIT_SSH_COMMAND").is_none() {
        command.env("GIT_SSH_COMMAND", "ssh -o BatchMode=yes");
    }
    for name in REPOSITORY_VARIABLES {
        command.env_remove(name);
    }
    // Prevent git from searching for a repository in parent directories.
    command.env("GIT_CEILING_DIRECTORIES", folder.parent().unwrap_or(folder));
    command
        .current_dir(folder)
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let subcommand = arguments.first().copied().unwrap_or_default();
    let ended = tokio::time::timeout(GIT_COMMAND_TIMEOUT, output(&mut command))
        .await
        .map_err(|_| {
            PackageError::source(format!(
                "`git {subcommand}` did not finish within {} minutes.",
                GIT_COMMAND_TIMEOUT.as_secs() / 60
            ))
        })?;
    let (status, answer, complaints) = ended.map_err(|error| {
        PackageError::source(format!("`git` cannot be run: {error}."))
            .suggest("install git, or use another source")
    })?;
    if answer.len() as u64 > MAX_TAR_BYTES {
        return Err(PackageError::archive(format!(
            "The output of `git {subcommand}` is larger than {} MiB.",
            MAX_TAR_BYTES / 1024 / 1024
        )));
    }
    if status.success() {
        return Ok(answer);
    }
    let error_output = String::from_utf8_lossy(&complaints);
    Err(PackageError::source(format!(
        "`git {subcommand}` failed: {}.",
        failure_cause(&error_output)
    ))
    .suggest("check the URL, the tag, and your access to the repository"))
}

/// Returns the cause of a git failure: the fatal message, or else the last line. Text after the
/// fatal message is only advice.
fn failure_cause(output: &str) -> &str {
    let fatal = output
        .lines()
        .find_map(|line| line.trim().strip_prefix("fatal: "));
    let last_line = || output.lines().rfind(|line| !line.trim().is_empty());
    fatal
        .or_else(last_line)
        .unwrap_or("no error message")
        .trim()
        .trim_end_matches('.')
}

/// Runs a program with limited output, because the repository's owner controls its size.
async fn output(command: &mut Command) -> io::Result<(ExitStatus, Vec<u8>, Vec<u8>)> {
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let (answer, complaints) = (child.stdout.take(), child.stderr.take());
    // Closing the pipe ends a program that writes more.
    let (answer, complaints) = tokio::try_join!(
        read_up_to(answer, MAX_TAR_BYTES + 1),
        read_up_to(complaints, MAX_ERROR_OUTPUT_BYTES)
    )?;
    Ok((child.wait().await?, answer, complaints))
}

/// Reads at most `max_bytes` from a pipe; nothing if there is no pipe.
async fn read_up_to(pipe: Option<impl AsyncRead + Unpin>, max_bytes: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        pipe.take(max_bytes).read_to_end(&mut bytes).await?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_git_failure_cause_is_the_first_fatal_line() {
        let said = "remote: Not Found\nfatal: '/nowhere' does not appear to be a git \
            repository\nfatal: Could not read from \
                    remote repository.\n\nPlease make sure you have the correct access rights\nand \
            the repository exists.\n";
        assert_eq!(
            failure_cause(said),
            "'/nowhere' does not appear to be a git repository"
        );
        assert_eq!(
            failure_cause("error: no such tag.\n\n"),
            "error: no such tag"
        );
        assert_eq!(failure_cause(""), "no error message");
    }

    #[test]
    fn git_urls_that_could_run_commands_are_rejected() {
        for good in [
            "git+https://h/r#v1.0.0",
            "git+ssh://git@h/r.git#main",
            "git+file:///r",
        ] {
            assert_eq!(GitReference::parse(good).unwrap().to_string(), good);
        }
        for bad in [
            "git+ext::sh -c id",
            "git+ext://x",
            "git+http://h/r",
            "git+https://h/r#--upload-pack=x",
            "git+ssh://-oProxyCommand=x/r",
            "git+https://h/r#a b",
            "git+https://169.254.169.254/r",
            "git+ssh://git@[fe80::1]/r",
            "git+https://h/r#a..b",
            "git+--upload-pack=x",
        ] {
            assert!(GitReference::parse(bad).is_err(), "{bad}");
        }
    }
}
