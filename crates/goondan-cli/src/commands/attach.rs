//! `gdn attach`.

use std::collections::HashMap;

use clap::Args;
use goondan::StateRoot;
use goondan::event::{RuntimeEventKind, SwarmEvent};
use goondan::ids::InstanceId;
use goondan::inside::shown;
use goondan_serve::client::segment;

use super::logs;
use super::run::{Elsewhere, Signals, event_line, watched};
use super::send::find;
use crate::complete;
use crate::exit::CliError;
use crate::output::{Output, style};
use crate::place::ProjectOption;

const EXAMPLES: &str = "\
Examples:
  gdn attach                      Show what the swarm of this project does, and answer its questions
  gdn attach --agent writer       Show what one agent does
  gdn attach --json | jq .type    Show events as JSON";

/// Arguments of `gdn attach`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct AttachArgs {
    #[command(flatten)]
    project: ProjectOption,
    /// Show only events of this agent
    #[arg(short, long, value_name = "NAME", add = complete::agents())]
    agent: Option<String>,
    /// Show only events of conversations with this key
    #[arg(short = 'k', long, value_name = "KEY")]
    instance_key: Option<String>,
    /// Attach to this Swarm [default: the only one, or the one named `default`]
    #[arg(short, long, value_name = "NAME", add = complete::swarms())]
    swarm: Option<String>,
    /// Answer every approval question with yes
    #[arg(short, long)]
    yes: bool,
}

/// Shows what happens in the process that runs the swarm, until Ctrl-C.
pub(crate) async fn run(
    args: AttachArgs,
    state_root: &StateRoot,
    output: &Output,
) -> Result<(), CliError> {
    watched(async |signals| attach(&args, signals, state_root, output).await).await
}

async fn attach(
    args: &AttachArgs,
    signals: Signals,
    state_root: &StateRoot,
    output: &Output,
) -> Result<(), CliError> {
    let remote = find(&args.project, args.swarm.as_deref(), state_root, output).await?;
    let name = shown::line(&remote.swarm.name).to_string();
    output.note(&format!(
        "Attached to the swarm {name}. Ctrl-C detaches; the swarm goes on."
    ))?;
    let parameter = |name: &str, value: &Option<String>| {
        value
            .as_ref()
            .map(|value| format!("&{name}={}", segment(value)))
            .unwrap_or_default()
    };
    let interest = parameter("agent", &args.agent) + &parameter("instanceKey", &args.instance_key);
    let mut said = Said::default();
    let elsewhere = Elsewhere::new(remote, args.yes, signals, output);
    elsewhere
        .watch(&interest, |event| said.show(event, output))
        .await
}

/// What models are saying, until they have said it: pieces of several answers come in turns.
#[derive(Default)]
struct Said(HashMap<InstanceId, String>);

impl Said {
    fn show(&mut self, event: &SwarmEvent, output: &Output) -> Result<(), CliError> {
        if output.json {
            return event_line(event).map_or(Ok(()), |line| output.json_line(&line));
        }
        match event {
            SwarmEvent::Text {
                instance, delta, ..
            } => {
                self.0.entry(instance.clone()).or_default().push_str(delta);
                Ok(())
            }
            SwarmEvent::TextReset { instance, .. } => {
                self.0.remove(instance);
                Ok(())
            }
            SwarmEvent::Runtime(event) => {
                if let RuntimeEventKind::StepCompleted { .. } = event.kind {
                    self.say(&event.instance(), output)?;
                }
                logs::show(event, output)
            }
            SwarmEvent::Reasoning { .. } | SwarmEvent::TurnEnded { .. } => Ok(()),
        }
    }

    fn say(&mut self, instance: &InstanceId, output: &Output) -> Result<(), CliError> {
        let Some(text) = self.0.remove(instance).filter(|text| !text.is_empty()) else {
            return Ok(());
        };
        let colour = style::NAME;
        // Further lines can't be taken for ours.
        let text = shown::lines(&text).to_string().replace('\n', "\n  ");
        output.line(&format!(
            "{colour}{}:{colour:#} {text}",
            shown::line(instance)
        ))
    }
}
