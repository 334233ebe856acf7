//! The documentation shows what really happens: every `$ gdn …` in it is run, and must print what stands below it.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::sandbox::Sandbox;

/// A command with its output, as a console block shows them.
#[derive(Debug)]
struct Shown {
    file: PathBuf,
    command: String,
    output: String,
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn pages() -> Vec<PathBuf> {
    let root = repository();
    let below = |folder: &str| std::fs::read_dir(root.join(folder)).unwrap().map(|entry| entry.unwrap().path());
    let docs = below("docs").filter(|path| path.extension().is_some_and(|end| end == "md"));
    let examples = below("examples").map(|path| path.join("README.md")).filter(|path| path.is_file());
    docs.chain(examples).chain([root.join("README.md")]).collect()
}

fn shown(file: &Path) -> Vec<Shown> {
    let text = std::fs::read_to_string(file).unwrap();
    let blocks = text.split("```console\n").skip(1).filter_map(|rest| rest.split("\n```").next());
    let commands = blocks.flat_map(|block| block.split("$ ").skip(1));
    let shown = commands.map(|lines| {
        let (command, output) = lines.split_once('\n').unwrap_or((lines, ""));
        Shown { file: file.to_owned(), command: command.to_owned(), output: output.trim_end().to_owned() }
    });
    shown.filter(|shown| shown.command.starts_with("gdn ")).collect()
}

/// What the command prints, standard error included, in the root of the repository.
fn printed(sandbox: &Sandbox, command: &str) -> String {
    let bin = Path::new(env!("CARGO_BIN_EXE_gdn")).parent().unwrap();
    let path = std::env::join_paths([bin, Path::new("/usr/bin"), Path::new("/bin")]).unwrap();
    let output = Command::new("sh")
        .args(["-c", &format!("{command} 2>&1")])
        .current_dir(repository())
        .env_clear()
        .env("PATH", path)
        .env("HOME", sandbox.dir())
        .env("GOONDAN_STATE_ROOT", sandbox.state())
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

#[test]
fn commands_print_what_the_pages_say() {
    let all: Vec<Shown> = pages().iter().flat_map(|page| shown(page)).collect();
    assert!(all.len() >= 4, "the pages show commands: {all:#?}");
    for Shown { file, command, output } in all {
        assert_eq!(printed(&Sandbox::new(), &command), output, "{}: {command}", file.display());
    }
}

#[test]
fn the_templates_and_pages_point_at_the_schema_that_exists() {
    let schema = "schemas/goondan.schema.json";
    assert!(repository().join(schema).is_file());
    for page in pages() {
        let text = std::fs::read_to_string(&page).unwrap();
        for line in text.lines().filter(|line| line.contains("$schema=")) {
            assert!(line.ends_with(schema), "{}: {line}", page.display());
        }
    }
}
