//! `skills__load`: returns the instructions of a skill and the files that belong to them.
//!
//! It reads only files inside the skill's directory. A skill grants no permissions: actions that
//! its instructions ask for are subject to the agent's policy.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use goondan_spec::Code;
use goondan_spec::kinds::{ExportSpec, Permission, SKILL_EXPORT, Skill, skill_body};
use serde_json::{Value, json};

use crate::tooling::registry::{RegisteredTool, ToolLimits};
use goondan_core::JsonObject;
use goondan_core::nofollow_fs::{DirectoryEntryKind, DirectoryHandle, open_regular_file};
use goondan_core::ports::tool::{HandlerError, ToolContext, ToolHandler, ToolOutput};
use goondan_spec::secret_files::SecretFiles;

/// Maximum bytes of a skill file. Larger files are refused.
const MAX_SKILL_FILE_BYTES: u64 = 1024 * 1024;
/// Maximum number of listed files of a skill.
const MAX_LISTED_FILES: usize = 200;
/// Maximum directory depth of listed files.
const MAX_LISTED_DEPTH: usize = 8;

/// Returns the tool that loads `skills` of the project in `root`, or `None` without skills.
pub(crate) fn tool(skills: &[Skill], root: &Path) -> Option<RegisteredTool> {
    if skills.is_empty() {
        return None;
    }
    let names: Vec<&str> = skills.iter().map(|skill| skill.name.as_str()).collect();
    let spec = ExportSpec {
        description: "Loads a skill: its instructions and the names of its files. With `file`, \
            reads one of the files."
            .to_owned(),
        parameters: json!({
            "type": "object",
            "properties": {
                "name": {"type": "string", "enum": names, "description": "The skill."},
                "file": {"type": "string", "minLength": 1, "description": "A file of the skill, \
                    such as `references/forms.md`."},
            },
            "required": ["name"],
            "additionalProperties": false,
        }),
        permissions: BTreeSet::from([Permission::Read]),
        read_only: true,
        idempotent: true,
        ..ExportSpec::named(SKILL_EXPORT.1)
    };
    let limits = ToolLimits {
        error_message: 1_000,
        output: 100_000,
        timeout: Duration::from_secs(30),
    };
    let handler = SkillLoader {
        skills: skills.into(),
        root: root.to_owned(),
    };
    Some(RegisteredTool::new(
        SKILL_EXPORT.0,
        spec,
        Arc::new(handler),
        limits,
    ))
}

struct SkillLoader {
    skills: Arc<[Skill]>,
    root: PathBuf,
}

#[async_trait]
impl ToolHandler for SkillLoader {
    async fn call(&self, ctx: &ToolContext, input: JsonObject) -> Result<ToolOutput, HandlerError> {
        let text = |name: &str| input.get(name).and_then(Value::as_str).map(str::to_owned);
        let (name, file) = (text("name").unwrap_or_default(), text("file"));
        let Some(skill) = self.skills.iter().find(|skill| skill.name == name).cloned() else {
            return Err(HandlerError::new(format!("there is no skill `{name}`"))
                .code(Code::TOOL_INVALID_ARGS));
        };
        let (root, workdir) = (self.root.clone(), ctx.workdir.clone());
        let read = tokio::task::spawn_blocking(move || match file {
            Some(file) => read_file(&skill, &root, &file),
            None => load(&skill, &root, &workdir),
        });
        let output = read
            .await
            .map_err(|error| HandlerError::new(format!("the skill was not read: {error}")))??;
        let title = format!("Skill {name}");
        Ok(ToolOutput {
            title: Some(title),
            ..ToolOutput::from(output)
        })
    }
}

/// Returns the instructions and the list of further files.
fn load(skill: &Skill, root: &Path, workdir: &Path) -> Result<Value, HandlerError> {
    let folder = skill_directory(skill, root)?;
    let text = text_in(&folder, &skill.file)?;
    let mut files = Vec::new();
    if let Ok(directory) = DirectoryHandle::open(&folder.root, &folder.path) {
        name_files(&directory, "", 0, &mut files);
    }
    files.retain(|name| *name != skill.file);
    files.sort_unstable();
    let mut output = JsonObject::new();
    output.insert("skill".to_owned(), json!(skill.name));
    output.insert("instructions".to_owned(), json!(skill_body(&text)));
    output.insert("files".to_owned(), json!(files));
    // Other tools can only reach the directory if it is inside the working directory.
    let workdir = workdir.canonicalize().ok();
    if let Some(seen) =
        workdir.and_then(|workdir| with_slashes(folder.path.strip_prefix(workdir).ok()?))
    {
        output.insert("folder".to_owned(), json!(seen));
    }
    Ok(Value::Object(output))
}

