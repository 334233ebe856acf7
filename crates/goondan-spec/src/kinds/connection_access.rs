//! Senders that a Connection accepts.

use std::collections::BTreeSet;

use schemars::JsonSchema;

use super::connector::ConnectorManifest;
use crate::decode::{FieldReader, MapReader};
use crate::diagnostic_sink::DiagnosticSink;

const ANY_SENDER: &str = "*";

/// Senders, channels and approvers of a Connection. An event must match both `senders` and
/// `channels` if both are set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConnectionAccess {
    /// Sender ids in the platform's notation. `None` does not restrict senders.
    pub senders: Option<BTreeSet<String>>,
    /// Channel ids. `None` accepts all channels.
    pub channels: Option<BTreeSet<String>>,
    /// Ids of users who may answer approval requests in the channel. It does not permit them to
    /// send events.
    pub approvers: BTreeSet<String>,
}

impl ConnectionAccess {
    /// Returns `true` if every sender is accepted.
    pub fn accepts_all_senders(&self) -> bool {
        self.senders
            .as_ref()
            .is_none_or(|senders| senders.contains(ANY_SENDER))
    }

    /// Returns `true` if senders or channels are restricted.
    pub fn restricts_senders(&self) -> bool {
        self.senders.is_some() || self.channels.is_some()
    }
}

/// Reads `allow`: the senders, channels and approvers. `None`, with an error, if the connector does
/// not identify senders.
pub(crate) fn read(
    field: &FieldReader<'_>,
    manifest: Option<&ConnectorManifest>,
    findings: &mut DiagnosticSink,
) -> Option<ConnectionAccess> {
    if let Some(manifest) = manifest.filter(|manifest| !manifest.knows_senders) {
        let message = format!(
            "The events of the connector `{}` do not identify their sender.",
            manifest.name
        );
        findings.add(field.invalid(message).suggest("remove `allow`"));
        return None;
    }
    let mut fields = field.fields(findings)?;
    let senders = read_ids(&mut fields, "senders", findings);
    let channels = read_ids(&mut fields, "channels", findings);
    let approvers = read_approvers(&mut fields, manifest, findings);
    fields.finish(findings);
    let allow = ConnectionAccess {
        senders: senders?,
        channels: channels?,
        approvers: approvers?,
    };
    if allow == ConnectionAccess::default() {
        let message = format!("`{}` names no senders, channels or approvers.", field.path);
        findings.add(
            field.invalid(message).suggest(
                "add `senders: [ID]`, `channels: [ID]` or `approvers: [ID]`, or remove it",
            ),
        );
        return None;
    }
    Some(allow)
}

type Ids = Option<BTreeSet<String>>;

/// Reads a list of ids. The outer `None` means an invalid list, the inner one a missing list.
fn read_ids(
    fields: &mut MapReader<'_>,
    name: &'static str,
    findings: &mut DiagnosticSink,
) -> Option<Ids> {
    let Some(field) = fields.optional(name) else {
        return Some(None);
    };
    let ids = field.texts(findings)?;
    Some(Some(
        ids.iter()
            .filter_map(|id| id.text(findings))
            .map(str::to_owned)
            .collect(),
    ))
}

/// Reads `approvers`. `"*"` is refused, because users could approve their own requests.
fn read_approvers(
    fields: &mut MapReader<'_>,
    manifest: Option<&ConnectorManifest>,
    findings: &mut DiagnosticSink,
) -> Option<BTreeSet<String>> {
    let Some(field) = fields.optional("approvers") else {
        return Some(BTreeSet::new());
    };
    if let Some(manifest) = manifest.filter(|manifest| !manifest.asks) {
        let message = format!(
            "The connector `{}` cannot send approval requests.",
            manifest.name
        );
        findings.add(field.invalid(message).suggest("remove `approvers`"));
        return None;
    }
    let ids: BTreeSet<String> = field
        .texts(findings)?
        .iter()
        .filter_map(|id| id.text(findings))
        .map(str::to_owned)
        .collect();
    if ids.contains(ANY_SENDER) {
        let message = format!(
            "`{}` must list user ids: with `*`, users could approve their own requests.",
            field.path
        );
        findings.add(
            field
                .invalid(message)
                .suggest("write the ids of the users who may approve"),
        );
        return None;
    }
    Some(ids)
}

#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ConnectionAllow")]
#[expect(dead_code, reason = "read only by the schema generator")]
pub(crate) struct AllowShape {
    /// The ids of senders, as the platform writes them, in quotes. `"*"` accepts every sender.
    senders: Option<Vec<String>>,
    /// The ids of channels or chats. If `senders` is also given, both must match.
    channels: Option<Vec<String>>,
    /// The ids of users who may answer approval requests in the channel. It does not permit them to
    /// send events. Without it, `gdn` sends no approval requests to the channel.
    approvers: Option<Vec<String>>,
}
