//! `github`: issues and pull requests.

mod issues;
mod pulls;

use std::sync::Arc;

use goondan_core::ports::tool::{HandlerError, ToolContext, ToolOutput};
use goondan_spec::kinds::Permission;
use reqwest::Method;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use url::Url;

use self::issues::{GithubLabel, GithubRead, SetState};
use self::pulls::{GithubCommitStatus, GithubReview, ReviewComment};
use super::{ApiRequestBody, PLATFORM_CONFIG_KEYS, PlatformClient, PlatformDescription, TimeLimit};
use crate::builtin_tool::BuiltinTool;
use crate::errors;
use crate::tool_operation::{ToolExport, ToolOperation, titled_output};

pub(super) const PLATFORM: PlatformDescription = PlatformDescription {
    name: "GitHub",
    base: "https://api.github.com",
    variables: &["GITHUB_TOKEN", "GH_TOKEN"],
    scheme: "Bearer",
    headers: &[
        ("accept", "application/vnd.github+json"),
        ("x-github-api-version", "2022-11-28"),
    ],
};
/// Ends each text of an agent, so that a connection recognizes it and the agent does not answer
/// itself. Pages do not show it.
pub const AGENT_TEXT_MARKER: &str = "<!-- answered by gdn -->";

pub(crate) const BUILTIN: BuiltinTool = BuiltinTool {
    name: "github",
    about: "Reads, comments on, reviews, labels, closes and reopens GitHub issues and pull \
        requests, adds reactions, and sets commit statuses. The token is `config.token`, else the \
        variable `GITHUB_TOKEN`, else `GH_TOKEN`; models never see it. Comments end with a hidden \
        marker, so that the connector `github` recognizes them.",
    config: PLATFORM_CONFIG_KEYS,
    open: |opening| {
        let bot = Arc::new(PlatformClient::open(opening, &PLATFORM)?);
        Ok(vec![
            ToolExport::new::<GithubRead>("read", &bot)
                .with_permission(Permission::Network)
                .read_only(),
            ToolExport::new::<GithubComment>("comment", &bot).with_permission(Permission::Network),
            ToolExport::new::<EditComment>("editComment", &bot)
                .with_permission(Permission::Network)
                .idempotent(),
            ToolExport::new::<DeleteComment>("deleteComment", &bot)
                .with_permission(Permission::Network),
            ToolExport::new::<ReviewComment>("reviewComment", &bot)
                .with_permission(Permission::Network),
            ToolExport::new::<GithubReview>("review", &bot).with_permission(Permission::Network),
            ToolExport::new::<GithubReact>("react", &bot)
                .with_permission(Permission::Network)
                .idempotent(),
            ToolExport::new::<GithubLabel>("label", &bot)
                .with_permission(Permission::Network)
                .idempotent(),
            ToolExport::new::<SetState>("setState", &bot)
                .with_permission(Permission::Network)
                .idempotent(),
            ToolExport::new::<GithubCommitStatus>("status", &bot)
                .with_permission(Permission::Network),
        ])
    },
    ..BuiltinTool::DEFAULT_ROW
};

/// Returns a URL below a repository, which is written as `owner/name`.
fn repository_url(
    bot: &PlatformClient,
    repository: &str,
    parts: &[&str],
) -> Result<Url, HandlerError> {
    let is_name = |name: &str| {
        !name.is_empty()
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
    };
    match repository
        .split_once('/')
        .filter(|(owner, name)| is_name(owner) && is_name(name))
    {
        Some((owner, name)) => bot.address(&[&["repos", owner, name], parts].concat()),
        None => Err(errors::invalid_argument(format!(
            "`repository` must be written as `owner/name`, not `{repository}`"
        ))),
    }
}

/// Appends the marker of texts that an agent wrote.
fn with_agent_marker(text: &str) -> String {
    format!(
        "{}\n\n{AGENT_TEXT_MARKER}",
        text.replace(AGENT_TEXT_MARKER, "").trim_end()
    )
}

/// Returns a text without the marker of agent texts; `None` if the value is not a string.
fn without_agent_marker(text: &Value) -> Option<String> {
    text.as_str()
        .map(|text| text.replace(AGENT_TEXT_MARKER, "").trim_end().to_owned())
}

/// Which comments.
#[derive(Clone, Copy, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
enum GithubCommentKind {
    /// Below an issue or a pull request.
    #[default]
    Comment,
    /// At a line of a pull request.
    ReviewComment,
}

impl GithubCommentKind {
    /// Returns the part of the API path that these comments belong to.
    fn path_segment(self) -> &'static str {
        match self {
            GithubCommentKind::Comment => "issues",
            GithubCommentKind::ReviewComment => "pulls",
        }
    }

    /// Returns the API URL of the comment `id`, with the path segments `more` after it.
    fn address(
        self,
        bot: &PlatformClient,
        repository: &str,
        id: u64,
        more: &[&str],
    ) -> Result<Url, HandlerError> {
        repository_url(
            bot,
            repository,
            &[&[self.path_segment(), "comments", &id.to_string()], more].concat(),
        )
    }
}

/// Comment on an issue or a pull request.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct GithubComment {
    /// `owner/name`.
    #[schemars(length(min = 3))]
    repository: String,
    /// Issue or pull request number.
    #[schemars(range(min = 1))]
    number: u64,
    /// Text, in Markdown.
    #[schemars(length(min = 1, max = 65_000))]
    text: String,
    #[serde(default)]
    timeout_ms: TimeLimit,
}

