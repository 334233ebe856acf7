//! `squad__merge`: adds the proposed decisions to those of the team, like a Scribe.

use goondan_core::ports::tool::{ToolContext, ToolError, ToolOutput};
use schemars::JsonSchema;
use serde::Deserialize;

use super::folder::{Folder, blocking, plain_name};
use super::{Squad, result};
use crate::define::Operation;

/// Directory of proposals.
const INBOX: &str = "decisions/inbox";
const FILE: &str = "decisions.md";
/// Contents of a new file of decisions.
const SKELETON: &str = "# Decisions\n";

/// Merge the proposed decisions of the inbox into decisions.md, the oldest first, and take them out of the inbox. Read them
/// before: what is in decisions.md holds for the whole team.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Merge {
    /// The files of the inbox to merge, such as `fenster-use-rust.md`; all if not given.
    #[schemars(length(min = 1))]
    files: Option<Vec<String>>,
}

impl Operation for Merge {
    type Shared = Squad;

    async fn run(self, ctx: &ToolContext, squad: &Squad) -> Result<ToolOutput, ToolError> {
        let folder = squad.folder(ctx);
        blocking(move || merge(&folder, self.files))
            .await
            .map(result)
    }
}

fn merge(folder: &Folder, wanted: Option<Vec<String>>) -> Result<String, String> {
    let files = match wanted {
        Some(files) => files,
        None => folder.files(INBOX, "md")?,
    };
    let mut proposals = Vec::new();
    for file in files {
        let path = format!("{INBOX}/{}", plain_name("a decision", &file)?);
        let text = folder
            .read(&path)?
            .ok_or_else(|| format!("There is no decision {file} in the inbox."))?;
        proposals.push((text.trim().to_owned(), file));
    }
    if proposals.is_empty() {
        return Ok("The inbox has no decisions.".to_owned());
    }
    // Sort by the first line, which contains the date.
    proposals.sort_by(|one, other| {
        (one.0.lines().next(), &one.1).cmp(&(other.0.lines().next(), &other.1))
    });
    folder.update(FILE, |decisions| {
        with(decisions.unwrap_or_else(|| SKELETON.to_owned()), &proposals)
    })?;
    for (_, file) in &proposals {
        folder.remove(&format!("{INBOX}/{file}"))?;
    }
    let names: Vec<&str> = proposals.iter().map(|(_, file)| file.as_str()).collect();
    Ok(format!(
        "Merged {} decisions into {FILE}: {}",
        names.len(),
        names.join(", ")
    ))
}

/// Appends proposals to the decisions. A proposal that is already present was merged by an
/// interrupted call.
fn with(mut decisions: String, proposals: &[(String, String)]) -> String {
    for (text, _) in proposals {
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
        assert_eq!(with(SKELETON.to_owned(), &proposals), merged);
        assert_eq!(with(merged.to_owned(), &proposals), merged);
        assert_eq!(with(String::new(), &proposals[..1]), "### 1: a\n");
    }
}
