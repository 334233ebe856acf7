//! A test client for the language server, and test projects.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use goondan_lsp::{LanguageServer, LspHost};
use goondan_spec::kinds::{ConnectorManifest, EventDeclaration, ExportSpec, ToolManifest};
use goondan_spec::{BasePackage, Bundle, Diagnostic, FileAccess, LoadInput, MemoryFiles, load};
use serde_json::{Value, json};

/// The project directory.
pub(crate) const ROOT: &str = "/p";

/// A host with files in memory.
#[derive(Clone)]
pub(crate) struct MockHost {
    pub(crate) files: MemoryFiles,
    pub(crate) base: BasePackage,
}

impl LspHost for MockHost {
    fn files(&self) -> &dyn FileAccess {
        &self.files
    }

    fn base_package(&self) -> &BasePackage {
        &self.base
    }

    fn check(&self, _: &Path, _: &Arc<Bundle>) -> Vec<Diagnostic> {
        Vec::new()
    }

    fn variables(&self, _: &Path) -> Vec<String> {
        vec!["OPENAI_API_KEY".to_owned()]
    }
}

/// A client with its own server.
pub(crate) struct Client {
    server: LanguageServer<MockHost>,
    next: i32,
    /// The last published diagnostics by URI.
    pub(crate) published: BTreeMap<String, Value>,
}

impl Client {
    /// Starts a client with files below [`ROOT`]. No file is open.
    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        Client::with_capabilities(
            mock_host(files),
            json!({ "general": { "positionEncodings": ["utf-16"] } }),
        )
    }

    pub(crate) fn with_capabilities(mock_host: MockHost, capabilities: Value) -> Self {
        let mut client = Client {
            server: LanguageServer::new(mock_host),
            next: 0,
            published: BTreeMap::new(),
        };
        client.request(
            "initialize",
            json!({ "processId": null, "rootUri": null, "capabilities": capabilities }),
        );
        client.notify("initialized", json!({}));
        client
    }

    /// Sends a raw message body, and returns the answers.
    pub(crate) fn send_bytes(&mut self, body: &[u8]) -> Vec<Value> {
        self.server.receive(body)
    }

    /// Receives pending diagnostics into `published`.
    pub(crate) fn receive_diagnostics(&mut self) {
        for message in self.server.pending_diagnostics() {
            assert_eq!(message["method"], "textDocument/publishDiagnostics");
            let uri = message["params"]["uri"].as_str().unwrap().to_owned();
            self.published
                .insert(uri, message["params"]["diagnostics"].clone());
        }
    }

    /// Sends a request, and returns the whole answer.
    pub(crate) fn answer(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        let body = json!({ "jsonrpc": "2.0", "id": self.next, "method": method, "params": params })
            .to_string();
        let mut answers = self.server.receive(body.as_bytes());
        assert_eq!(answers.len(), 1, "{answers:?}");
        answers.remove(0)
    }

    /// Sends a request that must succeed, and returns the result.
    pub(crate) fn request(&mut self, method: &str, params: Value) -> Value {
        let mut answer = self.answer(method, params);
        assert!(answer.get("error").is_none(), "{answer}");
        answer["result"].take()
    }

    pub(crate) fn notify(&mut self, method: &str, params: Value) {
        let body = json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string();
        assert_eq!(self.server.receive(body.as_bytes()), Vec::<Value>::new());
    }

    pub(crate) fn open(&mut self, file: &str, text: &str) {
        let document =
            json!({ "uri": uri(file), "languageId": "yaml", "version": 1, "text": text });
        self.notify("textDocument/didOpen", json!({ "textDocument": document }));
        self.receive_diagnostics();
    }

    pub(crate) fn replace(&mut self, file: &str, text: &str) {
        let document = json!({ "uri": uri(file), "version": 2 });
        self.notify(
            "textDocument/didChange",
            json!({ "textDocument": document, "contentChanges": [{ "text": text }] }),
        );
        self.receive_diagnostics();
    }

    /// Sends a request about a position in a file, and returns the result.
    pub(crate) fn request_at(&mut self, method: &str, file: &str, position: &Value) -> Value {
        self.request(
            method,
            json!({ "textDocument": { "uri": uri(file) }, "position": position }),
        )
    }

    /// Returns the labels of the completion items at `|` in the text of `goondan.yaml`.
    pub(crate) fn completion_labels(&mut self, text: &str) -> Vec<String> {
        let labels = self
            .completion_items(text)
            .into_iter()
            .map(|item| item["label"].as_str().unwrap().to_owned());
        labels.collect()
    }

    /// Returns the completion items at `|` in the text of `goondan.yaml`.
    pub(crate) fn completion_items(&mut self, text: &str) -> Vec<Value> {
        let (text, position) = cursor(text);
        self.open("goondan.yaml", &text);
        let answer = self.request_at("textDocument/completion", "goondan.yaml", &position);
        answer["items"].as_array().cloned().unwrap_or_default()
    }

    /// Returns the codes of the published diagnostics of a file.
    pub(crate) fn codes(&self, file: &str) -> Vec<String> {
        let found = self
            .published
            .get(&uri(file))
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default();
        found
            .iter()
            .map(|diagnostic| diagnostic["code"].as_str().unwrap().to_owned())
            .collect()
    }
}

pub(crate) fn uri(file: &str) -> String {
    format!("file://{ROOT}/{file}")
}

/// Removes the `|` from a text, and returns the text and the position of the `|`.
pub(crate) fn cursor(text: &str) -> (String, Value) {
    let at = text.find('|').expect("a `|` marks the cursor");
    (text.replacen('|', "", 1), position(text, at))
}

