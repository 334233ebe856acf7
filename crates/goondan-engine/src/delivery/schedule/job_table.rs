//! Jobs of all instances.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use chrono::{DateTime, Utc};
use goondan_core::ids::InstanceId;
use goondan_core::ports::capabilities::ScheduledJob;
use goondan_core::ports::clock::Clock;
use goondan_core::ports::store::{Store, StoreError};
use goondan_core::reserved_names::JOBS_STATE;
use tokio::sync::Notify;

use super::cron::CronSchedule;
use super::schedule_time::ScheduleTime;
use crate::tooling::state_records::record_name;

type JobsByInstance = BTreeMap<InstanceId, Vec<ScheduledJob>>;

#[derive(Default)]
pub(crate) struct JobTable {
    jobs: Mutex<JobsByInstance>,
    /// Locked from a change of an instance's jobs until the change is durable.
    pub(super) writing: tokio::sync::Mutex<()>,
    pub(super) changed: Notify,
    pub(super) time: ScheduleTime,
}

impl JobTable {
    /// Returns the time at which schedules are due. Unlike `clock`, it never goes back.
    pub(super) fn now(&self, clock: &dyn Clock) -> DateTime<Utc> {
        self.time.now(clock.now())
    }

    /// Moves due times that are too late to the next one after `now`: they were computed before the
    /// clock was set back.
    pub(super) fn correct_due_times(&self, now: DateTime<Utc>) {
        for job in self.lock().values_mut().flatten() {
            let schedule = CronSchedule::parse(&job.schedule, &job.timezone).ok();
            if let Some(next) = schedule.and_then(|schedule| schedule.next(now)) {
                job.due = job.due.min(next);
            }
        }
    }

    /// Reads the jobs of all instances. An invalid record is ignored.
    pub(crate) async fn restore(store: &dyn Store) -> Result<Self, StoreError> {
        let mut jobs = JobsByInstance::new();
        for (id, record) in store.all_records(&record_name(JOBS_STATE)).await? {
            match serde_json::from_value(record.value) {
                Ok(instance_jobs) => drop(jobs.insert(id, instance_jobs)),
                Err(error) => {
                    tracing::warn!(instance = %id, %error, "scheduled jobs record is invalid; \
                        ignoring it")
                }
            }
        }
        Ok(JobTable {
            jobs: Mutex::new(jobs),
            ..JobTable::default()
        })
    }

    /// Removes the jobs of a deleted instance.
    pub(crate) fn remove_jobs(&self, id: &InstanceId) {
        self.lock().remove(id);
        self.changed.notify_one();
    }

    pub(super) fn jobs_of(&self, id: &InstanceId) -> Vec<ScheduledJob> {
        self.lock().get(id).cloned().unwrap_or_default()
    }

    pub(crate) fn all_jobs(&self) -> Vec<(InstanceId, ScheduledJob)> {
        let with_id = |(id, jobs): (&InstanceId, &Vec<ScheduledJob>)| -> Vec<_> {
            jobs.iter().map(|job| (id.clone(), job.clone())).collect()
        };
        self.lock().iter().flat_map(with_id).collect()
    }

    pub(super) fn replace_jobs(&self, id: &InstanceId, jobs: Vec<ScheduledJob>) {
        self.lock().insert(id.clone(), jobs);
        self.changed.notify_one();
    }

    /// Returns the earliest due time; `None` without jobs.
    pub(super) fn next_due(&self) -> Option<DateTime<Utc>> {
        self.lock().values().flatten().map(|job| job.due).min()
    }

    /// Returns the jobs that are due at `now`, each with its instance.
    pub(super) fn due_jobs(&self, now: DateTime<Utc>) -> Vec<(InstanceId, ScheduledJob)> {
        let jobs = self.lock();
        let all_jobs = jobs
            .iter()
            .flat_map(|(id, jobs)| jobs.iter().map(move |job| (id, job)));
        all_jobs
            .filter(|(_, job)| job.due <= now)
            .map(|(id, job)| (id.clone(), job.clone()))
            .collect()
    }

    /// Returns the jobs, locked.
    pub(super) fn lock(&self) -> MutexGuard<'_, JobsByInstance> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
