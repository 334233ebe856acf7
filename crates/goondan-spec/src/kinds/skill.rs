//! `Agent.spec.skills`: folders with a `SKILL.md`, in the format of agentskills.io.
//!
//! Loading reads what a model is told beforehand, the name and the description, and checks the rest of the front matter. The
//! instructions themselves and further files are read when a model asks for them (`goondan-engine`: `tooling/skills.rs`).

use std::io;

use super::Scope;
use crate::decode::{Field, Fields};
use crate::diagnostic::{Code, Diagnostic, Position};
use crate::files::FileKind;
use crate::findings::Findings;
use crate::fix::Fix;
use crate::node::{Content, Node};
use crate::paths::Unreadable;
use crate::source::position_of_bytes;
use crate::text::{excerpt, reason};
use crate::yaml;

/// The tool by which a model loads a skill, by its resource and its export.
pub const SKILL_EXPORT: (&str, &str) = ("skills", "load");
/// Its name.
pub(super) const SKILL_TOOL: &str = "skills__load";
/// The file that makes a folder a skill; some write it small.
pub const SKILL_FILES: [&str; 2] = ["SKILL.md", "skill.md"];
/// How many skills an agent may have: each takes room in its prompt.
pub const MAX_SKILLS: usize = 100;
/// Characters of a skill's name.
pub const MAX_SKILL_NAME: usize = 64;
/// Characters of a skill's description.
pub const MAX_SKILL_DESCRIPTION: usize = 1024;
/// Characters of what a skill says of where it works.
pub const MAX_SKILL_COMPATIBILITY: usize = 500;

/// Instructions for a kind of task, with the files that belong to them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skill {
    /// What it is called, which is the name of its folder, too.
    pub name: String,
    /// What it does, and when to use it.
    pub description: String,
    /// What it takes, where it says so.
    pub compatibility: Option<String>,
    /// Its folder, relative to the bundle.
    pub folder: String,
    /// The name of its file in that folder.
    pub file: String,
}

/// The name and the description of a `SKILL.md` in a folder called `folder`; nothing where its front matter is not right.
pub fn described(folder: &str, text: &str) -> Option<(String, String)> {
    let mut findings = Findings::default();
    let front = front_matter(text, &mut findings)?;
    let read = read_front(&front, folder, &mut findings)?;
    findings.is_clean().then_some((read.name, read.description))
}

/// What a `SKILL.md` says below its front matter.
pub fn body(text: &str) -> &str {
    let mut at = 0;
    for (number, line) in text.split_inclusive('\n').enumerate() {
        at += line.len();
        let is_marker = line.trim_start_matches('\u{feff}').trim_end() == "---";
        match number {
            0 if !is_marker => return text.trim(),
            0 => {}
            _ if is_marker => return text[at..].trim(),
            _ => {}
        }
    }
    text.trim()
}

/// What is wrong with the name of a skill, if anything is; what is right is what to do about it.
pub fn check_skill_name(name: &str) -> Result<(), String> {
    let length = name.chars().count();
    let problem = match name {
        _ if length > MAX_SKILL_NAME => {
            format!("it has {length} characters, more than {MAX_SKILL_NAME}")
        }
        _ if name.chars().any(|c| !c.is_alphanumeric() && c != '-') => {
            "only letters, digits and hyphens are allowed".to_owned()
        }
        _ if name.to_lowercase() != name => "its letters have to be small".to_owned(),
        _ if name.starts_with('-') || name.ends_with('-') => {
            "it begins or ends with a hyphen".to_owned()
        }
        _ if name.contains("--") => "it has two hyphens in a row".to_owned(),
        _ => return Ok(()),
    };
    Err(problem)
}

