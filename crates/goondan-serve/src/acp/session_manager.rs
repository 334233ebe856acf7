//! Manager of all sessions of an editor. One task handles all of them, so the editor receives
//! events in the order in which they occur.

use std::collections::HashMap;
use std::path::PathBuf;

use agent_client_protocol::v1::schema as wire;
use agent_client_protocol::v1::{ConnectionTo, Responder};
use agent_client_protocol::{Client, Error, ErrorCode};
use goondan::event::{FinishReason, SwarmEvent, TurnResult};
use goondan::gateway::{EventReceiver, PublishedEvent, Submission};
use goondan::ids::InstanceId;
use goondan::{ApprovalHandle, Input, SendError, SubmittedEventState};
use rand::RngExt;
use serde_json::json;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::session::EditorSession;
use super::updates;
use super::{EditorRequest, ExpandedPrompt, commands, permission, prompt, replay};
use crate::error_table::rpc_form;
use crate::service::Service;

/// Prefix of new session ids.
const SESSION_ID_PREFIX: &str = "acp-";

/// Manager of an editor's sessions.
pub(super) struct SessionManager {
    service: Service,
    agent: Option<String>,
    editor: ConnectionTo<Client>,
    asks: UnboundedSender<EditorRequest>,
    /// Sessions by conversation key.
    sessions: HashMap<String, EditorSession>,
    /// Prompts with a running turn, by input id.
    prompts: HashMap<String, PendingPrompt>,
    /// Fires at the cancellation of the prompts that MCP servers expand, by conversation key.
    expanding: HashMap<String, CancellationToken>,
    /// Approval requests that arrived while no session was open.
    put_off: Vec<ApprovalHandle>,
    latest: Option<String>,
}

/// A prompt whose turn is not over.
struct PendingPrompt {
    session: String,
    trace_id: String,
    responder: Responder<wire::PromptResponse>,
    /// Ends the task that waits for the editor to cancel the request.
    _open: DropGuard,
}

impl SessionManager {
    /// Creates the manager. `agent` is the agent of new sessions; `None` for the entry agent.
    pub(super) fn new(
        service: Service,
        agent: Option<String>,
        editor: ConnectionTo<Client>,
        asks: UnboundedSender<EditorRequest>,
    ) -> Self {
        SessionManager {
            service,
            agent,
            editor,
            asks,
            sessions: HashMap::new(),
            prompts: HashMap::new(),
            expanding: HashMap::new(),
            put_off: Vec::new(),
            latest: None,
        }
    }

    /// Runs until the editor disconnects or the swarm ends.
    pub(super) async fn run(mut self, requests: &mut UnboundedReceiver<EditorRequest>) {
        let mut events = self.service.gateway().hub().subscribe();
        let mut questions = self.service.inner.broker.listen();
        let mut prompt_changes = self.service.swarm().prompt_changes();
        let (editor, ended) = (
            self.editor.clone(),
            self.service.gateway().closed_token().clone(),
        );
        loop {
            tokio::select! {
                biased;
                received = events.recv() => match received {
                    Ok(published) => self.handle_event(&published),
                    Err(RecvError::Lagged(_)) => events = self.catch_up().await,
                    Err(RecvError::Closed) => return,
                },
                Some(ask) = requests.recv() => self.answer(ask).await,
                Some(question) = questions.next() => self.show_request(question),
                Ok(()) = prompt_changes.changed() => self.announce_changed_commands(),
                () = editor.incoming_closed() => return,
                () = ended.cancelled() => return,
            }
        }
    }

    /// Handles a request of the editor.
    async fn answer(&mut self, ask: EditorRequest) {
        let sent = match ask {
            EditorRequest::New(request, to) => {
                let begun = self.begin(request.cwd);
                let id = begun.as_ref().ok().map(|begun| begun.session_id.clone());
                let sent = to.respond_with_result(begun);
                id.iter().for_each(|id| self.announce_commands(id));
                sent
            }
            EditorRequest::Load(request, to) => {
                let id = request.session_id.clone();
                let loaded = self.load(request.session_id, request.cwd).await;
                let sent =
                    to.respond_with_result(loaded.map(|()| wire::LoadSessionResponse::new()));
                self.announce_commands(&id);
                sent
            }
            EditorRequest::Resume(request, to) => {
                let opened = self.open_existing(&request.session_id, request.cwd).await;
                let sent =
                    to.respond_with_result(opened.map(|_| wire::ResumeSessionResponse::new()));
                self.announce_commands(&request.session_id);
                sent
            }
            EditorRequest::List(request, to) => to.respond(self.list_sessions(request.cwd).await),
            EditorRequest::Close(request, to) => {
                self.cancel(&request.session_id).await;
                self.sessions.remove(&*request.session_id.0);
                to.respond(wire::CloseSessionResponse::new())
            }
            EditorRequest::Prompt(request, to) => {
                self.handle_prompt(request, to).await;
                Ok(())
            }
            EditorRequest::Expanded(prompt) => self.start_expanded(prompt).await,
            EditorRequest::Cancel(session) => {
                self.cancel(&session).await;
                Ok(())
            }
        };
        // The loop detects a disconnected editor.
        drop(sent);
    }

