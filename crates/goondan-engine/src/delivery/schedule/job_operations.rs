//! Job operations for tool calls: list, add and remove.

use async_trait::async_trait;
use goondan_spec::Code;
use tokio::sync::oneshot;

use super::cron::CronSchedule;
use super::store_jobs;
use crate::cluster::protocol::{LeaderRequest, NewJob};
use crate::delivery::orchestrator::{InstanceSpawnRequest, OrchestratorCommand};
use crate::engine::Engine;
use crate::tooling::agents::{AgentCalls, stopped_error};
use crate::tooling::host_capabilities::store_tool_error;
use goondan_core::ids::{InstanceId, derived_id};
use goondan_core::ports::capabilities::{JobRequest, PromptScheduler, ScheduledJob};
use goondan_core::ports::tool::HandlerError;

/// Limit of jobs per instance.
const MAX_JOBS: usize = 100;

#[async_trait]
impl PromptScheduler for AgentCalls {
    async fn jobs(&self) -> Result<Vec<ScheduledJob>, HandlerError> {
        let instance = &self.facts.instance;
        match &self.engine.leader_client {
            None => Ok(jobs(&self.engine, instance)),
            Some(leader_client) => leader_client
                .send_request(LeaderRequest::Jobs(instance.clone()))
                .answer()
                .await
                .ok_or_else(stopped_error),
        }
    }

    async fn add(&self, request: JobRequest) -> Result<ScheduledJob, HandlerError> {
        let job = NewJob {
            instance: self.facts.instance.clone(),
            place: self.call_path().to_owned(),
            wanted: request,
            callers: self.caller_chain(),
            since: self.facts.since,
            bound_by: self.facts.bound_by.clone(),
            narrowing: self.facts.narrowing.clone(),
        };
        match &self.engine.leader_client {
            None => add(&self.engine, job).await,
            Some(leader_client) => leader_client
                .send_request(LeaderRequest::AddJob(job))
                .answer()
                .await
                .unwrap_or_else(|| Err(stopped_error())),
        }
    }

    async fn remove(&self, id: &str) -> Result<Option<ScheduledJob>, HandlerError> {
        let instance = &self.facts.instance;
        match &self.engine.leader_client {
            None => remove(&self.engine, instance, id).await,
            Some(leader_client) => {
                let call = leader_client
                    .send_request(LeaderRequest::RemoveJob(instance.clone(), id.to_owned()));
                call.answer().await.unwrap_or_else(|| Err(stopped_error()))
            }
        }
    }
}

/// Returns the scheduled jobs of an instance.
pub(crate) fn jobs(engine: &Engine, instance: &InstanceId) -> Vec<ScheduledJob> {
    engine.timetable.jobs_of(instance)
}

/// Creates a job, or returns the job that the same call created before.
pub(crate) async fn add(engine: &Engine, job: NewJob) -> Result<ScheduledJob, HandlerError> {
    let NewJob {
        instance: own,
        place,
        wanted,
        callers,
        since,
        bound_by,
        narrowing,
    } = job;
    let schedule =
        CronSchedule::parse(&wanted.schedule, &wanted.timezone).map_err(invalid_schedule_error)?;
    let now = engine.timetable.now(&*engine.clock);
    let Some(due) = schedule.next(now) else {
        return Err(invalid_schedule_error(format!(
            "`{}` is never due",
            wanted.schedule
        )));
    };
    store_instance(engine, &own).await?;
    let _one_at_a_time = engine.timetable.writing.lock().await;
    let mut jobs = engine.timetable.jobs_of(&own);
    let id = format!(
        "cron-{}",
        &derived_id(&[&own.to_string(), &place, "cron"])[..8]
    );
    if let Some(existing) = jobs.iter().find(|job| job.id == id) {
        // The call was interrupted after it had created the job, and runs again.
        return Ok(existing.clone());
    }
    if jobs.len() >= MAX_JOBS {
        let message = format!("this conversation has {MAX_JOBS} jobs already");
        return Err(HandlerError::new(message)
            .code(Code::TOOL_TOO_MANY_JOBS)
            .suggest("remove a job first"));
    }
    let JobRequest {
        schedule,
        timezone,
        prompt,
    } = wanted;
    let job = ScheduledJob {
        id,
        schedule,
        timezone,
        prompt,
        created_at: now,
        due,
        callers,
        since: Some(since),
        bound_by,
        narrowing,
    };
    jobs.push(job.clone());
    store_jobs(engine, &own, jobs)
        .await
        .map_err(store_tool_error)?;
    Ok(job)
}

/// Removes the job `id` and returns it; `None` if the instance has no such job.
pub(crate) async fn remove(
    engine: &Engine,
    instance: &InstanceId,
    id: &str,
) -> Result<Option<ScheduledJob>, HandlerError> {
    let _one_at_a_time = engine.timetable.writing.lock().await;
    let mut jobs = engine.timetable.jobs_of(instance);
    let Some(index) = jobs.iter().position(|job| job.id == id) else {
        return Ok(None);
    };
    let removed = jobs.remove(index);
    store_jobs(engine, instance, jobs)
        .await
        .map_err(store_tool_error)?;
    Ok(Some(removed))
}

/// Stores the instance first: at the next start, jobs are read from stored instances only.
async fn store_instance(engine: &Engine, instance: &InstanceId) -> Result<(), HandlerError> {
    let (answer, spawned) = oneshot::channel();
    let request = InstanceSpawnRequest {
        id: instance.clone(),
        owner: None,
        cwd: None,
        narrowing: None,
    };
    engine
        .commands
        .send(OrchestratorCommand::Spawn { request, answer })
        .map_err(|_| stopped_error())?;
    spawned
        .await
        .map_err(|_| stopped_error())?
        .map(drop)
        .map_err(HandlerError::from)
}

impl AgentCalls {
    /// Returns the instances whose restrictions apply to a firing: all callers of this turn and
    /// this instance. A job created by a firing gets the same chain, so the chain does not grow.
    fn caller_chain(&self) -> Vec<InstanceId> {
        let mut chain = self.facts.callers.clone();
        if chain.last() != Some(&self.facts.instance) {
            chain.push(self.facts.instance.clone());
        }
        chain
    }
}

fn invalid_schedule_error(message: String) -> HandlerError {
    HandlerError::new(message).code(Code::TOOL_INVALID_ARGS).suggest(
        "write minute, hour, day of month, month and day of week, such as `0 9 * * MON-FRI`, and a \
        time zone such as `Europe/Berlin`",
    )
}
