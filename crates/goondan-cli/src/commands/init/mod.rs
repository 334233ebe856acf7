//! `gdn init`.

mod templates;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Args;
use goondan::inside::shown;
use goondan::project::MANIFESTS;
use goondan::spec::Code;
use goondan::{StateRoot, TrustList};
use serde_json::json;

use self::templates::{File, Template};
use crate::exit::CliError;
use crate::output::{Output, style};

/// The longest name of a resource (rule L6).
const NAME_LIMIT: usize = 63;

const EXAMPLES: &str = "\
Examples:
  gdn init my-swarm                              Create a project in the folder my-swarm
  gdn init my-team --template multi-agent --git  Create several agents, in a git repository
  gdn init . --name support --force              Overwrite what is in this folder";

/// Arguments of `gdn init`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct InitArgs {
    /// The folder of the project, which is created if it does not exist
    #[arg(value_name = "PATH", default_value = ".")]
    folder: PathBuf,
    /// Give the project this name [default: the folder's name]
    #[arg(short, long, value_name = "NAME")]
    name: Option<String>,
    /// Start from this template: an agent with tools, several agents, or an agent without tools
    #[arg(short, long, value_enum, default_value_t)]
    template: Template,
    /// Overwrite existing files
    #[arg(short, long)]
    force: bool,
    /// Make the folder a git repository
    #[arg(long)]
    git: bool,
}

/// Writes a project that validates and runs as it is.
pub(crate) fn run(args: &InitArgs, state_root: &StateRoot, output: &Output) -> Result<(), CliError> {
    let name = name(args)?;
    let files = args.template.files(&name);
    if !args.force {
        refuse_existing(&args.folder, &files)?;
    }
    let is_new = holds_nothing(&args.folder);
    for file in &files {
        write(&args.folder, file)?;
    }
    if args.git {
        git_init(&args.folder)?;
    }
    if is_new {
        trust(&args.folder, state_root, output)?;
    }
    report(args, &name, &files, output)
}

/// The given name, which must be right, or one made from the folder's name.
fn name(args: &InitArgs) -> Result<String, CliError> {
    if let Some(name) = &args.name {
        return match is_name(name) {
            true => Ok(name.clone()),
            false => Err(CliError::usage(format!("`{name}` can't be the name of a project."))
                .suggest("Use lower-case letters, digits and hyphens, a letter first, at most 63 characters.")),
        };
    }
    let absolute = std::path::absolute(&args.folder)?;
    let folder = absolute.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    Ok(name_from(folder))
}

pub(super) fn is_name(text: &str) -> bool {
    let starts = text.starts_with(|c: char| c.is_ascii_lowercase());
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    starts && text.len() <= NAME_LIMIT && text.chars().all(allowed)
}

/// The nearest right name; `my-swarm` where nothing of `text` can be used.
fn name_from(text: &str) -> String {
    let lower = text.to_ascii_lowercase();
    let hyphenated: String = lower.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let words: Vec<&str> = hyphenated.split('-').filter(|word| !word.is_empty()).collect();
    let joined = words.join("-");
    let mut name = joined.trim_start_matches(|c: char| !c.is_ascii_lowercase()).to_owned();
    name.truncate(NAME_LIMIT);
    if is_name(&name) { name } else { "my-swarm".to_owned() }
}

/// Whether there is nothing in the folder yet that somebody else may have put there.
fn holds_nothing(folder: &Path) -> bool {
    std::fs::read_dir(folder).map_or(true, |mut entries| entries.next().is_none())
}

/// Trusts what was just written. A project without trust runs as well, and asks once it wants more.
fn trust(folder: &Path, state_root: &StateRoot, output: &Output) -> Result<(), CliError> {
    match TrustList::of(state_root).add(folder) {
        Ok(_) => Ok(()),
        Err(error) => output.note(&format!("The project was not noted as trusted: {error}.")),
    }
}

fn refuse_existing(folder: &Path, files: &[File]) -> Result<(), CliError> {
    let manifests = MANIFESTS.iter().copied();
    let mut names = manifests.chain(files.iter().map(|file| file.path));
    match names.find(|name| folder.join(name).exists()) {
        None => Ok(()),
        Some(name) => Err(CliError::configuration(format!("`{}` exists already.", folder.join(name).display()))
            .suggest("Choose another folder, or overwrite what is there with `--force`.")),
    }
}

fn write(folder: &Path, file: &File) -> Result<(), CliError> {
    let path = folder.join(file.path);
    let parent = path.parent().unwrap_or(folder);
    std::fs::create_dir_all(parent).and_then(|()| std::fs::write(&path, &file.text)).map_err(|error| {
        CliError::configuration(format!("`{}` can't be written: {error}.", path.display()))
            .suggest("Choose a folder that you may write to.")
    })
}

fn git_init(folder: &Path) -> Result<(), CliError> {
    let status = Command::new("git").args(["init", "--quiet"]).current_dir(folder).stdin(Stdio::null()).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => {
            Err(CliError::failure(Code::GIT_ERROR, format!("`git init` failed ({status}); the files are written.")))
        }
        Err(error) => {
            Err(CliError::failure(Code::GIT_ERROR, format!("git can't be run: {error}; the files are written."))
                .suggest("Install git, or leave `--git` out."))
        }
    }
}

fn report(args: &InitArgs, name: &str, files: &[File], output: &Output) -> Result<(), CliError> {
    let paths: Vec<&str> = files.iter().map(|file| file.path).collect();
    let template = args.template.name();
    if output.json {
        return output.json_pretty(&json!({ "name": name, "template": template, "path": args.folder, "files": paths }));
    }
    let good = style::GOOD;
    let place = shown::line(quoted(&args.folder.to_string_lossy())).to_string();
    output.line(&format!("{good}Created{good:#} {name} from the template {template}, {} files:", paths.len()))?;
    for path in &paths {
        output.line(&format!("  {path}"))?;
    }
    output.line(&format!("\nNext:\n  gdn validate {place}\n  gdn run {place} --input \"Hello\""))
}

/// `text` as one word of a shell.
pub(crate) fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./~".contains(c);
    match !text.is_empty() && text.chars().all(plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_name_becomes_a_right_name() {
        assert_eq!(name_from("My Swarm_2"), "my-swarm-2");
        assert_eq!(name_from("42-answers"), "answers");
        assert_eq!(name_from("日本"), "my-swarm");
        assert_eq!(name_from(""), "my-swarm");
        assert!(is_name(&name_from(&"long-".repeat(40))));
    }

    #[test]
    fn a_path_can_be_pasted_into_a_shell() {
        assert_eq!(quoted("./my-swarm"), "./my-swarm");
        assert_eq!(quoted("My Swarm"), "'My Swarm'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }
}