    /// Sends the prompts of MCP servers, if there are any, to an open session.
    fn announce_commands(&self, id: &wire::SessionId) {
        let commands = commands::for_swarm(self.service.swarm());
        if let Some(session) = self.sessions.get(&*id.0)
            && !commands.is_empty()
        {
            session.send_update(commands::commands_update(commands));
        }
    }

    /// Sends a changed list of prompts to all open sessions.
    fn announce_changed_commands(&self) {
        let commands = commands::for_swarm(self.service.swarm());
        for session in self.sessions.values() {
            session.send_update(commands::commands_update(commands.clone()));
        }
    }

    /// Returns the conversation with this key.
    fn instance(&self, key: &str) -> InstanceId {
        InstanceId::new(
            self.agent
                .clone()
                .unwrap_or_else(|| self.service.swarm().entry_agent()),
            key,
        )
    }

    /// Creates a session with a random key.
    fn begin(&mut self, cwd: PathBuf) -> Result<wire::NewSessionResponse, Error> {
        let random: u64 = rand::rng().random();
        let key = format!("{SESSION_ID_PREFIX}{random:016x}");
        self.open(&key, require_absolute(cwd)?);
        Ok(wire::NewSessionResponse::new(key))
    }

    /// Registers a session, and shows approval requests that had no session before.
    fn open(&mut self, key: &str, cwd: PathBuf) {
        let instance = self.instance(key);
        let workdir = self.service.swarm().workdir(&instance);
        self.sessions.insert(
            key.to_owned(),
            EditorSession::new(self.editor.clone(), instance, cwd, workdir),
        );
        self.latest = Some(key.to_owned());
        std::mem::take(&mut self.put_off)
            .into_iter()
            .for_each(|question| self.show_request(question));
    }

    /// Opens an existing session. A session that gdn created is accepted even if it is not stored
    /// yet, because a session is stored with its first message.
    async fn open_existing(
        &mut self,
        id: &wire::SessionId,
        cwd: PathBuf,
    ) -> Result<InstanceId, Error> {
        let (instance, cwd) = (self.instance(&id.0), require_absolute(cwd)?);
        let is_stored = self
            .service
            .swarm()
            .instances()
            .await
            .iter()
            .any(|meta| meta.id() == instance);
        if !is_stored && !was_issued_here(&id.0) {
            let unknown = Error::new(ErrorCode::RESOURCE_NOT_FOUND, "The session does not exist.");
            return Err(unknown.data(json!({"sessionId": id})));
        }
        self.open(&id.0, cwd);
        Ok(instance)
    }

    /// Opens a session and replays its messages to the editor.
    async fn load(&mut self, id: wire::SessionId, cwd: PathBuf) -> Result<(), Error> {
        let instance = self.open_existing(&id, cwd).await?;
        let messages = self.service.swarm().conversation(&instance).await;
        let messages = messages.map_err(|error| Error::internal_error().data(error.to_string()))?;
        let Some(session) = self.sessions.get_mut(&*id.0) else {
            return Ok(());
        };
        replay::replay_messages(&messages, session);
        Ok(())
    }

    /// Lists the agent's conversations, the latest first.
    async fn list_sessions(&self, cwd: Option<PathBuf>) -> wire::ListSessionsResponse {
        let agent = self.instance("").agent;
        let mut metas = self.service.swarm().instances().await;
        metas.retain(|meta| meta.agent == agent);
        metas.sort_by_key(|meta| std::cmp::Reverse(meta.updated_at));
        // Conversations belong to the project and not to a directory, so the directory is no
        // filter.
        let folder = cwd
            .or_else(|| std::env::current_dir().ok())
            .unwrap_or_else(|| PathBuf::from("/"));
        let sessions = metas.into_iter().map(|meta| {
            let opened = self
                .sessions
                .get(&meta.instance_key)
                .map(|session| session.cwd.clone());
            wire::SessionInfo::new(meta.instance_key, opened.unwrap_or_else(|| folder.clone()))
                .updated_at(meta.updated_at.to_rfc3339())
        });
        wire::ListSessionsResponse::new(sessions.collect())
    }

