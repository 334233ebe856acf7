//! Pictures and files that come with an event: fetched from the platform alone, bounded, and handed to the agent with the text.
//!
//! What can't be fetched keeps no event waiting: the text says that there was something.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use goondan::ports::tool::Attachment;
use reqwest::RequestBuilder;
use url::Url;

use crate::desk::Desk;
use crate::http::{self, Failure};

/// So many files of an event are fetched.
const MOST: usize = 8;
/// A larger one is not fetched, in bytes.
const LARGEST: usize = 5 * 1024 * 1024;
/// All of an event together, in bytes.
const LARGEST_TOGETHER: usize = 16 * 1024 * 1024;
/// How long all of them may take, where the platform waits for no answer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A file that somebody has sent.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Sent {
    /// Where it is, in the words of the platform.
    pub(crate) place: String,
    /// What its sender calls it.
    pub(crate) name: Option<String>,
    /// What the platform says that it is.
    pub(crate) media_type: Option<String>,
    /// How large the platform says that it is.
    pub(crate) bytes: Option<u64>,
}

/// Fetches what has come with an event, and says behind the text what could not be.
pub(crate) async fn fetch(desk: &Desk, files: &[Sent], text: &mut String) -> Vec<Attachment> {
    let mut fetched: Vec<Attachment> = Vec::new();
    if !desk.bound.fetches_files() || files.is_empty() {
        return fetched;
    }
    let end = tokio::time::Instant::now() + desk.platform.patience();
    let mut left = LARGEST_TOGETHER;
    for (number, file) in files.iter().enumerate() {
        let most = LARGEST.min(left);
        let is_too_large = file.bytes.is_some_and(|bytes| bytes > most as u64);
        let got = match number >= MOST || is_too_large {
            true => Err(Failure::Refused(
                "it is too large, or one too many".to_owned(),
            )),
            false => match tokio::time::timeout_at(end, one(desk, file, most)).await {
                Ok(got) => got,
                Err(_) => Err(Failure::Unknown("it took too long".to_owned())),
            },
        };
        match got {
            Ok((attachment, bytes)) => {
                left -= bytes;
                fetched.push(attachment);
            }
            Err(failure) => {
                tracing::warn!(
                    connection = desk.bound.name,
                    "a file of an event was not fetched: {failure}"
                );
                text.push_str("\n[a file could not be fetched]");
            }
        }
    }
    fetched
}

async fn one(desk: &Desk, file: &Sent, most: usize) -> Result<(Attachment, usize), Failure> {
    let (content, told) = http::content(desk.platform.download(file).await?, most).await?;
    let media_type = file.media_type.clone().filter(|told| is_media_type(told));
    // Who may not read a file sees a page that says so.
    if told.as_deref() == Some("text/html")
        && media_type
            .as_deref()
            .is_some_and(|known| known != "text/html")
    {
        return Err(Failure::Refused(
            "a page came in its place; the token may not read files".to_owned(),
        ));
    }
    let media_type = media_type.or(told.filter(|told| is_media_type(told)));
    let media_type = media_type.unwrap_or_else(|| "application/octet-stream".to_owned());
    let attachment = Attachment {
        media_type,
        data: STANDARD.encode(&content),
        name: file.name.clone(),
    };
    Ok((attachment, content.len()))
}

fn is_media_type(text: &str) -> bool {
    let is_part = |part: &str| {
        !part.is_empty()
            && part
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'+' | b'-'))
    };
    text.split_once('/')
        .is_some_and(|(kind, of)| is_part(kind) && is_part(of))
}

/// A request for a file at an address that a stranger may have chosen: only of those hosts over TLS, or of where the API is.
pub(crate) async fn at(
    address: &str,
    hosts: &[&str],
    base: &str,
) -> Result<RequestBuilder, Failure> {
    match is_of(address, hosts, base) {
        true => Ok(http::client().await?.get(address)),
        false => Err(Failure::Refused(
            "it does not lie on the platform".to_owned(),
        )),
    }
}

/// A request that brings a file to an address which the platform has named.
pub(crate) async fn post_to(
    address: &str,
    hosts: &[&str],
    base: &str,
) -> Result<RequestBuilder, Failure> {
    match is_of(address, hosts, base) {
        true => Ok(http::client().await?.post(address)),
        false => Err(Failure::Refused(
            "it named an address for the file that is not its own".to_owned(),
        )),
    }
}

fn is_of(address: &str, hosts: &[&str], base: &str) -> bool {
    let (Ok(url), Ok(base)) = (Url::parse(address), Url::parse(base)) else {
        return false;
    };
    let is_host = |host: &str| {
        hosts.iter().any(|known| {
            host == *known
                || host
                    .strip_suffix(known)
                    .is_some_and(|rest| rest.ends_with('.'))
        })
    };
    let is_known =
        url.scheme() == "https" && url.port().is_none() && url.host_str().is_some_and(is_host);
    (is_known || url.origin() == base.origin())
        && url.username().is_empty()
        && url.password().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_lies_on_the_platform_or_nowhere() {
        let hosts = ["slack.com"];
        for mine in [
            "https://files.slack.com/a.png",
            "https://slack.com/x",
            "http://127.0.0.1:80/a",
        ] {
            assert!(is_of(mine, &hosts, "http://127.0.0.1/api"), "{mine}");
        }
        for other in [
            "http://files.slack.com/a",
            "https://slack.com.evil.example/a",
            "https://evilslack.com/",
            "https://files.slack.com:8443/a",
            "https://me@files.slack.com/a",
            "http://127.0.0.1:81/a",
            "http://169.254.169.254/latest",
            "file:///etc/passwd",
            "a",
            "",
        ] {
            assert!(!is_of(other, &hosts, "http://127.0.0.1/api"), "{other}");
        }
    }

    #[test]
    fn what_is_no_media_type_is_not_passed_on() {
        assert!(is_media_type("image/svg+xml"));
        for wrong in [
            "",
            "image",
            "image/",
            "/png",
            "image/png; x",
            "a/b/c",
            "image/\n",
        ] {
            assert!(!is_media_type(wrong), "{wrong:?}");
        }
    }
}
