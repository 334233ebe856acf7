//! Jobs: prompts that are sent to an instance on schedule, as events in its queue.
//!
//! A job is stored with its instance, and its next firing is stored before it is due. The id of a
//! firing is derived from the job and that time. A process that crashes in between fires the job
//! again under the same id, which starts no second turn. Firings missed while no process ran are
//! combined into one at the next start.

pub mod cron;
pub(crate) mod job_operations;
mod job_table;
mod schedule_time;
mod zone;

use std::sync::{Arc, Weak};
use std::time::Duration;

use chrono::{DateTime, SecondsFormat, Utc};
use serde_json::json;
use tokio::sync::oneshot;

use self::cron::CronSchedule;
pub(crate) use self::job_table::JobTable;
pub use self::schedule_time::ScheduleTime;
use crate::delivery::orchestrator::{OrchestratorCommand, SubmitError};
use crate::engine::Engine;
use crate::tooling::state_records::record_name;
use goondan_core::JsonObject;
use goondan_core::agent_event::{AgentEvent, EventTrace, TurnTerms};
use goondan_core::ids::{InstanceId, derived_id};
use goondan_core::ports::capabilities::ScheduledJob;
use goondan_core::ports::clock::Clock;
use goondan_core::ports::store::{StoreError, update};
use goondan_core::reserved_names::JOBS_STATE;
use goondan_core::reserved_names::{CRON_EVENT, CRON_KEY};

/// Delay before a firing is retried after a store error.
const FIRING_RETRY_DELAY: Duration = Duration::from_secs(5);

/// Fires due jobs until the engine is dropped. Holds a strong reference to the engine only while a
/// job fires.
pub(crate) async fn run(engine: Weak<Engine>, timetable: Arc<JobTable>, clock: Arc<dyn Clock>) {
    timetable.correct_due_times(timetable.now(&*clock));
    loop {
        let next = timetable.next_due().map(|at| timetable.time.on_clock(at));
        tokio::select! {
            () = timetable.changed.notified() => continue,
            () = sleep_until(&*clock, next) => {}
        }
        let due_jobs = timetable.due_jobs(timetable.now(&*clock));
        let Some(engine) = engine.upgrade() else {
            return;
        };
        for (id, job) in due_jobs {
            match fire_job(
                &engine,
                &id,
                &with_latest_due(job.clone(), timetable.now(&*clock)),
            )
            .await
            {
                Ok(()) => advance_job(&engine, &id, &job.id).await,
                Err(SubmitError::Stopping) => return,
                Err(ended @ SubmitError::AccessEnded(_)) => {
                    tracing::warn!(instance = %id, job = job.id, error = %ended, "a scheduled job \
                        of another user's agent was removed");
                    discard_job(&engine, &id, &job.id).await;
                }
                Err(SubmitError::Store(_)) => tokio::time::sleep(FIRING_RETRY_DELAY).await,
                Err(refusal) => {
                    tracing::warn!(instance = %id, job = job.id, error = %refusal, "a \
                        scheduled job did not run: its prompt was rejected; waiting for its next \
                        due time");
                    advance_job(&engine, &id, &job.id).await;
                }
            }
        }
    }
}

