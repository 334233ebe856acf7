//! One client: its messages in, ours out.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};

use gen_lsp_types::{PublishDiagnosticsParams, Uri};
use serde_json::{Value, json};

use crate::documents::{Document, Open, Overlay, real};
use crate::messages::{
    AtPlace, Changes, Failure, InDocument, InRange, Message, Query, Renaming, Whole,
    WithDeclaration, answer, notification, params, read,
};
use crate::project::{self, Project, Seen};
use crate::publish::{self, ByFile};
use crate::shape::Shapes;
use crate::text::{Encoding, edited};
use crate::wire::{self, WireError};
use crate::{Host, actions, completion, folding, hover, links, rename, symbols, tokens, uri};

/// How many messages wait to be looked at.
const WAITING: usize = 1024;

/// How a conversation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// As the protocol wants it.
    Orderly,
    /// The client went without a word.
    Abrupt,
}

/// The server's side of a conversation. It does nothing by itself: messages are handed in, and what is to be sent is handed out.
pub struct Server<H> {
    host: H,
    pub(crate) shapes: Shapes,
    pub(crate) encoding: Encoding,
    /// Whether the client fills in snippets.
    pub(crate) snippets: bool,
    phase: Phase,
    open: Open,
    projects: BTreeMap<PathBuf, Project>,
    /// What the client was told, by project.
    told: BTreeMap<PathBuf, ByFile>,
    /// Documents that the client changed and was told nothing about since.
    touched: BTreeSet<PathBuf>,
    watches: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    New,
    Running,
    Down,
    Gone(End),
}

impl<H: Host> Server<H> {
    /// A server that nobody has spoken to.
    pub fn new(host: H) -> Self {
        Server {
            host,
            shapes: Shapes::new(),
            encoding: Encoding::default(),
            snippets: false,
            phase: Phase::New,
            open: Open::new(),
            projects: BTreeMap::new(),
            told: BTreeMap::new(),
            touched: BTreeSet::new(),
            watches: false,
        }
    }

    /// Takes a message, and gives those that answer it. Whatever the message is, the server goes on.
    pub fn receive(&mut self, body: &[u8]) -> Vec<Value> {
        match read(body) {
            Ok(Message::Request { id, method, params }) => {
                vec![answer(&id, self.request(&method, params))]
            }
            Ok(Message::Notification { method, params }) => self.notified(&method, params),
            Ok(Message::Answer) => Vec::new(),
            Err((id, failure)) => vec![answer(&id, Err(failure))],
        }
    }

    /// How the conversation ended, once it has.
    pub fn end(&self) -> Option<End> {
        match self.phase {
            Phase::Gone(end) => Some(end),
            _ => None,
        }
    }

    /// What the client is to be told, once no message waits: the diagnostics of every project in which something changed.
    pub fn settle(&mut self) -> Vec<Value> {
        let touched = std::mem::take(&mut self.touched);
        let roots: BTreeSet<PathBuf> = self
            .open
            .keys()
            .filter_map(|path| self.root_of(path))
            .collect();
        self.projects.retain(|root, _| roots.contains(root));
        let mut now = BTreeMap::new();
        for root in roots {
            let files = Overlay {
                disk: self.host.files(),
                open: &self.open,
            };
            let project = self
                .projects
                .entry(root.clone())
                .or_insert_with(|| Project::at(root.clone()));
            let seen = project.look(&self.host, &files);
            now.insert(
                root.clone(),
                publish::by_file(&root, &seen, &files, self.encoding),
            );
        }
        let before = std::mem::replace(&mut self.told, now);
        let all = |told: &BTreeMap<PathBuf, ByFile>| -> BTreeSet<PathBuf> {
            told.values().flat_map(ByFile::keys).cloned().collect()
        };
        let mut paths = all(&before);
        paths.extend(all(&self.told));
        paths.extend(touched.iter().cloned());
        let is_news =
            |path: &PathBuf| touched.contains(path) || of(&before, path) != of(&self.told, path);
        paths
            .into_iter()
            .filter(is_news)
            .map(|path| self.published(&path))
            .collect()
    }

