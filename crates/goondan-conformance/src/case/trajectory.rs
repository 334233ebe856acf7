//! Expected trajectory: tool calls and requests between agents.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, de};

use crate::matcher::ValueMatcher;

/// An expectation about model-initiated calls, in the order in which they began.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "RawTrajectory")]
pub struct TrajectoryExpectation {
    /// Only calls of this agent.
    pub agent: Option<String>,
    /// The expectation.
    pub expected: CallExpectation,
}

/// Expectation about calls.
#[derive(Debug, Clone)]
pub enum CallExpectation {
    /// Number of matching calls. Default: at least one.
    Called(CallPattern, Option<ValueMatcher>),
    /// Calls in this order, with other calls in between.
    InOrder(Vec<CallPattern>),
    /// No calls of other tools.
    Only(Vec<String>),
    /// Number of turns of an agent that other agents requested. Default: at least one.
    Asked(String, Option<ValueMatcher>),
}

/// Pattern of a call.
#[derive(Debug, Clone)]
pub struct CallPattern {
    /// Tool name, as `resource__export`.
    pub tool: String,
    /// Matcher for the arguments.
    pub args: Option<ValueMatcher>,
    /// `ok` or `error`.
    pub status: Option<ValueMatcher>,
}

/// An expectation about the trajectory. Requires exactly one of `called`, `inOrder`, `only` and
/// `asked`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schemars(rename = "Trajectory")]
struct RawTrajectory {
    /// Only calls of this agent. With `asked`: only requests of this agent.
    agent: Option<String>,
    /// A call like this.
    called: Option<CallPattern>,
    /// Calls like these in this order. Other calls may occur in between.
    in_order: Option<Vec<CallPattern>>,
    /// Allowed tools. Calls of other tools fail the test case.
    only: Option<Vec<String>>,
    /// Agent that received a request or a message from another agent.
    asked: Option<String>,
    /// Number of occurrences for `called` and `asked`: a number or a matcher. Default: at least
    /// one.
    times: Option<ValueMatcher>,
}

/// Long form of a call pattern.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "CallPattern")]
struct RawCallPattern {
    /// Tool name, as `resource__export`.
    tool: String,
    /// Matcher for the arguments.
    args: Option<ValueMatcher>,
    /// `ok` or `error`.
    status: Option<ValueMatcher>,
}

impl TryFrom<RawTrajectory> for TrajectoryExpectation {
    type Error = String;

    fn try_from(raw: RawTrajectory) -> Result<Self, String> {
        let RawTrajectory {
            agent,
            called,
            in_order,
            only,
            asked,
            times,
        } = raw;
        let counted = called.is_some() || asked.is_some();
        let expected = [
            called.map(|call| CallExpectation::Called(call, times.clone())),
            in_order.map(CallExpectation::InOrder),
            only.map(CallExpectation::Only),
            asked.map(|agent| CallExpectation::Asked(agent, times.clone())),
        ];
        let mut given_expectations = expected.into_iter().flatten();
        match (given_expectations.next(), given_expectations.next()) {
            (Some(_), None) if times.is_some() && !counted => {
                Err("`times` needs `called` or `asked`".to_owned())
            }
            (Some(expected), None) => Ok(TrajectoryExpectation { agent, expected }),
            _ => Err(
                "a check of the trajectory has exactly one of called, inOrder, only and asked"
                    .to_owned(),
            ),
        }
    }
}

impl JsonSchema for TrajectoryExpectation {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        RawTrajectory::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        RawTrajectory::json_schema(generator)
    }
}

impl<'de> Deserialize<'de> for CallPattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = serde_json::Value::deserialize(deserializer)?;
        if let serde_json::Value::String(tool) = value {
            return Ok(CallPattern {
                tool,
                args: None,
                status: None,
            });
        }
        let RawCallPattern { tool, args, status } =
            RawCallPattern::deserialize(value).map_err(de::Error::custom)?;
        Ok(CallPattern { tool, args, status })
    }
}

impl JsonSchema for CallPattern {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ToolCallPattern".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let long_form = generator.subschema_for::<RawCallPattern>();
        schemars::json_schema!({
            "description": "A tool, as `resource__export`, or a call with its arguments.",
            "anyOf": [{"type": "string"}, long_form]
        })
    }
}
