//! `automation`: prompts on a schedule.

use std::sync::Arc;

use goondan_core::ports::capabilities::{JobRequest, ScheduledJob};
use goondan_core::ports::tool::{HandlerError, ToolContext, ToolOutput};
use goondan_spec::Code;
use goondan_spec::kinds::Permission;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::builtin_tool::BuiltinTool;
use crate::errors;
use crate::host_capabilities;
use crate::tool_operation::{ToolExport, ToolOperation, titled_output};

pub(crate) const BUILTIN: BuiltinTool = BuiltinTool {
    name: "automation",
    about: "Sends prompts to a conversation on a schedule. A conversation has at most 100 jobs, \
        which survive restarts. If a job missed runs while gdn was not running, its prompt is \
        sent once. Deleting a conversation deletes its jobs. A prompt's turn has the permissions \
        of the turn that created the job.",
    open: |_| {
        // The id of a job is derived from the id of the call.
        Ok(vec![
            ToolExport::new::<CronJobTool>("cron", &Arc::new(()))
                .with_permission(Permission::Write)
                .idempotent(),
        ])
    },
    ..BuiltinTool::DEFAULT_ROW
};

/// What to do with the jobs.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum CronAction {
    List,
    Add,
    Remove,
}

/// Send a prompt to this conversation on a schedule: `add` creates, `list` shows and `remove`
/// deletes jobs.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CronJobTool {
    /// Action.
    action: CronAction,
    /// For `add`: minute, hour, day of month, month and day of week, such as `0 9 * * MON-FRI`.
    #[schemars(length(max = 200))]
    schedule: Option<String>,
    /// For `add`: the time zone of the schedule, such as `Europe/Berlin`.
    #[serde(default = "default_timezone")]
    #[schemars(length(max = 100))]
    timezone: String,
    /// For `add`: the prompt to send when the job is due.
    #[schemars(length(max = 20_000))]
    prompt: Option<String>,
    /// For `remove`: the job id from `add` or `list`.
    #[schemars(length(max = 100))]
    id: Option<String>,
}

impl ToolOperation for CronJobTool {
    type Shared = ();

    async fn run(self, ctx: &ToolContext, (): &()) -> Result<ToolOutput, HandlerError> {
        let schedules = host_capabilities::prompt_scheduler(ctx)?;
        match self.action {
            CronAction::List => {
                let jobs: Vec<Value> = schedules.jobs().await?.iter().map(job_json).collect();
                Ok(titled_output(
                    format!("{} jobs", jobs.len()),
                    json!({"count": jobs.len(), "jobs": jobs}),
                ))
            }
            CronAction::Add => {
                let schedule = require_parameter(self.schedule, "add", "schedule")?;
                let prompt = require_parameter(self.prompt, "add", "prompt")?;
                let job = schedules
                    .add(JobRequest {
                        schedule,
                        timezone: self.timezone,
                        prompt,
                    })
                    .await?;
                Ok(titled_output(
                    format!("Next at {}", job.due),
                    json!({"added": true, "job": job_json(&job)}),
                ))
            }
            CronAction::Remove => {
                let id = require_parameter(self.id, "remove", "id")?;
                let Some(job) = schedules.remove(&id).await? else {
                    return Err(unknown_job_error(&id, &schedules.jobs().await?));
                };
                Ok(titled_output(
                    format!("Removed {id}"),
                    json!({"removed": true, "job": job_json(&job)}),
                ))
            }
        }
    }
}

/// Returns the parameter `name`. Fails if the call does not contain it, although `action` requires
/// it.
fn require_parameter(
    value: Option<String>,
    action: &str,
    name: &str,
) -> Result<String, HandlerError> {
    let value = value.filter(|value| !value.trim().is_empty());
    value.ok_or_else(|| errors::invalid_argument(format!("action `{action}` needs `{name}`")))
}

/// Returns the error of an unknown job id, with the known ids.
fn unknown_job_error(id: &str, jobs: &[ScheduledJob]) -> HandlerError {
    let job_ids = jobs
        .iter()
        .map(|job| job.id.as_str())
        .collect::<Vec<_>>()
        .join(", ");
    let job_ids = if job_ids.is_empty() {
        "none".to_owned()
    } else {
        job_ids
    };
    HandlerError::new(format!("there is no job `{id}`"))
        .code(Code::TOOL_JOB_NOT_FOUND)
        .suggest(format!("jobs of this conversation: {job_ids}"))
}

/// Returns the JSON of a job for the model.
fn job_json(job: &ScheduledJob) -> Value {
    json!({
        "id": job.id,
        "schedule": job.schedule,
        "timezone": job.timezone,
        "prompt": job.prompt,
        "createdAt": job.created_at,
        "next": job.due,
    })
}

fn default_timezone() -> String {
    "UTC".to_owned()
}
