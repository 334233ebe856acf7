//! Checks of the documentation: each `$ gdn …` command is run, and must print the shown output.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::sandbox::Sandbox;

/// A command and its output in a console block.
#[derive(Debug)]
struct Shown {
    file: PathBuf,
    command: String,
    output: String,
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}

/// Returns the pages that show commands with their whole output.
fn pages() -> Vec<PathBuf> {
    let pages = [
        "README.md",
        "docs/cli.md",
        "docs/getting-started.md",
        "examples/hello/README.md",
        "examples/newsroom/README.md",
    ];
    pages
        .into_iter()
        .map(|page| repository().join(page))
        .collect()
}

/// Returns all files below `folder`.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| {
            if path.is_dir() {
                files(&path)
            } else {
                vec![path]
            }
        })
        .collect()
}

fn shown(file: &Path) -> Vec<Shown> {
    let text = std::fs::read_to_string(file).unwrap();
    let blocks = text
        .split("```console\n")
        .skip(1)
        .filter_map(|rest| rest.split("\n```").next());
    let commands = blocks.flat_map(|block| block.split("$ ").skip(1));
    let shown = commands.map(|lines| {
        let (command, output) = lines.split_once('\n').unwrap_or((lines, ""));
        Shown {
            file: file.to_owned(),
            command: command.to_owned(),
            output: output.trim_end().to_owned(),
        }
    });
    shown
        .filter(|shown| shown.command.starts_with("gdn "))
        .collect()
}

/// Runs the command in the repository root. Returns standard output and standard error.
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
    String::from_utf8(output.stdout)
        .unwrap()
        .trim_end()
        .to_owned()
}

#[test]
fn commands_in_the_documentation_print_the_shown_output() {
    let all: Vec<Shown> = pages().iter().flat_map(|page| shown(page)).collect();
    assert!(all.len() >= 4, "the pages show commands: {all:#?}");
    for Shown {
        file,
        command,
        output,
    } in all
    {
        assert_eq!(
            printed(&Sandbox::new(), &command),
            output,
            "{}: {command}",
            file.display()
        );
    }
}

#[test]
fn referenced_schemas_exist() {
    let root = repository();
    let folders = ["docs", "examples", "crates/goondan-cli/templates"];
    let below = folders.iter().flat_map(|folder| files(&root.join(folder)));
    let mut seen = 0;
    for file in below.chain([root.join("README.md")]) {
        let Ok(text) = std::fs::read_to_string(&file) else {
            continue;
        };
        for line in text.lines().filter(|line| line.contains("$schema=")) {
            let name = line.rsplit('/').next().unwrap();
            assert!(
                root.join("schemas").join(name).is_file(),
                "{}: {line}",
                file.display()
            );
            seen += 1;
        }
    }
    assert!(seen > 5, "templates and examples name their schema");
}

