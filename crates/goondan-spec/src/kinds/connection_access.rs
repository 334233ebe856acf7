//! Senders that a Connection accepts.

use std::collections::BTreeSet;

use schemars::JsonSchema;

use super::connector_manifest::ConnectorManifest;
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
    /// Returns true if every sender is accepted.
    pub fn accepts_all_senders(&self) -> bool {
        self.senders
            .as_ref()
            .is_none_or(|senders| senders.contains(ANY_SENDER))
    }

    /// Returns true if senders or channels are restricted.
    pub fn restricts_senders(&self) -> bool {
        self.senders.is_some() || self.channels.is_some()
    }
}

/// Reads `allow` and `approvers` of a Connection. The outer `None`, with an error, means an invalid
/// field, the inner one that both fields are missing.
pub(crate) fn read(
    allow: Option<&FieldReader<'_>>,
    approvers: Option<&FieldReader<'_>>,
    manifest: Option<&ConnectorManifest>,
    findings: &mut DiagnosticSink,
) -> Option<Option<ConnectionAccess>> {
    let access = allow.map(|field| read_allow(field, manifest, findings));
    let Some(field) = approvers else {
        return access.map_or(Some(None), |access| access.map(Some));
    };
    let approvers = read_approvers(field, manifest, findings);
    let mut access = access.unwrap_or_else(|| Some(ConnectionAccess::default()))?;
    if !access.approvers.is_empty() {
        let message = "`spec.allow.approvers` and `spec.approvers` are the same field.";
        findings.add(
            field
                .invalid_value(message)
                .suggest("keep only `approvers`"),
        );
        return None;
    }
    access.approvers = approvers?;
    Some(Some(access))
}

/// Reads `allow`: the senders, channels and approvers. `None`, with an error, if the connector does
/// not identify senders.
fn read_allow(
    field: &FieldReader<'_>,
    manifest: Option<&ConnectorManifest>,
    findings: &mut DiagnosticSink,
) -> Option<ConnectionAccess> {
    if let Some(manifest) = manifest.filter(|manifest| !manifest.knows_senders) {
        let message = format!(
            "The events of the connector `{}` do not identify their sender.",
            manifest.name
        );
        findings.add(field.invalid_value(message).suggest("remove `allow`"));
        return None;
    }
    let mut fields = field.fields(findings)?;
    let senders = read_ids(&mut fields, "senders", findings);
    let channels = read_ids(&mut fields, "channels", findings);
    let approvers = match fields.optional("approvers") {
        Some(field) => read_approvers(&field, manifest, findings),
        None => Some(BTreeSet::new()),
    };
    fields.finish(findings);
    let allow = ConnectionAccess {
        senders: senders?,
        channels: channels?,
        approvers: approvers?,
    };
    if allow == ConnectionAccess::default() {
        let message = format!("`{}` names no senders, channels or approvers.", field.path);
        findings.add(
            field.invalid_value(message).suggest(
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
    let ids = field.unique_strings(findings)?;
    Some(Some(
        ids.iter()
            .filter_map(|id| id.text(findings))
            .map(str::to_owned)
            .collect(),
    ))
}

/// Reads `approvers`. `"*"` is refused, because users could approve their own requests.
fn read_approvers(
    field: &FieldReader<'_>,
    manifest: Option<&ConnectorManifest>,
    findings: &mut DiagnosticSink,
) -> Option<BTreeSet<String>> {
    if let Some(manifest) = manifest.filter(|manifest| !manifest.asks) {
        let message = format!(
            "The connector `{}` cannot send approval requests.",
            manifest.name
        );
        findings.add(field.invalid_value(message).suggest("remove `approvers`"));
        return None;
    }
    let ids: BTreeSet<String> = field
        .unique_strings(findings)?
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
                .invalid_value(message)
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
    /// The older place of `spec.approvers`.
    #[schemars(extend("deprecated" = true))]
    approvers: Option<Vec<String>>,
}
