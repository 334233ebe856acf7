//! After any edits, what is published is what a fresh load finds.

use std::collections::BTreeMap;

use goondan_spec::{Diagnostic, Severity};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use crate::client::{Client, Machine, everything, found, machine, offset, position, uri};

/// How many sequences are tried where `LSP_EDIT_SEQUENCES` says nothing.
const SEQUENCES: u32 = 100;

/// An edit of one of the files: from and to which share of it, and what is written there.
type Edit = (usize, u16, u16, &'static str);

fn edits() -> impl Strategy<Value = Vec<Edit>> {
    let pieces = prop::sample::select(vec![
        "",
        "",
        "a",
        "\n",
        " ",
        "- ",
        ": ",
        "{",
        "}",
        "[",
        "]",
        "'",
        "\"",
        "#",
        "é",
        "😀",
        "\r\n",
        "writer",
        "Tool/",
        "name: main",
        "---\n",
        "kind: Agent",
        "&x ",
        "*x",
        "|\n",
        "\t",
        "notes",
        "bash",
        "spec:",
    ]);
    prop::collection::vec(
        (
            0..2usize,
            any::<u16>(),
            prop_oneof![3 => 0..9u16, 1 => 0..400u16],
            pieces,
        ),
        1..12,
    )
}

/// Both texts, as far as they were edited, and the way to one change of them.
struct Texts(BTreeMap<String, String>);

impl Texts {
    /// Edits a text, and gives the range that an editor tells.
    fn edit(&mut self, file: &str, at: u16, length: u16, new: &str) -> Value {
        let text = self.0.get_mut(file).unwrap();
        let start = text.floor_char_boundary(usize::from(at) * text.len() / usize::from(u16::MAX));
        let end = text.floor_char_boundary((start + usize::from(length)).min(text.len()));
        // Between the two bytes of one end of a line is no place.
        let outside = |at: usize| {
            if text[..at].ends_with('\r') {
                at - 1
            } else {
                at
            }
        };
        let (start, end) = (outside(start), outside(end).max(outside(start)));
        let range = json!({ "start": position(text, start), "end": position(text, end) });
        assert_eq!(offset(text, &range["start"]), start);
        text.replace_range(start..end, new);
        range
    }
}

fn run(edits: Vec<Edit>) -> Result<(), TestCaseError> {
    let files = everything();
    let machine = machine(&files);
    let mut client = Client::with(machine.clone(), json!({}));
    let mut texts = Texts(
        files
            .iter()
            .map(|(file, text)| ((*file).to_owned(), (*text).to_owned()))
            .collect(),
    );
    files
        .iter()
        .for_each(|(file, text)| client.open(file, text));
    for (version, (which, at, length, new)) in edits.into_iter().enumerate() {
        let file = files[which].0;
        let range = texts.edit(file, at, length, new);
        let document = json!({ "uri": uri(file), "version": version + 2 });
        let changes = json!([{ "range": range, "text": new }]);
        client.tell(
            "textDocument/didChange",
            json!({ "textDocument": document, "contentChanges": changes }),
        );
        client.settle();
    }
    prop_assert_eq!(shown(&client), expected(&machine, &texts.0));
    Ok(())
}

/// What the client shows: file, severity, code, message, and the bytes that are marked.
fn shown(client: &Client) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for (uri, found) in &client.published {
        let of_file = found.as_array().unwrap().iter();
        all.extend(of_file.map(|one| {
            format!(
                "{uri} {} {} {} {}",
                one["severity"], one["code"], one["message"], one["range"]
            )
        }));
    }
    all.sort();
    all
}

fn expected(machine: &Machine, texts: &BTreeMap<String, String>) -> Vec<String> {
    let one = |found: &Diagnostic| {
        let file = found
            .file
            .clone()
            .unwrap_or_else(|| "goondan.yaml".to_owned());
        let text = &texts[&file];
        let range = match found.position.filter(|_| found.file.is_some()) {
            Some(at) => json!({ "start": position(text, at.start), "end": position(text, at.end) }),
            None => {
                json!({ "start": { "line": 0, "character": 0 }, "end": { "line": 0, "character": 0 } })
            }
        };
        let message = match &found.suggestion {
            Some(help) => format!("{}\nhelp: {help}", found.message),
            None => found.message.clone(),
        };
        let severity = if found.severity == Severity::Error {
            1
        } else {
            2
        };
        format!(
            "{} {severity} {} {} {range}",
            uri(&file),
            json!(found.code),
            json!(message)
        )
    };
    let mut all: Vec<String> = found(machine, texts).iter().map(one).collect();
    all.sort();
    all.dedup();
    all
}

#[test]
fn published_is_what_a_fresh_load_finds() {
    let count = std::env::var("LSP_EDIT_SEQUENCES")
        .ok()
        .and_then(|count| count.parse().ok())
        .unwrap_or(SEQUENCES);
    let mut runner = TestRunner::new(ProptestConfig {
        cases: count,
        ..ProptestConfig::default()
    });
    runner.run(&edits(), run).unwrap();
}
