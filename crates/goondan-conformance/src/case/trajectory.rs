//! What is expected of the way to an answer: which tools were called, and which agents were asked.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, de};

use crate::matcher::Matcher;

/// One expectation about the calls of models, in the order in which they began.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "RawTrajectory")]
pub struct Trajectory {
    /// Only calls of that agent.
    pub agent: Option<String>,
    /// What is expected of them.
    pub expected: Expected,
}

/// What is expected of calls.
#[derive(Debug, Clone)]
pub enum Expected {
    /// That many calls are like that: a matcher for their number, more than none by default.
    Called(CallPattern, Option<Matcher>),
    /// Calls like these, in that order, others in between.
    InOrder(Vec<CallPattern>),
    /// No calls of other tools.
    Only(Vec<String>),
    /// That many turns of an agent were asked for by others: a matcher for their number, more than none by default.
    Asked(String, Option<Matcher>),
}

/// Which calls are meant.
#[derive(Debug, Clone)]
pub struct CallPattern {
    /// `resource__export`.
    pub tool: String,
    /// What the arguments look like.
    pub args: Option<Matcher>,
    /// `ok` or `error`.
    pub status: Option<Matcher>,
}

/// As it is written. Exactly one of `called`, `inOrder`, `only` and `asked` is given.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schemars(rename = "Trajectory")]
struct RawTrajectory {
    /// Only calls of that agent; with `asked`, only what that agent asked.
    agent: Option<String>,
    /// Calls like that.
    called: Option<CallPattern>,
    /// Calls like these, in that order, others in between.
    in_order: Option<Vec<CallPattern>>,
    /// The tools that may be called; no others.
    only: Option<Vec<String>>,
    /// The agent that others asked, or told something.
    asked: Option<String>,
    /// How often, with `called` and `asked`: a number, or a matcher. At least once by default.
    times: Option<Matcher>,
}

/// The long form of a call.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "CallPattern")]
struct RawCall {
    /// `resource__export`.
    tool: String,
    /// What the arguments look like.
    args: Option<Matcher>,
    /// `ok` or `error`.
    status: Option<Matcher>,
}

impl TryFrom<RawTrajectory> for Trajectory {
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
            called.map(|call| Expected::Called(call, times.clone())),
            in_order.map(Expected::InOrder),
            only.map(Expected::Only),
            asked.map(|agent| Expected::Asked(agent, times.clone())),
        ];
        let mut given = expected.into_iter().flatten();
        match (given.next(), given.next()) {
            (Some(_), None) if times.is_some() && !counted => {
                Err("`times` stands beside `called` or `asked`".to_owned())
            }
            (Some(expected), None) => Ok(Trajectory { agent, expected }),
            _ => Err(
                "a check of the trajectory has exactly one of called, inOrder, only and asked"
                    .to_owned(),
            ),
        }
    }
}

impl JsonSchema for Trajectory {
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
        let RawCall { tool, args, status } =
            RawCall::deserialize(value).map_err(de::Error::custom)?;
        Ok(CallPattern { tool, args, status })
    }
}

impl JsonSchema for CallPattern {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ToolCallPattern".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let long = generator.subschema_for::<RawCall>();
        schemars::json_schema!({
            "description": "A tool, as `resource__export`, or a call with its arguments.",
            "anyOf": [{"type": "string"}, long]
        })
    }
}
