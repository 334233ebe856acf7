//! From an input to the turn that a run shows.

use goondan::Input;
use goondan::event::turn_id;
use goondan::ids::{InstanceId, derived_id, turn_of_message};
use goondan::ports::approval::Covers;
use goondan::spec::{Code, JsonObject};
use goondan::telemetry::Caller;

use super::input::{ResumeBody, RunInput};
use crate::asking;
use crate::problem::Problem;
use crate::service::Service;
use crate::watch::{Place, Watch};
use crate::wire::CLIENT_MESSAGE_ID;

/// A turn that a run shows.
pub(super) struct Run {
    pub(super) instance: InstanceId,
    pub(super) turn_id: String,
    pub(super) watch: Watch,
    /// What was said in it before may not be known to the client.
    pub(super) is_again: bool,
}

/// Begins the run of an input, or finds it where it was begun before.
pub(super) async fn begin(
    service: &Service,
    agent: &str,
    input: &RunInput,
    caller: Option<Caller>,
) -> Result<Run, Problem> {
    let instance = InstanceId::new(agent, &*input.thread_id);
    if let Some(answers) = input.resume.as_ref().filter(|answers| !answers.is_empty()) {
        return go_on(service, instance, answers).await;
    }
    let hash = derived_id(&["ag-ui", agent, &input.thread_id, &input.run_id]);
    let event_id = format!("evt-agui-{hash}");
    let place = match Watch::place(service, &event_id, &instance).await {
        Place::Taken(watch) => {
            return Ok(Run {
                instance,
                turn_id: turn_id(&event_id),
                watch,
                is_again: true,
            });
        }
        Place::Free(place) => place,
    };
    if service.is_draining() {
        return Err(
            Problem::new(Code::SWARM_STOPPING, "The server is stopping.")
                .suggest("Send it again in a moment."),
        );
    }
    if asking::all_asked(service, &chain(service, &instance))
        .next()
        .is_some()
    {
        let problem = Problem::new(Code::SERVE_CLOSED, "The thread waits for an answer.");
        return Err(problem
            .suggest("Answer the question of its last run with `resume`, or run that one again."));
    }
    let said = input.said()?;
    if said.text.trim().is_empty() && said.files.is_empty() {
        let problem = Problem::new(Code::SERVE_REQUEST, "Nothing new is said.");
        return Err(problem.suggest("Put a message of the user at the end of `messages`."));
    }
    let is_known = service.swarm().has_instance(&instance).await;
    let metadata = said.id.map(|id| (CLIENT_MESSAGE_ID.to_owned(), id.into()));
    let input = Input {
        output: None,
        text: said.text,
        files: said.files,
        agent: Some(instance.agent.clone()),
        instance_key: Some(instance.instance_key.clone()),
        id: Some(event_id.clone()),
        // Long histories are not written down again and again.
        history: if is_known { Vec::new() } else { said.history },
        instructions: said.instructions,
        metadata: metadata.into_iter().collect::<JsonObject>(),
        caller,
    };
    Ok(Run {
        instance,
        turn_id: turn_id(&event_id),
        watch: place.send(input).await?,
        is_again: false,
    })
}

/// The chain in which a conversation works at this moment; an empty one where it does not.
fn chain(service: &Service, instance: &InstanceId) -> String {
    service.inner.hub.chain_of(instance).unwrap_or_default()
}

/// Answers the questions of the turn that runs in a thread, and shows how it goes on.
async fn go_on(
    service: &Service,
    instance: InstanceId,
    answers: &[ResumeBody],
) -> Result<Run, Problem> {
    let closed = || {
        Problem::new(
            Code::SERVE_CLOSED,
            "No such question is open in this thread.",
        )
        .suggest("It was answered or withdrawn. GET /api/approvals lists those that are open.")
    };
    let running = service
        .inner
        .hub
        .subscribe()
        .1
        .running
        .remove(&instance)
        .map(|turn| turn.turn_id);
    let is_running = running.is_some();
    let turn_id = match running {
        Some(turn_id) => turn_id,
        None => last_turn(service, &instance).await.ok_or_else(closed)?,
    };
    let rest = turn_id.strip_prefix("turn-").unwrap_or(&turn_id);
    let mut found = None;
    for event_id in [format!("evt-{rest}"), rest.to_owned()] {
        if found.is_none() {
            found = Watch::begin(service, &event_id, &instance).await;
        }
    }
    let watch = found.ok_or_else(closed)?;
    let place = instance.to_string();
    let open: Vec<_> = asking::all_asked(service, watch.trace_id()).collect();
    let mut chosen = Vec::new();
    for answer in answers {
        let question = open
            .iter()
            .find(|question| question.request.id == answer.interrupt_id);
        let (meaning, covers) = answer.meaning();
        match question {
            Some(question) if covers != Covers::Call && !question.request.is_offered(covers) => {
                return Err(Problem::new(
                    Code::INVALID_ARGUMENT,
                    "The question does not offer that.",
                )
                .suggest("It is still open. Its `offers` say what an answer may cover."));
            }
            Some(question) => chosen.push((question, meaning)),
            // It is sent again.
            None if service.inner.given.has(&place, &answer.interrupt_id) => {}
            None => return Err(closed()),
        }
    }
    for (question, meaning) in chosen {
        service.inner.given.note(&place, &question.request.id);
        // Where somebody was faster, that answer counts.
        question.answer(meaning);
    }
    Ok(Run {
        instance,
        turn_id,
        watch,
        is_again: !is_running,
    })
}

/// The turn that was the last one in a conversation.
async fn last_turn(service: &Service, instance: &InstanceId) -> Option<String> {
    let messages = service.swarm().conversation(instance).await.ok()?;
    messages
        .iter()
        .rev()
        .find_map(|message| turn_of_message(&message.id))
        .map(str::to_owned)
}