/// Returns the text of a skill file for the model.
fn read_file(skill: &Skill, root: &Path, file: &str) -> Result<Value, HandlerError> {
    let text = text_in(&skill_directory(skill, root)?, file)?;
    Ok(json!({"skill": skill.name, "file": file, "text": text}))
}

/// The directory of a skill, with links resolved.
struct SkillDirectory {
    /// The project.
    root: PathBuf,
    path: PathBuf,
}

/// Returns the directory of a skill. Fails if it is outside the project.
fn skill_directory(skill: &Skill, root: &Path) -> Result<SkillDirectory, HandlerError> {
    let missing_error = |error: std::io::Error| {
        HandlerError::new(format!("the skill `{}` can't be read: {error}", skill.name))
    };
    let root = root.canonicalize().map_err(missing_error)?;
    let path = root
        .join(&skill.folder)
        .canonicalize()
        .map_err(missing_error)?;
    if path.starts_with(&root) {
        Ok(SkillDirectory { root, path })
    } else {
        Err(path_escape_error(&skill.folder))
    }
}

/// Returns the error for a path outside the skill's directory.
fn path_escape_error(path: &str) -> HandlerError {
    HandlerError::new(format!("`{path}` is not in the skill's directory"))
        .code(Code::TOOL_PATH_ESCAPE)
        .suggest("Use the path of a skill file, relative to the skill's directory.")
}

/// Reads a file in `folder`. Fails if `..` or links lead out of the directory.
fn text_in(folder: &SkillDirectory, file: &str) -> Result<String, HandlerError> {
    let is_plain = Path::new(file)
        .components()
        .all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    let is_hidden = file
        .split(['/', '\\'])
        .any(|part| part.len() > 1 && part.starts_with('.'));
    if !is_plain || is_hidden || file.contains('\0') {
        return Err(path_escape_error(file));
    }
    let unreadable_error = |reason: String| {
        HandlerError::new(format!("`{file}` can't be read: {reason}"))
            .suggest("Load the skill without `file` to list its files.")
    };
    let path = folder
        .path
        .join(file)
        .canonicalize()
        .map_err(|error| unreadable_error(error.to_string()))?;
    if !path.starts_with(&folder.path) {
        return Err(path_escape_error(file));
    }
    let mut bytes = Vec::new();
    let opened = open_regular_file(&folder.root, &path)
        .map_err(|error| unreadable_error(error.to_string()))?;
    let metadata = opened
        .metadata()
        .map_err(|error| unreadable_error(error.to_string()))?;
    if SecretFiles::below([&folder.root]).contains(&path, &metadata) {
        return Err(unreadable_error(
            "it may contain keys of the project".to_owned(),
        ));
    }
    opened
        .take(MAX_SKILL_FILE_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| unreadable_error(error.to_string()))?;
    if bytes.len() as u64 > MAX_SKILL_FILE_BYTES {
        return Err(unreadable_error("it is larger than 1 MiB".to_owned()));
    }
    String::from_utf8(bytes).map_err(|_| unreadable_error("it is not UTF-8 text".to_owned()))
}

/// Adds the files below a directory, with paths relative to the skill. Does not follow links.
fn name_files(directory: &DirectoryHandle, above: &str, depth: usize, files: &mut Vec<String>) {
    for (name, metadata) in directory.entries().unwrap_or_default() {
        let Ok(name) = name.into_string() else {
            continue;
        };
        if name.starts_with('.') || files.len() >= MAX_LISTED_FILES {
            continue;
        }
        let path = format!("{above}{name}");
        match metadata.kind {
            DirectoryEntryKind::File => files.push(path),
            DirectoryEntryKind::Folder if depth < MAX_LISTED_DEPTH => {
                if let Ok(below) = directory.open_subdirectory(name.as_ref()) {
                    name_files(&below, &format!("{path}/"), depth + 1, files);
                }
            }
            _ => {}
        }
    }
}

/// Returns a path with `/` as the separator; `None` for an empty path or a path that is not
/// Unicode.
fn with_slashes(path: &Path) -> Option<String> {
    let parts: Option<Vec<&str>> = path
        .components()
        .map(|part| part.as_os_str().to_str())
        .collect();
    Some(parts?.join("/")).filter(|path| !path.is_empty())
}
