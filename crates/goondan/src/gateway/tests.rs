//! Behavior that all interfaces share: slow readers, restarts, disconnected clients, the end of the
//! swarm, and approvals that another client answers.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::time::Duration;

use goondan_core::event::SwarmEvent;
use goondan_core::ports::approval::ApprovalAnswer;
use goondan_spec::Environment;

use super::*;
use crate::approvals::broker::ApprovalEnd;

const PROJECT: &str = "
apiVersion: goondan.ai/v1
kind: Model
metadata: {name: m}
spec:
  provider: scripted
  model: any
  options:
    rules:
      - when: {role: user, contains: write}
        reply: {calls: [{id: w, tool: file-system__write, args: {path: n, content: hi}}]}
      - {when: {contains: slow}, reply: {text: late, delayMs: 600000}}
    agents:
      b: [{text: abcd, chunks: 4, breakAfter: 2}, {text: again}]
    default: {text: abcdefghij, chunks: 10}
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: a}
spec:
  modelConfig: {modelRef: Model/m}
  tools: [{ref: Tool/file-system}]
  permissions: {default: allow, rules: [{permission: write, action: ask}]}
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: b}
spec: {modelConfig: {modelRef: Model/m}}
---
apiVersion: goondan.ai/v1
kind: Swarm
metadata: {name: default}
spec:
  entryAgent: Agent/a
  agents: [{ref: Agent/a}, {ref: Agent/b}]
";

struct OpenGateway {
    gateway: SwarmGateway,
    broker: ApprovalBroker,
    _folder: tempfile::TempDir,
}

/// Opens the gateway to a new swarm, with a buffer of `events` events.
async fn open(events: usize) -> OpenGateway {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("goondan.yaml"), PROJECT).unwrap();
    let project = crate::load(folder.path());
    assert_eq!(project.diagnostics, []);
    let broker = ApprovalBroker::default();
    let builder = Swarm::builder(project.bundle.unwrap())
        .state_root(folder.path())
        .environment(Environment::default())
        .approver(Arc::new(broker.clone()));
    let swarm = builder.start().await.unwrap();
    OpenGateway {
        gateway: SwarmGateway::with_buffer(swarm, broker.clone(), events),
        broker,
        _folder: folder,
    }
}

fn input(id: &str, text: &str) -> Input {
    Input {
        id: Some(id.to_owned()),
        ..Input::text(text)
    }
}

/// Fails if the future takes a minute.
async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), future)
        .await
        .expect("the future did not finish within a minute")
}

/// Follows a new input.
async fn follow(opened: &OpenGateway, input: Input, reports: ApprovalReports) -> TurnStream {
    let submitted = opened.gateway.submit_and_follow(input, reports);
    submitted.await.unwrap()
}

/// Reads a stream to its end, in short: text, `>` before text so far, `!` for a restart, `~` for
/// missed events, `?` and `.` for an approval request and its end, `$` for the end of the turn and
/// `#` for the end of the swarm.
async fn read(turn: &mut TurnStream) -> String {
    let mut text = String::new();
    while let Some(update) = within(turn.next()).await {
        match update {
            TurnUpdate::TextSoFar(running) => text.push_str(&format!(">{}", running.text)),
            TurnUpdate::Text(delta) => text.push_str(&delta),
            TurnUpdate::Restarted => text.push('!'),
            TurnUpdate::Lagged => text.push('~'),
            TurnUpdate::ApprovalRequested(_) => text.push('?'),
            TurnUpdate::ApprovalClosed(_) => text.push('.'),
            TurnUpdate::Ended(_) => text.push('$'),
            TurnUpdate::SwarmEnded => text.push('#'),
            TurnUpdate::Reasoning(_) | TurnUpdate::Event(_) => {}
        }
    }
    text
}

/// Waits until the stream reports an approval request.
async fn request(turn: &mut TurnStream) -> crate::ApprovalHandle {
    loop {
        let update = within(turn.next()).await;
        if let TurnUpdate::ApprovalRequested(request) =
            update.expect("the turn requests an approval")
        {
            return request;
        }
    }
}

#[tokio::test]
async fn a_new_turn_streams_its_text_and_a_finished_turn_only_its_result() {
    let opened = open(1_000).await;
    let mut turn = follow(&opened, input("evt-1", "go"), ApprovalReports::Off).await;
    assert!(turn.sees_beginning());
    assert_eq!(read(&mut turn).await, "abcdefghij$");
    let mut again = follow(&opened, input("evt-1", "go"), ApprovalReports::Off).await;
    assert!(!again.sees_beginning());
    assert_eq!(read(&mut again).await, "$");
    let found = opened.gateway.follow("evt-1", ApprovalReports::Off).await;
    assert_eq!(read(&mut found.unwrap()).await, "$");
    let unknown = opened.gateway.follow("evt-2", ApprovalReports::Off).await;
    assert!(unknown.is_none());
}

