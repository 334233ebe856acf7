//! Definitions, references, symbols, semantic tokens and folding ranges.

use serde_json::{Value, json};

use crate::client::{Client, file_of, full_project, offset, position, uri};

/// Every reference to a resource: the file, the surrounding text with the name in `<>`, and the
/// kind of the resource.
const SITES: [(&str, &str, &str); 17] = [
    ("goondan.yaml", "modelRef: Model/<main>", "Model"),
    ("goondan.yaml", "- ref: Model/<spare>", "Model"),
    ("goondan.yaml", "metadata: {name: <spare>}", "Model"),
    ("goondan.yaml", "- ref: Tool/<notes>", "Tool"),
    ("goondan.yaml", "ref: {kind: Tool, name: <bash>}", "Tool"),
    ("goondan.yaml", "{ref: 'Extension/<log>'}", "Extension"),
    ("goondan.yaml", "requiredTools: [<notes>__read]", "Tool"),
    ("goondan.yaml", "{tool: <notes>__*,", "Tool"),
    ("goondan.yaml", "{tool: \"<bash>__exec\",", "Tool"),
    (
        "goondan.yaml",
        "entryAgent: {kind: Agent, name: <writer>}",
        "Agent",
    ),
    ("goondan.yaml", "agents: [{ref: Agent/<writer>}]", "Agent"),
    (
        "resources/rest.yaml",
        "connectorRef: Connector/<hook>",
        "Connector",
    ),
    ("resources/rest.yaml", "swarmRef: Swarm/<default>", "Swarm"),
    ("resources/rest.yaml", "agentRef: Agent/<writer>", "Agent"),
    // Definitions are also sites.
    ("goondan.yaml", "metadata: {name: <main>}", "Model"),
    ("goondan.yaml", "name: \"<writer>\"", "Agent"),
    ("resources/rest.yaml", "metadata: {name: <notes>}", "Tool"),
];

fn text(file: &str) -> &'static str {
    full_project()
        .into_iter()
        .find(|(name, _)| *name == file)
        .unwrap()
        .1
}

/// Returns the name at a site, and its start offset.
fn site(file: &str, around: &str) -> (String, usize) {
    let (begin, end) = (around.find('<').unwrap(), around.find('>').unwrap());
    let start = text(file)
        .find(&around.replace(['<', '>'], ""))
        .unwrap_or_else(|| panic!("{around}"))
        + begin;
    (around[begin + 1..end].to_owned(), start)
}

fn client() -> Client {
    let files = full_project();
    let mut client = Client::new(&files);
    files
        .iter()
        .for_each(|(file, text)| client.open(file, text));
    assert!(
        client.published.values().all(|found| found == &json!([])),
        "{:#?}",
        client.published
    );
    client
}

/// Returns the file and the text of each location.
fn texts(locations: &Value) -> Vec<(String, String)> {
    let one = |location: &Value| {
        let file = file_of(location["uri"].as_str().unwrap());
        let text = text(&file);
        let range = &location["range"];
        let name = &text[offset(text, &range["start"])..offset(text, &range["end"])];
        (file, name.to_owned())
    };
    locations.as_array().unwrap().iter().map(one).collect()
}

#[test]
fn every_reference_resolves_to_its_definition() {
    let mut client = client();
    for (file, around, kind) in SITES {
        let (name, start) = site(file, around);
        for at in [start, start + name.len()] {
            let found =
                client.request_at("textDocument/definition", file, &position(text(file), at));
            match name.as_str() {
                "bash" => assert_eq!(
                    found,
                    json!([]),
                    "a built-in tool has no definition in a file"
                ),
                _ => assert!(
                    texts(&found)
                        .iter()
                        .all(|(_, found_name)| *found_name == name)
                        && texts(&found).len() == 1,
                    "{around}"
                ),
            }
            let hover = client.request_at("textDocument/hover", file, &position(text(file), at));
            let hover_text = hover["contents"]["value"].as_str().unwrap_or_default();
            assert!(
                hover_text.contains(&format!("**{kind} {name}**")),
                "{around}: {hover_text}"
            );
        }
    }
}

