//! Language server for one client: request handling and the message loop.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};

use gen_lsp_types::{PublishDiagnosticsParams, Uri};
use serde_json::{Value, json};

use crate::diagnostics::{self, DiagnosticsByFile};
use crate::documents::{DocumentOverlay, OpenDocument, OpenDocuments, resolve_links};
use crate::messages::{
    DidChangeParams, DocumentParams, EmptyParams, LspMessage, LspRequestError, PositionParams,
    RangeParams, ReferencesParams, RenameRequest, SymbolQuery, answer, decode_params, notification,
    read,
};
use crate::project::{self, LoadedProject, OpenProject};
use crate::schema_lookup::SchemaLookup;
use crate::text::{ColumnEncoding, apply_change};
use crate::transport::{self, WireError};
use crate::{LspHost, actions, completion, folding, hover, links, rename, symbols, tokens, uri};

/// Maximum number of unprocessed messages.
const MAX_QUEUED_MESSAGES: usize = 1024;

/// Way in which a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionEnd {
    /// The client sent `shutdown` and `exit`.
    Orderly,
    /// The client disconnected, or exited without `shutdown`.
    Abrupt,
}

/// Server side of a session. Performs no stream I/O: the caller passes messages in and sends the
/// returned ones.
pub struct LanguageServer<H> {
    host: H,
    pub(crate) shapes: SchemaLookup,
    pub(crate) encoding: ColumnEncoding,
    /// Set if the client supports snippets.
    pub(crate) snippets: bool,
    phase: SessionPhase,
    open: OpenDocuments,
    projects: BTreeMap<PathBuf, OpenProject>,
    /// Diagnostics that the client has received, by project.
    published: BTreeMap<PathBuf, DiagnosticsByFile>,
    /// Documents that changed after their diagnostics were last sent.
    touched: BTreeSet<PathBuf>,
    watches: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SessionPhase {
    New,
    Running,
    Down,
    Gone(SessionEnd),
}

impl<H: LspHost> LanguageServer<H> {
    /// Creates a server that expects `initialize`.
    pub fn new(host: H) -> Self {
        LanguageServer {
            host,
            shapes: SchemaLookup::new(),
            encoding: ColumnEncoding::default(),
            snippets: false,
            phase: SessionPhase::New,
            open: OpenDocuments::new(),
            projects: BTreeMap::new(),
            published: BTreeMap::new(),
            touched: BTreeSet::new(),
            watches: false,
        }
    }

    /// Processes a message and returns the responses. An invalid message results in an error
    /// response.
    pub fn receive(&mut self, body: &[u8]) -> Vec<Value> {
        match read(body) {
            Ok(LspMessage::Request { id, method, params }) => {
                vec![answer(&id, self.handle_request(&method, params))]
            }
            Ok(LspMessage::Notification { method, params }) => {
                self.handle_notification(&method, params)
            }
            Ok(LspMessage::Answer) => Vec::new(),
            Err((id, failure)) => vec![answer(&id, Err(failure))],
        }
    }

    /// Returns the way in which the session ended. `None` while it is running.
    pub fn end(&self) -> Option<SessionEnd> {
        match self.phase {
            SessionPhase::Gone(end) => Some(end),
            _ => None,
        }
    }

    /// Returns diagnostics of every file in which something changed. Call it when no message is
    /// queued.
    pub fn pending_diagnostics(&mut self) -> Vec<Value> {
        let touched = std::mem::take(&mut self.touched);
        let roots: BTreeSet<PathBuf> = self
            .open
            .keys()
            .filter_map(|path| self.root_of(path))
            .collect();
        self.projects.retain(|root, _| roots.contains(root));
        let mut now = BTreeMap::new();
        for root in roots {
            let files = DocumentOverlay {
                disk: self.host.files(),
                open: &self.open,
            };
            let project = self
                .projects
                .entry(root.clone())
                .or_insert_with(|| OpenProject::new(root.clone()));
            let seen = project.load_current(&self.host, &files);
            now.insert(
                root.clone(),
                diagnostics::by_file(&root, &seen, &files, self.encoding),
            );
        }
        let before = std::mem::replace(&mut self.published, now);
        let all = |by_project: &BTreeMap<PathBuf, DiagnosticsByFile>| -> BTreeSet<PathBuf> {
            by_project
                .values()
                .flat_map(DiagnosticsByFile::keys)
                .cloned()
                .collect()
        };
        let mut paths = all(&before);
        paths.extend(all(&self.published));
        paths.extend(touched.iter().cloned());
        let is_news = |path: &PathBuf| {
            touched.contains(path)
                || diagnostics_of(&before, path) != diagnostics_of(&self.published, path)
        };
        paths
            .into_iter()
            .filter(is_news)
            .map(|path| self.publish_notification(&path))
            .collect()
    }