#[tokio::test]
async fn a_slow_reader_continues_with_the_current_state() {
    let opened = open(4).await;
    let mut turn = follow(&opened, input("evt-1", "go"), ApprovalReports::Off).await;
    let gateway = &opened.gateway;
    if let Some(SubmittedEventState::Open(running)) = gateway.swarm().find("evt-1").await {
        within(running.result()).await.unwrap();
    }
    let Some(TurnUpdate::Lagged) = within(turn.next()).await else {
        panic!("the stream did not report missed events")
    };
    let Some(TurnUpdate::Ended(result)) = within(turn.next()).await else {
        panic!("the stream did not report the end of the turn")
    };
    assert_eq!(result.response_text(), "abcdefghij");
    assert!(within(turn.next()).await.is_none());
}

#[tokio::test]
async fn a_restarted_answer_replaces_the_text_of_its_step() {
    let opened = open(1_000).await;
    let input = Input {
        agent: Some("b".to_owned()),
        ..input("evt-1", "go")
    };
    let mut turn = follow(&opened, input, ApprovalReports::Off).await;
    assert_eq!(read(&mut turn).await, "ab!again$");
}

#[tokio::test]
async fn a_stream_ends_when_the_swarm_or_the_gateway_ends() {
    let opened = open(1_000).await;
    let mut turn = follow(&opened, input("evt-1", "slow"), ApprovalReports::Off).await;
    opened.gateway.swarm().kill();
    assert_eq!(read(&mut turn).await, "#");
    let opened = open(1_000).await;
    let mut turn = follow(&opened, input("evt-1", "slow"), ApprovalReports::Off).await;
    opened.gateway.close();
    assert_eq!(read(&mut turn).await, "#");
}

#[tokio::test]
async fn an_approval_request_that_another_client_answers_is_closed() {
    let opened = open(1_000).await;
    let mut turn = follow(&opened, input("evt-1", "write"), ApprovalReports::OneByOne).await;
    let open_request = request(&mut turn).await;
    let approvals = opened.gateway.approvals();
    let answer = |id: &str| approvals.answer_in(turn.trace_id(), id, ApprovalAnswer::ONCE);
    assert_eq!(answer("another"), Err(ApprovalRefusal::NotOpen));
    assert_eq!(
        approvals.answer_in("another", &open_request.request.id, ApprovalAnswer::ONCE),
        Err(ApprovalRefusal::NotOpen)
    );
    assert_eq!(answer(&open_request.request.id), Ok(()));
    assert_eq!(
        answer(&open_request.request.id),
        Err(ApprovalRefusal::NotOpen)
    );
    assert_eq!(read(&mut turn).await, ".abcdefghij$");
}

#[tokio::test]
async fn a_dropped_stream_withdraws_its_approval_requests_unless_parked() {
    let opened = open(1_000).await;
    let mut turn = follow(&opened, input("evt-1", "write"), ApprovalReports::OneByOne).await;
    let open_request = request(&mut turn).await;
    drop(turn);
    within(open_request.ended()).await;
    assert_eq!(open_request.end(), Some(ApprovalEnd::Withdrawn));
    let mut turn = follow(&opened, input("evt-2", "write"), ApprovalReports::OneByOne).await;
    let open_request = request(&mut turn).await;
    turn.park();
    assert_eq!(opened.broker.open().len(), 1);
    let mut resumed = opened
        .gateway
        .follow("evt-2", ApprovalReports::OneByOne)
        .await
        .unwrap();
    assert_eq!(
        request(&mut resumed).await.request.id,
        open_request.request.id
    );
    open_request.answer(ApprovalAnswer::Deny);
    assert_eq!(read(&mut resumed).await, ".abcdefghij$");
}

#[tokio::test]
async fn a_client_keeps_only_approval_requests_of_its_trace_open() {
    let opened = open(1_000).await;
    let following = Input {
        instance_key: Some("other".to_owned()),
        ..input("evt-1", "slow")
    };
    let _turn = follow(&opened, following, ApprovalReports::All).await;
    let mut unreported = follow(&opened, input("evt-2", "write"), ApprovalReports::Off).await;
    assert_eq!(read(&mut unreported).await, "abcdefghij$");
    assert!(opened.broker.open().is_empty());
}

#[tokio::test]
async fn an_input_id_cannot_be_reused_in_another_conversation() {
    let opened = open(1_000).await;
    for (id, text) in [("evt-1", "go"), ("evt-2", "slow")] {
        let other_conversation = Input {
            instance_key: Some("other".to_owned()),
            ..input(id, text)
        };
        let gateway = &opened.gateway;
        let submitted = gateway.submit(input(id, text)).await;
        let Ok(Submission::New(turn)) = submitted else {
            panic!("{id} was not accepted as new")
        };
        let is_slow = text == "slow";
        if !is_slow {
            within(turn.result()).await.unwrap();
        }
        match gateway.submit(input(id, text)).await {
            Ok(Submission::Running(_)) => assert!(is_slow),
            Ok(Submission::Finished(_)) => assert!(!is_slow),
            _ => panic!("{id} was not recognized"),
        }
        let refused = gateway.submit(other_conversation).await.err();
        assert_eq!(refused, Some(SubmissionError::IdInUse), "{id}");
    }
}

