//! `required-tools-guard`: a text answer does not end a turn until one of the required tools has
//! succeeded (rule M5).

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use serde::Deserialize;

use super::builtin::{ConfigProblem, decode};
use super::{Middleware, StepNext};
use crate::tooling::registry::ToolCatalog;
use crate::turn::TurnContext;
use crate::turn::step::{StepContext, StepOutcome};
use goondan_core::JsonObject;
use goondan_core::event::TurnError;
use goondan_core::message::MessageRole;
use goondan_core::ports::tool::ToolCallStatus;

pub(super) const NAME: &str = "required-tools-guard";
/// Config field to which `Agent.spec.requiredTools` is added.
pub(super) const REQUIRED_TOOLS_FIELD: &str = "requiredTools";

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct RequiredToolsConfig {
    /// Tools of which one must succeed. With an empty list, the guard does nothing.
    required_tools: Vec<String>,
    /// Message to the model, instead of the default.
    error_message: String,
}

struct RequiredToolsGuard {
    tools: BTreeSet<String>,
    reminder: String,
}

/// Creates the middleware from its config.
pub(super) fn make(
    config: JsonObject,
    tools: &ToolCatalog,
) -> Result<Arc<dyn Middleware>, ConfigProblem> {
    let config: RequiredToolsConfig = decode(config)?;
    if let Some(index) = config
        .required_tools
        .iter()
        .position(|name| tools.get(name).is_none())
    {
        let names = tools.names().collect::<Vec<_>>().join(", ");
        return Err(ConfigProblem {
            field: format!("{REQUIRED_TOOLS_FIELD}[{index}]"),
            message: format!("the agent has no tool `{}`", config.required_tools[index]),
            suggestion: Some(format!("the tools of the agent are: {names}")),
        });
    }
    let tools: BTreeSet<String> = config.required_tools.into_iter().collect();
    let reminder = match config.error_message.trim() {
        "" => default_reminder(&tools),
        stated => stated.to_owned(),
    };
    Ok(Arc::new(RequiredToolsGuard { tools, reminder }))
}

/// Returns the reminder for the model if the config has none.
fn default_reminder(tools: &BTreeSet<String>) -> String {
    let names = tools
        .iter()
        .map(String::as_str)
        .collect::<Vec<_>>()
        .join(", ");
    format!("Before you answer, call at least one of these tools successfully: {names}.")
}

impl RequiredToolsGuard {
    /// Returns true if a required tool was called successfully in this turn.
    fn is_satisfied(&self, turn: &TurnContext) -> bool {
        let mut results = turn
            .own_messages()
            .flat_map(|message| message.tool_results());
        results.any(|result| {
            result.status == ToolCallStatus::Ok && self.tools.contains(&result.tool_name)
        })
    }
}

#[async_trait]
impl Middleware for RequiredToolsGuard {
    fn name(&self) -> &str {
        NAME
    }

    async fn step(
        &self,
        context: &mut StepContext<'_>,
        next: StepNext<'_>,
    ) -> Result<StepOutcome, TurnError> {
        let mut outcome = next.run(context).await?;
        // An empty answer has its own reminder.
        let would_end = !outcome.should_continue && outcome.message.is_some();
        if would_end && !self.tools.is_empty() && !self.is_satisfied(context.turn()) {
            context
                .turn()
                .append_text(MessageRole::User, NAME, &self.reminder)
                .await?;
            outcome.should_continue = true;
        }
        Ok(outcome)
    }
}