    /// Creates the notification with all diagnostics of a file, which replaces the earlier ones.
    fn publish_notification(&self, path: &Path) -> Value {
        let diagnostics = diagnostics_of(&self.published, path)
            .into_iter()
            .cloned()
            .collect();
        let version = self.open.get(path).and_then(|document| document.version);
        let params = PublishDiagnosticsParams {
            uri: self.uri_of(path),
            version,
            diagnostics,
        };
        notification("textDocument/publishDiagnostics", json!(params))
    }

    /// Returns the client's URI of a file, which may be spelled differently from ours.
    pub(crate) fn uri_of(&self, path: &Path) -> Uri {
        self.open
            .get(path)
            .map_or_else(|| uri::from_path(path), |document| document.uri.clone())
    }

    pub(crate) fn host(&self) -> &H {
        &self.host
    }

    /// Returns the files, with open documents in place of their disk versions.
    pub(crate) fn files(&self) -> DocumentOverlay<'_> {
        DocumentOverlay {
            disk: self.host.files(),
            open: &self.open,
        }
    }

    /// Returns the text of a file, as the client shows it.
    pub(crate) fn text_of(&self, path: &Path) -> Arc<str> {
        self.files().text(path).unwrap_or_default()
    }

    /// Returns the root of the project that contains `path`; `None` if there is none.
    fn root_of(&self, path: &Path) -> Option<PathBuf> {
        project::find_project_root(path, &self.files())
    }

    /// Returns the project of a file with its current load result.
    pub(crate) fn load_project(&mut self, path: &Path) -> Option<(PathBuf, Arc<LoadedProject>)> {
        let root = self.root_of(path)?;
        let files = DocumentOverlay {
            disk: self.host.files(),
            open: &self.open,
        };
        let project = self
            .projects
            .entry(root.clone())
            .or_insert_with(|| OpenProject::new(root.clone()));
        let seen = project.load_current(&self.host, &files);
        Some((root, seen))
    }

    /// Returns all projects with open documents.
    pub(crate) fn load_open_projects(&mut self) -> Vec<(PathBuf, Arc<LoadedProject>)> {
        let roots: BTreeSet<PathBuf> = self
            .open
            .keys()
            .filter_map(|path| self.root_of(path))
            .collect();
        let manifests: Vec<PathBuf> = roots
            .into_iter()
            .map(|root| project::manifest_path(&root, &self.files()))
            .collect();
        manifests
            .iter()
            .filter_map(|manifest| self.load_project(manifest))
            .collect()
    }

    /// Returns the path of a document with symbolic links resolved.
    pub(crate) fn path_of(&self, uri: &Uri) -> Result<PathBuf, LspRequestError> {
        let path = uri::path(uri.as_ref());
        let path = path.ok_or_else(|| {
            LspRequestError::invalid_params(format!("`{uri}` is not a file on this machine"))
        })?;
        Ok(resolve_links(self.host.files(), &path))
    }

