//! Jobs as a tool call makes, sees and ends them.

use async_trait::async_trait;
use goondan_spec::Code;
use tokio::sync::oneshot;

use super::cron::Schedule;
use super::keep;
use crate::cluster::wire::{NewJob, Question};
use crate::delivery::orchestrator::{Command, SpawnRequest};
use crate::engine::Engine;
use crate::tooling::agents::{AgentCalls, stopped};
use crate::tooling::powers::of_store;
use goondan_core::ids::{InstanceId, derived_id};
use goondan_core::ports::powers::{Job, JobRequest, Schedules};
use goondan_core::ports::tool::ToolError;

/// How many jobs an instance has at most.
const MOST: usize = 100;

#[async_trait]
impl Schedules for AgentCalls {
    async fn jobs(&self) -> Result<Vec<Job>, ToolError> {
        let own = &self.facts.instance;
        match &self.engine.uplink {
            None => Ok(jobs(&self.engine, own)),
            Some(uplink) => uplink
                .ask(Question::Jobs(own.clone()))
                .answer()
                .await
                .ok_or_else(stopped),
        }
    }

    async fn add(&self, wanted: JobRequest) -> Result<Job, ToolError> {
        let job = NewJob {
            instance: self.facts.instance.clone(),
            place: self.place().to_owned(),
            wanted,
            callers: self.chain(),
            bound_by: self.facts.bound_by.clone(),
            narrowing: self.facts.narrowing.clone(),
        };
        match &self.engine.uplink {
            None => add(&self.engine, job).await,
            Some(uplink) => uplink
                .ask(Question::AddJob(job))
                .answer()
                .await
                .unwrap_or_else(|| Err(stopped())),
        }
    }

    async fn remove(&self, id: &str) -> Result<Option<Job>, ToolError> {
        let own = &self.facts.instance;
        match &self.engine.uplink {
            None => remove(&self.engine, own, id).await,
            Some(uplink) => {
                let call = uplink.ask(Question::RemoveJob(own.clone(), id.to_owned()));
                call.answer().await.unwrap_or_else(|| Err(stopped()))
            }
        }
    }
}

/// The jobs of an instance.
pub(crate) fn jobs(engine: &Engine, own: &InstanceId) -> Vec<Job> {
    engine.timetable.of(own)
}

/// Makes a job, or gives back the one that the same call has made before.
pub(crate) async fn add(engine: &Engine, job: NewJob) -> Result<Job, ToolError> {
    let NewJob {
        instance: own,
        place,
        wanted,
        callers,
        bound_by,
        narrowing,
    } = job;
    let schedule = Schedule::parse(&wanted.schedule, &wanted.timezone).map_err(no_schedule)?;
    let now = engine.clock.now();
    let Some(due) = schedule.next(now) else {
        return Err(no_schedule(format!("`{}` is never due", wanted.schedule)));
    };
    prepare(engine, &own).await?;
    let _one_at_a_time = engine.timetable.writing.lock().await;
    let mut jobs = engine.timetable.of(&own);
    let id = format!(
        "cron-{}",
        &derived_id(&[&own.to_string(), &place, "cron"])[..8]
    );
    if let Some(known) = jobs.iter().find(|job| job.id == id) {
        // The call runs again.
        return Ok(known.clone());
    }
    if jobs.len() >= MOST {
        let message = format!("this conversation has {MOST} jobs already");
        return Err(ToolError::new(message)
            .code(Code::TOOL_TOO_MANY_JOBS)
            .suggest("remove one first"));
    }
    let JobRequest {
        schedule,
        timezone,
        prompt,
    } = wanted;
    let job = Job {
        id,
        schedule,
        timezone,
        prompt,
        created_at: now,
        due,
        callers,
        bound_by,
        narrowing,
    };
    jobs.push(job.clone());
    keep(engine, &own, jobs).await.map_err(of_store)?;
    Ok(job)
}

/// Ends a job; `None` where there is none.
pub(crate) async fn remove(
    engine: &Engine,
    own: &InstanceId,
    id: &str,
) -> Result<Option<Job>, ToolError> {
    let _one_at_a_time = engine.timetable.writing.lock().await;
    let mut jobs = engine.timetable.of(own);
    let Some(index) = jobs.iter().position(|job| job.id == id) else {
        return Ok(None);
    };
    let removed = jobs.remove(index);
    keep(engine, own, jobs).await.map_err(of_store)?;
    Ok(Some(removed))
}

/// Makes sure that the instance is known to the store: its jobs are looked for at the next start.
async fn prepare(engine: &Engine, own: &InstanceId) -> Result<(), ToolError> {
    let (answer, spawned) = oneshot::channel();
    let request = SpawnRequest {
        id: own.clone(),
        owner: None,
        cwd: None,
        narrowing: None,
    };
    engine
        .commands
        .send(Command::Spawn { request, answer })
        .map_err(|_| stopped())?;
    spawned
        .await
        .map_err(|_| stopped())?
        .map(drop)
        .map_err(ToolError::from)
}

impl AgentCalls {
    /// Who narrows a firing: everybody above this turn, and this instance itself. A job that a firing makes is no deeper.
    fn chain(&self) -> Vec<InstanceId> {
        let mut chain = self.facts.callers.clone();
        if chain.last() != Some(&self.facts.instance) {
            chain.push(self.facts.instance.clone());
        }
        chain
    }
}

fn no_schedule(message: String) -> ToolError {
    ToolError::new(message).code(Code::TOOL_INVALID_ARGS).suggest(
        "write minute, hour, day of month, month and day of week, such as `0 9 * * MON-FRI`, and a time zone such as \
         `Europe/Berlin`",
    )
}
