//! `squad__skill`: what the team knows how to do.

use goondan_core::ports::tool::{ToolContext, ToolError, ToolOutput};
use schemars::JsonSchema;
use serde::Deserialize;

use super::folder::{Folder, blocking, plain_name};
use super::{Squad, result};
use crate::define::Operation;

/// The file of a skill in its folder.
const FILE: &str = "SKILL.md";

/// What to do with a skill.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Action {
    Read,
    Write,
    List,
}

/// Read, write or list the skills of the team: reusable knowledge in Markdown. List them first, then read the one that
/// helps.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Skill {
    /// What to do.
    action: Action,
    /// The skill to read or write, such as `git-flow`.
    skill_name: Option<String>,
    /// What to write, in Markdown.
    content: Option<String>,
}

impl Operation for Skill {
    type Shared = Squad;

    async fn run(self, ctx: &ToolContext, squad: &Squad) -> Result<ToolOutput, ToolError> {
        let folder = squad.folder(ctx);
        blocking(move || match self.action {
            Action::List => list(&folder),
            Action::Read => read(&folder, self.name()?),
            Action::Write => write(&folder, self.name()?, self.content.as_deref()),
        })
        .await
        .map(result)
    }
}

impl Skill {
    fn name(&self) -> Result<&str, String> {
        let name = self.skill_name.as_deref().filter(|name| !name.trim().is_empty());
        plain_name("a skill", name.ok_or("To read or write a skill, say which: skillName is missing.")?)
    }
}

fn list(folder: &Folder) -> Result<String, String> {
    let skills = folder.folders_with("skills", FILE)?;
    if skills.is_empty() {
        return Ok("There are no skills yet.".to_owned());
    }
    let lines: String = skills.iter().map(|skill| format!("\n- {skill}")).collect();
    Ok(format!("**Available Skills ({}):**{lines}", skills.len()))
}

fn read(folder: &Folder, name: &str) -> Result<String, String> {
    folder.read(&format!("skills/{name}/{FILE}"))?.ok_or_else(|| format!("There is no skill \"{name}\"; list them."))
}

fn write(folder: &Folder, name: &str, content: Option<&str>) -> Result<String, String> {
    let content = content.filter(|content| !content.is_empty());
    let content = content.ok_or("To write a skill, say what it is: content is missing.")?;
    folder.write(&format!("skills/{name}/{FILE}"), content)?;
    Ok(format!("Skill \"{name}\" was written."))
}
