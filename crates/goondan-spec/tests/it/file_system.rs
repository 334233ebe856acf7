//! The same through the real file system: links, folders in the place of files, and what a process may not read.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::support::{SOUND, base, found};
use goondan_spec::value::read_env_files;
use goondan_spec::{Environment, LoadInput, LoadResult, OsFiles, load};

fn project() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("goondan.yaml"), SOUND).unwrap();
    folder
}

fn load_at(root: &Path) -> LoadResult {
    load(LoadInput {
        root,
        files: &OsFiles,
        base: &base(),
    })
}

#[test]
fn a_folder_and_its_manifest_are_the_same_bundle() {
    let folder = project();
    for root in [folder.path().to_owned(), folder.path().join("goondan.yaml")] {
        let bundle = load_at(&root).bundle.unwrap();
        assert_eq!(bundle.root(), folder.path());
        assert_eq!(bundle.files(), ["goondan.yaml"]);
    }
}

#[test]
fn links_end_in_diagnostics_never_in_a_loop() {
    let folder = project();
    let outside = project();
    let at = |name: &str| folder.path().join(name);
    symlink(folder.path(), at("loop")).unwrap();
    symlink("agents.yaml", at("tools.yaml")).unwrap();
    symlink("tools.yaml", at("agents.yaml")).unwrap();
    symlink("nowhere", at("models.yaml")).unwrap();
    symlink(outside.path().join("goondan.yaml"), at("swarms.yaml")).unwrap();
    fs::create_dir(at("connectors.yaml")).unwrap();
    let loaded = load_at(folder.path());
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
fn an_entry_or_prompt_behind_a_link_must_stay_inside() {
    let folder = project();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("libx.so"), "").unwrap();
    fs::create_dir(folder.path().join("tools")).unwrap();
    symlink(
        outside.path().join("libx.so"),
        folder.path().join("tools/libx.so"),
    )
    .unwrap();
    symlink(outside.path(), folder.path().join("lib")).unwrap();
    let tool = |entry: &str| {
        format!(
            "apiVersion: goondan.ai/v1\nkind: Tool\nmetadata: {{name: x}}\nspec: {{entry: {entry}}}\n"
        )
    };
    for entry in ["./tools/x", "./tools/libx.so", "./lib/x"] {
        fs::write(folder.path().join("tools.yaml"), tool(entry)).unwrap();
        assert_eq!(
            found(&load_at(folder.path())),
            ["E_CONFIG_PATH_ESCAPE tools.yaml:4 spec.entry"],
            "{entry}"
        );
    }
    fs::write(folder.path().join("libown.so"), "").unwrap();
    symlink("../libown.so", folder.path().join("tools/libown.so")).unwrap();
    fs::write(folder.path().join("tools.yaml"), tool("tools/own")).unwrap();
    assert!(load_at(folder.path()).bundle.is_some());
}

#[test]
fn no_field_reads_a_file_with_keys_under_another_name() {
    let folder = project();
    let at = |name: &str| folder.path().join(name);
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
        let loaded = load_at(folder.path());
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
fn a_folder_in_the_place_of_an_environment_file_is_no_error() {
    let folder = project();
    fs::create_dir(folder.path().join(".env")).unwrap();
    fs::write(folder.path().join(".env.local"), "A=1\n").unwrap();
    let environment =
        read_env_files(&OsFiles, folder.path(), None, Environment::default()).unwrap();
    assert_eq!(environment.get("A"), Some("1"));
}
