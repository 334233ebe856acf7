//! Issues and pull requests: their text, labels and state.

use goondan_core::ports::tool::{HandlerError, ToolContext, ToolOutput};
use reqwest::Method;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::super::{ApiRequestBody, PlatformClient, TimeLimit, without_nulls};
use super::{repository_url, without_agent_marker};
use crate::errors;
use crate::tool_operation::{ToolOperation, titled_output};

/// Default number of comments.
const DEFAULT_COMMENT_COUNT: u32 = 30;

/// Read an issue or pull request with its comments, oldest first.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct GithubRead {
    /// `owner/name`.
    #[schemars(length(min = 3))]
    repository: String,
    /// Issue or pull request number.
    #[schemars(range(min = 1))]
    number: u64,
    /// Number of comments; default: 30.
    #[schemars(range(min = 0, max = 100))]
    limit: Option<u32>,
    /// Page of comments, from 1.
    #[schemars(range(min = 1))]
    page: Option<u32>,
    /// Time limit of each request.
    #[serde(default)]
    timeout_ms: TimeLimit,
}

impl ToolOperation for GithubRead {
    type Shared = PlatformClient;

    async fn run(
        self,
        _ctx: &ToolContext,
        bot: &PlatformClient,
    ) -> Result<ToolOutput, HandlerError> {
        let number = self.number.to_string();
        let url = repository_url(bot, &self.repository, &["issues", &number])?;
        let issue = bot
            .call(
                "to read",
                (Method::GET, url),
                ApiRequestBody::Empty,
                self.timeout_ms,
            )
            .await?;
        let limit = self.limit.unwrap_or(DEFAULT_COMMENT_COUNT);
        let mut comments = Vec::new();
        if limit > 0 {
            let mut url = repository_url(bot, &self.repository, &["issues", &number, "comments"])?;
            url.query_pairs_mut()
                .append_pair("per_page", &limit.to_string())
                .append_pair("page", &self.page.unwrap_or(1).to_string());
            let read = bot
                .call(
                    "to read",
                    (Method::GET, url),
                    ApiRequestBody::Empty,
                    self.timeout_ms,
                )
                .await?;
            comments.extend(read.as_array().into_iter().flatten().map(comment_json));
        }
        let labels = issue["labels"].as_array().into_iter().flatten();
        let labels: Vec<&Value> = labels
            .filter_map(|label| label.get("name").or(Some(label)))
            .collect();
        let output = without_nulls(json!({
            "ok": true,
            "repository": self.repository,
            "number": self.number,
            "isPullRequest": issue["pull_request"].is_object(),
            "title": issue["title"],
            "state": issue["state"],
            "stateReason": issue["state_reason"],
            "author": issue.pointer("/user/login"),
            "createdAt": issue["created_at"],
            "labels": labels,
            "text": without_agent_marker(&issue["body"]),
            "url": issue["html_url"],
            "commentCount": issue["comments"],
            "comments": comments,
        }));
        Ok(titled_output(
            format!("Read {}#{}", self.repository, self.number),
            output,
        ))
    }
}

/// Returns the relevant fields of a comment.
fn comment_json(comment: &Value) -> Value {
    json!({
        "commentId": comment["id"],
        "author": comment.pointer("/user/login"),
        "createdAt": comment["created_at"],
        "text": without_agent_marker(&comment["body"]),
    })
}

/// Add labels to an issue or pull request, and remove labels.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct GithubLabel {
    /// `owner/name`.
    #[schemars(length(min = 3))]
    repository: String,
    /// Issue or pull request number.
    #[schemars(range(min = 1))]
    number: u64,
    /// Labels to add.
    #[serde(default)]
    #[schemars(length(max = 50))]
    add: Vec<String>,
    /// Labels to remove. Missing labels are ignored.
    #[serde(default)]
    #[schemars(length(max = 50))]
    remove: Vec<String>,
    /// Time limit of each request.
    #[serde(default)]
    timeout_ms: TimeLimit,
}

impl ToolOperation for GithubLabel {
    type Shared = PlatformClient;

    async fn run(
        self,
        _ctx: &ToolContext,
        bot: &PlatformClient,
    ) -> Result<ToolOutput, HandlerError> {
        if self.add.is_empty() && self.remove.is_empty() {
            return Err(errors::invalid_argument(
                "`add` or `remove` must name at least one label",
            ));
        }
        let number = self.number.to_string();
        let labels_path = ["issues", number.as_str(), "labels"];
        // Build all URLs first, so that an invalid label changes nothing.
        let label_path = |label: &String| {
            repository_url(
                bot,
                &self.repository,
                &[labels_path.as_slice(), &[label]].concat(),
            )
        };
        let removals = self
            .remove
            .iter()
            .map(label_path)
            .collect::<Result<Vec<_>, _>>()?;
        if !self.add.is_empty() {
            let body = ApiRequestBody::Json(json!({"labels": self.add}));
            let url = repository_url(bot, &self.repository, &labels_path)?;
            bot.call("the labels", (Method::POST, url), body, self.timeout_ms)
                .await?;
        }
        for url in removals {
            let (status, answer) = bot
                .send_request(
                    (Method::DELETE, url.into(), true),
                    ApiRequestBody::Empty,
                    self.timeout_ms,
                )
                .await?;
            // The label is not on the issue.
            let is_gone = status.as_u16() == 404 && answer["message"] == "Label does not exist";
            if !status.is_success() && !is_gone {
                return Err(bot.rejection_error(
                    "to remove a label",
                    status,
                    answer["message"].as_str(),
                ));
            }
        }
        let output = json!({
            "ok": true, "repository": self.repository, "number": self.number, "added": self.add, "removed": self.remove,
        });
        Ok(titled_output(
            format!("Labeled {}#{}", self.repository, self.number),
            output,
        ))
    }
}

/// Whether an issue is open, and why it is not.
#[derive(Clone, Copy, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
enum IssueState {
    Open,
    Closed,
}

/// Why an issue was closed.
#[derive(Clone, Copy, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all(deserialize = "camelCase", serialize = "snake_case"))]
#[schemars(inline)]
enum IssueCloseReason {
    Completed,
    NotPlanned,
}

/// Close or reopen an issue or pull request.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct SetState {
    /// `owner/name`.
    #[schemars(length(min = 3))]
    repository: String,
    /// Issue or pull request number.
    #[schemars(range(min = 1))]
    number: u64,
    /// New state.
    state: IssueState,
    /// Reason for closing.
    reason: Option<IssueCloseReason>,
    #[serde(default)]
    timeout_ms: TimeLimit,
}

impl ToolOperation for SetState {
    type Shared = PlatformClient;

    async fn run(
        self,
        _ctx: &ToolContext,
        bot: &PlatformClient,
    ) -> Result<ToolOutput, HandlerError> {
        if self.state == IssueState::Open && self.reason.is_some() {
            return Err(errors::invalid_argument(
                "`reason` is only for closing an issue: omit it",
            ));
        }
        let url = repository_url(bot, &self.repository, &["issues", &self.number.to_string()])?;
        let body = ApiRequestBody::Json(without_nulls(
            json!({"state": self.state, "state_reason": self.reason}),
        ));
        let now = bot
            .call("the change", (Method::PATCH, url), body, self.timeout_ms)
            .await?;
        let output = json!({
            "ok": true, "repository": self.repository, "number": self.number, "state": now["state"],
        });
        Ok(titled_output(
            format!(
                "{}#{} is {}",
                self.repository,
                self.number,
                now["state"].as_str().unwrap_or("set")
            ),
            output,
        ))
    }
}
