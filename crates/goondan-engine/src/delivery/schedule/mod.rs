//! Jobs: prompts that come to an instance by the clock, as events into its own queue.
//!
//! A job is kept with its instance. Its next firing is written down before it is due, and the id of a firing is derived
//! from the job and that time: a process that is cut off anywhere in between fires it again under the same id, which starts
//! no second turn. What was missed while nothing ran fires once at the next start.

pub mod cron;
pub(crate) mod power;
mod zone;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use chrono::{DateTime, SecondsFormat, Utc};
use serde_json::json;
use tokio::sync::{Notify, oneshot};

use self::cron::Schedule;
use crate::delivery::orchestrator::{Command, Refusal};
use crate::engine::Engine;
use crate::tooling::powers::record_name;
use goondan_core::JsonObject;
use goondan_core::ids::{InstanceId, derived_id};
use goondan_core::inbound::{AgentEvent, EventTrace, Terms};
use goondan_core::ports::clock::Clock;
use goondan_core::ports::powers::Job;
use goondan_core::ports::store::{Store, StoreError, update};
use goondan_core::reserved::{CRON, FIRED};

/// The name under which an instance's jobs are kept.
const STATE: &str = "automation";

/// How long a firing waits that the store did not take.
const TRY_AGAIN: Duration = Duration::from_secs(5);

type Jobs = BTreeMap<InstanceId, Vec<Job>>;

/// The jobs of all instances.
#[derive(Default)]
pub(crate) struct Timetable {
    jobs: Mutex<Jobs>,
    /// Held from a change of an instance's jobs until it is on disk.
    writing: tokio::sync::Mutex<()>,
    changed: Notify,
}

impl Timetable {
    /// Reads the jobs of all instances.
    pub(crate) async fn restore(store: &dyn Store) -> Result<Self, StoreError> {
        let mut jobs = Jobs::new();
        for (id, record) in store.all(&record_name(STATE)).await? {
            match serde_json::from_value(record.value) {
                Ok(own) => drop(jobs.insert(id, own)),
                Err(error) => {
                    tracing::warn!(instance = %id, %error, "the jobs of an instance are no jobs")
                }
            }
        }
        Ok(Timetable {
            jobs: Mutex::new(jobs),
            ..Timetable::default()
        })
    }

    /// An instance is gone, and its jobs with it.
    pub(crate) fn forget(&self, id: &InstanceId) {
        self.lock().remove(id);
        self.changed.notify_one();
    }

    fn of(&self, id: &InstanceId) -> Vec<Job> {
        self.lock().get(id).cloned().unwrap_or_default()
    }

    fn put(&self, id: &InstanceId, jobs: Vec<Job>) {
        self.lock().insert(id.clone(), jobs);
        self.changed.notify_one();
    }

    fn next_due(&self) -> Option<DateTime<Utc>> {
        self.lock().values().flatten().map(|job| job.due).min()
    }

