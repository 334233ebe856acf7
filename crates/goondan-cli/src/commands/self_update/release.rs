//! Releases at the URL of the receipt: the newest version and its archive.

use std::time::Duration;

use goondan::internal::untrusted_text;
use goondan::spec::Code;
use goondan::spec::codes::page_url;
use reqwest::{Client, Url};
use semver::Version;
use sha2::{Digest, Sha256};

use super::installation::InstallReceipt;
use super::update_error;
use crate::exit::{CliError, CommandExit};

/// Connection timeout.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// Maximum silence during a response.
const READ_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum size of the checksum list, in bytes.
const MAX_CHECKSUM_LIST_BYTES: usize = 64 * 1024;
/// Maximum size of an archive, in bytes.
const MAX_ARCHIVE_BYTES: usize = 192 * 1024 * 1024;

/// Version available for this system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ProgramRelease {
    pub(super) version: Version,
    /// File name of the archive.
    pub(super) file: String,
    /// Directory that the archive unpacks to.
    pub(super) folder: String,
    /// Checksum of the archive, in hexadecimal digits.
    sha256: String,
}

/// Release server.
pub(super) struct ReleaseServer {
    client: Client,
    base: String,
    target: String,
}

impl ReleaseServer {
    /// Creates a client for the server that the receipt names.
    pub(super) async fn new(receipt: &InstallReceipt) -> Result<ReleaseServer, CliError> {
        let base = receipt.base.trim_end_matches('/').to_owned();
        let is_local = is_local(&base);
        let build_client = move || {
            Client::builder()
                .user_agent(concat!("goondan/", env!("CARGO_PKG_VERSION")))
                .connect_timeout(CONNECT_TIMEOUT)
                .read_timeout(READ_TIMEOUT)
                // Redirects included: no one on the network may change the checksum list.
                .https_only(!is_local)
                .tls_backend_preconfigured(goondan_tls::with_system_certificates())
                .build()
        };
        // Loading the system certificates blocks.
        let client_result = tokio::task::spawn_blocking(build_client)
            .await
            .map_err(|panic| update_error(format!("{panic}.")))?;
        let client = client_result.map_err(|error| {
            update_error(format!(
                "Could not create the HTTP client: \
            {error}."
            ))
        })?;
        Ok(ReleaseServer {
            client,
            base,
            target: receipt.target.clone(),
        })
    }

    /// Returns the newest release for this system. Fails if there is none.
    pub(super) async fn newest(&self) -> Result<ProgramRelease, CliError> {
        let list = self
            .get("latest/download/SHA256SUMS", MAX_CHECKSUM_LIST_BYTES)
            .await?;
        parse_checksums(&String::from_utf8_lossy(&list), &self.target).ok_or_else(|| {
            update_error(format!(
                "{} has no release for {}.",
                untrusted_text::line(&self.base),
                untrusted_text::line(&self.target)
            ))
            .suggest(format!(
                "This system may no longer be supported. For other ways to install gdn, see {}.",
                page_url("installing.md")
            ))
        })
    }

    /// Downloads the archive of a release. Fails if its checksum differs from the list.
    pub(super) async fn download(&self, release: &ProgramRelease) -> Result<Vec<u8>, CliError> {
        let archive = self
            .get(
                &format!("download/v{}/{}", release.version, release.file),
                MAX_ARCHIVE_BYTES,
            )
            .await?;
        let sum: String = Sha256::digest(&archive)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        if sum == release.sha256 {
            return Ok(archive);
        }
        let message = format!(
            "The checksum of {} is {sum}, expected {}; nothing was installed.",
            release.file, release.sha256
        );
        Err(update_error(message).suggest(
            "Try again later. If the error persists, the archive may have been tampered with: \
                report it.",
        ))
    }

