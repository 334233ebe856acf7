//! `gdn init`: creates a project from a template, which runs without an API key.

mod provider;
mod templates;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Args;
use goondan::internal::{line_end_at, nofollow_fs, untrusted_text};
use goondan::spec::Code;
use goondan::spec::Diagnostic;
use goondan::start::project::MANIFEST_FILES;
use goondan::{StateRoot, TrustList};
use serde_json::json;

use self::provider::ProviderChoice;
use self::templates::{GITIGNORE, ProjectTemplate, TemplateFile};
use crate::exit::CliError;
use crate::input_files::MAX_PROJECT_FILE_BYTES;
use crate::output::{CommandOutput, style};
use crate::trust::TrustSettings;
use goondan::internal::regular_file;
use goondan::spec::reason;

/// Maximum number of foreign files that the warning names.
const MAX_NAMED_FILES: usize = 20;

/// Maximum length of a resource name (rule L6).
pub(super) const MAX_NAME_LENGTH: usize = 63;

const EXAMPLES: &str = "\
Examples:
  gdn init my-swarm                              Create a project in the directory my-swarm
  gdn init my-swarm --provider anthropic         Use a real model, with its API key
  gdn init my-team --template multi-agent --git  Create several agents, in a git repository
  gdn init swarm --template repository           Create agents for the git repository around it
  gdn init desk --template service               Create an agent that programs call over HTTP
  gdn init . --name support --force              Overwrite files in this directory";

/// Arguments of `gdn init`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct InitArgs {
    /// The directory of the project, created if it does not exist
    #[arg(value_name = "PATH", default_value = ".")]
    folder: PathBuf,
    /// Give the project this name [default: the directory's name]
    #[arg(short, long, value_name = "NAME")]
    name: Option<String>,
    /// Start from this template
    #[arg(short, long, value_enum, default_value_t)]
    template: ProjectTemplate,
    /// Use a model of this provider instead of the scripted one
    #[arg(short, long, value_enum, value_name = "NAME")]
    provider: Option<ProviderChoice>,
    /// Use this model of the provider [default: a current one]
    #[arg(short, long, value_name = "NAME", requires = "provider")]
    model: Option<String>,
    /// Overwrite existing files
    #[arg(short, long)]
    force: bool,
    /// Make the directory a git repository
    #[arg(long)]
    git: bool,
}

/// Writes a project that is valid and runs without changes.
pub(crate) fn run(
    args: &InitArgs,
    state_root: &StateRoot,
    output: &CommandOutput,
) -> Result<(), CliError> {
    let name = project_name(args)?;
    let mut files = args.template.files(&name);
    if let Some(provider) = args.provider {
        for file in &mut files {
            file.text = provider.replace_scripted(&file.text, args.model.as_deref());
        }
    }
    if !args.force {
        refuse_existing_files(&args.folder, &files)?;
    }
    if args.template.works_in_repository() && !args.git {
        require_git_repository(&args.folder)?;
    }
    refuse_file(&args.folder)?;
    let is_new = is_empty_directory(&args.folder);
    for file in &files {
        write_file(&args.folder, file)?;
    }
    if args.git {
        git_init(&args.folder)?;
    }
    let next = if is_new {
        trust(&args.folder, state_root, output)?;
        Vec::new()
    } else {
        next_commands(&args.folder, &files, state_root, output)?
    };
    report(args, &name, &files, next, output)
}

/// Returns the commands to run next in a directory that was not empty.
/// Warns about existing files with errors that become part of the project.
fn next_commands(
    folder: &Path,
    files: &[TemplateFile],
    state_root: &StateRoot,
    output: &CommandOutput,
) -> Result<Vec<&'static str>, CliError> {
    let project = goondan::load(folder);
    let is_ours = |problem: &&Diagnostic| {
        files
            .iter()
            .any(|file| problem.file.as_deref() == Some(file.path))
    };
    let errors = project
        .diagnostics
        .iter()
        .filter(|problem| problem.is_error());
    let foreign: BTreeSet<&str> = errors
        .filter(|problem| !is_ours(problem))
        .filter_map(|problem| problem.file.as_deref())
        .collect();
    if !foreign.is_empty() {
        output.note(&foreign_files_warning(&foreign))?;
    }
    let missing_permissions =
        TrustSettings::new(state_root, false).untrusted_capabilities(&project)?;
    Ok(if missing_permissions.is_empty() {
        Vec::new()
    } else {
        vec!["trust"]
    })
}