/// What a system prompt says of an agent's skills; nothing where it has none.
pub(super) fn prompt(skills: &[Skill]) -> Option<String> {
    if skills.is_empty() {
        return None;
    }
    let mut prompt = format!(
        "You have skills: instructions for kinds of tasks. Where a task is what a skill is for, load the skill with `{SKILL_TOOL}` \
         before you begin, and do what it says.\n\n<skills>"
    );
    for skill in skills {
        // A line each, whatever a description holds.
        let description = skill
            .description
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        prompt.push_str(&format!(
            "\n- {}: {}",
            skill.name,
            description.replace("</skills", "<\\/skills")
        ));
        if let Some(compatibility) = &skill.compatibility {
            let compatibility = compatibility
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ");
            prompt.push_str(&format!(
                " (Takes: {})",
                compatibility.replace("</skills", "<\\/skills")
            ));
        }
    }
    Some(prompt + "\n</skills>")
}

pub(super) fn read(
    field: &Field<'_>,
    scope: &Scope<'_>,
    findings: &mut Findings,
) -> Option<Vec<Skill>> {
    let mut skills: Vec<Skill> = Vec::new();
    let items = field.texts(findings)?;
    for item in &items {
        for folder in folders(item, scope, findings) {
            let Some(skill) = read_skill(item, &folder, scope, findings) else {
                continue;
            };
            match skills.iter().find(|other| other.name == skill.name) {
                Some(other) if other.folder == skill.folder => {}
                Some(other) => {
                    let message = format!(
                        "The skill `{}` is in `{}` and in `{folder}`.",
                        skill.name, other.folder
                    );
                    findings.add(item.invalid(message).suggest("offer one of the two"));
                }
                None => skills.push(skill),
            }
        }
    }
    if skills.len() > MAX_SKILLS {
        let message = format!(
            "The agent has {} skills, more than {MAX_SKILLS}.",
            skills.len()
        );
        findings.add(
            field
                .invalid(message)
                .suggest("name the folders of those that it needs"),
        );
    }
    Some(skills)
}

/// The folders that an entry names: one, or with `/*` at its end those in it that are skills.
fn folders(item: &Field<'_>, scope: &Scope<'_>, findings: &mut Findings) -> Vec<String> {
    let Some(text) = item.node.text() else {
        return Vec::new();
    };
    let Some(above) = text.strip_suffix("/*") else {
        return scope.folder.path(item, findings).into_iter().collect();
    };
    let node = Node {
        at: item.node.at,
        content: Content::Text(if above.is_empty() { "/" } else { above }.to_owned()),
    };
    let parent = Field {
        node: &node,
        ..item.clone()
    };
    let Some(parent) = scope.folder.path(&parent, findings) else {
        return Vec::new();
    };
    let names = match scope.folder.list(&parent) {
        Ok(names) => names,
        Err(error) => {
            let message = format!(
                "`{}` is `{}`, but `{parent}` cannot be listed: {}.",
                item.path,
                excerpt(text, 200),
                reason(&error)
            );
            let suggestion =
                "create the folder, or correct the path; it starts from the folder of goondan.yaml";
            findings.add(
                item.problem(Code::ENTRY_NOT_FOUND, message)
                    .suggest(suggestion),
            );
            return Vec::new();
        }
    };
    let inside = |name: String| {
        if parent == "." {
            name
        } else {
            format!("{parent}/{name}")
        }
    };
    let is_folder = |kind: FileKind| kind != FileKind::File;
    let mut folders: Vec<String> = names
        .into_iter()
        .filter(|(_, kind)| is_folder(*kind))
        .map(|(name, _)| inside(name))
        .collect();
    folders.retain(|folder| file_of(folder, scope).is_some());
    folders.sort_unstable();
    folders
}

