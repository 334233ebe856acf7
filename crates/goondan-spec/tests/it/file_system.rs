//! Loading from the real file system: links, directories with the names of files, and secret files.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::support::{VALID_PROJECT, base, found};
use goondan_spec::value::read_env_files;
use goondan_spec::{Environment, LoadInput, LoadResult, OsFiles, load};

fn project() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("goondan.yaml"), VALID_PROJECT).unwrap();
    directory
}

fn load_at(root: &Path) -> LoadResult {
    load(LoadInput {
        root,
        files: &OsFiles,
        base: &base(),
    })
}

#[test]
fn a_directory_and_its_manifest_load_the_same_bundle() {
    let directory = project();
    for root in [
        directory.path().to_owned(),
        directory.path().join("goondan.yaml"),
    ] {
        let bundle = load_at(&root).bundle.unwrap();
        assert_eq!(bundle.root(), directory.path());
        assert_eq!(bundle.files(), ["goondan.yaml"]);
    }
}

#[test]
fn bad_links_are_reported_without_a_loop() {
    let directory = project();
    let outside = project();
    let at = |name: &str| directory.path().join(name);
    symlink(directory.path(), at("loop")).unwrap();
    symlink("agents.yaml", at("tools.yaml")).unwrap();
    symlink("tools.yaml", at("agents.yaml")).unwrap();
    symlink("nowhere", at("models.yaml")).unwrap();
    symlink(outside.path().join("goondan.yaml"), at("swarms.yaml")).unwrap();
    fs::create_dir(at("connectors.yaml")).unwrap();
    let loaded = load_at(directory.path());
    assert_eq!(
        found(&loaded),
        [
            "E_CONFIG_PARSE_ERROR agents.yaml",
            "E_CONFIG_PARSE_ERROR connectors.yaml",
            "E_CONFIG_PARSE_ERROR models.yaml",
            "E_CONFIG_PATH_ESCAPE swarms.yaml",
            "E_CONFIG_PARSE_ERROR tools.yaml",
        ]
    );
}

#[test]
fn an_entry_or_prompt_behind_a_link_must_stay_inside_the_project() {
    let directory = project();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("libx.so"), "").unwrap();
    fs::create_dir(directory.path().join("tools")).unwrap();
    symlink(
        outside.path().join("libx.so"),
        directory.path().join("tools/libx.so"),
    )
    .unwrap();
    symlink(outside.path(), directory.path().join("lib")).unwrap();
    let tool = |entry: &str| {
        format!(
            "apiVersion: goondan.ai/v1\nkind: Tool\nmetadata: {{name: x}}\nspec: {{entry: {entry}}}\n"
        )
    };
    for entry in ["./tools/x", "./tools/libx.so", "./lib/x"] {
        fs::write(directory.path().join("tools.yaml"), tool(entry)).unwrap();
        assert_eq!(
            found(&load_at(directory.path())),
            ["E_CONFIG_PATH_ESCAPE tools.yaml:4 spec.entry"],
            "{entry}"
        );
    }
    fs::write(directory.path().join("libown.so"), "").unwrap();
    symlink("../libown.so", directory.path().join("tools/libown.so")).unwrap();
    fs::write(directory.path().join("tools.yaml"), tool("tools/own")).unwrap();
    assert!(load_at(directory.path()).bundle.is_some());

    fs::remove_file(directory.path().join("tools.yaml")).unwrap();
    fs::write(outside.path().join("prompt.md"), "Be brief.").unwrap();
    symlink(
        outside.path().join("prompt.md"),
        directory.path().join("prompt.md"),
    )
    .unwrap();
    let agent = |prompt: &str| {
        format!(
            "apiVersion: goondan.ai/v1\nkind: Agent\nmetadata: {{name: x}}\n\
             spec: {{modelConfig: {{modelRef: Model/m}}, prompt: {{systemRef: {prompt}}}}}\n"
        )
    };
    for prompt in ["./prompt.md", "lib/prompt.md"] {
        fs::write(directory.path().join("agents.yaml"), agent(prompt)).unwrap();
        assert_eq!(
            found(&load_at(directory.path())),
            ["E_CONFIG_PATH_ESCAPE agents.yaml:4 spec.prompt.systemRef"],
            "{prompt}"
        );
    }
    fs::write(directory.path().join("own.md"), "Be brief.").unwrap();
    symlink("../own.md", directory.path().join("tools/own.md")).unwrap();
    fs::write(directory.path().join("agents.yaml"), agent("tools/own.md")).unwrap();
    assert!(load_at(directory.path()).bundle.is_some());
}

#[test]
fn fields_cannot_read_secret_files_through_links() {
    let directory = project();
    let at = |name: &str| directory.path().join(name);
    fs::write(at(".env.production"), "KEY=1").unwrap();
    for name in ["prompts", "linked", "hard"] {
        fs::create_dir(at(name)).unwrap();
    }
    symlink("../.env.production", at("prompts/linked.md")).unwrap();
    fs::hard_link(at(".env.production"), at("prompts/hard.md")).unwrap();
    symlink("../.env.production", at("linked/SKILL.md")).unwrap();
    fs::hard_link(at(".env.production"), at("hard/SKILL.md")).unwrap();
    fs::hard_link(at(".env.production"), at("notes.md")).unwrap();
    symlink("prompts/plain.md", at("plain.md")).unwrap();
    fs::write(at("prompts/plain.md"), "Be brief.").unwrap();
    let refusals = |fields: &str| {
        let agent = format!(
            "apiVersion: goondan.ai/v1\nkind: Agent\nmetadata: {{name: x}}\n\
             spec: {{modelConfig: {{modelRef: Model/main}}, {fields}}}\n"
        );
        fs::write(at("agents.yaml"), agent).unwrap();
        let loaded = load_at(directory.path());
        let messages = loaded.diagnostics.into_iter().map(|found| found.message);
        messages
            .filter(|message| message.contains("may contain keys"))
            .count()
    };
    for (fields, expected) in [
        ("prompt: {systemRef: prompts/linked.md}", 1),
        ("prompt: {systemRef: prompts/hard.md}", 1),
        ("prompt: {systemRef: .env.production}", 1),
        ("prompt: {systemRef: plain.md}", 0),
        ("prompt: {instructions: [notes.md]}, workdir: project", 1),
        ("skills: [linked]", 1),
        ("skills: [hard]", 1),
    ] {
        assert_eq!(refusals(fields), expected, "{fields}");
    }
}

#[test]
fn a_directory_named_like_an_env_file_is_ignored() {
    let directory = project();
    fs::create_dir(directory.path().join(".env")).unwrap();
    fs::write(directory.path().join(".env.local"), "A=1\n").unwrap();
    let environment =
        read_env_files(&OsFiles, directory.path(), None, Environment::default()).unwrap();
    assert_eq!(environment.get("A"), Some("1"));
}