/// Returns the warning about files that already existed and become part of the project.
fn foreign_files_warning(foreign: &BTreeSet<&str>) -> String {
    let yellow = style::WARNING;
    let shown_files = foreign.iter().take(MAX_NAMED_FILES);
    let mut names: Vec<String> = shown_files
        .map(|file| format!("`{}`", untrusted_text::line(file)))
        .collect();
    if foreign.len() > MAX_NAMED_FILES {
        names.push(format!("{} more files", foreign.len() - MAX_NAMED_FILES));
    }
    let (verb, them) = match foreign.len() {
        1 => ("already existed, and its name makes it", "the file"),
        _ => ("already existed, and their names make them", "the files"),
    };
    let pronoun = if foreign.len() == 1 { "it" } else { "them" };
    format!(
        "{yellow}warning{yellow:#}: {} {verb} part of the project.\n  Create the project in its \
            own directory, for example with `gdn init swarm`, or add {them} to .gitignore, so \
            that gdn ignores {pronoun}.",
        names.join(", ")
    )
}

/// Returns the given name if it is valid, or one derived from the directory name.
fn project_name(args: &InitArgs) -> Result<String, CliError> {
    if let Some(name) = &args.name {
        return if is_name(name) {
            Ok(name.clone())
        } else {
            Err(
                CliError::usage(format!("`{name}` is not a valid project name.")).suggest(
                    "Use lower-case letters, digits and hyphens, a letter first, at most 63 \
                    characters.",
                ),
            )
        };
    }
    let absolute = std::path::absolute(&args.folder)?;
    let folder = absolute
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    Ok(project_name_from(folder))
}

/// Returns true if the text is a valid resource name (rule L6).
pub(crate) fn is_name(text: &str) -> bool {
    let starts = text.starts_with(|c: char| c.is_ascii_lowercase());
    let is_allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    starts && text.len() <= MAX_NAME_LENGTH && text.chars().all(is_allowed)
}

/// Derives a valid project name from `text`; `my-swarm` if `text` contains no usable character.
fn project_name_from(text: &str) -> String {
    let lower = text.to_ascii_lowercase();
    let hyphenated: String = lower
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .collect();
    let words: Vec<&str> = hyphenated
        .split('-')
        .filter(|word| !word.is_empty())
        .collect();
    let joined = words.join("-");
    let mut name = joined
        .trim_start_matches(|c: char| !c.is_ascii_lowercase())
        .to_owned();
    name.truncate(MAX_NAME_LENGTH);
    if is_name(&name) {
        name
    } else {
        "my-swarm".to_owned()
    }
}

/// Returns true if the directory is empty or missing.
fn is_empty_directory(folder: &Path) -> bool {
    std::fs::read_dir(folder).map_or(true, |mut entries| entries.next().is_none())
}

/// Trusts the new project. If that fails, the project still runs and asks for trust when needed.
fn trust(folder: &Path, state_root: &StateRoot, output: &CommandOutput) -> Result<(), CliError> {
    match TrustList::of(state_root).add(folder) {
        Ok(_) => Ok(()),
        Err(error) => output.note(&format!(
            "Could not store that the project is trusted: {error}.",
            error = reason(&error)
        )),
    }
}

/// Fails if the directory cannot be created, because it or one of its parents is a file.
fn refuse_file(folder: &Path) -> Result<(), CliError> {
    let existing = folder
        .ancestors()
        .find(|path| path.symlink_metadata().is_ok());
    match existing {
        Some(path) if !path.is_dir() => Err(CliError::configuration(format!(
            "`{}` is not a directory.",
            path.display()
        ))
        .suggest("Choose another directory for the project.")),
        _ => Ok(()),
    }
}

/// Fails if the directory already contains a manifest or a file of the template. An existing
/// .gitignore is allowed.
fn refuse_existing_files(folder: &Path, files: &[TemplateFile]) -> Result<(), CliError> {
    let manifests = MANIFEST_FILES.iter().copied();
    let mut names = manifests.chain(files.iter().map(|file| file.path));
    match names.find(|name| *name != GITIGNORE && folder.join(name).exists()) {
        None => Ok(()),
        Some(name) => Err(CliError::configuration(format!(
            "`{}` already exists.",
            folder.join(name).display()
        ))
        .suggest("Choose another directory, or overwrite the file with `--force`.")),
    }
}

/// Fails if the directory is not in a git repository.
fn require_git_repository(folder: &Path) -> Result<(), CliError> {
    match goondan::start::project::repository(folder) {
        Some(_) => Ok(()),
        None => Err(CliError::configuration(format!(
            "`{}` is not in a git repository.",
            folder.display()
        ))
        .suggest(
            "The agents of this template work in the git repository around the project. Run the \
                command in a repository, or add `--git`.",
        )),
    }
}