#[test]
fn find_references_returns_every_site_of_a_resource() {
    let mut client = client();
    for (file, around, kind) in SITES {
        let (name, start) = site(file, around);
        let position_of_name = position(text(file), start);
        let params = json!({ "textDocument": { "uri": uri(file) }, "position": position_of_name, "context": { "includeDeclaration": true } });
        let found = texts(&client.request("textDocument/references", params));
        let same = SITES
            .iter()
            .filter(|(file, around, other)| (*other, &site(file, around).0) == (kind, &name));
        let expected =
            same.count() + usize::from(["log", "hook", "default"].contains(&name.as_str()));
        assert!(
            found.iter().all(|(_, found_name)| *found_name == name),
            "{around}: {found:?}"
        );
        assert_eq!(found.len(), expected, "{around}: {found:?}");
    }
}

#[test]
fn the_definition_of_a_path_is_the_file() {
    let yaml = "apiVersion: goondan.ai/v1\nkind: Agent\nmetadata: {name: a}\nspec:\n  prompt: {systemRef: ./prompts/a.md}\n";
    let mut client = Client::new(&[("goondan.yaml", yaml), ("prompts/a.md", "Hello")]);
    client.open("goondan.yaml", yaml);
    let at = position(yaml, yaml.find("prompts/").unwrap());
    let found = client.request_at("textDocument/definition", "goondan.yaml", &at);
    assert_eq!(found["uri"], uri("prompts/a.md"));
}

#[test]
fn resources_are_symbols_even_in_an_invalid_document() {
    let mut client = client();
    let symbols = client.request(
        "textDocument/documentSymbol",
        json!({ "textDocument": { "uri": uri("goondan.yaml") } }),
    );
    let names = |symbols: &Value| -> Vec<String> {
        symbols
            .as_array()
            .unwrap()
            .iter()
            .map(|symbol| symbol["name"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(names(&symbols), ["main", "spare", "writer", "default"]);
    client.replace(
        "goondan.yaml",
        &text("goondan.yaml").replace("spec:", "spec: [{ oh\n  no"),
    );
    let symbols = client.request(
        "textDocument/documentSymbol",
        json!({ "textDocument": { "uri": uri("goondan.yaml") } }),
    );
    assert_eq!(names(&symbols), ["main", "spare", "writer", "default"]);
    let found = client.request("workspace/symbol", json!({ "query": "CONNECT" }));
    assert_eq!(names(&found), ["hook", "desk"]);
}

#[test]
fn semantic_tokens_mark_references_and_definitions() {
    let mut client = client();
    for (file, around, _) in SITES {
        let answer = client.request(
            "textDocument/semanticTokens/full",
            json!({ "textDocument": { "uri": uri(file) } }),
        );
        let (mut line, mut start) = (0, 0);
        let mut tokens = Vec::new();
        let data: Vec<u64> = answer["data"]
            .as_array()
            .unwrap()
            .iter()
            .map(|number| number.as_u64().unwrap())
            .collect();
        for token in data.chunks(5) {
            start = if token[0] == 0 {
                start + token[1]
            } else {
                token[1]
            };
            line += token[0];
            let from = offset(text(file), &json!({ "line": line, "character": start }));
            let to = offset(
                text(file),
                &json!({ "line": line, "character": start + token[2] }),
            );
            tokens.push((text(file)[from..to].to_owned(), from, token[4] == 1));
        }
        let (name, at) = site(file, around);
        let is_definition = around.contains("name: <spare>")
            || around.contains("name: <main>")
            || around.contains("name: \"<")
            || around.contains("metadata: {name: <notes>}");
        assert!(
            tokens.contains(&(name, at, is_definition)),
            "{around}: {tokens:?}"
        );
    }
}

#[test]
fn folding_ranges_are_returned() {
    let mut client = client();
    let answer = client.request(
        "textDocument/foldingRange",
        json!({ "textDocument": { "uri": uri("goondan.yaml") } }),
    );
    let folds = answer.as_array().unwrap();
    assert!(folds.iter().all(|fold| fold["kind"] == "region"));
    let line = |fold: &Value, name: &str| fold[name].as_u64().unwrap();
    let mut ranges: Vec<_> = folds
        .iter()
        .map(|fold| (line(fold, "startLine"), line(fold, "endLine")))
        .collect();
    ranges.sort_unstable();
    assert_eq!(
        ranges,
        [
            // The Models.
            (0, 3),
            (5, 8),
            // The Agent: its metadata, spec, model with fallbacks, tools, extensions and permissions.
            (10, 29),
            (12, 13),
            (14, 29),
            (15, 18),
            (17, 18),
            (19, 22),
            (20, 21),
            (23, 24),
            (26, 29),
            (27, 29),
            // The Swarm and its spec.
            (31, 36),
            (34, 36),
        ]
    );
}