    fn published(&self, path: &Path) -> Value {
        let diagnostics = of(&self.told, path).into_iter().cloned().collect();
        let version = self.open.get(path).and_then(|document| document.version);
        let params = PublishDiagnosticsParams {
            uri: self.uri_of(path),
            version,
            diagnostics,
        };
        notification("textDocument/publishDiagnostics", json!(params))
    }

    /// As the client names the file.
    pub(crate) fn uri_of(&self, path: &Path) -> Uri {
        self.open
            .get(path)
            .map_or_else(|| uri::of(path), |document| document.uri.clone())
    }

    /// The program around the server.
    pub(crate) fn host(&self) -> &H {
        &self.host
    }

    /// The files as the client shows them.
    pub(crate) fn files(&self) -> Overlay<'_> {
        Overlay {
            disk: self.host.files(),
            open: &self.open,
        }
    }

    /// The text of a file as the client shows it.
    pub(crate) fn text_of(&self, path: &Path) -> Arc<str> {
        self.files().text(path).unwrap_or_default()
    }

    fn root_of(&self, path: &Path) -> Option<PathBuf> {
        project::around(path, &self.files())
    }

    /// The project that a file lies in, as it is now.
    pub(crate) fn seen(&mut self, path: &Path) -> Option<(PathBuf, Arc<Seen>)> {
        let root = self.root_of(path)?;
        let files = Overlay {
            disk: self.host.files(),
            open: &self.open,
        };
        let project = self
            .projects
            .entry(root.clone())
            .or_insert_with(|| Project::at(root.clone()));
        let seen = project.look(&self.host, &files);
        Some((root, seen))
    }

    /// All projects that documents are open of.
    pub(crate) fn all_seen(&mut self) -> Vec<(PathBuf, Arc<Seen>)> {
        let roots: BTreeSet<PathBuf> = self
            .open
            .keys()
            .filter_map(|path| self.root_of(path))
            .collect();
        let manifests: Vec<PathBuf> = roots
            .into_iter()
            .map(|root| project::manifest(&root, &self.files()))
            .collect();
        manifests
            .iter()
            .filter_map(|manifest| self.seen(manifest))
            .collect()
    }

    /// The path of a document, without links.
    pub(crate) fn path_of(&self, uri: &Uri) -> Result<PathBuf, Failure> {
        let path = uri::path(uri.as_ref());
        let path =
            path.ok_or_else(|| Failure::params(format!("`{uri}` is not a file of this machine")))?;
        Ok(real(self.host.files(), &path))
    }

    fn request(&mut self, method: &str, value: Value) -> Result<Value, Failure> {
        match (self.phase, method) {
            (Phase::New, "initialize") => return Ok(self.initialize(&value)),
            (Phase::New, _) => return Err(Failure::not_initialized()),
            (_, "initialize") => return Err(Failure::invalid_request("`initialize` came twice.")),
            (Phase::Running, _) => {}
            _ => return Err(Failure::invalid_request("The server is shut down.")),
        }
        match method {
            "shutdown" => {
                self.phase = Phase::Down;
                Ok(Value::Null)
            }
            "textDocument/completion" => self.at_place(value, completion::complete),
            "textDocument/hover" => self.at_place(value, hover::hover),
            "textDocument/definition" => self.at_place(value, links::definition),
            "textDocument/prepareRename" => self.at_place(value, rename::prepare),
            "textDocument/references" => {
                let asked: InDocument<WithDeclaration> = params(value)?;
                let path = self.path_of(&asked.document.uri)?;
                links::references(
                    self,
                    &path,
                    asked.more.position,
                    asked.more.context.include_declaration,
                )
            }
            "textDocument/rename" => {
                let asked: InDocument<Renaming> = params(value)?;
                let path = self.path_of(&asked.document.uri)?;
                rename::rename(self, &path, asked.more.position, &asked.more.new_name)
            }
            "textDocument/documentSymbol" => {
                let asked: InDocument<Whole> = params(value)?;
                let path = self.path_of(&asked.document.uri)?;
                Ok(symbols::of_document(&self.text_of(&path), self.encoding))
            }
            "textDocument/foldingRange" => {
                let asked: InDocument<Whole> = params(value)?;
                let path = self.path_of(&asked.document.uri)?;
                Ok(folding::folding(&self.text_of(&path)))
            }
            "textDocument/semanticTokens/full" => {
                let asked: InDocument<Whole> = params(value)?;
                let path = self.path_of(&asked.document.uri)?;
                Ok(tokens::tokens(self, &path))
            }
            "workspace/symbol" => {
                let query: Query = params(value)?;
                Ok(symbols::of_workspace(self, &query.query))
            }
            "textDocument/codeAction" => {
                let asked: InDocument<InRange> = params(value)?;
                let path = self.path_of(&asked.document.uri)?;
                Ok(actions::actions(self, &path, asked.more.range))
            }
            other => Err(Failure::no_method(other)),
        }
    }

    fn at_place(
        &mut self,
        value: Value,
        work: impl FnOnce(&mut Self, &Path, gen_lsp_types::Position) -> Result<Value, Failure>,
    ) -> Result<Value, Failure> {
        let asked: InDocument<AtPlace> = params(value)?;
        let path = self.path_of(&asked.document.uri)?;
        work(self, &path, asked.more.position)
    }

    fn initialize(&mut self, value: &Value) -> Value {
        let offered = value
            .pointer("/capabilities/general/positionEncodings")
            .and_then(Value::as_array);
        self.encoding = Encoding::choose(offered.into_iter().flatten().filter_map(Value::as_str));
        let can = |pointer: &str| {
            value
                .pointer(pointer)
                .and_then(Value::as_bool)
                .unwrap_or(false)
        };
        self.snippets = can("/capabilities/textDocument/completion/completionItem/snippetSupport");
        self.watches = can("/capabilities/workspace/didChangeWatchedFiles/dynamicRegistration");
        self.phase = Phase::Running;
        json!({
            "capabilities": {
                "positionEncoding": self.encoding.kind(),
                "textDocumentSync": { "openClose": true, "change": 2, "save": true },
                "completionProvider": { "triggerCharacters": ["/", " ", ":", "-", ".", "[", "{", ","] },
                "hoverProvider": true,
                "definitionProvider": true,
                "referencesProvider": true,
                "renameProvider": { "prepareProvider": true },
                "documentSymbolProvider": true,
                "foldingRangeProvider": true,
                "semanticTokensProvider": {
                    "legend": { "tokenTypes": tokens::TYPES, "tokenModifiers": tokens::MODIFIERS },
                    "full": true,
                },
                "workspaceSymbolProvider": true,
                "codeActionProvider": { "codeActionKinds": ["quickfix"] },
            },
            "serverInfo": { "name": "gdn", "version": env!("CARGO_PKG_VERSION") },
        })
    }

    /// Notifications that make no sense are left unanswered, as the protocol says.
    fn notified(&mut self, method: &str, value: Value) -> Vec<Value> {
        match (self.phase, method) {
            (Phase::Down, "exit") => self.phase = Phase::Gone(End::Orderly),
            (_, "exit") => self.phase = Phase::Gone(End::Abrupt),
            (Phase::Running, "initialized") if self.watches => return vec![watch()],
            (Phase::Running, "textDocument/didOpen") => drop(self.opened(value)),
            (Phase::Running, "textDocument/didChange") => drop(self.changed(value)),
            (Phase::Running, "textDocument/didClose") => drop(self.closed(value)),
            (Phase::Running, "textDocument/didSave" | "workspace/didChangeWatchedFiles") => {
                self.touch()
            }
            _ => {}
        }
        Vec::new()
    }

    /// Whatever was made of files may be something else by now.
    fn touch(&mut self) {
        self.projects.values_mut().for_each(Project::touch);
    }

    fn opened(&mut self, value: Value) -> Result<(), Failure> {
        let InDocument::<Whole> { document, .. } = params(value)?;
        let path = self.path_of(&document.uri)?;
        let text = document.text.unwrap_or_default().into();
        self.open.insert(
            path.clone(),
            Document {
                uri: document.uri,
                version: document.version,
                text,
            },
        );
        self.touched.insert(path);
        self.touch();
        Ok(())
    }

    fn changed(&mut self, value: Value) -> Result<(), Failure> {
        let asked: InDocument<Changes> = params(value)?;
        let path = self.path_of(&asked.document.uri)?;
        let Some(document) = self.open.get_mut(&path) else {
            return Ok(());
        };
        for change in asked.more.changes {
            document.text = match change.range {
                Some(range) => edited(&document.text, range, &change.text, self.encoding).into(),
                None => change.text.into(),
            };
        }
        document.version = asked.document.version.or(document.version);
        self.touched.insert(path);
        self.touch();
        Ok(())
    }

    fn closed(&mut self, value: Value) -> Result<(), Failure> {
        let InDocument::<Whole> { document, .. } = params(value)?;
        let path = self.path_of(&document.uri)?;
        self.open.remove(&path);
        self.touched.insert(path);
        self.touch();
        Ok(())
    }
}

