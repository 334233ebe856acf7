//! Schedules of connections and of conversations.

use axum::Json;
use axum::extract::State;
use chrono::{DateTime, SecondsFormat, Utc};
use goondan::CronSchedule;
use goondan::ids::InstanceId;
use goondan::ports::capabilities::ScheduledJob;
use goondan::spec::kinds::Connection;
use goondan::spec::{Resource, ValueSource};

use super::connections;
use crate::api::ErrorResponses;
use crate::service::Service;
use crate::wire::{ScheduleBody, SchedulesBody};

/// Built-in connector with a schedule.
const CRON: &str = "cron";
/// Time zone of a connection that names none.
const DEFAULT_ZONE: &str = "UTC";

/// Return the schedules of the swarm, each with the time of its next event.
#[utoipa::path(get, path = "/api/schedules", responses((status = 200, body = SchedulesBody), ErrorResponses))]
pub(in crate::api) async fn schedules(State(service): State<Service>) -> Json<SchedulesBody> {
    let swarm = service.swarm();
    let bundle = swarm.bundle();
    let is_cron = |connection: &Resource<Connection>| {
        let connector = bundle.connectors().get(&connection.spec.connector);
        connector.is_some_and(|connector| connector.spec.builtin() == Some(CRON))
    };
    let now = Utc::now();
    let connection_schedules = connections::resources(swarm, &bundle)
        .filter(|connection| is_cron(connection))
        .map(|connection| connection_schedule(&connection, now));
    let conversation_schedules = swarm
        .scheduled_jobs()
        .into_iter()
        .map(conversation_schedule);
    Json(SchedulesBody {
        schedules: connection_schedules.chain(conversation_schedules).collect(),
    })
}

/// Describes the schedule of a `cron` connection.
fn connection_schedule(connection: &Resource<Connection>, now: DateTime<Utc>) -> ScheduleBody {
    let setting = |name: &str| match connection.spec.config.get(name) {
        Some(ValueSource::Value(value)) => Some(value.expose().to_owned()),
        _ => None,
    };
    let schedule = setting("schedule");
    let timezone = if connection.spec.config.contains_key("timezone") {
        setting("timezone")
    } else {
        Some(DEFAULT_ZONE.to_owned())
    };
    let next = schedule.as_ref().zip(timezone.as_ref()).and_then(
        |(schedule, zone)| -> Option<DateTime<Utc>> {
            CronSchedule::parse(schedule, zone).ok()?.next(now)
        },
    );
    ScheduleBody {
        connection: Some(connection.id.name.clone()),
        agent_name: None,
        instance_key: None,
        schedule,
        timezone,
        next_run: next.map(shown_time),
    }
}

/// Describes the schedule of a conversation.
fn conversation_schedule((instance, job): (InstanceId, ScheduledJob)) -> ScheduleBody {
    ScheduleBody {
        connection: None,
        agent_name: Some(instance.agent),
        instance_key: Some(instance.instance_key),
        schedule: Some(job.schedule),
        timezone: Some(job.timezone),
        next_run: Some(shown_time(job.due)),
    }
}

/// Formats a time for clients.
fn shown_time(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Secs, true)
}
