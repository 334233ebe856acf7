//! `github`: issues and pull requests.

mod issues;
mod pulls;

use std::sync::Arc;

use goondan_core::ports::tool::{ToolContext, ToolError, ToolOutput};
use goondan_spec::kinds::Permission;
use reqwest::Method;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use url::Url;

use self::issues::{Label, Read, SetState};
use self::pulls::{Review, ReviewComment, Status};
use super::{Body, Bot, CONFIG, Platform, TimeLimit};
use crate::define::{Export, Operation, titled};
use crate::errors;
use crate::table::Builtin;

pub(super) const PLATFORM: Platform = Platform {
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
pub const MARK: &str = "<!-- answered by gdn -->";

pub(crate) const BUILTIN: Builtin = Builtin {
    name: "github",
    about: "Reads issues and pull requests of GitHub, comments on and reviews them, labels, closes and reopens them, reacts, and sets \
            the status of a commit. Its token is `config.token`, or the first that is set of the variables `GITHUB_TOKEN` and \
            `GH_TOKEN`; no model sees it. Comments end with a hidden mark, by which the connector `github` knows them again.",
    config: CONFIG,
    open: |opening| {
        let bot = Arc::new(Bot::open(opening, &PLATFORM)?);
        Ok(vec![
            Export::new::<Read>("read", &bot)
                .needs(Permission::Network)
                .read_only(),
            Export::new::<Comment>("comment", &bot).needs(Permission::Network),
            Export::new::<EditComment>("editComment", &bot)
                .needs(Permission::Network)
                .idempotent(),
            Export::new::<DeleteComment>("deleteComment", &bot).needs(Permission::Network),
            Export::new::<ReviewComment>("reviewComment", &bot).needs(Permission::Network),
            Export::new::<Review>("review", &bot).needs(Permission::Network),
            Export::new::<React>("react", &bot)
                .needs(Permission::Network)
                .idempotent(),
            Export::new::<Label>("label", &bot)
                .needs(Permission::Network)
                .idempotent(),
            Export::new::<SetState>("setState", &bot)
                .needs(Permission::Network)
                .idempotent(),
            Export::new::<Status>("status", &bot).needs(Permission::Network),
        ])
    },
    ..Builtin::BLANK
};

/// Returns a URL below a repository, which is written as `owner/name`.
fn below(bot: &Bot, repository: &str, parts: &[&str]) -> Result<Url, ToolError> {
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
        None => Err(errors::invalid(format!(
            "`repository` must be written as `owner/name`, not `{repository}`"
        ))),
    }
}

/// Appends the mark to an agent's text.
fn marked(text: &str) -> String {
    format!("{}\n\n{MARK}", text.replace(MARK, "").trim_end())
}

/// Removes the mark from a text for an agent.
fn unmarked(text: &Value) -> Option<String> {
    text.as_str()
        .map(|text| text.replace(MARK, "").trim_end().to_owned())
}

/// Which comments.
#[derive(Clone, Copy, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
enum Kind {
    /// Below an issue or a pull request.
    #[default]
    Comment,
    /// At a line of a pull request.
    ReviewComment,
}

impl Kind {
    fn folder(self) -> &'static str {
        match self {
            Kind::Comment => "issues",
            Kind::ReviewComment => "pulls",
        }
    }

    fn address(
        self,
        bot: &Bot,
        repository: &str,
        id: u64,
        more: &[&str],
    ) -> Result<Url, ToolError> {
        below(
            bot,
            repository,
            &[&[self.folder(), "comments", &id.to_string()], more].concat(),
        )
    }
}

/// Comment on an issue or a pull request.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Comment {
    /// The repository, as `owner/name`.
    #[schemars(length(min = 3))]
    repository: String,
    /// The number of the issue or pull request.
    #[schemars(range(min = 1))]
    number: u64,
    /// The text, in Markdown.
    #[schemars(length(min = 1, max = 65_000))]
    text: String,
    #[serde(default)]
    timeout_ms: TimeLimit,
}

impl Operation for Comment {
    type Shared = Bot;

