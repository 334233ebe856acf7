//! The table of codes, held against the program: its examples lead to what it says, every code comes out of it, and every
//! row is in use.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use goondan::Project;
use goondan::internal::ArgumentSchema;
use goondan::spec::codes::{CodeExplanation, ExampleLanguage, explanations};
use goondan::spec::{Code, Environment, Kind, ResourceId};
use serde_json::Value;

const API: &str = "apiVersion: goondan.ai/v1";

/// A folder with an example in it, and with what the example does not show: `docs/errors.md` says what that is.
fn project(text: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("goondan.yaml", text);
    write("resources/rest.yaml", &rest(text));
    write("prompts/writer.md", "Write.");
    let library = format!(
        "tools/{}text_utils{}",
        std::env::consts::DLL_PREFIX,
        std::env::consts::DLL_SUFFIX
    );
    write(&library, "");
    folder
}

/// A Model `main`, an Agent `writer` and a Swarm `default`, as far as the example has none.
fn rest(text: &str) -> String {
    let mut rest = Vec::new();
    let agents = names(text, "Agent");
    let agents = if agents.is_empty() {
        vec!["writer".to_owned()]
    } else {
        agents
    };
    if !names(text, "Model").iter().any(|name| name == "main") {
        rest.push(format!("{API}\nkind: Model\nmetadata: {{name: main}}\nspec: {{provider: scripted, model: any}}\n"));
    }
    if names(text, "Agent").is_empty() {
        let tools: Vec<String> = names(text, "Tool")
            .iter()
            .map(|tool| format!("{{ref: Tool/{tool}}}"))
            .collect();
        rest.push(format!(
            "{API}\nkind: Agent\nmetadata: {{name: writer}}\nspec: {{modelConfig: {{modelRef: Model/main}}, tools: [{}]}}\n",
            tools.join(", ")
        ));
    }
    if names(text, "Swarm").is_empty() {
        let refs: Vec<String> = agents
            .iter()
            .map(|agent| format!("{{ref: Agent/{agent}}}"))
            .collect();
        rest.push(format!(
            "{API}\nkind: Swarm\nmetadata: {{name: default}}\nspec: {{entryAgent: Agent/{}, agents: [{}]}}\n",
            agents[0],
            refs.join(", ")
        ));
    }
    rest.join("---\n")
}

/// The names of the documents of a kind, which examples write in one way.
fn names(text: &str, kind: &str) -> Vec<String> {
    let begin = format!("kind: {kind}\nmetadata: {{name: ");
    let documents = text.split(&begin).skip(1);
    documents
        .map(|rest| rest.split(['}', '\n']).next().unwrap().to_owned())
        .collect()
}

/// The codes that loading the project brings up, choosing its swarm and looking for its variables included.
fn found(project: &Project) -> BTreeSet<Code> {
    let mut found: BTreeSet<Code> = project
        .diagnostics
        .iter()
        .map(|diagnostic| diagnostic.code)
        .collect();
    let Some(bundle) = &project.bundle else {
        return found;
    };
    match bundle.choose_swarm(None) {
        Err(problem) => found.extend([problem.code]),
        Ok(swarm) => {
            let set =
                ["OPENAI_API_KEY", "OPS_WEBHOOK"].map(|name| (name.to_owned(), "x".to_owned()));
            let environment: Environment = set.into_iter().collect();
            let missing = bundle.missing_environment(&swarm.id, &environment);
            found.extend(missing.into_iter().map(|problem| problem.code));
        }
    }
    found
}

fn load(text: &str) -> (tempfile::TempDir, Project) {
    let folder = project(text);
    let project = goondan::load(folder.path());
    (folder, project)
}

/// Errors alone, unless the code is a warning: an example of an error may leave something unused.
fn that_count(row: &CodeExplanation, found: BTreeSet<Code>) -> BTreeSet<Code> {
    let is_warning = row.code.as_str().starts_with("W_");
    found
        .into_iter()
        .filter(|code| is_warning || !code.as_str().starts_with("W_"))
        .collect()
}