    /// Downloads a file. Fails if it is larger than `max_bytes` bytes.
    async fn get(&self, path: &str, max_bytes: usize) -> Result<Vec<u8>, CliError> {
        let url_text = format!("{}/{path}", self.base);
        let url = Url::parse(&url_text).map_err(|error| {
            update_error(format!("`{}`: {error}.", untrusted_text::line(&url_text)))
        })?;
        let answer = self
            .client
            .get(url)
            .send()
            .await
            .and_then(reqwest::Response::error_for_status);
        let mut response = answer.map_err(|error| connection_error(&url_text, &error))?;
        let mut body = Vec::new();
        while let Some(piece) = response
            .chunk()
            .await
            .map_err(|error| connection_error(&url_text, &error))?
        {
            body.extend_from_slice(&piece);
            if body.len() > max_bytes {
                return Err(update_error(format!(
                    "{} is larger than {max_bytes} bytes.",
                    untrusted_text::line(&url_text)
                )));
            }
        }
        Ok(body)
    }
}

/// Returns true if the URL names this machine, as in tests.
fn is_local(base: &str) -> bool {
    Url::parse(base)
        .ok()
        .is_some_and(|url| matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]")))
}

/// Returns the error of a failed request, with all its causes.
fn connection_error(address: &str, error: &reqwest::Error) -> CliError {
    let mut causes = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(next) = cause {
        causes = format!("{causes}: {next}");
        cause = next.source();
    }
    let message = format!(
        "{} can't be read: {}.",
        untrusted_text::line(address),
        untrusted_text::line(causes)
    );
    CliError::new(CommandExit::Network, Code::UPDATE_ERROR, message)
        .suggest("Check the network, then try again.")
}

/// Finds the release for `target` in a checksum list, in the format of `sha256sum`.
fn parse_checksums(sums: &str, target: &str) -> Option<ProgramRelease> {
    sums.lines().find_map(|line| {
        let (sha256, file) = line.split_once("  ")?;
        let folder = file.strip_suffix(".tar.gz").or(file.strip_suffix(".zip"))?;
        let version = folder
            .strip_prefix("gdn-")?
            .strip_suffix(target)?
            .strip_suffix('-')?;
        let is_sum = sha256.len() == 64
            && sha256
                .bytes()
                .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let version = Version::parse(version).ok().filter(|_| is_sum)?;
        Some(ProgramRelease {
            version,
            file: file.to_owned(),
            folder: folder.to_owned(),
            sha256: sha256.to_owned(),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_list_contains_the_version() {
        let sum = "ab".repeat(32);
        let list = format!(
            "{sum}  gdn-0.2.0-rc.1-x86_64-unknown-linux-musl.tar.gz\n{sum}  \
            gdn-0.2.0-rc.1-x86_64-pc-windows-msvc.zip\n\
             {sum}  install.sh\n"
        );
        let release = parse_checksums(&list, "x86_64-unknown-linux-musl").unwrap();
        assert_eq!(release.version.to_string(), "0.2.0-rc.1");
        assert_eq!(release.folder, "gdn-0.2.0-rc.1-x86_64-unknown-linux-musl");
        assert_eq!(
            parse_checksums(&list, "x86_64-pc-windows-msvc")
                .unwrap()
                .sha256,
            sum
        );
        for other in ["linux-musl", "x86_64-unknown-linux-gnu", ""] {
            assert_eq!(parse_checksums(&list, other), None, "{other}");
        }
    }

    #[test]
    fn an_invalid_checksum_list_is_rejected() {
        let target = "x86_64-unknown-linux-musl";
        for sum in ["", "ab", &"AB".repeat(32), &"zz".repeat(32)] {
            assert_eq!(
                parse_checksums(&format!("{sum}  gdn-0.2.0-{target}.tar.gz\n"), target),
                None,
                "{sum}"
            );
        }
        let sum = "ab".repeat(32);
        for version in ["../../x", "0.2", "latest"] {
            assert_eq!(
                parse_checksums(&format!("{sum}  gdn-{version}-{target}.tar.gz\n"), target),
                None,
                "{version}"
            );
        }
    }

    #[test]
    fn plain_http_is_allowed_only_for_the_local_machine() {
        assert!(is_local("http://127.0.0.1:8000/releases") && is_local("http://localhost:1"));
        assert!(
            !is_local("http://localhost.example.org") && !is_local("http://127.0.0.1@example.org/")
        );
        assert!(!is_local("https://github.com/goondan/gdn/releases") && !is_local("nonsense"));
    }
}
