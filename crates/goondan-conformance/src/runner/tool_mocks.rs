//! Mocked tool results. The used results survive `kill` and `restart`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use goondan::ToolStubs;
use goondan::ports::tool::{HandlerError, ToolContext, ToolHandler, ToolOutput};
use goondan::spec::{Code, JsonObject};
use serde_json::Value;

use crate::case::{ConformanceCase, MockedError, MockedResult};

/// Mocked results by tool.
#[derive(Default)]
pub(super) struct ToolMocks(BTreeMap<String, Arc<MockedTool>>);

/// Mocked results of one tool.
struct MockedTool {
    results: Vec<MockedResult>,
    /// By the index of a result, true if it was already returned.
    used: Mutex<Vec<bool>>,
    /// True if a result with a call id is only for the call with this id.
    compares_call_ids: bool,
}

impl ToolMocks {
    /// Creates the mocks of a test case. In a live run (`is_live`), ignores the call ids in the
    /// test case, because the provider generates call ids.
    pub(super) fn for_case(case: &ConformanceCase, is_live: bool) -> Self {
        let mut mocks = BTreeMap::new();
        for (name, results) in &case.tools {
            let mock = MockedTool {
                results: results.clone(),
                used: Mutex::new(vec![false; results.len()]),
                compares_call_ids: !is_live,
            };
            mocks.insert(name.clone(), Arc::new(mock));
        }
        ToolMocks(mocks)
    }
}

impl ToolStubs for ToolMocks {
    fn handler(&self, tool: &str, export: &str) -> Option<Arc<dyn ToolHandler>> {
        self.0
            .get(&format!("{tool}__{export}"))
            .map(|mock| Arc::clone(mock) as Arc<dyn ToolHandler>)
    }
}

impl MockedTool {
    /// Returns the first unused result that matches, or else the last result that matches. Marks it
    /// as used.
    fn take_result(&self, call_id: &str, args: &Value) -> Option<&MockedResult> {
        let mut used_counts = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let mut last_match = None;
        for (index, result) in self.results.iter().enumerate() {
            if self.is_result_for(result, call_id, args) {
                last_match = Some(index);
                if !used_counts[index] {
                    break;
                }
            }
        }
        let index = last_match?;
        used_counts[index] = true;
        self.results.get(index)
    }

    /// Returns true if `result` may answer a call with this id and these arguments.
    fn is_result_for(&self, result: &MockedResult, call_id: &str, args: &Value) -> bool {
        let has_other_id = result.call.as_deref().is_some_and(|id| id != call_id);
        if self.compares_call_ids && has_other_id {
            return false;
        }
        match &result.args {
            Some(matcher) => matcher.matches(Some(args)),
            None => true,
        }
    }
}

#[async_trait]
impl ToolHandler for MockedTool {
    async fn call(&self, ctx: &ToolContext, input: JsonObject) -> Result<ToolOutput, HandlerError> {
        let args = Value::Object(input);
        match self.take_result(&ctx.tool_call_id, &args) {
            Some(MockedResult {
                error: Some(error), ..
            }) => Err(tool_error(error)),
            Some(result) => Ok(ToolOutput::from(result.output.clone().unwrap_or_default())),
            None => Err(HandlerError::new(format!(
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
fn tool_error(error: &MockedError) -> HandlerError {
    HandlerError {
        name: error.name.clone(),
        message: error.message.clone(),
        code: error.code.clone(),
        suggestion: error.suggestion.clone(),
        help_url: error.help_url.clone(),
    }
}