    /// Handles a request and returns its result.
    fn handle_request(&mut self, method: &str, value: Value) -> Result<Value, LspRequestError> {
        match (self.phase, method) {
            (SessionPhase::New, "initialize") => return Ok(self.initialize(&value)),
            (SessionPhase::New, _) => return Err(LspRequestError::not_initialized()),
            (_, "initialize") => {
                return Err(LspRequestError::invalid_request(
                    "`initialize` was sent twice.",
                ));
            }
            (SessionPhase::Running, _) => {}
            _ => return Err(LspRequestError::invalid_request("The server is shut down.")),
        }
        match method {
            "shutdown" => {
                self.phase = SessionPhase::Down;
                Ok(Value::Null)
            }
            "textDocument/completion" => self.at_place(value, completion::complete),
            "textDocument/hover" => self.at_place(value, hover::hover),
            "textDocument/definition" => self.at_place(value, links::definition),
            "textDocument/prepareRename" => self.at_place(value, rename::prepare_rename),
            "textDocument/references" => {
                let request: DocumentParams<ReferencesParams> = decode_params(value)?;
                let path = self.path_of(&request.document.uri)?;
                links::references(
                    self,
                    &path,
                    request.more.position,
                    request.more.context.include_declaration,
                )
            }
            "textDocument/rename" => {
                let request: DocumentParams<RenameRequest> = decode_params(value)?;
                let path = self.path_of(&request.document.uri)?;
                rename::rename(self, &path, request.more.position, &request.more.new_name)
            }
            "textDocument/documentSymbol" => {
                let request: DocumentParams<EmptyParams> = decode_params(value)?;
                let path = self.path_of(&request.document.uri)?;
                Ok(symbols::of_document(&self.text_of(&path), self.encoding))
            }
            "textDocument/foldingRange" => {
                let request: DocumentParams<EmptyParams> = decode_params(value)?;
                let path = self.path_of(&request.document.uri)?;
                Ok(folding::folding_ranges(&self.text_of(&path)))
            }
            "textDocument/semanticTokens/full" => {
                let request: DocumentParams<EmptyParams> = decode_params(value)?;
                let path = self.path_of(&request.document.uri)?;
                Ok(tokens::tokens(self, &path))
            }
            "workspace/symbol" => {
                let query: SymbolQuery = decode_params(value)?;
                Ok(symbols::of_workspace(self, &query.query))
            }
            "textDocument/codeAction" => {
                let request: DocumentParams<RangeParams> = decode_params(value)?;
                let path = self.path_of(&request.document.uri)?;
                Ok(actions::code_actions(self, &path, request.more.range))
            }
            other => Err(LspRequestError::no_method(other)),
        }
    }

    /// Handles a request about a position in a document.
    fn at_place(
        &mut self,
        value: Value,
        work: impl FnOnce(&mut Self, &Path, gen_lsp_types::Position) -> Result<Value, LspRequestError>,
    ) -> Result<Value, LspRequestError> {
        let request: DocumentParams<PositionParams> = decode_params(value)?;
        let path = self.path_of(&request.document.uri)?;
        work(self, &path, request.more.position)
    }

    /// Handles `initialize`: stores the capabilities of the editor in `params`, and returns those
    /// of the server.
    fn initialize(&mut self, params: &Value) -> Value {
        let encodings = params
            .pointer("/capabilities/general/positionEncodings")
            .and_then(Value::as_array);
        let encoding_names = encodings.into_iter().flatten().filter_map(Value::as_str);
        self.encoding = ColumnEncoding::choose(encoding_names);
        let supports = |pointer: &str| {
            let capability = params.pointer(pointer).and_then(Value::as_bool);
            capability.unwrap_or(false)
        };
        self.snippets =
            supports("/capabilities/textDocument/completion/completionItem/snippetSupport");
        self.watches =
            supports("/capabilities/workspace/didChangeWatchedFiles/dynamicRegistration");
        self.phase = SessionPhase::Running;
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
                    "legend": { "tokenTypes": tokens::TOKEN_TYPES, "tokenModifiers": tokens::TOKEN_MODIFIERS },
                    "full": true,
                },
                "workspaceSymbolProvider": true,
                "codeActionProvider": { "codeActionKinds": ["quickfix"] },
            },
            "serverInfo": { "name": "gdn", "version": env!("CARGO_PKG_VERSION") },
        })
    }

    /// Invalid notifications have no response, by the protocol.
    fn handle_notification(&mut self, method: &str, value: Value) -> Vec<Value> {
        match (self.phase, method) {
            (SessionPhase::Down, "exit") => self.phase = SessionPhase::Gone(SessionEnd::Orderly),
            (_, "exit") => self.phase = SessionPhase::Gone(SessionEnd::Abrupt),
            (SessionPhase::Running, "initialized") if self.watches => {
                return vec![watch_files_request()];
            }
            (SessionPhase::Running, "textDocument/didOpen") => drop(self.handle_did_open(value)),
            (SessionPhase::Running, "textDocument/didChange") => {
                drop(self.handle_did_change(value))
            }
            (SessionPhase::Running, "textDocument/didClose") => drop(self.handle_did_close(value)),
            (SessionPhase::Running, "textDocument/didSave" | "workspace/didChangeWatchedFiles") => {
                self.mark_projects_stale()
            }
            _ => {}
        }
        Vec::new()
    }

    /// Marks all projects as stale.
    fn mark_projects_stale(&mut self) {
        self.projects.values_mut().for_each(OpenProject::mark_stale);
    }

    /// Adds a document that the editor opened.
    fn handle_did_open(&mut self, value: Value) -> Result<(), LspRequestError> {
        let DocumentParams::<EmptyParams> { document, .. } = decode_params(value)?;
        let path = self.path_of(&document.uri)?;
        let text = document.text.unwrap_or_default().into();
        self.open.insert(
            path.clone(),
            OpenDocument {
                uri: document.uri,
                version: document.version,
                text,
            },
        );
        self.touched.insert(path);
        self.mark_projects_stale();
        Ok(())
    }

    /// Applies the edits of a document; ignores a document that is not open.
    fn handle_did_change(&mut self, value: Value) -> Result<(), LspRequestError> {
        let request: DocumentParams<DidChangeParams> = decode_params(value)?;
        let path = self.path_of(&request.document.uri)?;
        let Some(document) = self.open.get_mut(&path) else {
            return Ok(());
        };
        for change in request.more.changes {
            document.text = match change.range {
                Some(range) => {
                    apply_change(&document.text, range, &change.text, self.encoding).into()
                }
                None => change.text.into(),
            };
        }
        document.version = request.document.version.or(document.version);
        self.touched.insert(path);
        self.mark_projects_stale();
        Ok(())
    }

    /// Removes a document; its file on disk counts again.
    fn handle_did_close(&mut self, value: Value) -> Result<(), LspRequestError> {
        let DocumentParams::<EmptyParams> { document, .. } = decode_params(value)?;
        let path = self.path_of(&document.uri)?;
        self.open.remove(&path);
        self.touched.insert(path);
        self.mark_projects_stale();
        Ok(())
    }
}

