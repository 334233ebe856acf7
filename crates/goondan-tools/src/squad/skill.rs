//! `squad__skill`: reads and writes the team's skills.

use goondan_core::ports::tool::{HandlerError, ToolContext, ToolOutput, WrittenFile};
use goondan_spec::kinds::{
    MAX_SKILL_DESCRIPTION_CHARS, SKILL_FILES, check_skill_name, described_skill,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::squad_directory::{SquadDirectory, plain_name, run_blocking};
use super::{SquadTools, result};
use crate::tool_operation::ToolOperation;

/// File name of a skill, in the format of `Agent.spec.skills`, so that agents can use skills that a
/// squad has written.
const SKILL_FILE_NAME: &str = SKILL_FILES[0];

/// What to do with a skill.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum SkillAction {
    Read,
    Write,
    List,
}

/// Read, write or list the skills of the team: reusable knowledge in Markdown. List the skills
/// first, then read a suitable one.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct SquadSkillTool {
    /// Action.
    action: SkillAction,
    /// Skill to read or write, such as `git-flow`.
    skill_name: Option<String>,
    /// Content, in Markdown.
    content: Option<String>,
    /// The purpose of the skill and when to use it, in a sentence or two. If given, it is written
    /// as front matter.
    description: Option<String>,
}

impl ToolOperation for SquadSkillTool {
    type Shared = SquadTools;

    async fn written_files(self, ctx: &ToolContext, squad: &SquadTools) -> Vec<WrittenFile> {
        let name = match self.action {
            SkillAction::Write => self.name().ok(),
            SkillAction::Read | SkillAction::List => None,
        };
        let file_path = |name| {
            squad
                .squad_directory(ctx)
                .written_file(Some("skillName"), &skill_path(name))
        };
        name.map(file_path).into_iter().collect()
    }

    async fn run(self, ctx: &ToolContext, squad: &SquadTools) -> Result<ToolOutput, HandlerError> {
        let folder = squad.squad_directory(ctx);
        run_blocking(move || match self.action {
            SkillAction::List => list_skills(&folder),
            SkillAction::Read => read(&folder, self.name()?),
            SkillAction::Write => write(
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

impl SquadSkillTool {
    fn name(&self) -> Result<&str, String> {
        let name = self
            .skill_name
            .as_deref()
            .filter(|name| !name.trim().is_empty());
        plain_name(
            "a skill",
            name.ok_or("To read or write a skill, pass skillName.")?,
        )
    }
}

/// Lists the skills with their descriptions.
fn list_skills(folder: &SquadDirectory) -> Result<String, String> {
    let skills = folder.folders_with("skills", SKILL_FILE_NAME)?;
    if skills.is_empty() {
        return Ok("There are no skills yet.".to_owned());
    }
    let line = |skill: &String| {
        let text = folder.read(&skill_path(skill)).ok().flatten();
        match text.and_then(|text| described_skill(skill, &text)) {
            Some((_, description)) => format!("\n- {skill}: {}", join_words(&description)),
            None => format!("\n- {skill}"),
        }
    };
    let lines: String = skills.iter().map(line).collect();
    Ok(format!("**Available Skills ({}):**{lines}", skills.len()))
}

/// Returns the path of a skill in the squad directory.
fn skill_path(name: &str) -> String {
    format!("skills/{name}/{SKILL_FILE_NAME}")
}

/// Returns the content of a skill.
fn read(folder: &SquadDirectory, name: &str) -> Result<String, String> {
    folder
        .read(&skill_path(name))?
        .ok_or_else(|| format!("There is no skill \"{name}\"; use `list` to see all skills."))
}

/// Joins the words of `text` with single spaces.
fn join_words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Adds front matter to contents without it.
fn with_description(name: &str, description: &str, content: &str) -> Result<String, String> {
    check_skill_name(name)
        .map_err(|problem| format!("\"{name}\" is not a valid skill name: {problem}."))?;
    let description = join_words(description);
    let length = description.chars().count();
    if description.is_empty() || length > MAX_SKILL_DESCRIPTION_CHARS {
        return Err(format!(
            "The description has {length} characters; the limit is 1 to \
            {MAX_SKILL_DESCRIPTION_CHARS}."
        ));
    }
    if content.starts_with("---") {
        return Err(
            "The content already has front matter: omit `description` or the front matter."
                .to_owned(),
        );
    }
    // JSON is valid YAML for any text.
    Ok(format!(
        "---\nname: {name}\ndescription: {}\n---\n\n{content}",
        Value::from(description)
    ))
}

/// Creates or replaces a skill.
fn write(
    folder: &SquadDirectory,
    name: &str,
    content: Option<&str>,
    description: Option<&str>,
) -> Result<String, String> {
    let content = content.filter(|content| !content.is_empty());
    let content = content.ok_or("To write a skill, pass content.")?;
    let content = match description {
        Some(description) => with_description(name, description, content)?,
        None => content.to_owned(),
    };
    folder.write(&skill_path(name), &content)?;
    Ok(format!("Skill \"{name}\" was written."))
}