    /// Starts a turn. The prompt is answered at the end of the turn.
    async fn handle_prompt(
        &mut self,
        request: wire::PromptRequest,
        responder: Responder<wire::PromptResponse>,
    ) {
        // Delivery errors are ignored: the loop detects a disconnected editor.
        let refuse = |responder: Responder<_>, error| drop(responder.respond_with_error(error));
        let key = request.session_id.0.to_string();
        let Some(session) = self.sessions.get(&key) else {
            return refuse(
                responder,
                Error::invalid_params().data("unknown session: create or load the session first"),
            );
        };
        let input = match prompt::input(request.prompt, session) {
            Ok(input) => input,
            Err(error) => return refuse(responder, error),
        };
        if !commands::is_command(&input.text) {
            return self.start_turn(request.session_id, input, responder).await;
        }
        // The server of the command may be slow, and other requests must not wait for it.
        let (swarm, asks) = (self.service.swarm().clone(), self.asks.clone());
        let cancellation = self.expanding.entry(key).or_default().clone();
        let taken_back = responder.cancellation();
        tokio::spawn(async move {
            let input = tokio::select! {
                input = commands::expand(&swarm, input) => Some(input),
                () = cancellation.cancelled() => None,
                () = taken_back.cancelled() => None,
            };
            drop(asks.send(EditorRequest::Expanded(ExpandedPrompt {
                session: request.session_id,
                input,
                responder,
                cancellation,
            })));
        });
    }

    /// Starts the turn of an expanded prompt, unless the prompt was cancelled.
    async fn start_expanded(&mut self, prompt: ExpandedPrompt) -> Result<(), Error> {
        let responder = prompt.responder;
        let is_cancelled = prompt.cancellation.is_cancelled();
        match prompt.input.filter(|_| !is_cancelled) {
            Some(Ok(input)) => self.start_turn(prompt.session, *input, responder).await,
            Some(Err(error)) => return responder.respond_with_error(error),
            None => {
                let reason = wire::StopReason::Cancelled;
                return responder.respond(wire::PromptResponse::new(reason));
            }
        }
        Ok(())
    }

    /// Sends the input of a prompt to the swarm.
    async fn start_turn(
        &mut self,
        id: wire::SessionId,
        input: Input,
        responder: Responder<wire::PromptResponse>,
    ) {
        let key = id.0.to_string();
        let responded = match self.service.gateway().submit(input).await {
            Ok(Submission::New(turn) | Submission::Running(turn)) => {
                let open = CancellationToken::new();
                self.watch_cancellation(&id, &responder, open.clone());
                let (trace_id, _open) = (turn.trace_id, open.drop_guard());
                self.latest = Some(key.clone());
                self.prompts.insert(
                    turn.event_id,
                    PendingPrompt {
                        session: key,
                        trace_id,
                        responder,
                        _open,
                    },
                );
                Ok(())
            }
            Ok(Submission::Finished(result)) => {
                responder.respond_with_result(prompt_response(&result))
            }
            Err(error) => responder.respond_with_error(editor_error(error.into())),
        };
        // Delivery errors are ignored, for the same reason.
        drop(responded);
    }

