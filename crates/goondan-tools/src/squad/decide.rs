//! `squad__decide`: proposes a decision to the team.

use chrono::Utc;
use goondan_core::ports::tool::{HandlerError, ToolContext, ToolOutput, WrittenFile};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::merge::DECISION_INBOX_DIR;
use super::squad_directory::{SquadDirectory, plain_name, run_blocking};
use super::{SquadTools, result};
use crate::tool_operation::ToolOperation;

/// Maximum length of the part of a file name that comes from the title.
const MAX_SLUG_CHARS: usize = 60;
/// Maximum number of decisions with the same name.
const MAX_SAME_NAME_DECISIONS: usize = 1_000;

/// What a decision is about.
#[derive(Clone, Copy, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum DecisionCategory {
    Architecture,
    Process,
    Security,
    Feature,
    Team,
    #[default]
    General,
}

/// Propose a decision to the team. It is stored in the inbox until it is merged into decisions.md.
/// Use it for architecture choices, process changes and everything else that affects the whole
/// team.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ProposeDecision {
    /// Short title.
    #[schemars(length(min = 1, max = 200))]
    title: String,
    /// Decision with its reasons, in Markdown.
    #[schemars(length(min = 1))]
    body: String,
    /// Proposing agent.
    #[schemars(length(min = 1))]
    agent_name: String,
    /// Category.
    #[serde(default)]
    category: DecisionCategory,
}

impl ToolOperation for ProposeDecision {
    type Shared = SquadTools;

    async fn written_files(self, ctx: &ToolContext, squad: &SquadTools) -> Vec<WrittenFile> {
        let folder = squad.squad_directory(ctx);
        let path = format!("{DECISION_INBOX_DIR}/{}.md", self.name());
        vec![folder.written_file(Some("title"), &path)]
    }

    async fn run(self, ctx: &ToolContext, squad: &SquadTools) -> Result<ToolOutput, HandlerError> {
        let folder = squad.squad_directory(ctx);
        run_blocking(move || self.write(&folder)).await.map(result)
    }
}

impl ProposeDecision {
    /// Returns the file name of the decision without its extension.
    fn name(&self) -> String {
        format!("{}-{}", self.agent_name, slug(&self.title))
    }

    /// Writes the decision to a new file of the inbox.
    fn write(&self, folder: &SquadDirectory) -> Result<String, String> {
        let agent = plain_name("an agent", &self.agent_name)?;
        let category = serde_json::json!(self.category);
        // A title must be one line, because further lines would have another meaning.
        let title = self.title.split_whitespace().collect::<Vec<_>>().join(" ");
        let content = format!(
            "### {}: {title}\n\n**By:** {agent}\n**Category:** {}\n\n{}\n",
            Utc::now().format("%Y-%m-%d"),
            category.as_str().unwrap_or_default(),
            self.body
        );
        let name = self.name();
        for number in 1..=MAX_SAME_NAME_DECISIONS {
            let file = if number == 1 {
                format!("{name}.md")
            } else {
                format!("{name}-{number}.md")
            };
            if folder.create(&format!("{DECISION_INBOX_DIR}/{file}"), &content)? {
                return Ok(format!(
                    "Decision \"{title}\" was written to the inbox as {file}."
                ));
            }
        }
        Err(format!(
            "The inbox already has {MAX_SAME_NAME_DECISIONS} decisions named {name}."
        ))
    }
}

/// Converts a title to a part of a file name.
fn slug(title: &str) -> String {
    let mut slug = String::new();
    for c in title.to_lowercase().chars() {
        if c.is_ascii_alphanumeric() {
            slug.push(c);
        } else if !slug.ends_with('-') {
            slug.push('-');
        }
    }
    let slug: String = slug
        .trim_matches('-')
        .chars()
        .take(MAX_SLUG_CHARS)
        .collect();
    let slug = slug.trim_end_matches('-');
    if slug.is_empty() {
        "decision".to_owned()
    } else {
        slug.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn decision_titles_become_slugs() {
        assert_eq!(slug("Use Rust!"), "use-rust");
        assert_eq!(slug("  A -- b/../c  "), "a-b-c");
        assert_eq!(slug("决定"), "decision");
    }

    proptest! {
        #[test]
        fn a_slug_is_always_a_valid_file_name(title in "\\PC{0,100}") {
            let slug = slug(&title);
            prop_assert!(plain_name("a decision", &slug).is_ok(), "{}", slug);
        }
    }
}
