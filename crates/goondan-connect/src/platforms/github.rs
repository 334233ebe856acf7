//! `github`: repository webhooks; answers become comments.

use async_trait::async_trait;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use chrono::{DateTime, Utc};
use goondan::adapters::connectors::{BoundConnection, GITHUB_MARK};
use serde_json::{Value, json};

use super::{
    IgnoredUpdate, ParsedRequest, PlatformConnector, bad_request, code_block, header, json_body,
    unauthorized_response,
};
use crate::event::{EventSender, PlatformEvent, quoted_text, scalar_text};
use crate::http::{self, PlatformFailure};
use crate::own_words::own_markdown;
use crate::reply_queue;
use crate::signature::{digest, is_hmac_hex};

/// Default URL of the API.
const DEFAULT_API_URL: &str = "https://api.github.com";
/// Maximum bytes of a comment. GitHub's limit counts characters, of which there are never more than
/// bytes.
const MAX_COMMENT_BYTES: usize = 65_000;
/// Maximum bytes of a webhook payload.
const MAX_PAYLOAD_BYTES: usize = 25 * 1024 * 1024;
/// Maximum characters of an event's text.
const MAX_EVENT_TEXT_CHARS: usize = 20_000;

pub(super) struct GitHubConnector {
    base: String,
    token: String,
    secret: String,
}

impl GitHubConnector {
    /// Reads the settings of the connection.
    pub(super) fn new(bound: &BoundConnection) -> Self {
        GitHubConnector {
            base: bound
                .setting("apiBaseUrl")
                .unwrap_or(DEFAULT_API_URL)
                .trim_end_matches('/')
                .to_owned(),
            token: bound.secret("token").trim().to_owned(),
            secret: bound.secret("webhookSecret").to_owned(),
        }
    }
}

#[async_trait]
impl PlatformConnector for GitHubConnector {
    fn needs_server(&self) -> bool {
        true
    }

    fn max_body_bytes(&self) -> usize {
        MAX_PAYLOAD_BYTES
    }

    /// GitHub signs only the body, without a time. The event id is therefore derived from the body,
    /// because the headers are not signed.
    fn parse_request(
        &self,
        headers: &HeaderMap,
        body: &Bytes,
        _now: DateTime<Utc>,
    ) -> Result<ParsedRequest, Response> {
        let signature = header(headers, "x-hub-signature-256").strip_prefix("sha256=");
        if !signature
            .is_some_and(|signature| is_hmac_hex(self.secret.as_bytes(), &[body], signature))
        {
            return Err(unauthorized_response());
        }
        if body.starts_with(b"payload=") {
            return Err(bad_request(
                "The body is not JSON. Set the content type of the webhook to application/json.",
            ));
        }
        let (payload, kind) = (json_body(headers, body)?, header(headers, "x-github-event"));
        Ok(match event(kind, digest(&[body]), &payload) {
            Ok(event) => ParsedRequest::Event(Box::new(event)),
            Err(ignored) => ParsedRequest::Ignored(ignored, "ignored\n".into_response()),
        })
    }

    fn literal(&self, text: &str) -> String {
        code_block(text)
    }

    fn pieces(&self, text: &str) -> Vec<String> {
        reply_queue::split_into_messages(text, MAX_COMMENT_BYTES, char::len_utf8)
    }

    async fn send(
        &self,
        origin: &Value,
        _number: usize,
        text: &str,
    ) -> Result<(), PlatformFailure> {
        let (repository, number) = (
            origin["repository"].as_str().unwrap_or_default(),
            &origin["number"],
        );
        let address = format!("{}/repos/{repository}/issues/{number}/comments", self.base);
        let client = http::client().await?;
        let body = json!({"body": format!("{text}\n\n{GITHUB_MARK}")});
        // GitHub redirects requests for a renamed repository.
        http::request_json_following_redirect(&address, |url| {
            client
                .post(url)
                .bearer_auth(&self.token)
                .header("accept", "application/vnd.github+json")
                .json(&body)
        })
        .await
        .map(drop)
    }
}