#[tokio::test]
async fn a_draining_gateway_finds_earlier_inputs() {
    let opened = open(1_000).await;
    let mut turn = follow(&opened, input("evt-1", "go"), ApprovalReports::Off).await;
    opened.gateway.drain();
    assert_eq!(read(&mut turn).await, "abcdefghij$");
    let again = opened.gateway.submit(input("evt-1", "go")).await;
    assert!(matches!(again, Ok(Submission::Finished(_))));
    let refused = opened.gateway.submit(input("evt-2", "go")).await.err();
    let Some(SubmissionError::Rejected(refused)) = refused else {
        panic!("the new input was not rejected")
    };
    assert_eq!(refused.code, Code::SWARM_STOPPING);
}

#[tokio::test]
async fn inputs_keep_the_order_of_the_submit_calls() {
    let opened = open(1_000).await;
    let submit = |id: &str| opened.gateway.submit(input(id, id));
    let (first, second) = (submit("evt-1"), submit("evt-2"));
    // The order in which the futures are awaited has no effect.
    for submitted in [second.await, first.await] {
        let Ok(Submission::New(turn)) = submitted else {
            panic!("an input was not accepted as new")
        };
        within(turn.result()).await.unwrap();
    }
    let main = InstanceId::new("a", "main");
    let messages = opened.gateway.swarm().conversation(&main).await.unwrap();
    let texts: Vec<String> = messages
        .iter()
        .step_by(2)
        .map(|message| message.text())
        .collect();
    assert_eq!(texts, ["evt-1", "evt-2"]);
}

#[tokio::test]
async fn only_the_first_of_two_inputs_with_the_same_id_is_new() {
    let opened = open(1_000).await;
    let submit = || {
        opened
            .gateway
            .submit_and_follow(input("evt-1", "go"), ApprovalReports::Off)
    };
    let (mut first, mut second) = futures::try_join!(submit(), submit()).unwrap();
    assert!(first.sees_beginning() && !second.sees_beginning());
    assert_eq!(read(&mut first).await, "abcdefghij$");
    assert!(read(&mut second).await.ends_with('$'));
}

#[tokio::test]
async fn a_stream_without_progress_reports_approval_requests_and_the_end() {
    let opened = open(1).await;
    let turn = follow(&opened, input("evt-1", "write"), ApprovalReports::All).await;
    let mut turn = turn.without_progress();
    request(&mut turn).await.answer(ApprovalAnswer::Deny);
    assert_eq!(read(&mut turn).await, ".$");
    let turn = follow(&opened, input("evt-2", "slow"), ApprovalReports::Off).await;
    opened.gateway.swarm().kill();
    assert_eq!(read(&mut turn.without_progress()).await, "#");
}

#[tokio::test]
async fn the_stream_of_a_finished_turn_reports_the_result_after_shutdown() {
    let opened = open(4).await;
    let mut turn = follow(&opened, input("evt-1", "go"), ApprovalReports::Off).await;
    let swarm = opened.gateway.swarm();
    if let Some(SubmittedEventState::Open(running)) = swarm.find("evt-1").await {
        within(running.result()).await.unwrap();
    }
    swarm.shutdown().await;
    assert_eq!(read(&mut turn).await, "~$");
}

#[test]
fn text_of_a_step_with_an_unobserved_start_has_no_trace() {
    let (hub, instance) = (EventHub::keeping(4, 0), InstanceId::new("a", "main"));
    let mut events = hub.subscribe();
    let text = |delta: &str| SwarmEvent::Text {
        instance: instance.clone(),
        turn_id: "t".to_owned(),
        delta: delta.to_owned(),
    };
    let step = serde_json::json!({
        "type": "step.started", "stepId": "s", "stepIndex": 1, "turnId": "t",
        "timestamp": "2026-01-01T00:00:00Z", "agentName": "a", "instanceKey": "main",
        "traceId": "trace", "spanId": "span",
    });
    hub.publish(&text("rest"));
    hub.publish(&SwarmEvent::Runtime(serde_json::from_value(step).unwrap()));
    hub.publish(&text("whole"));
    let traces = [(); 3].map(|()| events.try_recv().unwrap().trace_id.clone());
    let trace = Some("trace".to_owned());
    assert_eq!(traces, [None, trace.clone(), trace]);
    assert_eq!(*hub.running_turn(&instance).unwrap().text, "whole");
}