    /// Handles cancellation of the request like `session/cancel`.
    fn watch_cancellation(
        &self,
        id: &wire::SessionId,
        responder: &Responder<wire::PromptResponse>,
        open: CancellationToken,
    ) {
        let (taken_back, asks, id) = (responder.cancellation(), self.asks.clone(), id.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = taken_back.cancelled() => drop(asks.send(EditorRequest::Cancel(id))),
                () = open.cancelled() => {}
            }
        });
    }

    /// Cancels the prompts and the turn of a session.
    async fn cancel(&mut self, id: &wire::SessionId) {
        if let Some(cancellation) = self.expanding.remove(&*id.0) {
            cancellation.cancel();
        }
        let swarm = self.service.swarm();
        let session_prompts = self
            .prompts
            .iter()
            .filter(|(_, prompt)| *prompt.session == *id.0);
        for (event_id, _) in session_prompts {
            swarm.cancel_event(event_id).await;
        }
        // A turn may run that no prompt started.
        if self.sessions.contains_key(&*id.0) {
            swarm.cancel(&self.instance(&id.0)).await;
        }
    }

    /// Passes an event to its session. The end of a turn answers its prompt.
    fn handle_event(&mut self, published: &PublishedEvent) {
        let instance = published.instance();
        if let Some(session) = self
            .sessions
            .get_mut(&instance.instance_key)
            .filter(|it| it.instance == instance)
        {
            session.handle_event(&published.event);
        }
        if let SwarmEvent::TurnEnded {
            event_id, result, ..
        } = &published.event
        {
            self.answer_prompt(event_id, result);
        }
    }

    /// Answers the prompt of a turn that is over, if a prompt started the turn.
    fn answer_prompt(&mut self, event_id: &str, result: &TurnResult) {
        if let Some(prompt) = self.prompts.remove(event_id) {
            // Delivery errors are ignored, for the same reason.
            let _ = prompt
                .responder
                .respond_with_result(prompt_response(result));
        }
    }

    /// Subscribes again after missed events. Sent text cannot be revoked, so each session gets the
    /// current text as a new message.
    async fn catch_up(&mut self) -> EventReceiver {
        let is_open = |instance: &InstanceId| {
            let session = self.sessions.get(&instance.instance_key);
            session.is_some_and(|session| session.instance == *instance)
        };
        let hub = self.service.gateway().hub();
        let (events, now) = hub.subscribe_with(|instance, _| is_open(instance));
        for (instance, running) in &now.running {
            if let Some(session) = self.sessions.get_mut(&instance.instance_key) {
                session.catch_up(running);
            }
        }
        let prompts = self.prompts.iter();
        let open: Vec<(String, String)> = prompts
            .map(|(event_id, prompt)| (event_id.clone(), prompt.session.clone()))
            .collect();
        for (event_id, key) in open {
            let found = self.service.swarm().find(&event_id).await;
            let Some(SubmittedEventState::Over(result)) = found else {
                continue;
            };
            // The answer precedes the response to the prompt.
            if let Some(session) = self.sessions.get_mut(&key) {
                session.begin(format!("{}-answer", result.turn_id));
                session.handle_turn_end(&result);
            }
            self.answer_prompt(&event_id, &result);
        }
        events
    }

    /// Shows an approval request in its conversation's session, in the session of its trace, or in
    /// the latest session.
    fn show_request(&mut self, question: ApprovalHandle) {
        let instance = &question.request.instance;
        let own_session = self
            .sessions
            .iter()
            .find(|(_, session)| session.instance == *instance)
            .map(|(key, _)| key);
        let of_trace = || {
            self.prompts
                .values()
                .find(|it| it.trace_id == question.request.trace_id)
                .map(|it| &it.session)
        };
        let latest = || {
            self.latest
                .as_ref()
                .filter(|key| self.sessions.contains_key(*key))
        };
        match own_session
            .or_else(of_trace)
            .or_else(latest)
            .and_then(|key| self.sessions.get(key))
        {
            Some(session) => permission::request_permission(&self.editor, session, question),
            None => self.put_off.push(question),
        }
    }
}

/// Returns true for an id in the form that [`SessionManager::begin`] creates.
fn was_issued_here(id: &str) -> bool {
    let digits = id.strip_prefix(SESSION_ID_PREFIX).unwrap_or_default();
    digits.len() == 16 && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Fails if the directory is not absolute.
fn require_absolute(cwd: PathBuf) -> Result<PathBuf, Error> {
    match cwd.is_absolute() {
        true => Ok(cwd),
        false => Err(Error::invalid_params().data("`cwd` is not an absolute path")),
    }
}

/// Converts an error of the swarm for the editor.
fn editor_error(error: SendError) -> Error {
    let data = json!({"code": error.code.as_str(), "suggestion": error.suggestion});
    Error::new(rpc_form(error.code).code, error.message).data(data)
}

/// Returns the prompt response for a finished turn.
fn prompt_response(result: &TurnResult) -> Result<wire::PromptResponse, Error> {
    let reason = match result.finish_reason {
        FinishReason::TextResponse if result.model_finish_reason.is_some() => {
            wire::StopReason::MaxTokens
        }
        FinishReason::TextResponse => wire::StopReason::EndTurn,
        FinishReason::MaxSteps => wire::StopReason::MaxTurnRequests,
        FinishReason::Cancelled => wire::StopReason::Cancelled,
        FinishReason::Error if updates::refusal_message(result).is_some() => {
            wire::StopReason::Refusal
        }
        FinishReason::Error => {
            let Some(error) = &result.error else {
                return Err(Error::internal_error());
            };
            let data = json!({"code": error.code, "suggestion": error.suggestion});
            return Err(Error::new(ErrorCode::INTERNAL_ERROR, &*error.message).data(data));
        }
    };
    Ok(wire::PromptResponse::new(reason))
}