    fn due(&self, now: DateTime<Utc>) -> Vec<(InstanceId, Job)> {
        let jobs = self.lock();
        let all = jobs
            .iter()
            .flat_map(|(id, jobs)| jobs.iter().map(move |job| (id, job)));
        all.filter(|(_, job)| job.due <= now)
            .map(|(id, job)| (id.clone(), job.clone()))
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, Jobs> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes down the jobs of an instance, and goes by them.
async fn keep(engine: &Engine, id: &InstanceId, jobs: Vec<Job>) -> Result<(), StoreError> {
    let value = json!(jobs);
    update(&*engine.store, id, &record_name(STATE), |_| {
        Some(value.clone())
    })
    .await?;
    engine.timetable.put(id, jobs);
    Ok(())
}

/// Fires what is due, for as long as the engine lives. It holds on to the engine only while it fires.
pub(crate) async fn run(engine: Weak<Engine>, timetable: Arc<Timetable>, clock: Arc<dyn Clock>) {
    loop {
        let next = timetable.next_due();
        tokio::select! {
            () = timetable.changed.notified() => continue,
            () = until(&*clock, next) => {}
        }
        let due = timetable.due(clock.now());
        let Some(engine) = engine.upgrade() else {
            return;
        };
        for (id, job) in due {
            match fire(&engine, &id, &latest(job.clone(), engine.clock.now())).await {
                Ok(()) => advance(&engine, &id, &job.id).await,
                Err(Refusal::Stopping) => return,
                Err(Refusal::Store(_)) => tokio::time::sleep(TRY_AGAIN).await,
                Err(refusal) => {
                    tracing::warn!(instance = %id, job = job.id, error = %refusal, "a job did not fire");
                    advance(&engine, &id, &job.id).await;
                }
            }
        }
    }
}

async fn until(clock: &dyn Clock, at: Option<DateTime<Utc>>) {
    match at {
        Some(at) => clock.sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// The job as it is due now: with what was missed since the time that was noted, it fires once. That time itself may have fired
/// before a process died that had not noted it, and then counts no more.
fn latest(mut job: Job, now: DateTime<Utc>) -> Job {
    let last = Schedule::parse(&job.schedule, &job.timezone)
        .ok()
        .and_then(|schedule| schedule.last(now));
    job.due = last.map_or(job.due, |last| last.max(job.due));
    job
}

/// Hands the firing in; comes back once it is on disk.
async fn fire(engine: &Engine, id: &InstanceId, job: &Job) -> Result<(), Refusal> {
    let (accepted, answer) = oneshot::channel();
    let event = Box::new(event(engine, id, job));
    engine
        .commands
        .send(Command::Submit {
            event,
            waiter: None,
            accepted,
        })
        .map_err(|_| Refusal::Stopping)?;
    answer.await.map_err(|_| Refusal::Stopping)?
}

fn event(engine: &Engine, id: &InstanceId, job: &Job) -> AgentEvent {
    let due = job.due.to_rfc3339_opts(SecondsFormat::Secs, true);
    let about =
        json!({"jobId": job.id, "schedule": job.schedule, "timezone": job.timezone, "due": due});
    AgentEvent {
        id: format!("evt-{}", derived_id(&[&id.to_string(), &job.id, &due])),
        event_type: FIRED.to_owned(),
        created_at: engine.clock.now(),
        target: id.clone(),
        input: job.prompt.clone(),
        files: Vec::new(),
        history: Vec::new(),
        metadata: JsonObject::from_iter([(CRON.to_owned(), about)]),
        instructions: None,
        trace: EventTrace {
            trace_id: engine.clock.hex(32),
            parent_span_id: None,
            caller: None,
        },
        // A firing may do no more than the turn that made the job.
        callers: job.callers.clone(),
        reply_to: None,
        terms: Terms {
            narrowing: job.narrowing.clone(),
            bound_by: job.bound_by.clone(),
            ..Terms::default()
        },
    }
}

/// A job has fired: when it does so next is written down. What was missed meanwhile is left out.
async fn advance(engine: &Engine, id: &InstanceId, job_id: &str) {
    let _one_at_a_time = engine.timetable.writing.lock().await;
    let mut jobs = engine.timetable.of(id);
    let Some(index) = jobs.iter().position(|job| job.id == job_id) else {
        return;
    };
    let next = Schedule::parse(&jobs[index].schedule, &jobs[index].timezone).ok();
    match next.and_then(|schedule| schedule.next(engine.clock.now().max(jobs[index].due))) {
        Some(next) => jobs[index].due = next,
        None => drop(jobs.remove(index)),
    }
    if let Err(error) = keep(engine, id, jobs.clone()).await {
        // This process goes on by it. The next one fires once more, under an id that is known.
        tracing::warn!(instance = %id, job = job_id, %error, "the next firing of a job was not written down");
        engine.timetable.put(id, jobs);
    }
}