/// The file that makes a folder a skill.
fn file_of(folder: &str, scope: &Scope<'_>) -> Option<&'static str> {
    SKILL_FILES
        .into_iter()
        .find(|name| scope.folder.is_file(&format!("{folder}/{name}")))
}

fn read_skill(
    item: &Field<'_>,
    folder: &str,
    scope: &Scope<'_>,
    findings: &mut Findings,
) -> Option<Skill> {
    let Some(name) = file_of(folder, scope) else {
        let message = format!(
            "`{}` is `{folder}`, which is no skill: it has no SKILL.md.",
            item.path
        );
        let suggestion = "name a folder with a SKILL.md, or all skills in a folder as `./skills/*`";
        findings.add(
            item.problem(Code::ENTRY_NOT_FOUND, message)
                .suggest(suggestion),
        );
        return None;
    };
    let file = format!("{folder}/{name}");
    if scope.folder.leaves_by_link(folder) || scope.folder.leaves_by_link(&file) {
        let message = format!(
            "`{}` is `{folder}`, which leads out of the bundle through a link.",
            item.path
        );
        findings.add(
            item.problem(Code::PATH_ESCAPE, message)
                .suggest("copy what it links to into the bundle"),
        );
        return None;
    }
    let text = match scope.folder.read(&file) {
        Ok(text) => text,
        Err(problem) => {
            findings.add(unreadable(&file, &problem));
            return None;
        }
    };
    findings.depends_on(file.clone());
    let mut own = Findings::about(file.clone());
    let read = front_matter(&text, &mut own).and_then(|front| {
        read_front(
            &front,
            folder.rsplit('/').next().unwrap_or(folder),
            &mut own,
        )
    });
    // Another agent may have the same skill, and its mistakes are told once.
    findings.texts.push((file, text));
    findings.diagnostics.extend(own.diagnostics);
    let Front {
        name: skill,
        description,
        compatibility,
    } = read?;
    Some(Skill {
        name: skill,
        description,
        compatibility,
        folder: folder.to_owned(),
        file: name.to_owned(),
    })
}

fn unreadable(file: &str, problem: &Unreadable) -> Diagnostic {
    let diagnostic = match problem {
        Unreadable::TooLarge => Diagnostic::new(
            Code::FILE_TOO_LARGE,
            format!("`{file}` is larger than 1 MiB."),
        )
        .suggest("move what is needed only at times into files of their own"),
        Unreadable::NotText(_) => {
            Diagnostic::new(Code::PARSE_ERROR, format!("`{file}` is not UTF-8 text."))
                .suggest("save it as UTF-8")
        }
        Unreadable::Io(error) => {
            let why = if error.kind() == io::ErrorKind::NotFound {
                "it is not there".to_owned()
            } else {
                reason(error)
            };
            Diagnostic::new(
                Code::ENTRY_NOT_FOUND,
                format!("`{file}` cannot be read: {why}."),
            )
        }
    };
    diagnostic.in_file(file)
}

/// The front matter of a file: what stands between the first two lines `---`.
struct FrontMatter<'t> {
    /// The whole file.
    text: &'t str,
    /// With places in the whole file.
    root: Node,
}

fn front_matter<'t>(text: &'t str, findings: &mut Findings) -> Option<FrontMatter<'t>> {
    let mut missing = |message: &str, suggestion: &str| {
        let diagnostic = Diagnostic::new(Code::PARSE_ERROR, message).at(position_of_bytes(
            text,
            0,
            first_line(text).len(),
        ));
        findings.add(diagnostic.suggest(suggestion));
        None
    };
    let begin = text.len() - text.trim_start_matches('\u{feff}').len();
    let mut at = begin;
    let mut lines = text[begin..].split_inclusive('\n');
    let first = lines.next().unwrap_or_default();
    if first.trim_end() != "---" {
        return missing(
            "The file does not begin with front matter.",
            "begin with a line `---`, then `name: …` and `description: …`, then another line `---`",
        );
    }
    at += first.len();
    let start = at;
    for line in lines {
        if line.trim_end() == "---" {
            return parse(text, start, at, findings);
        }
        at += line.len();
    }
    missing("The front matter does not end.", "end it with a line `---`")
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

