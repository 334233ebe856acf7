//! Renames.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::client::{Client, edited, file_of, full_project, position, uri};

struct Project {
    client: Client,
    texts: BTreeMap<String, String>,
}

impl Project {
    fn open(files: &[(&str, &str)]) -> Self {
        let mut client = Client::new(files);
        files
            .iter()
            .for_each(|(file, text)| client.open(file, text));
        let texts = files
            .iter()
            .map(|(file, text)| ((*file).to_owned(), (*text).to_owned()))
            .collect();
        Project { client, texts }
    }

    fn answer(&mut self, file: &str, before: &str, new: &str) -> Value {
        let text = &self.texts[file];
        let at = text.find(before).unwrap() + before.len();
        let params = json!({ "textDocument": { "uri": uri(file) }, "position": position(text, at), "newName": new });
        self.client.answer("textDocument/rename", params)
    }

    /// Renames the resource after `before`, and applies the edits.
    fn rename(&mut self, file: &str, before: &str, new: &str) {
        let answer = self.answer(file, before, new);
        for (uri, edits) in answer["result"]["changes"]
            .as_object()
            .unwrap_or_else(|| panic!("{answer}"))
        {
            let file = file_of(uri);
            let text = edited(&self.texts[&file], edits);
            self.client.replace(&file, &text);
            self.texts.insert(file, text);
        }
        assert!(
            self.client
                .published
                .values()
                .all(|found| found == &json!([])),
            "{:#?}",
            self.client.published
        );
    }

    fn refusal_message(&mut self, file: &str, before: &str, new: &str) -> String {
        self.answer(file, before, new)["error"]["message"]
            .as_str()
            .unwrap()
            .to_owned()
    }
}

#[test]
fn renaming_back_restores_the_original_text() {
    let files = full_project();
    for (before, old) in [
        ("Model/", "main"),
        ("name: \"", "writer"),
        ("Tool/", "notes"),
        ("Extension/", "log"),
        ("kind: Swarm\nmetadata: {name: ", "default"),
    ] {
        let mut project = Project::open(&files);
        let texts = project.texts.clone();
        project.rename("goondan.yaml", before, "another-name");
        assert_ne!(project.texts, texts, "{old}");
        assert!(
            !project
                .texts
                .values()
                .any(|text| text.contains(&format!("/{old}"))),
            "{old}: {:#?}",
            project.texts
        );
        project.rename("goondan.yaml", before, old);
        assert_eq!(project.texts, texts, "{old}");
    }
    let mut project = Project::open(&files);
    let texts = project.texts.clone();
    project.rename("resources/rest.yaml", "Connector/", "other");
    project.rename("resources/rest.yaml", "Connector/", "hook");
    assert_eq!(project.texts, texts);
}

#[test]
fn invalid_renames_are_rejected() {
    let mut project = Project::open(&full_project());
    let taken = project.refusal_message("goondan.yaml", "Tool/", "files");
    assert!(taken.contains("`Tool/files` already exists"), "{taken}");
    assert!(
        project
            .refusal_message("goondan.yaml", "Tool/", "No Name")
            .contains("not a valid Tool name")
    );
    assert!(
        project
            .refusal_message("goondan.yaml", "kind: Tool, name: ", "x")
            .contains("built in")
    );
    assert!(
        project
            .refusal_message("goondan.yaml", "apiVersion", "x")
            .contains("no resource name")
    );
}

#[test]
fn renaming_a_name_with_escapes_is_rejected() {
    let [(name, text), rest] = full_project();
    let text = text.replace("modelRef: Model/main", "modelRef: \"Model/m\\x61in\"");
    let mut project = Project::open(&[(name, &text), rest]);
    let refusal_message =
        project.refusal_message("goondan.yaml", "kind: Model\nmetadata: {name: ", "x");
    assert!(
        refusal_message.contains("with escapes") && refusal_message.contains("line 17"),
        "{refusal_message}"
    );
}

#[test]
fn aliases_are_renamed_once() {
    let [(name, text), rest] = full_project();
    let text = text.replace("modelRef: Model/main", "modelRef: &m Model/main");
    // An anchor is valid only in its document, so the alias is in the same document.
    let text = text.replace(
        "name: \"writer\"",
        "name: \"writer\"\n  labels: {x: &w writer, y: *w}",
    );
    let text = text.replace(
        "entryAgent: {kind: Agent, name: writer}\n  agents: [{ref: Agent/writer}]",
        "entryAgent: &a Agent/writer\n  agents: [{ref: *a}]",
    );
    assert!(text.contains("*w") && text.contains("*a"), "{text}");
    let mut project = Project::open(&[(name, &text), rest]);
    let before = project.texts.clone();
    for (reference, old) in [("&m Model/", "main"), ("&a Agent/", "writer")] {
        project.rename("goondan.yaml", reference, "other");
        let renamed = &project.texts["goondan.yaml"];
        assert!(
            renamed.contains(&format!("{reference}other\n")),
            "{renamed}"
        );
        assert!(renamed.contains("agents: [{ref: *a}]"), "{renamed}");
        assert!(
            renamed.contains("labels: {x: &w writer, y: *w}"),
            "{renamed}"
        );
        project.rename("goondan.yaml", reference, old);
        assert_eq!(project.texts, before);
    }
}

#[test]
fn prepare_rename_returns_the_name_and_its_range() {
    let [(_, text), _] = full_project();
    let mut project = Project::open(&full_project());
    let at = position(text, text.find("Tool/notes").unwrap() + 6);
    let shown = project
        .client
        .request_at("textDocument/prepareRename", "goondan.yaml", &at);
    assert_eq!(shown["placeholder"], "notes");
    let start = position(text, text.find("Tool/notes").unwrap() + 5);
    assert_eq!(shown["range"]["start"], start);
    let at = position(text, text.find("name: bash").unwrap() + 7);
    assert_eq!(
        project
            .client
            .request_at("textDocument/prepareRename", "goondan.yaml", &at),
        Value::Null
    );
}