    async fn run(self, _ctx: &ToolContext, bot: &Bot) -> Result<ToolOutput, ToolError> {
        let url = below(
            bot,
            &self.repository,
            &["issues", &self.number.to_string(), "comments"],
        )?;
        let body = Body::Json(json!({"body": marked(&self.text)}));
        let made = bot
            .call("the comment", (Method::POST, url), body, self.timeout_ms)
            .await?;
        let output = json!({
            "ok": true, "repository": self.repository, "number": self.number, "commentId": made["id"], "url": made["html_url"],
        });
        Ok(titled(
            format!("Commented on {}#{}", self.repository, self.number),
            output,
        ))
    }
}

/// Replace the text of a comment.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct EditComment {
    /// The repository, as `owner/name`.
    #[schemars(length(min = 3))]
    repository: String,
    /// The id of the comment.
    #[schemars(range(min = 1))]
    comment_id: u64,
    /// The new text, in Markdown.
    #[schemars(length(min = 1, max = 65_000))]
    text: String,
    /// `reviewComment` for one at a line of a pull request.
    #[serde(default)]
    kind: Kind,
    #[serde(default)]
    timeout_ms: TimeLimit,
}

impl Operation for EditComment {
    type Shared = Bot;

    async fn run(self, _ctx: &ToolContext, bot: &Bot) -> Result<ToolOutput, ToolError> {
        let url = self
            .kind
            .address(bot, &self.repository, self.comment_id, &[])?;
        let body = Body::Json(json!({"body": marked(&self.text)}));
        bot.call("the change", (Method::PATCH, url), body, self.timeout_ms)
            .await?;
        let output = json!({"ok": true, "repository": self.repository, "commentId": self.comment_id, "edited": true});
        Ok(titled(
            format!("Edited a comment in {}", self.repository),
            output,
        ))
    }
}

/// Delete a comment.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct DeleteComment {
    /// The repository, as `owner/name`.
    #[schemars(length(min = 3))]
    repository: String,
    /// The id of the comment.
    #[schemars(range(min = 1))]
    comment_id: u64,
    /// `reviewComment` for one at a line of a pull request.
    #[serde(default)]
    kind: Kind,
    #[serde(default)]
    timeout_ms: TimeLimit,
}

impl Operation for DeleteComment {
    type Shared = Bot;

    async fn run(self, _ctx: &ToolContext, bot: &Bot) -> Result<ToolOutput, ToolError> {
        let url = self
            .kind
            .address(bot, &self.repository, self.comment_id, &[])?;
        bot.call(
            "to delete",
            (Method::DELETE, url),
            Body::Empty,
            self.timeout_ms,
        )
        .await?;
        let output = json!({"ok": true, "repository": self.repository, "commentId": self.comment_id, "deleted": true});
        Ok(titled(
            format!("Deleted a comment in {}", self.repository),
            output,
        ))
    }
}

/// What GitHub knows as reactions.
#[derive(Clone, Copy, Deserialize, Serialize, JsonSchema)]
#[schemars(inline)]
enum Reaction {
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
struct React {
    /// The repository, as `owner/name`.
    #[schemars(length(min = 3))]
    repository: String,
    /// The number of the issue or pull request; not with `commentId`.
    #[schemars(range(min = 1))]
    number: Option<u64>,
    /// The id of the comment; not with `number`.
    #[schemars(range(min = 1))]
    comment_id: Option<u64>,
    /// `reviewComment` for one at a line of a pull request.
    #[serde(default)]
    kind: Kind,
    /// The reaction.
    reaction: Reaction,
    #[serde(default)]
    timeout_ms: TimeLimit,
}

impl Operation for React {
    type Shared = Bot;

    async fn run(self, _ctx: &ToolContext, bot: &Bot) -> Result<ToolOutput, ToolError> {
        let url = match (self.number, self.comment_id) {
            (Some(number), None) => below(
                bot,
                &self.repository,
                &["issues", &number.to_string(), "reactions"],
            )?,
            (None, Some(id)) => self
                .kind
                .address(bot, &self.repository, id, &["reactions"])?,
            _ => {
                return Err(errors::invalid(
                    "either `number` or `commentId` must be given, and not both",
                ));
            }
        };
        let body = Body::Json(json!({"content": self.reaction}));
        let made = bot
            .call("the reaction", (Method::POST, url), body, self.timeout_ms)
            .await?;
        let output = json!({
            "ok": true, "repository": self.repository, "reaction": self.reaction, "reactionId": made["id"],
        });
        Ok(titled(format!("Reacted in {}", self.repository), output))
    }
}
