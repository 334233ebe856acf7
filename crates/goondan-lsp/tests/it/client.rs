//! A client, and projects for it to open.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use goondan_lsp::{LanguageServer, LspHost};
use goondan_spec::kinds::{ConnectorManifest, EventDeclaration, ExportSpec, ToolManifest};
use goondan_spec::{BasePackage, Bundle, Diagnostic, FileAccess, LoadInput, MemoryFiles, load};
use serde_json::{Value, json};

/// The project folder.
pub(crate) const ROOT: &str = "/p";

/// A machine in memory.
#[derive(Clone)]
pub(crate) struct Machine {
    pub(crate) files: MemoryFiles,
    pub(crate) base: BasePackage,
}

impl LspHost for Machine {
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

/// A client that talks to a server.
pub(crate) struct Client {
    server: LanguageServer<Machine>,
    next: i32,
    /// The last that was published, by URI.
    pub(crate) published: BTreeMap<String, Value>,
}

impl Client {
    /// Files below [`ROOT`], none of them open.
    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        Client::with(
            machine(files),
            json!({ "general": { "positionEncodings": ["utf-16"] } }),
        )
    }

    pub(crate) fn with(machine: Machine, capabilities: Value) -> Self {
        let mut client = Client {
            server: LanguageServer::new(machine),
            next: 0,
            published: BTreeMap::new(),
        };
        client.ask(
            "initialize",
            json!({ "processId": null, "rootUri": null, "capabilities": capabilities }),
        );
        client.tell("initialized", json!({}));
        client
    }

    /// Sends bytes as they are.
    pub(crate) fn raw(&mut self, body: &[u8]) -> Vec<Value> {
        self.server.receive(body)
    }

    /// Lets the server say what it has to say.
    pub(crate) fn settle(&mut self) {
        for message in self.server.pending_diagnostics() {
            assert_eq!(message["method"], "textDocument/publishDiagnostics");
            let uri = message["params"]["uri"].as_str().unwrap().to_owned();
            self.published
                .insert(uri, message["params"]["diagnostics"].clone());
        }
    }

    pub(crate) fn answer(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        let body = json!({ "jsonrpc": "2.0", "id": self.next, "method": method, "params": params })
            .to_string();
        let mut answers = self.server.receive(body.as_bytes());
        assert_eq!(answers.len(), 1, "{answers:?}");
        answers.remove(0)
    }

    /// The result of a request, which must have one.
    pub(crate) fn ask(&mut self, method: &str, params: Value) -> Value {
        let mut answer = self.answer(method, params);
        assert!(answer.get("error").is_none(), "{answer}");
        answer["result"].take()
    }

    pub(crate) fn tell(&mut self, method: &str, params: Value) {
        let body = json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string();
        assert_eq!(self.server.receive(body.as_bytes()), Vec::<Value>::new());
    }

    pub(crate) fn open(&mut self, file: &str, text: &str) {
        let document =
            json!({ "uri": uri(file), "languageId": "yaml", "version": 1, "text": text });
        self.tell("textDocument/didOpen", json!({ "textDocument": document }));
        self.settle();
    }

    pub(crate) fn replace(&mut self, file: &str, text: &str) {
        let document = json!({ "uri": uri(file), "version": 2 });
        self.tell(
            "textDocument/didChange",
            json!({ "textDocument": document, "contentChanges": [{ "text": text }] }),
        );
        self.settle();
    }

    /// What a request about a place of a file is answered.
    pub(crate) fn at(&mut self, method: &str, file: &str, position: &Value) -> Value {
        self.ask(
            method,
            json!({ "textDocument": { "uri": uri(file) }, "position": position }),
        )
    }

    /// The labels that are offered where `|` stands in the text of `goondan.yaml`.
    pub(crate) fn offered(&mut self, text: &str) -> Vec<String> {
        let labels = self
            .offers(text)
            .into_iter()
            .map(|item| item["label"].as_str().unwrap().to_owned());
        labels.collect()
    }

    /// What is offered where `|` stands in the text of `goondan.yaml`.
    pub(crate) fn offers(&mut self, text: &str) -> Vec<Value> {
        let (text, position) = cursor(text);
        self.open("goondan.yaml", &text);
        let answer = self.at("textDocument/completion", "goondan.yaml", &position);
        answer["items"].as_array().cloned().unwrap_or_default()
    }

    /// What was published about a file, each as its code.
    pub(crate) fn codes(&self, file: &str) -> Vec<String> {
        let found = self
            .published
            .get(&uri(file))
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default();
        found
            .iter()
            .map(|one| one["code"].as_str().unwrap().to_owned())
            .collect()
    }
}

pub(crate) fn uri(file: &str) -> String {
    format!("file://{ROOT}/{file}")
}

/// A text without its `|`, and where that was.
pub(crate) fn cursor(text: &str) -> (String, Value) {
    let at = text.find('|').expect("a `|` marks the cursor");
    (text.replacen('|', "", 1), position(text, at))
}

/// The place of a byte as VS Code counts.
pub(crate) fn position(text: &str, at: usize) -> Value {
    let before = &text[..at];
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    json!({ "line": before.matches('\n').count(), "character": before[start..].encode_utf16().count() })
}

/// The byte of a place.
pub(crate) fn offset(text: &str, position: &Value) -> usize {
    let line = usize::try_from(position["line"].as_u64().unwrap()).unwrap();
    let wanted = usize::try_from(position["character"].as_u64().unwrap()).unwrap();
    let start: usize = text.split_inclusive('\n').take(line).map(str::len).sum();
    let mut units = 0;
    for (at, c) in text[start..].char_indices() {
        if units >= wanted {
            return start + at;
        }
        units += c.len_utf16();
    }
    text.len()
}

/// `text` with edits, as an editor makes them.
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

pub(crate) fn machine(files: &[(&str, &str)]) -> Machine {
    let add =
        |all: MemoryFiles, (file, text): &(&str, &str)| all.file(format!("{ROOT}/{file}"), *text);
    Machine {
        files: files.iter().fold(MemoryFiles::new().directory(ROOT), add),
        base: base(),
    }
}

/// What a fresh load finds in files of these texts.
pub(crate) fn found(machine: &Machine, texts: &BTreeMap<String, String>) -> Vec<Diagnostic> {
    let add = |all: MemoryFiles, (file, text): (&String, &String)| {
        all.file(format!("{ROOT}/{file}"), text.as_str())
    };
    let files = texts.iter().fold(machine.files.clone(), add);
    load(LoadInput {
        root: Path::new(ROOT),
        files: &files,
        base: &machine.base,
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

/// A project with every site at which a resource is named, in two files.
pub(crate) fn everything() -> [(&'static str, &'static str); 2] {
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

/// The path of a URI below the project folder.
pub(crate) fn file_of(uri: &str) -> String {
    let path = PathBuf::from(uri.trim_start_matches("file://"));
    path.strip_prefix(ROOT)
        .unwrap()
        .to_string_lossy()
        .into_owned()
}