/// Content of a GitHub event.
struct GitHubEventContent<'p> {
    name: &'static str,
    /// First line of the text.
    line: String,
    body: &'p Value,
    /// Author of the body; null if GitHub states none.
    author: &'p Value,
    number: Option<u64>,
}

/// Parses an event that needs a reaction of the agent. Pings, labels, closed issues and the events
/// of bots are ignored.
fn event(kind: &str, id: String, payload: &Value) -> Result<PlatformEvent, IgnoredUpdate> {
    let action = payload["action"].as_str().unwrap_or_default();
    let shown_kind = format!("{kind} {action}").trim_end().to_owned();
    let repository = payload
        .pointer("/repository/full_name")
        .and_then(Value::as_str)
        .filter(|name| is_repository(name))
        .ok_or_else(|| IgnoredUpdate::new(format!("{shown_kind} without a repository")))?;
    let sender = &payload["sender"];
    if sender["type"] == "Bot" {
        return Err(IgnoredUpdate::new(format!("{shown_kind} of a bot")));
    }
    let GitHubEventContent {
        name,
        line,
        body,
        author,
        number,
    } = event_content(kind, payload)
        .ok_or_else(|| IgnoredUpdate::new(format!("{shown_kind}, which starts no turn")))?;
    let body: String = body
        .as_str()
        .unwrap_or_default()
        .chars()
        .take(MAX_EVENT_TEXT_CHARS)
        .collect();
    if body.contains(GITHUB_MARK) {
        return Err(IgnoredUpdate::usual("a comment of gdn"));
    }
    let login = sender["login"].as_str();
    let facts = [
        ("repository", json!(repository)),
        ("action", payload["action"].clone()),
        ("number", json!(number)),
        ("ref", payload["ref"].clone()),
        ("sender", sender["login"].clone()),
    ];
    let key = match number {
        Some(number) => format!("github:{repository}#{number}"),
        None => format!("github:{repository}"),
    };
    Ok(PlatformEvent {
        name: name.to_owned(),
        id,
        text: format!("{line}\n\n{body}").trim_end().to_owned(),
        own_text: Some(own_markdown(&body)),
        quoted: title_of_other(payload, kind, login),
        author: text_author(kind, author, login),
        key,
        properties: facts
            .iter()
            .filter_map(|(name, value)| Some(((*name).to_owned(), scalar_text(value)?)))
            .collect(),
        sender: login.map(|login| EventSender {
            id: login.to_owned(),
            name: login.to_owned(),
        }),
        channel: Some(repository.to_owned()),
        // Reopening an issue or pushing a commit quotes text that others may have written.
        quotes: author.as_str().is_none_or(|author| Some(author) != login),
        origin: number.map(|number| json!({"repository": repository, "number": number})),
        ..PlatformEvent::default()
    })
}

/// Returns the author of the text if it is not the sender; empty if GitHub names no author. The text
/// of a push is the sender's, who decides what is pushed.
fn text_author(kind: &str, author: &Value, login: Option<&str>) -> Option<String> {
    let author = author.as_str();
    (kind != "push" && (author.is_none() || author != login))
        .then(|| author.unwrap_or_default().to_owned())
}

/// Returns the title of an issue as quoted text if another user than the commenter opened it.
fn title_of_other(payload: &Value, kind: &str, login: Option<&str>) -> String {
    let issue = &payload["issue"];
    let opener = issue["user"]["login"].as_str();
    let (Some(opener), Some(title)) = (opener, issue["title"].as_str()) else {
        return String::new();
    };
    match kind == "issue_comment" && Some(opener) != login {
        true => quoted_text(
            &format!("the title of the issue, written by {opener}"),
            title,
        ),
        false => String::new(),
    }
}