/// Returns the position of a byte offset in UTF-16 units, like VS Code.
pub(crate) fn position(text: &str, at: usize) -> Value {
    let before = &text[..at];
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    json!({ "line": before.matches('\n').count(), "character": before[start..].encode_utf16().count() })
}

/// Returns the byte offset of a position.
pub(crate) fn offset(text: &str, position: &Value) -> usize {
    let line = usize::try_from(position["line"].as_u64().unwrap()).unwrap();
    let expected_units = usize::try_from(position["character"].as_u64().unwrap()).unwrap();
    let start: usize = text.split_inclusive('\n').take(line).map(str::len).sum();
    let mut units = 0;
    for (at, c) in text[start..].char_indices() {
        if units >= expected_units {
            return start + at;
        }
        units += c.len_utf16();
    }
    text.len()
}

/// Applies text edits like an editor.
pub(crate) fn edited(text: &str, edits: &Value) -> String {
    let mut edits: Vec<&Value> = edits.as_array().unwrap().iter().collect();
    edits.sort_by_key(|edit| std::cmp::Reverse(offset(text, &edit["range"]["start"])));
    let mut new = text.to_owned();
    for edit in edits {
        let (start, end) = (
            offset(text, &edit["range"]["start"]),
            offset(text, &edit["range"]["end"]),
        );
        new.replace_range(start..end, edit["newText"].as_str().unwrap());
    }
    new
}

pub(crate) fn mock_host(files: &[(&str, &str)]) -> MockHost {
    let add =
        |all: MemoryFiles, (file, text): &(&str, &str)| all.file(format!("{ROOT}/{file}"), *text);
    MockHost {
        files: files.iter().fold(MemoryFiles::new().directory(ROOT), add),
        base: base(),
    }
}

/// Returns the diagnostics of a fresh load of these texts.
pub(crate) fn fresh_diagnostics(
    mock_host: &MockHost,
    texts: &BTreeMap<String, String>,
) -> Vec<Diagnostic> {
    let add = |all: MemoryFiles, (file, text): (&String, &String)| {
        all.file(format!("{ROOT}/{file}"), text.as_str())
    };
    let files = texts.iter().fold(mock_host.files.clone(), add);
    load(LoadInput {
        root: Path::new(ROOT),
        files: &files,
        base: &mock_host.base,
    })
    .diagnostics
}

fn base() -> BasePackage {
    let export = |name: &str| ExportSpec {
        name: name.to_owned(),
        description: format!("Does {name}. And more."),
        parameters: json!({ "type": "object", "properties": { "path": { "type": "string" } } }),
        read_only: true,
        ..ExportSpec::default()
    };
    let tool = |name: &str, exports: &[&str]| ToolManifest {
        name: name.to_owned(),
        exports: exports
            .iter()
            .map(|name| export(name))
            .collect::<Vec<_>>()
            .into(),
        ..ToolManifest::default()
    };
    let connector = ConnectorManifest {
        name: "webhook".to_owned(),
        events: vec![EventDeclaration {
            name: "message".to_owned(),
            properties: BTreeMap::new(),
        }],
        ..ConnectorManifest::default()
    };
    BasePackage {
        tools: vec![tool("files", &["read", "write"]), tool("bash", &["exec"])],
        extensions: vec![("logging".to_owned(), serde_json::Map::new())],
        connectors: vec![connector],
    }
}

/// A project in two files that contains every kind of reference to a resource.
pub(crate) fn full_project() -> [(&'static str, &'static str); 2] {
    [
        (
            "goondan.yaml",
            r#"apiVersion: goondan.ai/v1
kind: Model
metadata: {name: main}
spec: {provider: scripted, model: any}
---
apiVersion: goondan.ai/v1
kind: Model
metadata: {name: spare}
spec: {provider: scripted, model: any}
---
apiVersion: goondan.ai/v1
kind: Agent
metadata:
  name: "writer"   # é😀 in quotes
spec:
  modelConfig:
    modelRef: Model/main
    fallbacks:
      - ref: Model/spare
  tools:
    - ref: Tool/notes
      exports: [read]
    - ref: {kind: Tool, name: bash}
  extensions:
    - {ref: 'Extension/log'}
  requiredTools: [notes__read]
  permissions:
    rules:
      - {tool: notes__*, action: ask}
      - {tool: "bash__exec", action: deny}
---
apiVersion: goondan.ai/v1
kind: Swarm
metadata: {name: default}
spec:
  entryAgent: {kind: Agent, name: writer}
  agents: [{ref: Agent/writer}]
"#,
        ),
        (
            "resources/rest.yaml",
            r#"apiVersion: goondan.ai/v1
kind: Tool
metadata: {name: notes}
spec: {entry: "builtin:files"}
---
apiVersion: goondan.ai/v1
kind: Extension
metadata: {name: log}
spec: {entry: "builtin:logging"}
---
apiVersion: goondan.ai/v1
kind: Connector
metadata: {name: hook}
spec: {entry: "builtin:webhook", events: [{name: message}]}
---
apiVersion: goondan.ai/v1
kind: Connection
metadata: {name: desk}
spec:
  connectorRef: Connector/hook
  swarmRef: Swarm/default
  ingress: {rules: [{match: {event: message}, route: {agentRef: Agent/writer}}]}
"#,
        ),
    ]
}

/// Returns the path of a URI relative to the project directory.
pub(crate) fn file_of(uri: &str) -> String {
    let path = PathBuf::from(uri.trim_start_matches("file://"));
    path.strip_prefix(ROOT)
        .unwrap()
        .to_string_lossy()
        .into_owned()
}
