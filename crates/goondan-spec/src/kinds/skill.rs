//! `Agent.spec.skills`: directories with a `SKILL.md`, in the format of agentskills.io.
//!
//! Loading reads the name and the description for the system prompt, and checks the rest of the
//! front matter. The instructions and further files are read when a model loads the skill
//! (`goondan-engine`: `tooling/skills.rs`).

use std::io;

use super::ResourceScope;
use crate::decode::{FieldReader, MapReader};
use crate::diagnostic::{Code, Diagnostic, SourcePosition};
use crate::diagnostic_sink::DiagnosticSink;
use crate::files::FileKind;
use crate::fix::Fix;
use crate::node::{NodeContent, YamlNode};
use crate::paths::FileReadError;
use crate::source::position_of_bytes;
use crate::text::{excerpt, reason};
use crate::yaml;

/// Tool that loads a skill, as resource name and export name.
pub const SKILL_EXPORT: (&str, &str) = ("skills", "load");
pub(super) const SKILL_TOOL: &str = "skills__load";
/// File names that make a directory a skill. Some authors use lowercase.
pub const SKILL_FILES: [&str; 2] = ["SKILL.md", "skill.md"];
/// Maximum number of skills of an agent. Each takes space in the prompt.
pub const MAX_SKILLS: usize = 100;
/// Maximum length of a skill's name, in characters.
pub const MAX_SKILL_NAME_CHARS: usize = 64;
/// Maximum length of a skill's description, in characters.
pub const MAX_SKILL_DESCRIPTION_CHARS: usize = 1024;
/// Maximum length of a skill's `compatibility`, in characters.
pub const MAX_SKILL_COMPATIBILITY_CHARS: usize = 500;

/// Instructions for a kind of task, with the files that belong to them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skill {
    /// Name, equal to the name of the directory.
    pub name: String,
    /// Purpose of the skill, and when to use it.
    pub description: String,
    /// Requirements, if stated.
    pub compatibility: Option<String>,
    /// Directory, relative to the bundle.
    pub folder: String,
    /// Name of the file in that directory.
    pub file: String,
}

/// Returns the name and description of a `SKILL.md` in a directory named `folder`. Returns `None`
/// if its front matter is invalid.
pub fn name_and_description(folder: &str, text: &str) -> Option<(String, String)> {
    let mut findings = DiagnosticSink::default();
    let front = front_matter(text, &mut findings)?;
    let read = read_front(&front, folder, &mut findings)?;
    findings.is_clean().then_some((read.name, read.description))
}

/// Returns the contents of a `SKILL.md` after its front matter.
pub fn body(text: &str) -> &str {
    let mut offset = 0;
    for (number, line) in text.split_inclusive('\n').enumerate() {
        offset += line.len();
        let is_marker = line.trim_start_matches('\u{feff}').trim_end() == "---";
        match number {
            0 if !is_marker => return text.trim(),
            0 => {}
            _ if is_marker => return text[offset..].trim(),
            _ => {}
        }
    }
    text.trim()
}

/// Checks the name of a skill.
///
/// # Errors
///
/// Returns the problem as a clause, such as "it has two hyphens in a row".
pub fn check_skill_name(name: &str) -> Result<(), String> {
    let length = name.chars().count();
    let problem = match name {
        _ if length > MAX_SKILL_NAME_CHARS => {
            format!("it has {length} characters, more than {MAX_SKILL_NAME_CHARS}")
        }
        _ if name.chars().any(|c| !c.is_alphanumeric() && c != '-') => {
            "only letters, digits and hyphens are allowed".to_owned()
        }
        _ if name.to_lowercase() != name => "its letters must be lower-case".to_owned(),
        _ if name.starts_with('-') || name.ends_with('-') => {
            "it begins or ends with a hyphen".to_owned()
        }
        _ if name.contains("--") => "it has two hyphens in a row".to_owned(),
        _ => return Ok(()),
    };
    Err(problem)
}

