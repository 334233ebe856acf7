//! Files of an event: fetched from the platform only, with size limits, and attached to the input.
//!
//! A failed download does not delay the event; a note in the text replaces the file.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use goondan::ports::tool::Attachment;
use reqwest::RequestBuilder;
use url::Url;

use crate::connection_runtime::ConnectionRuntime;
use crate::event::EventFile;
use crate::http::{self, PlatformFailure};

/// Maximum number of files per event.
const MAX_EVENT_FILES: usize = 8;
/// Maximum bytes of a file.
const MAX_EVENT_FILE_BYTES: usize = 5 * 1024 * 1024;
/// Maximum bytes of all files of an event.
const MAX_EVENT_FILES_BYTES: usize = 16 * 1024 * 1024;
/// Time limit for all files of an event, if the platform does not wait for a response.
pub(crate) const EVENT_FILES_TIMEOUT: Duration = Duration::from_secs(30);

/// Fetches the files of an event. Appends a note to `text` for each failed file.
pub(crate) async fn fetch(
    runtime: &ConnectionRuntime,
    files: &[EventFile],
    text: &mut String,
) -> Vec<Attachment> {
    let mut fetched: Vec<Attachment> = Vec::new();
    if !runtime.bound.fetches_files() || files.is_empty() {
        return fetched;
    }
    let end = tokio::time::Instant::now() + runtime.platform.files_timeout();
    let mut remaining_bytes = MAX_EVENT_FILES_BYTES;
    for (number, file) in files.iter().enumerate() {
        let max_bytes = MAX_EVENT_FILE_BYTES.min(remaining_bytes);
        let is_too_large = file.bytes.is_some_and(|bytes| bytes > max_bytes as u64);
        let result = if number >= MAX_EVENT_FILES || is_too_large {
            Err(PlatformFailure::Refused(
                "the file is too large or exceeds the file limit".to_owned(),
            ))
        } else {
            match tokio::time::timeout_at(end, fetch_file(runtime, file, max_bytes)).await {
                Ok(result) => result,
                Err(_) => Err(PlatformFailure::Unknown(
                    "the download took too long".to_owned(),
                )),
            }
        };
        match result {
            Ok((attachment, bytes)) => {
                remaining_bytes -= bytes;
                fetched.push(attachment);
            }
            Err(failure) => {
                tracing::warn!(
                    connection = runtime.bound.name,
                    "could not fetch a file of an event; the agent receives the event without the \
                        file: {failure}"
                );
                text.push_str("\n[a file could not be fetched]");
            }
        }
    }
    fetched
}

/// Fetches one file of at most `max_bytes`. Returns the attachment and its size in bytes.
async fn fetch_file(
    runtime: &ConnectionRuntime,
    file: &EventFile,
    max_bytes: usize,
) -> Result<(Attachment, usize), PlatformFailure> {
    let downloaded = loop {
        let download =
            async { http::download(runtime.platform.download(file).await?, max_bytes).await };
        match download.await {
            // The time limit of the event ends the wait.
            Err(PlatformFailure::Later(wait)) => http::wait_for_limit(wait).await,
            outcome => break outcome?,
        }
    };
    let media_type = file.media_type.clone().filter(|name| is_media_type(name));
    // Without read permission, platforms return an HTML page instead of the file.
    if downloaded.media_type.as_deref() == Some("text/html")
        && media_type
            .as_deref()
            .is_some_and(|known| known != "text/html")
    {
        return Err(PlatformFailure::Refused(
            "the platform returned a web page instead of the file; check that the token may read \
            files"
                .to_owned(),
        ));
    }
    let media_type = media_type.or(downloaded.media_type.filter(|name| is_media_type(name)));
    let media_type = media_type.unwrap_or_else(|| "application/octet-stream".to_owned());
    let attachment = Attachment {
        media_type,
        data: STANDARD.encode(&downloaded.content),
        name: file.name.clone(),
    };
    Ok((attachment, downloaded.content.len()))
}

/// Returns true for a valid media type such as `image/png`.
fn is_media_type(text: &str) -> bool {
    let is_part = |part: &str| {
        !part.is_empty()
            && part
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'+' | b'-'))
    };
    text.split_once('/')
        .is_some_and(|(kind, subtype)| is_part(kind) && is_part(subtype))
}

/// Creates a download request for an address that may come from an unknown sender. Allows only
/// `hosts` over TLS and the origin of the API.
pub(crate) async fn at(
    address: &str,
    hosts: &[&str],
    base: &str,
) -> Result<RequestBuilder, PlatformFailure> {
    if is_of(address, hosts, base) {
        Ok(http::client().await?.get(address))
    } else {
        Err(PlatformFailure::Refused(
            "the URL is not a URL of the platform".to_owned(),
        ))
    }
}

/// Creates an upload request to an address that the platform returned.
pub(crate) async fn post_to(
    address: &str,
    hosts: &[&str],
    base: &str,
) -> Result<RequestBuilder, PlatformFailure> {
    if is_of(address, hosts, base) {
        Ok(http::client().await?.post(address))
    } else {
        Err(PlatformFailure::Refused(
            "the upload URL is not a URL of the platform".to_owned(),
        ))
    }
}

/// Returns true if the address is a URL of `hosts` over TLS, or has the origin of `base`.
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
    fn only_file_urls_of_the_platform_are_accepted() {
        let hosts = ["slack.com"];
        for accepted in [
            "https://files.slack.com/a.png",
            "https://slack.com/x",
            "http://127.0.0.1:80/a",
        ] {
            assert!(
                is_of(accepted, &hosts, "http://127.0.0.1/api"),
                "{accepted}"
            );
        }
        for rejected in [
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
            assert!(
                !is_of(rejected, &hosts, "http://127.0.0.1/api"),
                "{rejected}"
            );
        }
    }

    #[test]
    fn invalid_media_types_are_rejected() {
        assert!(is_media_type("image/svg+xml"));
        for invalid in [
            "",
            "image",
            "image/",
            "/png",
            "image/png; x",
            "a/b/c",
            "image/\n",
        ] {
            assert!(!is_media_type(invalid), "{invalid:?}");
        }
    }
}
