//! `gdn connection test`: shows the route of an event without starting a turn.

use clap::Args;
use goondan::StateRoot;
use goondan::internal::untrusted_text;
use goondan_connect::{EventRoute, PlatformEvent, route, sample};
use serde_json::json;

use super::ConnectionTargetArgs;
use crate::complete;
use crate::exit::CliError;
use crate::output::CommandOutput;

/// Arguments of `gdn connection test`.
#[derive(Debug, Args)]
pub(super) struct ConnectionTestArgs {
    /// The connection
    #[arg(value_name = "NAME", add = complete::connections())]
    name: String,
    /// Override fields of the event: name, text, instanceKey, sender, channel, properties
    #[arg(long, value_name = "JSON")]
    event: Option<String>,
    #[command(flatten)]
    target: ConnectionTargetArgs,
}

/// Shows the route of an event, without starting a turn.
pub(super) fn run(
    args: &ConnectionTestArgs,
    state_root: &StateRoot,
    output: &CommandOutput,
) -> Result<(), CliError> {
    let connections = args.target.find(state_root, output)?;
    let connection = connections.connection(&args.name)?;
    let bound = connections.bound(connection)?;
    let invalid_event = |problem: String| {
        CliError::usage(problem)
            .suggest("Write it as `--event '{\"text\": \"Hi\", \"properties\": {\"a\": \"b\"}}'`.")
    };
    let overrides = args.event.as_deref().map(serde_json::from_str).transpose();
    let overrides =
        overrides.map_err(|error| invalid_event(format!("The event is not JSON: {error}.")))?;
    let event = sample(&bound, overrides.as_ref()).map_err(invalid_event)?;
    let route = route(&bound.ingress, &event);
    let entry = connections.bundle.swarms()[&connections.swarm]
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
    print_route(&event, &route, &agent, output)
}

/// Prints the event and the agent and conversation that receive it.
fn print_route(
    event: &PlatformEvent,
    route: &EventRoute,
    agent: &str,
    output: &CommandOutput,
) -> Result<(), CliError> {
    let rule = match route.rule {
        Some(number) => format!("rule {number} (spec.ingress.rules[{number}])"),
        None => "no rule: the entry agent receives the event".to_owned(),
    };
    output.line(&format!("event     {}", untrusted_text::line(&event.name)))?;
    for (name, value) in &event.properties {
        output.line(&format!(
            "          {} = {}",
            untrusted_text::line(name),
            untrusted_text::line(value)
        ))?;
    }
    output.line(&format!("matches   {rule}"))?;
    output.line(&format!(
        "goes to   {}",
        untrusted_text::line(format!("{agent}:{}", route.instance_key))
    ))
}