/// Returns the skills section of the system prompt, or `None` if there are no skills.
pub(super) fn prompt_section(skills: &[Skill]) -> Option<String> {
    if skills.is_empty() {
        return None;
    }
    let mut prompt = format!(
        "You have skills: instructions for kinds of tasks. If a task matches a skill, load the \
        skill with `{SKILL_TOOL}` before you begin, and follow it.\n\n<skills>"
    );
    for skill in skills {
        // One line per skill, even if the description has several.
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

/// Reads `skills` of an Agent and the files of the skills.
pub(super) fn read(
    field: &FieldReader<'_>,
    scope: &ResourceScope<'_>,
    findings: &mut DiagnosticSink,
) -> Option<Vec<Skill>> {
    let mut skills: Vec<Skill> = Vec::new();
    let items = field.unique_strings(findings)?;
    for item in &items {
        for folder in skill_directories(item, scope, findings) {
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
                    findings.add(item.invalid_value(message).suggest("keep one of the two"));
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
                .invalid_value(message)
                .suggest("list only the directories of the skills that it needs"),
        );
    }
    Some(skills)
}

/// Returns the directories that entries such as `./skills/*` name, relative to the bundle. Invalid
/// entries are left out; [`read`] reports them.
pub(super) fn collections(field: &FieldReader<'_>, scope: &ResourceScope<'_>) -> Vec<String> {
    let mut ignored = DiagnosticSink::default();
    let items = field.unique_strings(&mut ignored).unwrap_or_default();
    let directory_of = |item: &FieldReader<'_>| {
        let above = item.node.text()?.strip_suffix("/*")?;
        collection_path(item, above, scope, &mut ignored)
    };
    items.iter().filter_map(directory_of).collect()
}

/// Returns the path of the directory `above` that `item` names with `/*` after it.
fn collection_path(
    item: &FieldReader<'_>,
    above: &str,
    scope: &ResourceScope<'_>,
    findings: &mut DiagnosticSink,
) -> Option<String> {
    let node = YamlNode {
        at: item.node.at,
        content: NodeContent::Text(if above.is_empty() { "/" } else { above }.to_owned()),
    };
    let directory = FieldReader {
        node: &node,
        ..item.clone()
    };
    scope.folder.path(&directory, findings)
}

/// Returns the directories that an entry names: one, or with `/*` at its end, the skills in that
/// directory.
fn skill_directories(
    item: &FieldReader<'_>,
    scope: &ResourceScope<'_>,
    findings: &mut DiagnosticSink,
) -> Vec<String> {
    let Some(text) = item.node.text() else {
        return Vec::new();
    };
    let Some(above) = text.strip_suffix("/*") else {
        return scope.folder.path(item, findings).into_iter().collect();
    };
    let Some(parent) = collection_path(item, above, scope, findings) else {
        return Vec::new();
    };
    let names = match scope.folder.list_directory(&parent) {
        Ok(names) => names,
        Err(error) => {
            let message = format!(
                "`{}` is `{}`, but `{parent}` cannot be listed: {}.",
                item.path,
                excerpt(text, 200),
                reason(&error)
            );
            let suggestion = "create the directory, or correct the path; it is relative to the \
                directory of goondan.yaml";
            findings.add(
                item.diagnostic(Code::ENTRY_NOT_FOUND, message)
                    .suggest(suggestion),
            );
            return Vec::new();
        }
    };
    let path_inside = |name: String| {
        if parent == "." {
            name
        } else {
            format!("{parent}/{name}")
        }
    };
    let is_folder = |kind: FileKind| !matches!(kind, FileKind::File | FileKind::NonUnicodeName);
    let mut folders: Vec<String> = names
        .into_iter()
        .filter(|(_, kind)| is_folder(*kind))
        .map(|(name, _)| path_inside(name))
        .collect();
    folders.retain(|folder| skill_file(folder, scope).is_some());
    folders.sort_unstable();
    folders
}

/// Returns the name of the skill file in a directory; `None` if there is none.
fn skill_file(folder: &str, scope: &ResourceScope<'_>) -> Option<&'static str> {
    SKILL_FILES
        .into_iter()
        .find(|name| scope.folder.is_file(&format!("{folder}/{name}")))
}

/// Reads a skill; `None`, with an error, if its file is invalid.
fn read_skill(
    item: &FieldReader<'_>,
    folder: &str,
    scope: &ResourceScope<'_>,
    findings: &mut DiagnosticSink,
) -> Option<Skill> {
    let Some(name) = skill_file(folder, scope) else {
        let message = format!(
            "`{}` is `{folder}`, which is not a skill: it has no SKILL.md.",
            item.path
        );
        let suggestion = "use a directory with a SKILL.md, or `./skills/*` for all skills in a \
            directory";
        findings.add(
            item.diagnostic(Code::ENTRY_NOT_FOUND, message)
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
            item.diagnostic(Code::PATH_ESCAPE, message)
                .suggest("copy the target of the link into the bundle"),
        );
        return None;
    }
    let text = match scope.folder.read(&file) {
        Ok(text) => text,
        Err(problem) => {
            findings.add(unreadable_file_error(&file, &problem));
            return None;
        }
    };
    findings.depends_on(file.clone());
    let mut skill_findings = DiagnosticSink::for_file(file.clone());
    let read = front_matter(&text, &mut skill_findings).and_then(|front| {
        read_front(
            &front,
            folder.rsplit('/').next().unwrap_or(folder),
            &mut skill_findings,
        )
    });
    // Another agent may have the same skill, but its errors are reported only once.
    findings.texts.push((file, text));
    findings.diagnostics.extend(skill_findings.diagnostics);
    let SkillFrontMatter {
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

/// Creates the error for a skill file that cannot be read.
fn unreadable_file_error(file: &str, problem: &FileReadError) -> Diagnostic {
    let diagnostic = match problem {
        FileReadError::TooLarge => Diagnostic::new(
            Code::FILE_TOO_LARGE,
            format!("`{file}` is larger than 1 MiB."),
        )
        .suggest("move details into separate files"),
        FileReadError::NotText(_) => {
            Diagnostic::new(Code::PARSE_ERROR, format!("`{file}` is not UTF-8 text."))
                .suggest("save it as UTF-8")
        }
        FileReadError::Io(error) => {
            let reason = if error.kind() == io::ErrorKind::NotFound {
                "it does not exist".to_owned()
            } else {
                reason(error)
            };
            Diagnostic::new(
                Code::ENTRY_NOT_FOUND,
                format!("`{file}` cannot be read: {reason}."),
            )
        }
    };
    diagnostic.in_file(file)
}

/// Front matter of a file: the YAML between the first two lines `---`.
struct FrontMatter<'t> {
    /// Whole file.
    text: &'t str,
    /// YAML with positions in the whole file.
    root: YamlNode,
}

/// Returns the front matter; `None`, with an error, if it is missing or does not end.
fn front_matter<'t>(text: &'t str, findings: &mut DiagnosticSink) -> Option<FrontMatter<'t>> {
    let mut report_missing = |message: &str, suggestion: &str| {
        let diagnostic = Diagnostic::new(Code::PARSE_ERROR, message).at(position_of_bytes(
            text,
            0,
            first_line(text).len(),
        ));
        findings.add(diagnostic.suggest(suggestion));
        None
    };
    let begin = text.len() - text.trim_start_matches('\u{feff}').len();
    let mut offset = begin;
    let mut lines = text[begin..].split_inclusive('\n');
    let first = lines.next().unwrap_or_default();
    if first.trim_end() != "---" {
        return report_missing(
            "The file does not begin with front matter.",
            "begin with a line `---`, then `name: …` and `description: …`, then another line `---`",
        );
    }
    offset += first.len();
    let start = offset;
    for line in lines {
        if line.trim_end() == "---" {
            return parse(text, start, offset, findings);
        }
        offset += line.len();
    }
    report_missing("The front matter does not end.", "end it with a line `---`")
}

/// Returns the first line without its line break.
fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

/// Parses the YAML in `start..end` of the file, which begins on its second line.
fn parse<'t>(
    text: &'t str,
    start: usize,
    end: usize,
    findings: &mut DiagnosticSink,
) -> Option<FrontMatter<'t>> {
    match yaml::parse(&text[start..end]) {
        Ok(Some(mut root)) => {
            root.shift_positions(1, start);
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
            let at = SourcePosition {
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

/// Fields of a skill's front matter.
struct SkillFrontMatter {
    name: String,
    description: String,
    compatibility: Option<String>,
}

/// Reads the fields of the front matter. `folder` is the directory name, which the skill name must
/// equal.
fn read_front(
    front: &FrontMatter<'_>,
    folder: &str,
    findings: &mut DiagnosticSink,
) -> Option<SkillFrontMatter> {
    let text = front.text;
    let mut fields = FieldReader::root(&front.root).fields(findings)?;
    let name = fields.required("name", findings);
    let name = name.and_then(|field| read_name(&field, folder, text, findings));
    let description = fields.required("description", findings);
    let description = description
        .and_then(|field| read_scalar(&field, text, MAX_SKILL_DESCRIPTION_CHARS, findings));
    let compatibility = fields
        .optional("compatibility")
        .map(|field| read_scalar(&field, text, MAX_SKILL_COMPATIBILITY_CHARS, findings));
    for other in ["license", "allowed-tools"] {
        if let Some(field) = fields.optional(other) {
            read_scalar(&field, text, usize::MAX, findings);
        }
    }
    if let Some(field) = fields.optional("metadata") {
        for entry in field.entries(findings).unwrap_or_default() {
            read_scalar(&entry, text, usize::MAX, findings);
        }
    }
    report_unknown_fields(fields, findings);
    let compatibility = compatibility.map_or(Some(None), |text| text.map(Some));
    Some(SkillFrontMatter {
        name: name?,
        description: description?,
        compatibility: compatibility?,
    })
}

/// Reports unknown fields. Additional fields belong below `metadata`.
fn report_unknown_fields(fields: MapReader<'_>, findings: &mut DiagnosticSink) {
    let before = findings.diagnostics.len();
    fields.finish(findings);
    for diagnostic in &mut findings.diagnostics[before..] {
        if diagnostic.fix.is_none() {
            diagnostic.suggestion = Some("move it below `metadata`, or remove it".to_owned());
        }
    }
}

/// Reads a non-blank string of at most `most` characters. In front matter, numbers and booleans
/// count as strings.
fn read_scalar(
    field: &FieldReader<'_>,
    source: &str,
    most: usize,
    findings: &mut DiagnosticSink,
) -> Option<String> {
    let text = match &field.node.content {
        NodeContent::Number(_) | NodeContent::Bool(_) => source
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
                .invalid_value(message)
                .suggest("shorten it, and move the rest to the text below the front matter"),
        );
        return None;
    }
    Some(text.trim().to_owned())
}

/// Reads the name of the skill; reports a name that differs from its directory.
fn read_name(
    field: &FieldReader<'_>,
    folder: &str,
    source: &str,
    findings: &mut DiagnosticSink,
) -> Option<String> {
    let name = read_scalar(field, source, usize::MAX, findings)?;
    if let Err(problem) = check_skill_name(&name) {
        let message = format!(
            "`{}` is not a valid skill name: {problem}.",
            excerpt(&name, 80)
        );
        findings.add(
            field
                .invalid_value(message)
                .suggest("use lower-case letters, digits and single hyphens between them"),
        );
        return None;
    }
    if name != folder {
        let message = format!(
            "The skill is called `{name}`, but its directory is called `{}`.",
            excerpt(folder, 80)
        );
        let diagnostic = field
            .invalid_value(message)
            .suggest("give both the same name");
        findings.add(match check_skill_name(folder) {
            Ok(()) => diagnostic.fix(Fix::replace(field.node.at, folder).mark_uncertain()),
            Err(_) => diagnostic,
        });
        return None;
    }
    Some(name)
}
