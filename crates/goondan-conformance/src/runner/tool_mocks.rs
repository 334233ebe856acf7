//! Mocked tool results. The used results survive `kill` and `restart`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use goondan::ToolStubs;
use goondan::ports::tool::{ToolContext, ToolError, ToolHandler, ToolOutput};
use goondan::spec::{Code, JsonObject};
use serde_json::Value;

use crate::case::{ConformanceCase, PlayedError, PlayedResult};

/// Mocked results by tool.
#[derive(Default)]
pub(super) struct PlayedTools(BTreeMap<String, Arc<MockedTool>>);

/// Mocked results of one tool.
struct MockedTool {
    results: Vec<PlayedResult>,
    used: Mutex<Vec<bool>>,
    /// Compare call ids.
    has_ids: bool,
}

impl PlayedTools {
    /// Creates the mocks of a test case. In live runs, the provider generates call ids, so they are
    /// ignored.
    pub(super) fn of(case: &ConformanceCase, is_live: bool) -> Self {
        let played = |results: &Vec<PlayedResult>| {
            let used = Mutex::new(vec![false; results.len()]);
            Arc::new(MockedTool {
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

impl ToolStubs for PlayedTools {
    fn handler(&self, tool: &str, export: &str) -> Option<Arc<dyn ToolHandler>> {
        self.0
            .get(&format!("{tool}__{export}"))
            .map(|played| Arc::clone(played) as Arc<dyn ToolHandler>)
    }
}

impl MockedTool {
    /// Returns the first unused result that matches, or else the last one that matches.
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
impl ToolHandler for MockedTool {
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
                "Add a result to `tools` of the case, or remove the tool from `tools` to run it.",
            )),
        }
    }
}

/// Converts the error of a mocked result.
fn tool_error(error: &PlayedError) -> ToolError {
    ToolError {
        name: error.name.clone(),
        message: error.message.clone(),
        code: error.code.clone(),
        suggestion: error.suggestion.clone(),
        help_url: error.help_url.clone(),
    }
}