/// The YAML in `start..end` of the file, which begins on its second line.
fn parse<'t>(
    text: &'t str,
    start: usize,
    end: usize,
    findings: &mut Findings,
) -> Option<FrontMatter<'t>> {
    match yaml::parse(&text[start..end]) {
        Ok(Some(mut root)) => {
            root.shift(1, start);
            Some(FrontMatter { text, root })
        }
        Ok(None) => {
            let at = position_of_bytes(text, 0, first_line(text).len());
            let diagnostic =
                Diagnostic::new(Code::SCHEMA_INVALID, "The front matter is empty.").at(at);
            findings.add(diagnostic.suggest("add `name: …` and `description: …`"));
            None
        }
        Err((error, at)) => {
            let at = Position {
                line: at.line + 1,
                start: at.start + start,
                end: at.end + start,
                ..at
            };
            let diagnostic = Diagnostic::new(Code::PARSE_ERROR, error.message).at(at);
            findings.add(match error.suggestion {
                Some(suggestion) => diagnostic.suggest(suggestion),
                None => diagnostic,
            });
            None
        }
    }
}

/// What a skill says of itself.
struct Front {
    name: String,
    description: String,
    compatibility: Option<String>,
}

fn read_front(front: &FrontMatter<'_>, folder: &str, findings: &mut Findings) -> Option<Front> {
    let text = front.text;
    let mut fields = Field::root(&front.root).fields(findings)?;
    let name = fields.required("name", findings);
    let name = name.and_then(|field| read_name(&field, folder, text, findings));
    let description = fields.required("description", findings);
    let description =
        description.and_then(|field| scalar(&field, text, MAX_SKILL_DESCRIPTION, findings));
    let compatibility = fields
        .optional("compatibility")
        .map(|field| scalar(&field, text, MAX_SKILL_COMPATIBILITY, findings));
    for other in ["license", "allowed-tools"] {
        if let Some(field) = fields.optional(other) {
            scalar(&field, text, usize::MAX, findings);
        }
    }
    if let Some(field) = fields.optional("metadata") {
        for entry in field.entries(findings).unwrap_or_default() {
            scalar(&entry, text, usize::MAX, findings);
        }
    }
    finish(fields, findings);
    let compatibility = compatibility.map_or(Some(None), |text| text.map(Some));
    Some(Front {
        name: name?,
        description: description?,
        compatibility: compatibility?,
    })
}

/// What else is there has a place of its own.
fn finish(fields: Fields<'_>, findings: &mut Findings) {
    let before = findings.diagnostics.len();
    fields.finish(findings);
    for diagnostic in &mut findings.diagnostics[before..] {
        if diagnostic.fix.is_none() {
            diagnostic.suggestion = Some("move it below `metadata`, or remove it".to_owned());
        }
    }
}

/// A text that is not blank, with at most that many characters. In front matter a number is text, too.
fn scalar(field: &Field<'_>, source: &str, most: usize, findings: &mut Findings) -> Option<String> {
    let text = match &field.node.content {
        Content::Number(_) | Content::Bool(_) => source
            .get(field.node.at.start..field.node.at.end)?
            .to_owned(),
        _ => field.text(findings)?.to_owned(),
    };
    let length = text.chars().count();
    if length > most {
        let message = format!(
            "`{}` has {length} characters, more than {most}.",
            field.path
        );
        findings.add(
            field
                .invalid(message)
                .suggest("shorten it; the rest belongs into the text below"),
        );
        return None;
    }
    Some(text.trim().to_owned())
}

fn read_name(
    field: &Field<'_>,
    folder: &str,
    source: &str,
    findings: &mut Findings,
) -> Option<String> {
    let name = scalar(field, source, usize::MAX, findings)?;
    if let Err(problem) = check_skill_name(&name) {
        let message = format!(
            "`{}` can't be the name of a skill: {problem}.",
            excerpt(&name, 80)
        );
        findings.add(
            field
                .invalid(message)
                .suggest("use small letters, digits and single hyphens between them"),
        );
        return None;
    }
    if name != folder {
        let message = format!(
            "The skill is called `{name}`, but its folder `{}`.",
            excerpt(folder, 80)
        );
        let diagnostic = field.invalid(message).suggest("give both the same name");
        findings.add(match check_skill_name(folder) {
            Ok(()) => diagnostic.fix(Fix::replace(field.node.at, folder).perhaps()),
            Err(_) => diagnostic,
        });
        return None;
    }
    Some(name)
}
