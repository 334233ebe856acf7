//! `gdn connection test`.

use clap::Args;
use goondan::StateRoot;
use goondan::inside::shown;
use goondan_connect::{Event, Route, route, sample};
use serde_json::json;

use super::Place;
use crate::complete;
use crate::exit::CliError;
use crate::output::Output;

/// Arguments of `gdn connection test`.
#[derive(Debug, Args)]
pub(super) struct TestArgs {
    /// The connection
    #[arg(value_name = "NAME", add = complete::connections())]
    name: String,
    /// What is different about the event: name, text, instanceKey, sender, channel, properties
    #[arg(long, value_name = "JSON")]
    event: Option<String>,
    #[command(flatten)]
    place: Place,
}

/// Shows the route of an event.
pub(super) fn run(
    args: &TestArgs,
    state_root: &StateRoot,
    output: &Output,
) -> Result<(), CliError> {
    let found = args.place.find(state_root, output)?;
    let connection = found.connection(&args.name)?;
    let bound = found.bound(connection)?;
    let wrong = |problem: String| {
        CliError::usage(problem)
            .suggest("Write it as `--event '{\"text\": \"Hi\", \"properties\": {\"a\": \"b\"}}'`.")
    };
    let given = args.event.as_deref().map(serde_json::from_str).transpose();
    let given = given.map_err(|error| wrong(format!("The event is not JSON: {error}.")))?;
    let event = sample(&bound, given.as_ref()).map_err(wrong)?;
    let route = route(&bound.ingress, &event);
    let entry = found.bundle.swarms()[&found.swarm]
        .spec
        .entry_agent
        .name
        .clone();
    let agent = route.agent.clone().unwrap_or(entry);
    if output.json {
        return output.json_pretty(&json!({
            "event": event.name, "properties": event.properties, "rule": route.rule,
            "agent": agent, "instanceKey": route.instance_key,
        }));
    }
    tell(&event, &route, &agent, output)
}

fn tell(event: &Event, route: &Route, agent: &str, output: &Output) -> Result<(), CliError> {
    let rule = match route.rule {
        Some(number) => format!("rule {number} (spec.ingress.rules[{number}])"),
        None => "no rule: the entry agent gets it".to_owned(),
    };
    output.line(&format!("event     {}", shown::line(&event.name)))?;
    for (name, value) in &event.properties {
        output.line(&format!(
            "          {} = {}",
            shown::line(name),
            shown::line(value)
        ))?;
    }
    output.line(&format!("matches   {rule}"))?;
    output.line(&format!(
        "goes to   {}",
        shown::line(format!("{agent}:{}", route.instance_key))
    ))
}
