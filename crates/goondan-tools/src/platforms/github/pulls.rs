//! Reviews of pull requests, and the status of commits.

use goondan_core::ports::tool::{HandlerError, ToolContext, ToolOutput};
use goondan_spec::Code;
use reqwest::Method;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::super::{ApiRequestBody, PlatformClient, TimeLimit, without_nulls};
use super::{repository_url, with_agent_marker};
use crate::errors;
use crate::tool_operation::{ToolOperation, titled_output};

/// Which version of the file a line belongs to.
#[derive(Clone, Copy, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
enum DiffSide {
    /// Before the change.
    Left,
    /// After it.
    #[default]
    Right,
}

impl DiffSide {
    /// Returns the name in GitHub's API. The tool's schema uses `left` and `right`.
    fn api_name(self) -> &'static str {
        match self {
            DiffSide::Left => "LEFT",
            DiffSide::Right => "RIGHT",
        }
    }
}

/// Comment on a line of a pull request, or reply to a line comment.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ReviewComment {
    /// `owner/name`.
    #[schemars(length(min = 3))]
    repository: String,
    /// Pull request number.
    #[schemars(range(min = 1))]
    number: u64,
    /// Text, in Markdown.
    #[schemars(length(min = 1, max = 65_000))]
    text: String,
    /// File path in the pull request.
    #[schemars(length(min = 1))]
    file: Option<String>,
    /// Line of the file.
    #[schemars(range(min = 1))]
    line: Option<u64>,
    /// First line, for a comment on several lines.
    #[schemars(range(min = 1))]
    start_line: Option<u64>,
    /// `left` for a line before the change.
    #[serde(default)]
    side: DiffSide,
    /// Commit; default: the newest of the pull request.
    commit: Option<String>,
    /// Id of the comment to reply to, instead of `file` and `line`.
    #[schemars(range(min = 1))]
    in_reply_to: Option<u64>,
    /// Time limit of each request.
    #[serde(default)]
    timeout_ms: TimeLimit,
}

impl ToolOperation for ReviewComment {
    type Shared = PlatformClient;

    /// Comments on a line of a pull request, or replies to a line comment.
    async fn run(
        self,
        _ctx: &ToolContext,
        bot: &PlatformClient,
    ) -> Result<ToolOutput, HandlerError> {
        let number = self.number.to_string();
        let (url, body) = match (self.in_reply_to, &self.file, self.line) {
            (Some(id), None, None) => {
                let parts = ["pulls", &number, "comments", &id.to_string(), "replies"];
                (
                    repository_url(bot, &self.repository, &parts)?,
                    json!({"body": with_agent_marker(&self.text)}),
                )
            }
            (None, Some(file), Some(line)) => {
                let commit = match &self.commit {
                    Some(commit) => commit.clone(),
                    None => self.head_commit(bot, &number).await?,
                };
                let (text, side) = (with_agent_marker(&self.text), self.side.api_name());
                let body = json!({
                    "body": text, "commit_id": commit, "path": file, "line": line, "side": side,
                    "start_line": self.start_line, "start_side": self.start_line.map(|_| side),
                });
                (
                    repository_url(bot, &self.repository, &["pulls", &number, "comments"])?,
                    without_nulls(body),
                )
            }
            _ => {
                return Err(errors::invalid_argument(
                    "pass either `file` and `line`, or `inReplyTo`",
                ));
            }
        };
        let comment = bot
            .call(
                "the comment",
                (Method::POST, url),
                ApiRequestBody::Json(body),
                self.timeout_ms,
            )
            .await?;
        let output = json!({
            "ok": true, "repository": self.repository, "number": self.number, "commentId": comment["id"], "url": comment["html_url"],
        });
        Ok(titled_output(
            format!("Commented on a line of {}#{}", self.repository, self.number),
            output,
        ))
    }
}

