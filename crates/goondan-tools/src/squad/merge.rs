//! `squad__merge`: adds the proposed decisions to those of the team, like a Scribe.

use goondan_core::ports::tool::{HandlerError, ToolContext, ToolOutput, WrittenFile};
use schemars::JsonSchema;
use serde::Deserialize;

use super::squad_directory::{SquadDirectory, plain_name, run_blocking};
use super::{SquadTools, result};
use crate::tool_operation::ToolOperation;

/// Directory of proposals.
pub(super) const DECISION_INBOX_DIR: &str = "decisions/inbox";
const DECISIONS_FILE: &str = "decisions.md";
/// Contents of a new file of decisions.
const EMPTY_DECISIONS: &str = "# Decisions\n";

/// Move the proposed decisions from the inbox into decisions.md, oldest first. Read them first:
/// decisions.md applies to the whole team.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct MergeDecisions {
    /// Inbox files to merge, such as `fenster-use-rust.md`; all if not given.
    #[schemars(length(min = 1))]
    files: Option<Vec<String>>,
}

impl ToolOperation for MergeDecisions {
    type Shared = SquadTools;

    async fn written_files(self, ctx: &ToolContext, squad: &SquadTools) -> Vec<WrittenFile> {
        vec![
            squad
                .squad_directory(ctx)
                .written_file(None, DECISIONS_FILE),
        ]
    }

    async fn run(self, ctx: &ToolContext, squad: &SquadTools) -> Result<ToolOutput, HandlerError> {
        let folder = squad.squad_directory(ctx);
        run_blocking(move || merge(&folder, self.files))
            .await
            .map(result)
    }
}

/// Moves the proposed decisions in the files `wanted`, or all, from the inbox to the list of
/// decisions.
fn merge(folder: &SquadDirectory, wanted: Option<Vec<String>>) -> Result<String, String> {
    let files = match wanted {
        Some(files) => files,
        None => folder.files(DECISION_INBOX_DIR, "md")?,
    };
    let mut proposals = Vec::new();
    for file in files {
        let path = format!("{DECISION_INBOX_DIR}/{}", plain_name("a decision", &file)?);
        let text = folder
            .read(&path)?
            .ok_or_else(|| format!("There is no decision {file} in the inbox."))?;
        proposals.push((text.trim().to_owned(), file));
    }
    if proposals.is_empty() {
        return Ok("The inbox has no decisions.".to_owned());
    }
    // Sort by the first line, which contains the date.
    proposals.sort_by(|left, right| {
        (left.0.lines().next(), &left.1).cmp(&(right.0.lines().next(), &right.1))
    });
    folder.update(DECISIONS_FILE, |decisions| {
        append_proposals(
            decisions.unwrap_or_else(|| EMPTY_DECISIONS.to_owned()),
            &proposals,
        )
    })?;
    for (_, file) in &proposals {
        folder.remove(&format!("{DECISION_INBOX_DIR}/{file}"))?;
    }
    let names: Vec<&str> = proposals.iter().map(|(_, file)| file.as_str()).collect();
    Ok(format!(
        "Merged {} decisions into {DECISIONS_FILE}: {}",
        names.len(),
        names.join(", ")
    ))
}

/// Appends proposals, each a text with its file name, to the decisions. Skips a text that is
/// already present: an interrupted call has merged it.
fn append_proposals(mut decisions: String, proposals: &[(String, String)]) -> String {
    for (text, _file) in proposals {
        if !decisions.contains(text.as_str()) {
            decisions.truncate(decisions.trim_end().len());
            let gap = if decisions.is_empty() { "" } else { "\n\n" };
            decisions = format!("{decisions}{gap}{text}\n");
        }
    }
    decisions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decision_is_merged_once() {
        let proposals = [
            ("### 1: a".to_owned(), "a.md".to_owned()),
            ("### 2: b".to_owned(), "b.md".to_owned()),
        ];
        let merged = "# Decisions\n\n### 1: a\n\n### 2: b\n";
        assert_eq!(
            append_proposals(EMPTY_DECISIONS.to_owned(), &proposals),
            merged
        );
        assert_eq!(append_proposals(merged.to_owned(), &proposals), merged);
        assert_eq!(
            append_proposals(String::new(), &proposals[..1]),
            "### 1: a\n"
        );
    }
}
