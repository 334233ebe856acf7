//! The releases at the place that the program came from: which is the newest, and its archive.

use std::time::Duration;

use goondan::inside::shown;
use goondan::spec::Code;
use goondan::spec::codes::page_url;
use reqwest::{Client, Url};
use semver::Version;
use sha2::{Digest, Sha256};

use super::failed;
use super::place::Receipt;
use crate::exit::{CliError, Exit};

/// How long it may take to reach the place.
const CONNECT: Duration = Duration::from_secs(15);
/// How long it may keep silent in the middle of an answer.
const SILENCE: Duration = Duration::from_secs(30);
/// A longer list of checksums is not read, in bytes.
const LONGEST_LIST: usize = 64 * 1024;
/// A larger archive is not read, in bytes.
const LARGEST_ARCHIVE: usize = 192 * 1024 * 1024;

/// A version that is offered for this system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Release {
    pub(super) version: Version,
    /// The name of its archive.
    pub(super) file: String,
    /// What the archive unpacks to.
    pub(super) folder: String,
    /// Of the archive, in hexadecimal digits.
    sha256: String,
}

/// Where releases lie.
pub(super) struct Source {
    client: Client,
    base: String,
    target: String,
}

impl Source {
    /// The place that the receipt names.
    pub(super) async fn new(receipt: &Receipt) -> Result<Source, CliError> {
        let base = receipt.base.trim_end_matches('/').to_owned();
        let is_local = is_local(&base);
        let make = move || {
            Client::builder()
                .user_agent(concat!("goondan/", env!("CARGO_PKG_VERSION")))
                .connect_timeout(CONNECT)
                .read_timeout(SILENCE)
                // Redirects included. The list of checksums must not be anybody's on the way.
                .https_only(!is_local)
                .tls_backend_preconfigured(goondan_tls::with_system_certificates())
                .build()
        };
        // Reading the certificates of the system takes a while.
        let made = tokio::task::spawn_blocking(make)
            .await
            .map_err(|panic| failed(format!("{panic}.")))?;
        let client = made.map_err(|error| failed(format!("There is no HTTP client: {error}.")))?;
        Ok(Source {
            client,
            base,
            target: receipt.target.clone(),
        })
    }

    /// The newest version.
    pub(super) async fn newest(&self) -> Result<Release, CliError> {
        let list = self.get("latest/download/SHA256SUMS", LONGEST_LIST).await?;
        parse(&String::from_utf8_lossy(&list), &self.target).ok_or_else(|| {
            failed(format!(
                "{} has no version for {}.",
                shown::line(&self.base),
                shown::line(&self.target)
            ))
            .suggest(format!(
                "Its releases may be for other systems now. For other ways, see {}.",
                page_url("installing.md")
            ))
        })
    }

    /// The archive of a version, if it is what the list of checksums says.
    pub(super) async fn download(&self, release: &Release) -> Result<Vec<u8>, CliError> {
        let archive = self
            .get(
                &format!("download/v{}/{}", release.version, release.file),
                LARGEST_ARCHIVE,
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
            "The checksum of {} is {sum} and should be {}; nothing was installed.",
            release.file, release.sha256
        );
        Err(failed(message).suggest(
            "Try again later. If it stays so, somebody has changed the archive: report it.",
        ))
    }

    async fn get(&self, path: &str, largest: usize) -> Result<Vec<u8>, CliError> {
        let address = format!("{}/{path}", self.base);
        let url = Url::parse(&address)
            .map_err(|error| failed(format!("`{}`: {error}.", shown::line(&address))))?;
        let sent = self
            .client
            .get(url)
            .send()
            .await
            .and_then(reqwest::Response::error_for_status);
        let mut response = sent.map_err(|error| unreached(&address, &error))?;
        let mut body = Vec::new();
        while let Some(piece) = response
            .chunk()
            .await
            .map_err(|error| unreached(&address, &error))?
        {
            body.extend_from_slice(&piece);
            if body.len() > largest {
                return Err(failed(format!(
                    "{} is larger than {largest} bytes.",
                    shown::line(&address)
                )));
            }
        }
        Ok(body)
    }
}

/// Whether the address is one of this machine, as it is where somebody tries something.
fn is_local(base: &str) -> bool {
    Url::parse(base)
        .ok()
        .is_some_and(|url| matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]")))
}

fn unreached(address: &str, error: &reqwest::Error) -> CliError {
    let mut why = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(next) = cause {
        why = format!("{why}: {next}");
        cause = next.source();
    }
    let message = format!(
        "{} can't be read: {}.",
        shown::line(address),
        shown::line(why)
    );
    CliError::new(Exit::Network, Code::UPDATE_ERROR, message)
        .suggest("Check the network, then try again.")
}

/// The release for `target` in a list of checksums, as `sha256sum` writes it.
fn parse(sums: &str, target: &str) -> Option<Release> {
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
        Some(Release {
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
    fn a_list_of_checksums_tells_the_version() {
        let sum = "ab".repeat(32);
        let list = format!(
            "{sum}  gdn-0.2.0-rc.1-x86_64-unknown-linux-musl.tar.gz\n{sum}  gdn-0.2.0-rc.1-x86_64-pc-windows-msvc.zip\n\
             {sum}  install.sh\n"
        );
        let release = parse(&list, "x86_64-unknown-linux-musl").unwrap();
        assert_eq!(release.version.to_string(), "0.2.0-rc.1");
        assert_eq!(release.folder, "gdn-0.2.0-rc.1-x86_64-unknown-linux-musl");
        assert_eq!(parse(&list, "x86_64-pc-windows-msvc").unwrap().sha256, sum);
        for other in ["linux-musl", "x86_64-unknown-linux-gnu", ""] {
            assert_eq!(parse(&list, other), None, "{other}");
        }
    }

    #[test]
    fn what_is_no_list_of_checksums_tells_nothing() {
        let target = "x86_64-unknown-linux-musl";
        for sum in ["", "ab", &"AB".repeat(32), &"zz".repeat(32)] {
            assert_eq!(
                parse(&format!("{sum}  gdn-0.2.0-{target}.tar.gz\n"), target),
                None,
                "{sum}"
            );
        }
        let sum = "ab".repeat(32);
        for version in ["../../x", "0.2", "latest"] {
            assert_eq!(
                parse(&format!("{sum}  gdn-{version}-{target}.tar.gz\n"), target),
                None,
                "{version}"
            );
        }
    }

    #[test]
    fn plain_http_is_for_this_machine_alone() {
        assert!(is_local("http://127.0.0.1:8000/releases") && is_local("http://localhost:1"));
        assert!(
            !is_local("http://localhost.example.org") && !is_local("http://127.0.0.1@example.org/")
        );
        assert!(!is_local("https://github.com/goondan/gdn/releases") && !is_local("nonsense"));
    }
}
