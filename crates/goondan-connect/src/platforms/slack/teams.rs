//! Workspaces whose events a connection accepts. One signing secret serves all workspaces of a
//! distributed app, and user ids of other workspaces are not those of the bot's workspace.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::OnceCell;
use tokio::time::Instant;

use super::SlackConnector;
use crate::platforms::IgnoredUpdate;

/// Time after a failed request for the bot's workspace in which gdn does not repeat the request.
const RETRY_PAUSE: Duration = Duration::from_secs(5);

/// Accepted workspaces.
pub(super) struct SlackTeams {
    /// Workspaces of `config.teams`.
    configured: BTreeSet<String>,
    /// Workspace of the bot; `None` if Slack does not report it.
    own: OnceCell<Option<String>>,
    /// Workspace of the first event, if Slack does not report the bot's workspace.
    first: OnceCell<String>,
    /// Earliest time of the next request for the bot's workspace, after a failed request.
    retry_at: tokio::sync::Mutex<Option<Instant>>,
}

/// Workspaces of an update, as prefixes of ids. They are empty for the bot's workspace.
#[derive(Debug, Default, PartialEq)]
pub(super) struct TeamPrefixes {
    pub(super) conversation: String,
    pub(super) sender: String,
}

impl SlackTeams {
    /// Reads `config.teams`: ids of workspaces, separated by commas or spaces.
    pub(super) fn new(setting: Option<&str>) -> SlackTeams {
        let ids = setting.unwrap_or_default().split([',', ' ']);
        SlackTeams {
            configured: ids.filter(|id| !id.is_empty()).map(str::to_owned).collect(),
            own: OnceCell::new(),
            first: OnceCell::new(),
            retry_at: tokio::sync::Mutex::default(),
        }
    }

    /// Requests the bot's workspace from Slack, once.
    pub(super) async fn prepare(&self, slack: &SlackConnector) -> Result<(), String> {
        if self.own.initialized() {
            return Ok(());
        }
        let mut retry_at = self.retry_at.lock().await;
        if retry_at.is_some_and(|at| Instant::now() < at) {
            return Err("the workspace of the bot is not known yet".to_owned());
        }
        let request = || async {
            // A connection that sends no answers needs no bot token.
            if slack.token.is_empty() {
                return Ok(None);
            }
            let about = slack.call("auth.test", &json!({})).await;
            about
                .map(|about| about["team_id"].as_str().map(str::to_owned))
                .map_err(|failure| format!("the workspace of the bot is not known: {failure}"))
        };
        let known = self.own.get_or_try_init(request).await;
        *retry_at = known.is_err().then(|| Instant::now() + RETRY_PAUSE);
        known.map(drop)
    }

    /// Returns the id prefixes of a verified update. Ignores an update that names a workspace which is
    /// neither that of the bot nor in `config.teams`.
    pub(super) fn accepted_prefixes(&self, payload: &Value) -> Result<TeamPrefixes, IgnoredUpdate> {
        let team = |pointer: &str| {
            let team = payload.pointer(pointer).and_then(Value::as_str);
            team.filter(|team| !team.is_empty())
        };
        let conversation = team("/team_id").or(team("/team/id"));
        let senders = [
            "/event/user_team",
            "/event/source_team",
            "/event/team",
            "/user/team_id",
        ];
        let senders: Vec<&str> = senders.into_iter().filter_map(team).collect();
        let Some(own) = self.own_team(conversation) else {
            return Ok(TeamPrefixes::default());
        };
        let others: Vec<&str> = conversation
            .into_iter()
            .chain(senders.iter().copied())
            .filter(|team| *team != own)
            .collect();
        if let Some(other) = others.iter().find(|team| !self.configured.contains(**team)) {
            let kind =
                format!("an update of the workspace {other}, which `config.teams` does not name");
            return Err(IgnoredUpdate::new(kind));
        }
        let prefix = |team: Option<&str>| {
            let other = team.filter(|team| *team != own);
            other.map(|team| format!("{team}:")).unwrap_or_default()
        };
        // The prefix keeps a user of another workspace from having the id of an own user.
        let sender = senders.into_iter().find(|team| *team != own);
        Ok(TeamPrefixes {
            conversation: prefix(conversation),
            sender: prefix(sender.or(conversation)),
        })
    }

    /// Returns the bot's workspace. If Slack does not name it, returns that of the first update.
    fn own_team(&self, team: Option<&str>) -> Option<String> {
        if let Some(own) = self.own.get().and_then(Option::as_ref) {
            return Some(own.clone());
        }
        if let Some(team) = team.filter(|team| !self.configured.contains(*team)) {
            let _ = self.first.set(team.to_owned());
        }
        self.first
            .get()
            .cloned()
            .or_else(|| self.configured.first().cloned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn teams(setting: Option<&str>, own: Option<&str>) -> SlackTeams {
        SlackTeams {
            own: OnceCell::new_with(Some(own.map(str::to_owned))),
            ..SlackTeams::new(setting)
        }
    }

    fn prefixes(conversation: &str, sender: &str) -> TeamPrefixes {
        TeamPrefixes {
            conversation: conversation.to_owned(),
            sender: sender.to_owned(),
        }
    }

    #[test]
    fn updates_of_other_workspaces_are_ignored() {
        let teams = teams(None, Some("T1"));
        let own = json!({"team_id": "T1", "event": {"team": "T1", "user_team": "T1"}});
        assert_eq!(
            teams.accepted_prefixes(&own).unwrap(),
            TeamPrefixes::default()
        );
        for other in [
            json!({"team_id": "T2"}),
            json!({"team": {"id": "T2"}, "user": {"team_id": "T2"}}),
            json!({"team": {"id": "T1"}, "user": {"team_id": "T2"}}),
            json!({"team_id": "T1", "event": {"user_team": "T2"}}),
            json!({"team_id": "T1", "event": {"source_team": "T2"}}),
            json!({"team_id": "T1", "event": {"team": "T2"}}),
        ] {
            assert!(teams.accepted_prefixes(&other).is_err(), "{other}");
        }
    }

    #[test]
    fn users_of_another_allowed_workspace_have_prefixed_ids() {
        let teams = teams(Some("T2, T3"), Some("T1"));
        let check = |payload: Value| teams.accepted_prefixes(&payload).unwrap();
        assert_eq!(check(json!({"team_id": "T1"})), TeamPrefixes::default());
        assert_eq!(check(json!({"team_id": "T2"})), prefixes("T2:", "T2:"));
        let guest = json!({"team_id": "T1", "event": {"team": "T1", "user_team": "T3"}});
        assert_eq!(check(guest), prefixes("", "T3:"));
        assert!(teams.accepted_prefixes(&json!({"team_id": "T4"})).is_err());
    }

    #[test]
    fn the_first_update_sets_the_workspace_if_slack_does_not() {
        let teams = teams(None, None);
        assert!(
            teams.accepted_prefixes(&json!({})).is_ok()
                && teams.accepted_prefixes(&json!({"team_id": "T1"})).is_ok()
        );
        assert!(teams.accepted_prefixes(&json!({"team_id": "T2"})).is_err());
        assert!(teams.accepted_prefixes(&json!({"team_id": "T1"})).is_ok());
    }
}
