//! Reviews of pull requests, and the status of commits.

use goondan_core::ports::tool::{ToolContext, ToolError, ToolOutput};
use goondan_spec::Code;
use reqwest::Method;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::super::{Body, Bot, TimeLimit, given};
use super::{below, marked};
use crate::define::{Operation, titled};
use crate::errors;

/// Which version of the file a line belongs to.
#[derive(Clone, Copy, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
enum Side {
    /// Before the change.
    Left,
    /// After it.
    #[default]
    Right,
}

impl Side {
    /// Returns GitHub's name. The schema contains the name for callers.
    fn told(self) -> &'static str {
        match self {
            Side::Left => "LEFT",
            Side::Right => "RIGHT",
        }
    }
}

/// Comment on a line of a pull request, or answer such a comment.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ReviewComment {
    /// The repository, as `owner/name`.
    #[schemars(length(min = 3))]
    repository: String,
    /// The number of the pull request.
    #[schemars(range(min = 1))]
    number: u64,
    /// The text, in Markdown.
    #[schemars(length(min = 1, max = 65_000))]
    text: String,
    /// The file, as the pull request names it.
    #[schemars(length(min = 1))]
    file: Option<String>,
    /// The line of the file.
    #[schemars(range(min = 1))]
    line: Option<u64>,
    /// The first line, where the comment is about several.
    #[schemars(range(min = 1))]
    start_line: Option<u64>,
    /// `left` for a line as it was before the change.
    #[serde(default)]
    side: Side,
    /// The commit that it is about; the newest of the pull request without it.
    commit: Option<String>,
    /// The id of the comment that it answers, instead of `file` and `line`.
    #[schemars(range(min = 1))]
    in_reply_to: Option<u64>,
    /// The time limit of each request in milliseconds.
    #[serde(default)]
    timeout_ms: TimeLimit,
}

impl Operation for ReviewComment {
    type Shared = Bot;

    async fn run(self, _ctx: &ToolContext, bot: &Bot) -> Result<ToolOutput, ToolError> {
        let number = self.number.to_string();
        let (url, body) = match (self.in_reply_to, &self.file, self.line) {
            (Some(id), None, None) => {
                let parts = ["pulls", &number, "comments", &id.to_string(), "replies"];
                (
                    below(bot, &self.repository, &parts)?,
                    json!({"body": marked(&self.text)}),
                )
            }
            (None, Some(file), Some(line)) => {
                let commit = match &self.commit {
                    Some(commit) => commit.clone(),
                    None => self.head(bot, &number).await?,
                };
                let body = json!({
                    "body": marked(&self.text), "commit_id": commit, "path": file, "line": line, "side": self.side.told(),
                    "start_line": self.start_line, "start_side": self.start_line.map(|_| self.side.told()),
                });
                (
                    below(bot, &self.repository, &["pulls", &number, "comments"])?,
                    given(body),
                )
            }
            _ => {
                return Err(errors::invalid(
                    "either `file` and `line`, or `inReplyTo` must be given",
                ));
            }
        };
        let made = bot
            .call(
                "the comment",
                (Method::POST, url),
                Body::Json(body),
                self.timeout_ms,
            )
            .await?;
        let output = json!({
            "ok": true, "repository": self.repository, "number": self.number, "commentId": made["id"], "url": made["html_url"],
        });
        Ok(titled(
            format!("Commented on a line of {}#{}", self.repository, self.number),
            output,
        ))
    }
}

impl ReviewComment {
    /// Returns the newest commit of the pull request.
    async fn head(&self, bot: &Bot, number: &str) -> Result<String, ToolError> {
        let url = below(bot, &self.repository, &["pulls", number])?;
        let pull = bot
            .call("to read", (Method::GET, url), Body::Empty, self.timeout_ms)
            .await?;
        let head = pull
            .pointer("/head/sha")
            .and_then(|sha| sha.as_str())
            .map(str::to_owned);
        head.ok_or_else(|| {
            ToolError::new("GitHub did not say which commit is the newest of the pull request")
                .code(Code::TOOL_HTTP)
        })
    }
}

/// What a review says.
#[derive(Clone, Copy, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all(deserialize = "camelCase", serialize = "SCREAMING_SNAKE_CASE"))]
#[schemars(inline)]
enum Verdict {
    Approve,
    RequestChanges,
    Comment,
}

/// Review a pull request: approve it, ask for changes, or only comment.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Review {
    /// The repository, as `owner/name`.
    #[schemars(length(min = 3))]
    repository: String,
    /// The number of the pull request.
    #[schemars(range(min = 1))]
    number: u64,
    /// What the review says.
    verdict: Verdict,
    /// The text, in Markdown. Only an approval needs none.
    #[schemars(length(min = 1, max = 65_000))]
    text: Option<String>,
    #[serde(default)]
    timeout_ms: TimeLimit,
}

impl Operation for Review {
    type Shared = Bot;

    async fn run(self, _ctx: &ToolContext, bot: &Bot) -> Result<ToolOutput, ToolError> {
        if self.verdict != Verdict::Approve && self.text.is_none() {
            return Err(errors::invalid(
                "`text` is needed, unless the review approves",
            ));
        }
        let url = below(
            bot,
            &self.repository,
            &["pulls", &self.number.to_string(), "reviews"],
        )?;
        let text = self.text.as_deref().map(marked);
        let body = Body::Json(given(json!({"event": self.verdict, "body": text})));
        let made = bot
            .call("the review", (Method::POST, url), body, self.timeout_ms)
            .await?;
        let output = json!({
            "ok": true, "repository": self.repository, "number": self.number, "reviewId": made["id"], "state": made["state"],
            "url": made["html_url"],
        });
        Ok(titled(
            format!("Reviewed {}#{}", self.repository, self.number),
            output,
        ))
    }
}

/// How a check of a commit has ended.
#[derive(Clone, Copy, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
enum Outcome {
    Pending,
    Success,
    Failure,
    Error,
}

/// Set the status of a commit, which pull requests show among their checks.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Status {
    /// The repository, as `owner/name`.
    #[schemars(length(min = 3))]
    repository: String,
    /// The commit: all of its hexadecimal digits.
    #[schemars(regex(pattern = "^[0-9a-fA-F]{40,64}$"))]
    commit: String,
    /// What it is from now on.
    state: Outcome,
    /// The name of the check. A later status of that name takes its place.
    #[schemars(length(min = 1, max = 100))]
    context: String,
    /// A short sentence about it.
    #[schemars(length(max = 140))]
    description: Option<String>,
    /// The address of a page with more about it.
    target_url: Option<String>,
    #[serde(default)]
    timeout_ms: TimeLimit,
}

impl Operation for Status {
    type Shared = Bot;

    async fn run(self, _ctx: &ToolContext, bot: &Bot) -> Result<ToolOutput, ToolError> {
        let url = below(bot, &self.repository, &["statuses", &self.commit])?;
        let body = given(json!({
            "state": self.state, "context": self.context, "description": self.description, "target_url": self.target_url,
        }));
        let made = bot
            .call(
                "the status",
                (Method::POST, url),
                Body::Json(body),
                self.timeout_ms,
            )
            .await?;
        let output = json!({
            "ok": true, "repository": self.repository, "commit": self.commit, "state": made["state"], "context": self.context,
        });
        Ok(titled(
            format!("Set the status {} of a commit", self.context),
            output,
        ))
    }
}
