//! `squad__decide`: proposes a decision to the team.

use chrono::Utc;
use goondan_core::ports::tool::{ToolContext, ToolError, ToolOutput};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::folder::{Folder, blocking, plain_name};
use super::{Squad, result};
use crate::define::Operation;

/// Maximum length of the part of a file name that comes from the title.
const SLUG: usize = 60;
/// Maximum number of decisions with the same name.
const MOST_OF_A_NAME: usize = 1_000;

/// What a decision is about.
#[derive(Clone, Copy, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Category {
    Architecture,
    Process,
    Security,
    Feature,
    Team,
    #[default]
    General,
}

/// Propose a decision to the team. It is written into the inbox, and goes from there into decisions.md. Use it for choices
/// of architecture, changes of process and everything else that concerns the whole team.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Decide {
    /// A short title.
    #[schemars(length(min = 1, max = 200))]
    title: String,
    /// The decision with its reasons, in Markdown.
    #[schemars(length(min = 1))]
    body: String,
    /// Who proposes it.
    #[schemars(length(min = 1))]
    agent_name: String,
    /// What it is about.
    #[serde(default)]
    category: Category,
}

impl Operation for Decide {
    type Shared = Squad;

    async fn run(self, ctx: &ToolContext, squad: &Squad) -> Result<ToolOutput, ToolError> {
        let folder = squad.folder(ctx);
        blocking(move || self.write(&folder)).await.map(result)
    }
}

impl Decide {
    fn write(&self, folder: &Folder) -> Result<String, String> {
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
        let name = format!("{agent}-{}", slug(&title));
        for number in 1..=MOST_OF_A_NAME {
            let file = if number == 1 {
                format!("{name}.md")
            } else {
                format!("{name}-{number}.md")
            };
            if folder.create(&format!("decisions/inbox/{file}"), &content)? {
                return Ok(format!(
                    "Decision \"{title}\" was written to the inbox as {file}."
                ));
            }
        }
        Err(format!(
            "There are {MOST_OF_A_NAME} decisions named {name} in the inbox already."
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
    let slug: String = slug.trim_matches('-').chars().take(SLUG).collect();
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
    fn titles_become_file_names() {
        assert_eq!(slug("Use Rust!"), "use-rust");
        assert_eq!(slug("  A -- b/../c  "), "a-b-c");
        assert_eq!(slug("决定"), "decision");
    }

    proptest! {
        #[test]
        fn a_slug_is_always_a_plain_name(title in "\\PC{0,100}") {
            let slug = slug(&title);
            prop_assert!(plain_name("a decision", &slug).is_ok(), "{}", slug);
        }
    }
}