/// Writes a template file and creates its directory. Appends to an existing .gitignore.
fn write_file(folder: &Path, file: &TemplateFile) -> Result<(), CliError> {
    let path = folder.join(file.path);
    let content = || -> std::io::Result<Vec<u8>> {
        if file.is_added_to() && path.exists() {
            Ok(with_missing_lines(
                regular_file::read(&path, MAX_PROJECT_FILE_BYTES)?,
                &file.text,
            ))
        } else {
            Ok(file.text.clone().into_bytes())
        }
    };
    // The directory may be a stranger's repository, with links to files elsewhere.
    std::fs::create_dir_all(folder)
        .and_then(|()| nofollow_fs::write_inside(folder, &path, &content()?, false))
        .map_err(|error| {
            CliError::configuration(format!(
                "`{}` can't be written: {error}.",
                path.display(),
                error = reason(&error)
            ))
            .suggest("Choose a directory that you may write to.")
        })
}

/// Returns `content` with the lines of `more` that it lacks appended.
fn with_missing_lines(mut content: Vec<u8>, more: &str) -> Vec<u8> {
    let text = String::from_utf8_lossy(&content).into_owned();
    let line_end = line_end_at(&text, 0);
    for line in more
        .lines()
        .filter(|line| !text.lines().any(|known| known.trim() == *line))
    {
        if content.last().is_some_and(|last| *last != b'\n') {
            content.extend_from_slice(line_end.as_bytes());
        }
        content.extend_from_slice(line.as_bytes());
        content.extend_from_slice(line_end.as_bytes());
    }
    content
}

/// Makes the directory a git repository.
fn git_init(folder: &Path) -> Result<(), CliError> {
    let status = Command::new("git")
        .args(["init", "--quiet"])
        .current_dir(folder)
        .stdin(Stdio::null())
        .status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(CliError::failure(
            Code::GIT_ERROR,
            format!("`git init` failed ({status}); the files are written."),
        )),
        Err(error) => Err(CliError::failure(
            Code::GIT_ERROR,
            format!(
                "git can't be run: {error}; the files are written.",
                error = reason(&error)
            ),
        )
        .suggest("Install git, or omit `--git`.")),
    }
}

/// Prints the created files and the commands to run next.
fn report(
    args: &InitArgs,
    name: &str,
    files: &[TemplateFile],
    next: Vec<&str>,
    output: &CommandOutput,
) -> Result<(), CliError> {
    let paths: Vec<&str> = files.iter().map(|file| file.path).collect();
    let template = args.template.name();
    if output.json {
        return output.json_pretty(
            &json!({ "name": name, "template": template, "path": args.folder.to_string_lossy(), "files": paths }),
        );
    }
    let good = style::GOOD;
    let shell_path = untrusted_text::line(quoted(&args.folder.to_string_lossy())).to_string();
    let name_or_path = if args.folder == Path::new(".") {
        name.to_owned()
    } else {
        shell_path.clone()
    };
    output.line(&format!(
        "{good}Created{good:#} {name_or_path} from the template {template}, {} files:",
        paths.len()
    ))?;
    for path in &paths {
        output.line(&format!("  {path}"))?;
    }
    let has_cases = paths.iter().any(|path| path.ends_with(".case.yaml"));
    let next = next.into_iter().chain(has_cases.then_some("test"));
    let next: String = next
        .map(|command| format!("\n  gdn {command} {shell_path}"))
        .collect();
    if let Some(variable) = args.provider.and_then(ProviderChoice::key_variable) {
        output.line(&format!(
            "\nSet {variable} in the environment or in a file named .env in the project."
        ))?;
    }
    output.line(&format!(
        "\nNext:\n  gdn validate {shell_path}{next}\n  gdn run {shell_path} --input \"Hello\""
    ))
}

/// Quotes `text` as one shell word.
pub(crate) fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./~:=@,+".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_name_becomes_a_valid_project_name() {
        assert_eq!(project_name_from("My Swarm_2"), "my-swarm-2");
        assert_eq!(project_name_from("42-answers"), "answers");
        assert_eq!(project_name_from("日本"), "my-swarm");
        assert_eq!(project_name_from(""), "my-swarm");
        assert!(is_name(&project_name_from(&"long-".repeat(40))));
    }

    #[test]
    fn existing_ignore_lines_are_not_repeated() {
        let more = ".env\n.env.local\n";
        for (before, after) in [
            (&b""[..], more.as_bytes()),
            (b"target\n.env", b"target\n.env\n.env.local\n"),
            (b".env.local\r\n.env\r\n", b".env.local\r\n.env\r\n"),
            (b".env\r\n", b".env\r\n.env.local\r\n"),
            (b"caf\xe9", b"caf\xe9\n.env\n.env.local\n"),
        ] {
            assert_eq!(
                with_missing_lines(before.to_vec(), more),
                after,
                "{before:?}"
            );
        }
    }

    #[test]
    fn paths_are_quoted_for_the_shell() {
        assert_eq!(quoted("./my-swarm"), "./my-swarm");
        assert_eq!(quoted("My Swarm"), "'My Swarm'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }
}