/// Waits until `at`, or forever for `None`.
async fn sleep_until(clock: &dyn Clock, at: Option<DateTime<Utc>>) {
    match at {
        Some(at) => clock.sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Moves `due` to the latest due time, so that several missed firings fire once. The stored time
/// may have fired already in a process that died before storing the next one; it is then dropped.
fn with_latest_due(mut job: ScheduledJob, now: DateTime<Utc>) -> ScheduledJob {
    let last = CronSchedule::parse(&job.schedule, &job.timezone)
        .ok()
        .and_then(|schedule| schedule.last(now));
    job.due = last.map_or(job.due, |last| last.max(job.due));
    job
}

/// Submits the event of a due job; returns when the event is durable.
async fn fire_job(engine: &Engine, id: &InstanceId, job: &ScheduledJob) -> Result<(), SubmitError> {
    let (accepted, answer) = oneshot::channel();
    let event = Box::new(event(engine, id, job));
    engine
        .commands
        .send(OrchestratorCommand::Submit {
            event,
            waiter: None,
            accepted,
        })
        .map_err(|_| SubmitError::Stopping)?;
    answer.await.map_err(|_| SubmitError::Stopping)?.map(drop)
}

/// Returns the event that sends the prompt of a due job. Its id depends only on the job and its due
/// time.
fn event(engine: &Engine, id: &InstanceId, job: &ScheduledJob) -> AgentEvent {
    let due_time = job.due.to_rfc3339_opts(SecondsFormat::Secs, true);
    let about = json!({"jobId": job.id, "schedule": job.schedule, "timezone": job.timezone, "due": due_time});
    AgentEvent {
        id: format!("evt-{}", derived_id(&[&id.to_string(), &job.id, &due_time])),
        event_type: CRON_EVENT.to_owned(),
        created_at: engine.clock.now(),
        target: id.clone(),
        input: job.prompt.clone(),
        files: Vec::new(),
        history: Vec::new(),
        metadata: JsonObject::from_iter([(CRON_KEY.to_owned(), about)]),
        instructions: None,
        trace: EventTrace {
            trace_id: engine.clock.random_hex(32),
            parent_span_id: None,
            caller: None,
        },
        // A firing has at most the permissions of the turn that created the job.
        callers: job.callers.clone(),
        reply_to: None,
        terms: TurnTerms {
            narrowing: job.narrowing.clone(),
            since: chain_start(id, job),
            bound_by: job.bound_by.clone(),
            ..TurnTerms::default()
        },
    }
}

/// Returns the time since which the callers that created a job must have kept their access to the
/// instance. Returns `None` if all callers have the instance's key; then the time of the firing
/// counts.
fn chain_start(id: &InstanceId, job: &ScheduledJob) -> Option<DateTime<Utc>> {
    let is_other = |caller: &InstanceId| caller.instance_key != id.instance_key;
    let has_others = job.callers.iter().any(is_other);
    has_others.then(|| job.since.unwrap_or(job.created_at))
}

/// Removes a job.
async fn discard_job(engine: &Engine, id: &InstanceId, job_id: &str) {
    if let Err(error) = job_operations::remove(engine, id, job_id).await {
        tracing::warn!(instance = %id, job = job_id, %error, "failed to remove a scheduled job; \
            retrying when it is due again");
        advance_job(engine, id, job_id).await;
    }
}

/// Stores the next firing of a job that has fired. Firings missed until now are skipped.
async fn advance_job(engine: &Engine, id: &InstanceId, job_id: &str) {
    let _one_at_a_time = engine.timetable.writing.lock().await;
    let mut jobs = engine.timetable.jobs_of(id);
    let Some(index) = jobs.iter().position(|job| job.id == job_id) else {
        return;
    };
    let next = CronSchedule::parse(&jobs[index].schedule, &jobs[index].timezone).ok();
    match next.and_then(|schedule| {
        schedule.next(engine.timetable.now(&*engine.clock).max(jobs[index].due))
    }) {
        Some(next) => jobs[index].due = next,
        None => drop(jobs.remove(index)),
    }
    if let Err(error) = store_jobs(engine, id, jobs.clone()).await {
        // This process uses the new time anyway. The next process fires once more, under an id that
        // is already handled.
        tracing::warn!(instance = %id, job = job_id, %error, "failed to store the next due \
            time of a scheduled job; this process uses it anyway");
        engine.timetable.replace_jobs(id, jobs);
    }
}

/// Stores the jobs of an instance, then replaces them in memory.
async fn store_jobs(
    engine: &Engine,
    id: &InstanceId,
    jobs: Vec<ScheduledJob>,
) -> Result<(), StoreError> {
    let value = json!(jobs);
    update(&*engine.store, id, &record_name(JOBS_STATE), |_| {
        Some(value.clone())
    })
    .await?;
    engine.timetable.replace_jobs(id, jobs);
    Ok(())
}
