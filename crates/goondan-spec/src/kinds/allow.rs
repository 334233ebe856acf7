//! Who may send events through a Connection.

use std::collections::BTreeSet;

use schemars::JsonSchema;

use super::connector::ConnectorManifest;
use crate::decode::{Field, Fields};
use crate::findings::Findings;

/// What stands for every sender.
const EVERYBODY: &str = "*";

/// Who may send events: where both are given, both must fit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Allow {
    /// Ids of senders, as the platform writes them; `None` where only the channel counts.
    pub senders: Option<BTreeSet<String>>,
    /// Ids of channels; `None` for all.
    pub channels: Option<BTreeSet<String>>,
    /// Ids of those who may answer questions of policies in the channel. Whether they may send is another matter.
    pub approvers: BTreeSet<String>,
}

impl Allow {
    /// Whether everybody may send.
    pub fn lets_everybody_in(&self) -> bool {
        self.senders
            .as_ref()
            .is_none_or(|senders| senders.contains(EVERYBODY))
    }

    /// Whether it says who may send at all.
    pub fn is_about_senders(&self) -> bool {
        self.senders.is_some() || self.channels.is_some()
    }
}

/// Reads `allow`.
pub(crate) fn read(
    field: &Field<'_>,
    manifest: Option<&ConnectorManifest>,
    findings: &mut Findings,
) -> Option<Allow> {
    if let Some(manifest) = manifest.filter(|manifest| !manifest.knows_senders) {
        let message = format!(
            "The events of the connector `{}` do not say who has sent them.",
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
    let allow = Allow {
        senders: senders?,
        channels: channels?,
        approvers: approvers?,
    };
    if allow == Allow::default() {
        let message = format!("`{}` names nobody.", field.path);
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

fn read_ids(fields: &mut Fields<'_>, name: &'static str, findings: &mut Findings) -> Option<Ids> {
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

/// Who answers for calls that a policy asks about is named one by one: `"*"` would let whoever asks approve himself.
fn read_approvers(
    fields: &mut Fields<'_>,
    manifest: Option<&ConnectorManifest>,
    findings: &mut Findings,
) -> Option<BTreeSet<String>> {
    let Some(field) = fields.optional("approvers") else {
        return Some(BTreeSet::new());
    };
    if let Some(manifest) = manifest.filter(|manifest| !manifest.asks) {
        let message = format!(
            "The connector `{}` can't ask anybody for an approval.",
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
    if ids.contains(EVERYBODY) {
        let message = format!(
            "`{}` must name people: with `*`, whoever asks could approve himself.",
            field.path
        );
        findings.add(
            field
                .invalid(message)
                .suggest("write the ids of those who may approve"),
        );
        return None;
    }
    Some(ids)
}

#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ConnectionAllow")]
#[expect(dead_code, reason = "read by the schema generator alone")]
pub(crate) struct AllowShape {
    /// The ids of senders, as the platform writes them, in quotes. `"*"` is everybody.
    senders: Option<Vec<String>>,
    /// The ids of channels or chats. Where `senders` is given as well, both must fit.
    channels: Option<Vec<String>>,
    /// The ids of those who may answer in the channel when a policy asks whether a call may run. Who is named here may not send
    /// for that alone. Without it, nobody is asked in the channel.
    approvers: Option<Vec<String>>,
}
