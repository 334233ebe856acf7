//! `squad__skill`: reads and writes the team's skills.

use goondan_core::ports::tool::{ToolContext, ToolError, ToolOutput};
use goondan_spec::kinds::{MAX_SKILL_DESCRIPTION, SKILL_FILES, check_skill_name, described_skill};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::folder::{Folder, blocking, plain_name};
use super::{Squad, result};
use crate::define::Operation;

/// File name of a skill, in the format of `Agent.spec.skills`, so that agents can use skills that a
/// squad has written.
const FILE: &str = SKILL_FILES[0];

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
    /// What the skill does and when to use it, in a sentence or two. With it the file gets the front matter that skills have.
    description: Option<String>,
}

impl Operation for Skill {
    type Shared = Squad;

    async fn run(self, ctx: &ToolContext, squad: &Squad) -> Result<ToolOutput, ToolError> {
        let folder = squad.folder(ctx);
        blocking(move || match self.action {
            Action::List => list(&folder),
            Action::Read => read(&folder, self.name()?),
            Action::Write => write(
                &folder,
                self.name()?,
                self.content.as_deref(),
                self.description.as_deref(),
            ),
        })
        .await
        .map(result)
    }
}

impl Skill {
    fn name(&self) -> Result<&str, String> {
        let name = self
            .skill_name
            .as_deref()
            .filter(|name| !name.trim().is_empty());
        plain_name(
            "a skill",
            name.ok_or("To read or write a skill, say which: skillName is missing.")?,
        )
    }
}

fn list(folder: &Folder) -> Result<String, String> {
    let skills = folder.folders_with("skills", FILE)?;
    if skills.is_empty() {
        return Ok("There are no skills yet.".to_owned());
    }
    let line = |skill: &String| {
        let text = folder
            .read(&format!("skills/{skill}/{FILE}"))
            .ok()
            .flatten();
        match text.and_then(|text| described_skill(skill, &text)) {
            Some((_, description)) => format!("\n- {skill}: {}", in_one_line(&description)),
            None => format!("\n- {skill}"),
        }
    };
    let lines: String = skills.iter().map(line).collect();
    Ok(format!("**Available Skills ({}):**{lines}", skills.len()))
}

fn read(folder: &Folder, name: &str) -> Result<String, String> {
    folder
        .read(&format!("skills/{name}/{FILE}"))?
        .ok_or_else(|| format!("There is no skill \"{name}\"; list them."))
}

fn in_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Adds front matter to contents without it.
fn with_description(name: &str, description: &str, content: &str) -> Result<String, String> {
    check_skill_name(name)
        .map_err(|problem| format!("\"{name}\" can't be the name of a skill: {problem}."))?;
    let description = in_one_line(description);
    let length = description.chars().count();
    if description.is_empty() || length > MAX_SKILL_DESCRIPTION {
        return Err(format!(
            "The description has {length} characters; it may have 1 to {MAX_SKILL_DESCRIPTION}."
        ));
    }
    if content.starts_with("---") {
        return Err(
            "The content has front matter already: leave out `description`, or the front matter."
                .to_owned(),
        );
    }
    // JSON is valid YAML for any text.
    Ok(format!(
        "---\nname: {name}\ndescription: {}\n---\n\n{content}",
        Value::from(description)
    ))
}

fn write(
    folder: &Folder,
    name: &str,
    content: Option<&str>,
    description: Option<&str>,
) -> Result<String, String> {
    let content = content.filter(|content| !content.is_empty());
    let content = content.ok_or("To write a skill, say what it is: content is missing.")?;
    let content = match description {
        Some(description) => with_description(name, description, content)?,
        None => content.to_owned(),
    };
    folder.write(&format!("skills/{name}/{FILE}"), &content)?;
    Ok(format!("Skill \"{name}\" was written."))
}