/// What the client was told about a file.
fn of<'t>(told: &'t BTreeMap<PathBuf, ByFile>, path: &Path) -> Vec<&'t gen_lsp_types::Diagnostic> {
    let mut found: Vec<&gen_lsp_types::Diagnostic> = Vec::new();
    for diagnostic in told
        .values()
        .filter_map(|by_file| by_file.get(path))
        .flatten()
    {
        if !found.contains(&diagnostic) {
            found.push(diagnostic);
        }
    }
    found
}

/// Asks the client to tell of every file that changes: prompts and entries count, too.
fn watch() -> Value {
    let options = json!({ "watchers": [{ "globPattern": "**/*" }] });
    let registration = json!({ "id": "files", "method": "workspace/didChangeWatchedFiles", "registerOptions": options });
    let params = json!({ "registrations": [registration] });
    json!({ "jsonrpc": "2.0", "id": "watch-files", "method": "client/registerCapability", "params": params })
}

/// Talks to a client until it goes. `from` is read on a thread of its own, so that edits that came meanwhile are looked at once.
///
/// # Errors
/// The stream fails, or what comes is no message.
pub fn serve<H: Host>(
    host: H,
    mut from: impl BufRead + Send + 'static,
    to: &mut impl Write,
) -> Result<End, WireError> {
    let (sender, receiver) = mpsc::sync_channel(WAITING);
    std::thread::Builder::new()
        .name("messages".to_owned())
        .spawn(move || {
            loop {
                let next = wire::read(&mut from);
                let ends = !matches!(next, Ok(Some(_)));
                if sender.send(next).is_err() || ends {
                    return;
                }
            }
        })?;
    let mut server = Server::new(host);
    while let Ok(first) = receiver.recv() {
        let mut next = Some(first);
        while let Some(message) = next {
            let Some(body) = message? else {
                return Ok(server.end().unwrap_or(End::Abrupt));
            };
            send(to, server.receive(&body))?;
            if let Some(end) = server.end() {
                return Ok(end);
            }
            next = receiver.try_recv().ok();
        }
        send(to, server.settle())?;
    }
    Ok(End::Abrupt)
}

fn send(to: &mut impl Write, messages: Vec<Value>) -> Result<(), WireError> {
    for message in messages {
        wire::write(to, message.to_string().as_bytes())?;
    }
    Ok(())
}
