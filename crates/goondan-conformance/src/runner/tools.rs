//! Plays the results of a case in the place of handlers. How far they are used survives `kill` and `restart`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use goondan::ToolStandIns;
use goondan::ports::tool::{ToolContext, ToolError, ToolHandler, ToolOutput};
use goondan::spec::{Code, JsonObject};
use serde_json::Value;

use crate::case::{Case, PlayedError, PlayedResult};

/// The results of a case, by tool.
#[derive(Default)]
pub(super) struct PlayedTools(BTreeMap<String, Arc<Played>>);

/// The results of one tool.
struct Played {
    results: Vec<PlayedResult>,
    used: Mutex<Vec<bool>>,
    /// Whether ids of calls mean something.
    has_ids: bool,
}

impl PlayedTools {
    /// Those of a case. Live, the ids of calls are the provider's.
    pub(super) fn of(case: &Case, is_live: bool) -> Self {
        let played = |results: &Vec<PlayedResult>| {
            let used = Mutex::new(vec![false; results.len()]);
            Arc::new(Played {
                results: results.clone(),
                used,
                has_ids: !is_live,
            })
        };
        PlayedTools(
            case.tools
                .iter()
                .map(|(name, results)| (name.clone(), played(results)))
                .collect(),
        )
    }
}

impl ToolStandIns for PlayedTools {
    fn handler(&self, tool: &str, export: &str) -> Option<Arc<dyn ToolHandler>> {
        self.0
            .get(&format!("{tool}__{export}"))
            .map(|played| Arc::clone(played) as Arc<dyn ToolHandler>)
    }
}

impl Played {
    /// The first result that fits and was not used yet, else the last one that fits.
    fn take(&self, call: &str, args: &Value) -> Option<&PlayedResult> {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |result: &PlayedResult| {
            (!self.has_ids || result.call.as_deref().is_none_or(|wanted| wanted == call))
                && result
                    .args
                    .as_ref()
                    .is_none_or(|matcher| matcher.matches(Some(args)))
        };
        let fitting: Vec<usize> = (0..self.results.len())
            .filter(|index| fits(&self.results[*index]))
            .collect();
        let index = *fitting
            .iter()
            .find(|index| !used[**index])
            .or(fitting.last())?;
        used[index] = true;
        self.results.get(index)
    }
}

#[async_trait]
impl ToolHandler for Played {
    async fn call(&self, ctx: &ToolContext, input: JsonObject) -> Result<ToolOutput, ToolError> {
        let args = Value::Object(input);
        match self.take(&ctx.tool_call_id, &args) {
            Some(PlayedResult {
                error: Some(error), ..
            }) => Err(tool_error(error)),
            Some(result) => Ok(ToolOutput::from(result.output.clone().unwrap_or_default())),
            None => Err(ToolError::new(format!(
                "the case has no result for this call with {args}"
            ))
            .code(Code::TOOL_FAILED)
            .suggest(
                "Add one to `tools` of the case, or take the tool out of there: then it runs.",
            )),
        }
    }
}

fn tool_error(error: &PlayedError) -> ToolError {
    ToolError {
        name: error.name.clone(),
        message: error.message.clone(),
        code: error.code.clone(),
        suggestion: error.suggestion.clone(),
        help_url: error.help_url.clone(),
    }
}