impl ReviewComment {
    /// Returns the hash of the newest commit of the pull request.
    async fn head_commit(
        &self,
        bot: &PlatformClient,
        number: &str,
    ) -> Result<String, HandlerError> {
        let url = repository_url(bot, &self.repository, &["pulls", number])?;
        let pull = bot
            .call(
                "to read",
                (Method::GET, url),
                ApiRequestBody::Empty,
                self.timeout_ms,
            )
            .await?;
        let head = pull
            .pointer("/head/sha")
            .and_then(|sha| sha.as_str())
            .map(str::to_owned);
        head.ok_or_else(|| {
            HandlerError::new("GitHub did not return the newest commit of the pull request")
                .code(Code::TOOL_HTTP)
        })
    }
}

/// What a review says.
#[derive(Clone, Copy, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all(deserialize = "camelCase", serialize = "SCREAMING_SNAKE_CASE"))]
#[schemars(inline)]
enum ReviewVerdict {
    Approve,
    RequestChanges,
    Comment,
}

/// Review a pull request: approve, request changes, or only comment.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct GithubReview {
    /// `owner/name`.
    #[schemars(length(min = 3))]
    repository: String,
    /// Pull request number.
    #[schemars(range(min = 1))]
    number: u64,
    /// Verdict.
    verdict: ReviewVerdict,
    /// Text, in Markdown. Optional for an approval.
    #[schemars(length(min = 1, max = 65_000))]
    text: Option<String>,
    #[serde(default)]
    timeout_ms: TimeLimit,
}

impl ToolOperation for GithubReview {
    type Shared = PlatformClient;

    async fn run(
        self,
        _ctx: &ToolContext,
        bot: &PlatformClient,
    ) -> Result<ToolOutput, HandlerError> {
        if self.verdict != ReviewVerdict::Approve && self.text.is_none() {
            return Err(errors::invalid_argument(
                "`text` is required unless the review approves",
            ));
        }
        let url = repository_url(
            bot,
            &self.repository,
            &["pulls", &self.number.to_string(), "reviews"],
        )?;
        let text = self.text.as_deref().map(with_agent_marker);
        let body =
            ApiRequestBody::Json(without_nulls(json!({"event": self.verdict, "body": text})));
        let review = bot
            .call("the review", (Method::POST, url), body, self.timeout_ms)
            .await?;
        let output = json!({
            "ok": true, "repository": self.repository, "number": self.number, "reviewId": review["id"], "state": review["state"],
            "url": review["html_url"],
        });
        Ok(titled_output(
            format!("Reviewed {}#{}", self.repository, self.number),
            output,
        ))
    }
}

/// How a check of a commit has ended.
#[derive(Clone, Copy, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
enum CommitCheckState {
    Pending,
    Success,
    Failure,
    Error,
}

/// Set the status of a commit. Pull requests show it as a check.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct GithubCommitStatus {
    /// `owner/name`.
    #[schemars(length(min = 3))]
    repository: String,
    /// Full commit hash.
    #[schemars(regex(pattern = "^[0-9a-fA-F]{40,64}$"))]
    commit: String,
    /// New state.
    state: CommitCheckState,
    /// Check name. A later status with this name replaces it.
    #[schemars(length(min = 1, max = 100))]
    context: String,
    /// Short description.
    #[schemars(length(max = 140))]
    description: Option<String>,
    /// URL of a page with details.
    target_url: Option<String>,
    #[serde(default)]
    timeout_ms: TimeLimit,
}

impl ToolOperation for GithubCommitStatus {
    type Shared = PlatformClient;

    async fn run(
        self,
        _ctx: &ToolContext,
        bot: &PlatformClient,
    ) -> Result<ToolOutput, HandlerError> {
        let url = repository_url(bot, &self.repository, &["statuses", &self.commit])?;
        let body = without_nulls(json!({
            "state": self.state, "context": self.context, "description": self.description, "target_url": self.target_url,
        }));
        let status = bot
            .call(
                "the status",
                (Method::POST, url),
                ApiRequestBody::Json(body),
                self.timeout_ms,
            )
            .await?;
        let output = json!({
            "ok": true, "repository": self.repository, "commit": self.commit, "state": status["state"], "context": self.context,
        });
        Ok(titled_output(
            format!("Set the status {} of a commit", self.context),
            output,
        ))
    }
}
