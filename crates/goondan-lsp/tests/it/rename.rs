//! Renames, there and back.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::client::{Client, edited, everything, file_of, position, uri};

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

    /// Renames what stands behind `before`, and takes over the edits.
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

    fn refused(&mut self, file: &str, before: &str, new: &str) -> String {
        self.answer(file, before, new)["error"]["message"]
            .as_str()
            .unwrap()
            .to_owned()
    }
}

#[test]
fn there_and_back_is_the_same_text() {
    let files = everything();
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
fn what_can_not_be_renamed_is_refused() {
    let mut project = Project::open(&everything());
    let taken = project.refused("goondan.yaml", "Tool/", "files");
    assert!(taken.contains("`Tool/files` already exists"), "{taken}");
    assert!(
        project
            .refused("goondan.yaml", "Tool/", "No Name")
            .contains("not a valid Tool name")
    );
    assert!(
        project
            .refused("goondan.yaml", "kind: Tool, name: ", "x")
            .contains("built in")
    );
    assert!(
        project
            .refused("goondan.yaml", "apiVersion", "x")
            .contains("no resource name")
    );
}

#[test]
fn a_name_with_escapes_is_refused() {
    let [(name, text), rest] = everything();
    let text = text.replace("modelRef: Model/main", "modelRef: \"Model/m\\x61in\"");
    let mut project = Project::open(&[(name, &text), rest]);
    let refused = project.refused("goondan.yaml", "kind: Model\nmetadata: {name: ", "x");
    assert!(
        refused.contains("with escapes") && refused.contains("line 17"),
        "{refused}"
    );
}

#[test]
fn aliases_are_renamed_once() {
    let [(name, text), rest] = everything();
    let text = text
        .replace("modelRef: Model/main", "modelRef: &m Model/main")
        .replace(
            "metadata: {name: default}",
            "metadata: {name: default, labels: {a: *m}}",
        );
    // An anchor ends with its document, so this one is inside of one.
    let text = text.replace(", labels: {a: *m}", "").replace(
        "name: \"writer\"",
        "name: \"writer\"\n  labels: {x: &w writer, y: *w}",
    );
    let mut project = Project::open(&[(name, &text), rest]);
    let before = project.texts.clone();
    project.rename("goondan.yaml", "&m Model/", "other");
    project.rename("goondan.yaml", "&m Model/", "main");
    assert_eq!(project.texts, before);
}

#[test]
fn what_would_be_renamed_is_shown_first() {
    let [(_, text), _] = everything();
    let mut project = Project::open(&everything());
    let at = position(text, text.find("Tool/notes").unwrap() + 6);
    let shown = project
        .client
        .at("textDocument/prepareRename", "goondan.yaml", &at);
    assert_eq!(shown["placeholder"], "notes");
    let start = position(text, text.find("Tool/notes").unwrap() + 5);
    assert_eq!(shown["range"]["start"], start);
    let at = position(text, text.find("name: bash").unwrap() + 7);
    assert_eq!(
        project
            .client
            .at("textDocument/prepareRename", "goondan.yaml", &at),
        Value::Null
    );
}