#[test]
fn examples_in_yaml_lead_to_their_code_and_without_the_mistake_to_none() {
    let mut wrong = Vec::new();
    for row in explanations() {
        let Some(example) = &row.example else {
            continue;
        };
        let expected = match example.form {
            ExampleLanguage::Yaml => BTreeSet::from([row.code]),
            ExampleLanguage::Running => BTreeSet::new(),
            ExampleLanguage::Call | ExampleLanguage::Shell => continue,
        };
        for (text, expected) in [(example.wrong, expected), (example.right, BTreeSet::new())] {
            let (_folder, project) = load(text);
            let found = that_count(row, found(&project));
            if found != expected {
                let told: Vec<&str> = project
                    .diagnostics
                    .iter()
                    .map(|problem| problem.message.as_str())
                    .collect();
                wrong.push(format!(
                    "{}: {found:?} in\n{text}{}",
                    row.code,
                    told.join("\n")
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// What a call example says: the tool, and its arguments.
fn calls(text: &str) -> impl Iterator<Item = (&str, &str, Value)> {
    text.lines().map(|line| {
        let (tool, arguments) = line.split_once(' ').unwrap();
        let (tool, export) = tool.split_once("__").unwrap();
        (tool, export, serde_json::from_str(arguments).unwrap())
    })
}

#[test]
fn calls_in_examples_are_calls_of_built_in_tools() {
    let (_folder, project) = load("");
    let bundle = project.bundle.unwrap();
    for row in explanations() {
        let Some(example) = row
            .example
            .as_ref()
            .filter(|example| example.form == ExampleLanguage::Call)
        else {
            continue;
        };
        let fits = |text: &str| {
            calls(text).all(|(tool, name, arguments)| {
                let tool = &bundle.tools()[&ResourceId::base(Kind::Tool, tool)].spec;
                let export = tool
                    .exports
                    .iter()
                    .find(|export| export.name == name)
                    .unwrap();
                ArgumentSchema::new(export.parameters.clone())
                    .check(&arguments)
                    .is_ok()
            })
        };
        assert!(fits(example.right), "{}: {}", row.code, example.right);
        assert_eq!(
            fits(example.wrong),
            row.code != Code::TOOL_INVALID_ARGS,
            "{}: {}",
            row.code,
            example.wrong
        );
    }
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .to_owned()
}

/// The files below `folder` with one of these endings, by their path in the repository, and their text.
fn files(folder: &str, endings: &[&str]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![repository().join(folder)];
    while let Some(next) = folders.pop() {
        for path in fs::read_dir(next)
            .unwrap()
            .map(|entry| entry.unwrap().path())
        {
            if path.is_dir() {
                folders.push(path);
            } else if endings
                .iter()
                .any(|ending| path.extension().is_some_and(|end| end == *ending))
            {
                let name = path
                    .strip_prefix(repository())
                    .unwrap()
                    .to_string_lossy()
                    .replace('\\', "/");
                found.push((name, fs::read_to_string(&path).unwrap()));
            }
        }
    }
    found
}

/// What is shipped: sources without the table and without tests.
fn production() -> Vec<(String, String)> {
    let is_test =
        |name: &str| !name.contains("/src/") || name.contains("/tests") || name.contains("/suite/");
    let sources = files("crates", &["rs"])
        .into_iter()
        .filter(|(name, _)| !is_test(name));
    let sources = sources.filter(|(name, _)| !name.starts_with("crates/goondan-spec/src/codes/"));
    sources
        .map(|(name, text)| {
            (
                name,
                text.split("\n#[cfg(test)]\nmod ")
                    .next()
                    .unwrap()
                    .to_owned(),
            )
        })
        .collect()
}

/// The words of a text that look like codes; `E_CONFIG_` is the beginning of some.
fn mentioned(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words
        .filter(|word| word.starts_with("E_") || word.starts_with("W_"))
        .filter(|word| {
            let is_upper = |c: char| c.is_ascii_uppercase() || c == '_';
            word.len() > 3 && word.chars().all(is_upper) && !word.ends_with('_')
        })
}

/// A page is named by its path; its headings are the business of `goondan-spec/tests/documentation.rs`.
#[test]
fn pages_that_the_program_names_exist() {
    let mut wrong = Vec::new();
    for (name, text) in production() {
        for rest in text.split("docs/").skip(1) {
            let page = rest
                .split(|c: char| !c.is_ascii_lowercase() && c != '-')
                .next()
                .unwrap();
            let is_page = rest[page.len()..].starts_with(".md");
            if is_page && !repository().join(format!("docs/{page}.md")).is_file() {
                wrong.push(format!("{name}: docs/{page}.md"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The contract of libraries names its codes itself: libraries know nothing else of this program.
const CONTRACT: &str = "crates/goondan-abi/src/wire/call.rs";
/// A word of Google's that is also a code of ours.
const GOOGLES: (&str, &str) = (
    "crates/goondan-models/src/errors/reported.rs",
    "INVALID_ARGUMENT",
);

#[test]
fn codes_are_written_in_the_table_alone() {
    let mut wrong = Vec::new();
    for (name, text) in production() {
        for literal in text.split('"') {
            let is_known = Code::find(literal).is_some_and(|code| code.as_str() == literal);
            let is_code = is_known || mentioned(literal).any(|word| word == literal);
            if is_code && !(name == CONTRACT && is_known) && (name.as_str(), literal) != GOOGLES {
                wrong.push(format!("{name}: \"{literal}\""));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "take these from the table, as `Code::NAME`:\n{}",
        wrong.join("\n")
    );
}

/// The name of each constant, and its code.
fn constants() -> Vec<(String, String)> {
    let table = files("crates/goondan-spec/src/codes", &["rs"]);
    let lines = table.iter().flat_map(|(_, text)| text.lines());
    let rows = lines.filter_map(|line| line.trim().strip_suffix("\" {")?.split_once(" = \""));
    rows.map(|(name, code)| (name.to_owned(), code.to_owned()))
        .collect()
}

#[test]
fn every_row_is_in_use() {
    let constants = constants();
    assert_eq!(constants.len(), explanations().count());
    let sources = production();
    let uses = |name: &str| {
        let begin = format!("Code::{name}");
        let ends = |rest: &str| !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
        sources
            .iter()
            .any(|(_, text)| text.split(&begin).skip(1).any(ends))
    };
    let unused: Vec<&String> = constants
        .iter()
        .filter(|(name, _)| !uses(name))
        .map(|(_, code)| code)
        .collect();
    assert!(unused.is_empty(), "nothing uses {unused:?}");
}

#[test]
fn codes_that_are_mentioned_exist() {
    // What a library of somebody else might say.
    const STRANGERS: [&str; 1] = ["E_NOT_FOUND"];
    let mut texts = production();
    texts.extend(files("docs", &["md"]));
    texts.extend(files("tests/conformance", &["yaml"]));
    texts.extend(files("examples", &["md", "yaml"]));
    let pages = [
        "README.md",
        "ARCHITECTURE.md",
        "CHANGELOG.md",
        "SECURITY.md",
    ];
    texts.extend(pages.map(|name| {
        (
            name.to_owned(),
            fs::read_to_string(repository().join(name)).unwrap(),
        )
    }));
    let mut wrong = Vec::new();
    for (name, text) in &texts {
        let unknown =
            mentioned(text).filter(|word| Code::find(word).is_none() && !STRANGERS.contains(word));
        wrong.extend(unknown.map(|word| format!("{name}: {word}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
