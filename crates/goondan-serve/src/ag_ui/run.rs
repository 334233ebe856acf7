//! Conversion of a run's input to the turn that the run shows.

use goondan::Input;
use goondan::gateway::{ApprovalRefusal, ApprovalReports, TurnStream};
use goondan::ids::{InstanceId, derived_id, turn_of_message};
use goondan::spec::{Code, JsonObject};
use goondan::start::telemetry::CallerTrace;

use super::input::{ResumeBody, RunInput};
use crate::problem::ApiProblem;
use crate::service::Service;
use crate::wire::CLIENT_MESSAGE_ID;

/// Turn that a run shows.
pub(super) struct StartedRun {
    pub(super) instance: InstanceId,
    pub(super) turn: TurnStream,
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
    let gateway = service.gateway();
    let (turn, is_again) = match gateway.follow(&event_id, ApprovalReports::OneByOne).await {
        Some(turn) => (turn, true),
        None => {
            let input = new_input(service, &instance, event_id, input, caller).await?;
            let submitted = gateway.submit_and_follow(input, ApprovalReports::OneByOne);
            (submitted.await?, false)
        }
    };
    Ok(StartedRun {
        instance,
        turn,
        is_again,
    })
}

/// Converts the input of a new run.
async fn new_input(
    service: &Service,
    instance: &InstanceId,
    event_id: String,
    input: &RunInput,
    caller: Option<CallerTrace>,
) -> Result<Input, ApiProblem> {
    let gateway = service.gateway();
    let running = gateway.hub().running_turn(instance);
    if running.is_some_and(|turn| !gateway.approvals().open_in(&turn.trace_id).is_empty()) {
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
    let is_known = service.swarm().has_instance(instance).await;
    let metadata = messages
        .id
        .map(|id| (CLIENT_MESSAGE_ID.to_owned(), id.into()));
    Ok(Input {
        text: messages.text,
        files: messages.files,
        agent: Some(instance.agent.clone()),
        instance_key: Some(instance.instance_key.clone()),
        id: Some(event_id),
        // A long history is stored only once.
        history: if is_known {
            Vec::new()
        } else {
            messages.history
        },
        instructions: messages.instructions,
        metadata: metadata.into_iter().collect::<JsonObject>(),
        caller,
        ..Input::default()
    })
}

/// Answers approval requests of the thread's running turn, and follows the turn.
async fn resume_run(
    service: &Service,
    instance: InstanceId,
    answers: &[ResumeBody],
) -> Result<StartedRun, ApiProblem> {
    let closed_error = || {
        ApiProblem::new(
            Code::SERVE_CLOSED,
            "The thread has no open approval request with this id.",
        )
        .suggest(
            "The request was answered or withdrawn. GET /api/approvals lists the open requests.",
        )
    };
    let gateway = service.gateway();
    let running = gateway.hub().running_turn(&instance);
    let is_running = running.is_some();
    let turn_id = match running {
        Some(running) => running.turn_id,
        None => last_turn(service, &instance)
            .await
            .ok_or_else(closed_error)?,
    };
    let event_suffix = turn_id.strip_prefix("turn-").unwrap_or(&turn_id);
    let mut followed = None;
    // The event id is generated (`evt-…`) or chosen by a client.
    for event_id in [format!("evt-{event_suffix}"), event_suffix.to_owned()] {
        if followed.is_none() {
            followed = gateway.follow(&event_id, ApprovalReports::OneByOne).await;
        }
    }
    let turn = followed.ok_or_else(closed_error)?;
    let conversation = instance.to_string();
    let open_approvals = turn.open_approvals();
    let mut chosen = Vec::new();
    for answer in answers {
        let request = open_approvals
            .iter()
            .find(|request| request.request.id == answer.interrupt_id);
        let meaning = answer.to_approval_answer();
        match request {
            Some(request) if request.offers(meaning) => chosen.push((request, meaning)),
            Some(_) => return Err(ApprovalRefusal::NotOffered.into()),
            // A repeated answer.
            None if gateway
                .approvals()
                .was_given(&conversation, &answer.interrupt_id) => {}
            None => return Err(closed_error()),
        }
    }
    for (request, meaning) in chosen {
        gateway
            .approvals()
            .note_given(&conversation, &request.request.id);
        // If another client answered first, its answer counts.
        request.answer(meaning);
    }
    Ok(StartedRun {
        instance,
        turn,
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