impl ToolOperation for GithubComment {
    type Shared = PlatformClient;

    async fn run(
        self,
        _ctx: &ToolContext,
        bot: &PlatformClient,
    ) -> Result<ToolOutput, HandlerError> {
        let url = repository_url(
            bot,
            &self.repository,
            &["issues", &self.number.to_string(), "comments"],
        )?;
        let body = ApiRequestBody::Json(json!({"body": with_agent_marker(&self.text)}));
        let comment = bot
            .call("the comment", (Method::POST, url), body, self.timeout_ms)
            .await?;
        let output = json!({
            "ok": true, "repository": self.repository, "number": self.number, "commentId": comment["id"], "url": comment["html_url"],
        });
        Ok(titled_output(
            format!("Commented on {}#{}", self.repository, self.number),
            output,
        ))
    }
}

/// Replace the text of a comment.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct EditComment {
    /// `owner/name`.
    #[schemars(length(min = 3))]
    repository: String,
    /// Comment id.
    #[schemars(range(min = 1))]
    comment_id: u64,
    /// New text, in Markdown.
    #[schemars(length(min = 1, max = 65_000))]
    text: String,
    /// `reviewComment` for a line comment of a pull request.
    #[serde(default)]
    kind: GithubCommentKind,
    #[serde(default)]
    timeout_ms: TimeLimit,
}

impl ToolOperation for EditComment {
    type Shared = PlatformClient;

    async fn run(
        self,
        _ctx: &ToolContext,
        bot: &PlatformClient,
    ) -> Result<ToolOutput, HandlerError> {
        let url = self
            .kind
            .address(bot, &self.repository, self.comment_id, &[])?;
        let body = ApiRequestBody::Json(json!({"body": with_agent_marker(&self.text)}));
        bot.call("the change", (Method::PATCH, url), body, self.timeout_ms)
            .await?;
        let output = json!({"ok": true, "repository": self.repository, "commentId": self.comment_id, "edited": true});
        Ok(titled_output(
            format!("Edited a comment in {}", self.repository),
            output,
        ))
    }
}

/// Delete a comment.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct DeleteComment {
    /// `owner/name`.
    #[schemars(length(min = 3))]
    repository: String,
    /// Comment id.
    #[schemars(range(min = 1))]
    comment_id: u64,
    /// `reviewComment` for a line comment of a pull request.
    #[serde(default)]
    kind: GithubCommentKind,
    #[serde(default)]
    timeout_ms: TimeLimit,
}

impl ToolOperation for DeleteComment {
    type Shared = PlatformClient;

    async fn run(
        self,
        _ctx: &ToolContext,
        bot: &PlatformClient,
    ) -> Result<ToolOutput, HandlerError> {
        let url = self
            .kind
            .address(bot, &self.repository, self.comment_id, &[])?;
        bot.call(
            "to delete",
            (Method::DELETE, url),
            ApiRequestBody::Empty,
            self.timeout_ms,
        )
        .await?;
        let output = json!({"ok": true, "repository": self.repository, "commentId": self.comment_id, "deleted": true});
        Ok(titled_output(
            format!("Deleted a comment in {}", self.repository),
            output,
        ))
    }
}

/// What GitHub knows as reactions.
#[derive(Clone, Copy, Deserialize, Serialize, JsonSchema)]
#[schemars(inline)]
enum GithubReaction {
    #[serde(rename = "+1")]
    Plus,
    #[serde(rename = "-1")]
    Minus,
    #[serde(rename = "laugh")]
    Laugh,
    #[serde(rename = "confused")]
    Confused,
    #[serde(rename = "heart")]
    Heart,
    #[serde(rename = "hooray")]
    Hooray,
    #[serde(rename = "rocket")]
    Rocket,
    #[serde(rename = "eyes")]
    Eyes,
}

/// React to an issue, a pull request or a comment.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct GithubReact {
    /// `owner/name`.
    #[schemars(length(min = 3))]
    repository: String,
    /// Number of the issue or pull request; not with `commentId`.
    #[schemars(range(min = 1))]
    number: Option<u64>,
    /// Id of the comment; not with `number`.
    #[schemars(range(min = 1))]
    comment_id: Option<u64>,
    /// `reviewComment` for a line comment of a pull request.
    #[serde(default)]
    kind: GithubCommentKind,
    /// Reaction.
    reaction: GithubReaction,
    #[serde(default)]
    timeout_ms: TimeLimit,
}

impl ToolOperation for GithubReact {
    type Shared = PlatformClient;

    async fn run(
        self,
        _ctx: &ToolContext,
        bot: &PlatformClient,
    ) -> Result<ToolOutput, HandlerError> {
        let url = match (self.number, self.comment_id) {
            (Some(number), None) => repository_url(
                bot,
                &self.repository,
                &["issues", &number.to_string(), "reactions"],
            )?,
            (None, Some(id)) => self
                .kind
                .address(bot, &self.repository, id, &["reactions"])?,
            _ => {
                return Err(errors::invalid_argument(
                    "pass either `number` or `commentId`, not both",
                ));
            }
        };
        let body = ApiRequestBody::Json(json!({"content": self.reaction}));
        let reaction = bot
            .call("the reaction", (Method::POST, url), body, self.timeout_ms)
            .await?;
        let output = json!({
            "ok": true, "repository": self.repository, "reaction": self.reaction, "reactionId": reaction["id"],
        });
        Ok(titled_output(
            format!("Reacted in {}", self.repository),
            output,
        ))
    }
}
