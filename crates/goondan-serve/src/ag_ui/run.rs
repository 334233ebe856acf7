//! Conversion of a run's input to the turn that the run shows.

use goondan::Input;
use goondan::event::turn_id;
use goondan::ids::{InstanceId, derived_id, turn_of_message};
use goondan::ports::approval::ApprovalCoverage;
use goondan::spec::{Code, JsonObject};
use goondan::start::telemetry::CallerTrace;

use super::input::{ResumeBody, RunInput};
use crate::approvals;
use crate::problem::ApiProblem;
use crate::service::Service;
use crate::turn_subscription::{InputLookup, TurnSubscription};
use crate::wire::CLIENT_MESSAGE_ID;

/// Turn that a run shows.
pub(super) struct StartedRun {
    pub(super) instance: InstanceId,
    pub(super) turn_id: String,
    pub(super) watch: TurnSubscription,
    /// The client may have missed earlier text of the turn.
    pub(super) is_again: bool,
}

/// Starts the run of an input, or finds it if a repeated request started it before.
pub(super) async fn begin(
    service: &Service,
    agent: &str,
    input: &RunInput,
    caller: Option<CallerTrace>,
) -> Result<StartedRun, ApiProblem> {
    let instance = InstanceId::new(agent, &*input.thread_id);
    if let Some(answers) = input.resume.as_ref().filter(|answers| !answers.is_empty()) {
        return resume_run(service, instance, answers).await;
    }
    let hash = derived_id(&["ag-ui", agent, &input.thread_id, &input.run_id]);
    let event_id = format!("evt-agui-{hash}");
    let new_input = match TurnSubscription::look_up(service, &event_id, &instance).await {
        InputLookup::Taken(watch) => {
            return Ok(StartedRun {
                instance,
                turn_id: turn_id(&event_id),
                watch,
                is_again: true,
            });
        }
        InputLookup::Free(new_input) => new_input,
    };
    if service.is_draining() {
        return Err(
            ApiProblem::new(Code::SWARM_STOPPING, "The server is stopping.")
                .suggest("Retry in a few seconds."),
        );
    }
    if approvals::open_requests(service, &chain(service, &instance))
        .next()
        .is_some()
    {
        let problem = ApiProblem::new(
            Code::SERVE_CLOSED,
            "The thread waits for an answer to an approval request.",
        );
        return Err(problem.suggest(
            "Answer the approval request of the last run with `resume`, or repeat that run.",
        ));
    }
    let messages = input.thread_messages()?;
    if messages.text.trim().is_empty() && messages.files.is_empty() {
        let problem = ApiProblem::new(Code::SERVE_REQUEST, "The run has no new user message.");
        return Err(problem.suggest("Put a user message at the end of `messages`."));
    }
    let is_known = service.swarm().has_instance(&instance).await;
    let metadata = messages
        .id
        .map(|id| (CLIENT_MESSAGE_ID.to_owned(), id.into()));
    let input = Input {
        output: None,
        answer_call: None,
        text: messages.text,
        files: messages.files,
        agent: Some(instance.agent.clone()),
        instance_key: Some(instance.instance_key.clone()),
        id: Some(event_id.clone()),
        // A long history is stored only once.
        history: if is_known {
            Vec::new()
        } else {
            messages.history
        },
        instructions: messages.instructions,
        metadata: metadata.into_iter().collect::<JsonObject>(),
        caller,
    };
    Ok(StartedRun {
        instance,
        turn_id: turn_id(&event_id),
        watch: new_input.send(input).await?,
        is_again: false,
    })
}

/// Returns the trace of the running turn; an empty string if no turn runs.
fn chain(service: &Service, instance: &InstanceId) -> String {
    service.inner.hub.chain_of(instance).unwrap_or_default()
}

/// Answers approval requests of the thread's running turn, and follows the turn.
async fn resume_run(
    service: &Service,
    instance: InstanceId,
    answers: &[ResumeBody],
) -> Result<StartedRun, ApiProblem> {
    let closed = || {
        ApiProblem::new(
            Code::SERVE_CLOSED,
            "The thread has no open approval request with this id.",
        )
        .suggest(
            "The request was answered or withdrawn. GET /api/approvals lists the open requests.",
        )
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
    let event_suffix = turn_id.strip_prefix("turn-").unwrap_or(&turn_id);
    let mut subscription = None;
    // The event id is generated (`evt-…`) or chosen by a client.
    for event_id in [format!("evt-{event_suffix}"), event_suffix.to_owned()] {
        if subscription.is_none() {
            subscription = TurnSubscription::begin(service, &event_id, &instance).await;
        }
    }
    let watch = subscription.ok_or_else(closed)?;
    let conversation = instance.to_string();
    let open: Vec<_> = approvals::open_requests(service, watch.trace_id()).collect();
    let mut chosen = Vec::new();
    for answer in answers {
        let question = open
            .iter()
            .find(|question| question.request.id == answer.interrupt_id);
        let (meaning, covers) = answer.meaning();
        match question {
            Some(question)
                if covers != ApprovalCoverage::Call && !question.request.is_offered(covers) =>
            {
                return Err(ApiProblem::new(
                    Code::INVALID_ARGUMENT,
                    "The approval request does not offer this scope.",
                )
                .suggest("The request is still open. Use a scope from its `offers`."));
            }
            Some(question) => chosen.push((question, meaning)),
            // A repeated answer.
            None if service.inner.given.has(&conversation, &answer.interrupt_id) => {}
            None => return Err(closed()),
        }
    }
    for (question, meaning) in chosen {
        service
            .inner
            .given
            .note(&conversation, &question.request.id);
        // If another client answered first, its answer counts.
        question.answer(meaning);
    }
    Ok(StartedRun {
        instance,
        turn_id,
        watch,
        is_again: !is_running,
    })
}

/// Returns the last turn of a conversation.
async fn last_turn(service: &Service, instance: &InstanceId) -> Option<String> {
    let messages = service.swarm().conversation(instance).await.ok()?;
    messages
        .iter()
        .rev()
        .find_map(|message| turn_of_message(&message.id))
        .map(str::to_owned)
}