/// Returns the text, the author and the issue number of an event; `None` for unsupported events.
fn event_content<'p>(kind: &str, payload: &'p Value) -> Option<GitHubEventContent<'p>> {
    let action = payload["action"].as_str().unwrap_or_default();
    let sender_login = payload
        .pointer("/sender/login")
        .and_then(Value::as_str)
        .unwrap_or("somebody");
    let where_ = payload
        .pointer("/repository/full_name")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let of = |thing: &Value| {
        (
            thing["number"].as_u64(),
            thing["title"].as_str().unwrap_or_default().to_owned(),
        )
    };
    match (kind, action) {
        ("push", _) => {
            let commits = payload["commits"].as_array().map_or(0, Vec::len);
            let branch = payload["ref"].as_str().unwrap_or_default();
            let line = format!("{sender_login} pushed {commits} commits to {branch} of {where_}.");
            let (body, author) = (&payload["head_commit"]["message"], &Value::Null);
            Some(GitHubEventContent {
                name: "github_push",
                line,
                body,
                author,
                number: None,
            })
        }
        ("pull_request", "opened" | "reopened" | "ready_for_review" | "synchronize") => {
            let (number, title) = of(&payload["pull_request"]);
            let line = format!(
                "Pull request #{} of {where_} ({action} by {sender_login}): {title}",
                number?
            );
            let (body, author) = (
                &payload["pull_request"]["body"],
                &payload["pull_request"]["user"]["login"],
            );
            Some(GitHubEventContent {
                name: "github_pull_request",
                line,
                body,
                author,
                number,
            })
        }
        ("issues", "opened" | "reopened") => {
            let (number, title) = of(&payload["issue"]);
            let line = format!(
                "Issue #{} of {where_} ({action} by {sender_login}): {title}",
                number?
            );
            let (body, author) = (
                &payload["issue"]["body"],
                &payload["issue"]["user"]["login"],
            );
            Some(GitHubEventContent {
                name: "github_issue",
                line,
                body,
                author,
                number,
            })
        }
        ("issue_comment", "created") => {
            let (number, title) = of(&payload["issue"]);
            let shown_title = match title_of_other(payload, kind, Some(sender_login)).is_empty() {
                true => format!(" ({title})"),
                false => String::new(),
            };
            let line = format!(
                "{sender_login} commented on #{} of {where_}{shown_title}:",
                number?
            );
            let (body, author) = (
                &payload["comment"]["body"],
                &payload["comment"]["user"]["login"],
            );
            Some(GitHubEventContent {
                name: "github_issue_comment",
                line,
                body,
                author,
                number,
            })
        }
        _ => None,
    }
}

/// Checks for `owner/name`, which becomes part of a URL.
fn is_repository(name: &str) -> bool {
    let is_plain = |part: &str| {
        !part.is_empty()
            && !part.starts_with('.')
            && part
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
    };
    // Repository names may start with a dot, such as `.github`; `..` would change the path.
    name.split_once('/').is_some_and(|(owner, name)| {
        is_plain(owner) && (is_plain(name) || name.strip_prefix('.').is_some_and(is_plain))
    })
}