/// Returns the diagnostics of a file from all projects, without duplicates.
fn diagnostics_of<'t>(
    published: &'t BTreeMap<PathBuf, DiagnosticsByFile>,
    path: &Path,
) -> Vec<&'t gen_lsp_types::Diagnostic> {
    let mut found: Vec<&gen_lsp_types::Diagnostic> = Vec::new();
    for diagnostic in published
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

/// Requests notifications about all files, because prompts and entries also matter.
fn watch_files_request() -> Value {
    let options = json!({ "watchers": [{ "globPattern": "**/*" }] });
    let registration = json!({ "id": "files", "method": "workspace/didChangeWatchedFiles", "registerOptions": options });
    let params = json!({ "registrations": [registration] });
    json!({ "jsonrpc": "2.0", "id": "watch-files", "method": "client/registerCapability", "params": params })
}

/// Serves a client until it disconnects.
///
/// A separate thread reads `from`, so that queued edits are processed together before diagnostics
/// are computed.
///
/// # Errors
/// Fails if the stream fails or a message header is invalid.
pub fn serve<H: LspHost>(
    host: H,
    mut from: impl BufRead + Send + 'static,
    to: &mut impl Write,
) -> Result<SessionEnd, WireError> {
    let (sender, receiver) = mpsc::sync_channel(MAX_QUEUED_MESSAGES);
    std::thread::Builder::new()
        .name("messages".to_owned())
        .spawn(move || {
            loop {
                let next = transport::read(&mut from);
                let ends = !matches!(next, Ok(Some(_)));
                if sender.send(next).is_err() || ends {
                    return;
                }
            }
        })?;
    let mut server = LanguageServer::new(host);
    while let Ok(first) = receiver.recv() {
        let mut next = Some(first);
        while let Some(message) = next {
            let Some(body) = message? else {
                return Ok(server.end().unwrap_or(SessionEnd::Abrupt));
            };
            send(to, server.receive(&body))?;
            if let Some(end) = server.end() {
                return Ok(end);
            }
            next = receiver.try_recv().ok();
        }
        send(to, server.pending_diagnostics())?;
    }
    Ok(SessionEnd::Abrupt)
}

/// Writes the messages to the editor.
fn send(to: &mut impl Write, messages: Vec<Value>) -> Result<(), WireError> {
    for message in messages {
        transport::write(to, message.to_string().as_bytes())?;
    }
    Ok(())
}