/// Creates a project from the YAML blocks of `docs/reference.md`, with the files that they name.
fn reference_project() -> Sandbox {
    let page = std::fs::read_to_string(repository().join("docs/reference.md")).unwrap();
    let blocks = page
        .split("```yaml\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next());
    let (packages, others): (Vec<&str>, Vec<&str>) =
        blocks.partition(|block| block.contains("kind: Package"));
    let sandbox = Sandbox::new();
    // A Package must be the first document.
    sandbox.write("p/goondan.yaml", &[packages, others].concat().join("---\n"));
    for file in [
        "prompts/writer.md",
        "prompts/case.md",
        "tools/greet/greet.sh",
        "tools/weather.ts",
        "extensions/turn-count.ts",
        "connectors/inbox.js",
    ] {
        sandbox.write(&format!("p/{file}"), "Here I am.");
    }
    for (folder, name) in [("skills", "titles"), ("more", "house-style")] {
        let text = format!("---\nname: {name}\ndescription: Tells how.\n---\n");
        sandbox.write(&format!("p/{folder}/{name}/SKILL.md"), &text);
    }
    sandbox.write("p/schemas/text.json", r#"{"type": "object"}"#);
    let tools = "apiVersion: goondan.ai/v1\nkind: Package\nmetadata: {name: \"@acme/tools\"}\nspec: {version: 1.4.2}\n";
    sandbox.write("p/.goondan/installed/@acme/tools/goondan.yaml", tools);
    let contents =
        goondan::internal::contents(&sandbox.dir().join("p/.goondan/installed/@acme/tools"))
            .unwrap();
    let locked = format!("{{version: 1.4.2, resolved: \"file:x\", contents: {contents}}}");
    sandbox.write(
        "p/goondan.lock.yaml",
        &format!("lockfileVersion: 1\npackages: {{\"@acme/tools@1.4.2\": {locked}}}\n"),
    );
    sandbox.write(
        "p/tools/greet/tool.yaml",
        "name: greet\ndescription: Greets\nentrypoint: greet.sh\n",
    );
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let script = sandbox.dir().join("p/tools/greet/greet.sh");
        std::fs::set_permissions(script, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let (prefix, suffix) = (std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    for (folder, name, source) in [
        ("tools/text-utils", "text_utils", "c-reverse/reverse.c"),
        ("extensions/tidy", "tidy", "c-layers/layers.c"),
        // The library is not loaded, so any library works.
        ("connectors/pager", "pager", "c-reverse/reverse.c"),
    ] {
        let library = format!("p/{folder}/target/release/{prefix}{name}{suffix}");
        sandbox.write(&library, "");
        let mut compiler = std::process::Command::new("cc");
        compiler
            .args(["-shared", "-fPIC", "-I"])
            .arg(repository().join("include"));
        compiler.arg(repository().join("examples/plugins").join(source));
        assert!(
            compiler
                .arg("-o")
                .arg(sandbox.dir().join(library))
                .status()
                .unwrap()
                .success()
        );
    }
    sandbox
}

#[test]
fn the_reference_examples_are_a_valid_project() {
    let outcome = reference_project().gdn(&["validate", "p", "--json"]);
    let report: serde_json::Value = serde_json::from_str(outcome.ok()).unwrap();
    assert_eq!(report["errors"], serde_json::json!([]));
    // These resources are unused, and their runtimes may not be installed.
    let unused = [
        "Tool/weather",
        "Extension/turn-count",
        "Connector/inbox",
        "Connector/pager",
        "Model/rehearsal",
        "Model/recorded",
    ];
    let is_unused = |one: &serde_json::Value| unused.iter().any(|id| one["resource"] == *id);
    let warnings = report["warnings"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|one| !is_unused(one));
    let codes: Vec<&str> = warnings
        .map(|warning| warning["code"].as_str().unwrap())
        .collect();
    // The keys of the models, connections and servers are not set.
    let lacks_key = |code: &&str| ["E_CONFIG_ENV_MISSING", "W_MCP_CATALOG"].contains(code);
    assert!(
        !codes.is_empty() && codes.iter().all(lacks_key),
        "{report:#}"
    );
}

/// Returns the anchors of the headings of a page, as GitHub creates them.
fn anchors(text: &str) -> Vec<String> {
    let mut in_code = false;
    let lines = text.lines().filter(|line| {
        in_code ^= line.starts_with("```");
        !in_code && line.starts_with('#')
    });
    let anchor = |line: &str| {
        let title = line
            .trim_start_matches('#')
            .trim()
            .to_lowercase()
            .replace(' ', "-");
        title
            .chars()
            .filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_'))
            .collect()
    };
    lines.map(anchor).collect()
}

#[test]
fn links_between_pages_have_existing_targets() {
    let root = repository();
    let top = [
        "README.md",
        "ARCHITECTURE.md",
        "CHANGELOG.md",
        "SECURITY.md",
    ]
    .map(|page| root.join(page));
    let below = ["docs", "examples"]
        .iter()
        .flat_map(|folder| files(&root.join(folder)));
    let pages = below
        .chain(top)
        .filter(|path| path.extension().is_some_and(|suffix| suffix == "md"));
    let mut seen = 0;
    for page in pages {
        let text = std::fs::read_to_string(&page).unwrap();
        let targets = text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next());
        for target in targets.filter(|target| !target.contains("://")) {
            let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
            let file = if path.is_empty() {
                page.clone()
            } else {
                page.parent().unwrap().join(path)
            };
            assert!(file.exists(), "{}: {target}", page.display());
            if !anchor.is_empty() {
                let headings = anchors(&std::fs::read_to_string(&file).unwrap());
                assert!(
                    headings.iter().any(|heading| heading == anchor),
                    "{}: {target}",
                    page.display()
                );
            }
            seen += 1;
        }
    }
    assert!(seen > 50, "{seen}");
}