/// Returns a sample of the named event, or of an issue event.
pub(super) fn sample(name: &str) -> PlatformEvent {
    let subject =
        json!({"number": 12, "title": "It crashes", "body": "Hello", "user": {"login": "ada"}});
    let (kind, mut payload) = match name {
        "github_push" => (
            "push",
            json!({"ref": "refs/heads/main", "commits": [], "head_commit": {"message": "Hello"}}),
        ),
        "github_pull_request" => (
            "pull_request",
            json!({"action": "opened", "pull_request": subject}),
        ),
        "github_issue_comment" => {
            let comment = json!({"body": "Hello", "user": {"login": "ada"}});
            (
                "issue_comment",
                json!({"action": "created", "issue": subject, "comment": comment}),
            )
        }
        _ => ("issues", json!({"action": "opened", "issue": subject})),
    };
    payload["repository"] = json!({"full_name": "octo/hello"});
    payload["sender"] = json!({"login": "ada", "type": "User"});
    event(kind, "sample".to_owned(), &payload).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sample_events_have_the_fields_of_real_events() {
        for name in [
            "github_push",
            "github_pull_request",
            "github_issue",
            "github_issue_comment",
        ] {
            assert_eq!(sample(name).name, name);
        }
        let push = sample("github_push").properties;
        assert!(
            push.contains_key("ref")
                && !push.contains_key("action")
                && !push.contains_key("number"),
            "{push:?}"
        );
    }

    fn comment(fields: Value) -> Value {
        let mut payload = json!({
            "action": "created", "issue": {"number": 3, "title": "t"}, "comment": {"body": "why?", "user": {"login": "ada"}},
            "repository": {"full_name": "octo/hello"}, "sender": {"login": "ada", "type": "User"},
        });
        payload
            .as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        payload
    }

    #[test]
    fn user_comments_are_events_and_gdn_comments_are_ignored() {
        let of = |kind: &str, payload: &Value| event(kind, "d".to_owned(), payload);
        let read = of("issue_comment", &comment(json!({}))).unwrap();
        assert_eq!(read.text, "ada commented on #3 of octo/hello (t):\n\nwhy?");
        assert_eq!(
            (read.key.as_str(), read.id.as_str()),
            ("github:octo/hello#3", "d")
        );
        assert_eq!(
            read.origin,
            Some(json!({"repository": "octo/hello", "number": 3}))
        );
        for ignored in [
            json!({"action": "deleted"}),
            json!({"sender": {"login": "x[bot]", "type": "Bot"}}),
            json!({"comment": {"body": format!("so\n\n{GITHUB_MARK}")}}),
            json!({"repository": {"full_name": "octo/../x"}}),
            json!({"repository": {"full_name": "octo/.."}}),
            json!({"issue": {}}),
        ] {
            assert_eq!(
                of("issue_comment", &comment(ignored.clone())).ok(),
                None,
                "{ignored}"
            );
        }
        let push = json!({
            "ref": "refs/heads/main", "commits": [{}], "head_commit": {"message": "fix"},
            "repository": {"full_name": "octo/.github"}, "sender": {"login": "ada"},
        });
        let push = of("push", &push).unwrap();
        assert_eq!(
            (push.key.as_str(), push.origin),
            ("github:octo/.github", None)
        );
        assert_eq!(of("ping", &comment(json!({}))).ok(), None);
    }

    #[test]
    fn text_of_another_author_is_attributed() {
        let by = |author: &str| json!({"number": 3, "title": "t", "body": "x", "user": {"login": author}});
        let of = |kind: &str, fields: Value| event(kind, String::new(), &comment(fields)).unwrap();
        let transferred = |author| of("issues", json!({"action": "opened", "issue": by(author)}));
        assert_eq!(transferred("ada").author, None);
        assert_eq!(transferred("mallory").author.as_deref(), Some("mallory"));
        let ghost =
            json!({"action": "reopened", "issue": {"number": 3, "body": "x", "user": null}});
        assert_eq!(of("issues", ghost).author.as_deref(), Some(""));
        let pushed = json!({"action": "synchronize", "pull_request": by("mallory")});
        let pushed = of("pull_request", pushed);
        assert_eq!(pushed.author.as_deref(), Some("mallory"));
        let commented = of("issue_comment", json!({"issue": by("mallory")}));
        assert_eq!(
            commented.full_text(),
            "ada commented on #3 of octo/hello:\n\nwhy?\n[the title of the issue, written by mallory]\nt"
        );
        assert_eq!(commented.author, None);
    }

    /// An approver (Ada) triggers an event with text that another user (Eve) wrote.
    #[test]
    fn text_of_another_author_counts_as_quoted() {
        let by = |author: &str| json!({"number": 3, "title": "t", "body": "/approve 0123456789abcdef", "user": {"login": author}});
        let quotes = |kind: &str, fields: Value| {
            event(kind, String::new(), &comment(fields)).unwrap().quotes
        };
        for (action, kind, of) in [
            ("created", "issue_comment", "comment"),
            ("reopened", "issues", "issue"),
            ("reopened", "pull_request", "pull_request"),
        ] {
            assert!(
                !quotes(kind, json!({"action": action, of: by("ada")})),
                "{kind}"
            );
            assert!(
                quotes(kind, json!({"action": action, of: by("eve")})),
                "{kind}"
            );
        }
        assert!(
            quotes(
                "issues",
                json!({"action": "reopened", "issue": {"number": 3, "body": "x"}})
            ),
            "the payload does not state the author"
        );
        assert!(quotes(
            "push",
            json!({"head_commit": {"message": "/approve 0123456789abcdef"}})
        ));
    }
}
