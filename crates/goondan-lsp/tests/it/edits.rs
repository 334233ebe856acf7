//! After any edits, the published diagnostics equal the diagnostics of a fresh load.

use std::collections::BTreeMap;

use goondan_spec::{Diagnostic, Severity};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use crate::client::{
    Client, MockHost, fresh_diagnostics, full_project, mock_host, offset, position, uri,
};

/// Number of tested edit sequences unless `LSP_EDIT_SEQUENCES` is set.
const SEQUENCES: u32 = 100;

/// An edit: index of the file, start as a share of the text length, number of replaced bytes, and
/// new text.
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

/// The current texts by file.
struct Texts(BTreeMap<String, String>);

impl Texts {
    /// Edits a text, and returns the range that an editor sends.
    fn edit(&mut self, file: &str, at: u16, length: u16, new: &str) -> Value {
        let text = self.0.get_mut(file).unwrap();
        let start = text.floor_char_boundary(usize::from(at) * text.len() / usize::from(u16::MAX));
        let end = text.floor_char_boundary((start + usize::from(length)).min(text.len()));
        // No position is between the two bytes of a line end.
        let before_line_end = |at: usize| {
            if text[..at].ends_with('\r') {
                at - 1
            } else {
                at
            }
        };
        let (start, end) = (
            before_line_end(start),
            before_line_end(end).max(before_line_end(start)),
        );
        let range = json!({ "start": position(text, start), "end": position(text, end) });
        assert_eq!(offset(text, &range["start"]), start);
        text.replace_range(start..end, new);
        range
    }
}

fn run(edits: Vec<Edit>) -> Result<(), TestCaseError> {
    let files = full_project();
    let mock_host = mock_host(&files);
    let mut client = Client::with_capabilities(mock_host.clone(), json!({}));
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
        client.notify(
            "textDocument/didChange",
            json!({ "textDocument": document, "contentChanges": changes }),
        );
        client.receive_diagnostics();
    }
    prop_assert_eq!(shown(&client), expected(&mock_host, &texts.0));
    Ok(())
}

/// Returns the published diagnostics as text: file, severity, code, message and range.
fn shown(client: &Client) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for (uri, found) in &client.published {
        let of_file = found.as_array().unwrap().iter();
        all.extend(of_file.map(|diagnostic| {
            format!(
                "{uri} {} {} {} {}",
                diagnostic["severity"],
                diagnostic["code"],
                diagnostic["message"],
                diagnostic["range"]
            )
        }));
    }
    all.sort();
    all
}

fn expected(mock_host: &MockHost, texts: &BTreeMap<String, String>) -> Vec<String> {
    let line = |found: &Diagnostic| {
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
    let mut all: Vec<String> = fresh_diagnostics(mock_host, texts)
        .iter()
        .map(line)
        .collect();
    all.sort();
    all.dedup();
    all
}

#[test]
fn diagnostics_after_edits_match_a_fresh_load() {
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
