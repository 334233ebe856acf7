//! `gdn attach`: follows a running swarm and answers its approval requests.

use std::collections::HashMap;

use clap::Args;
use goondan::StateRoot;
use goondan::event::{RuntimeEventKind, SwarmEvent};
use goondan::ids::InstanceId;
use goondan::internal::untrusted_text;
use goondan_serve::client::segment;

use super::logs;
use super::run::{RemoteClient, SignalReceiver, event_line, run_with_signals};
use super::send::find;
use crate::complete;
use crate::exit::CliError;
use crate::output::{CommandOutput, style};
use crate::project_path::ProjectPathOption;

const EXAMPLES: &str = "\
Examples:
  gdn attach                      Show this project's swarm and answer its approval requests
  gdn attach --agent writer       Show the events of one agent
  gdn attach --json | jq .type    Show events as JSON";

/// Arguments of `gdn attach`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct AttachArgs {
    #[command(flatten)]
    project: ProjectPathOption,
    /// Show only events of this agent
    #[arg(short, long, value_name = "NAME", add = complete::agents())]
    agent: Option<String>,
    /// Show only events of conversations with this key
    #[arg(short = 'k', long, value_name = "KEY")]
    instance_key: Option<String>,
    /// Attach to this Swarm [default: the only one, or the one named `default`]
    #[arg(short, long, value_name = "NAME", add = complete::swarms())]
    swarm: Option<String>,
    /// Approve every approval request
    #[arg(short = 'y', long = "approve-all", visible_alias = "yes")]
    yes: bool,
}

/// Shows events of the process that runs the swarm until Ctrl-C.
pub(crate) async fn run(
    args: AttachArgs,
    state_root: &StateRoot,
    output: &CommandOutput,
) -> Result<(), CliError> {
    run_with_signals(async |signals| attach(&args, signals, state_root, output).await).await
}

/// Connects to the process that runs the swarm and shows its events.
async fn attach(
    args: &AttachArgs,
    signals: SignalReceiver,
    state_root: &StateRoot,
    output: &CommandOutput,
) -> Result<(), CliError> {
    let remote = find(&args.project, args.swarm.as_deref(), state_root, output).await?;
    let name = untrusted_text::line(&remote.swarm.name).to_string();
    output.note(&format!(
        "Attached to the swarm {name}. Ctrl-C detaches; the swarm continues."
    ))?;
    let parameter = |name: &str, value: &Option<String>| {
        value
            .as_ref()
            .map(|value| format!("&{name}={}", segment(value)))
            .unwrap_or_default()
    };
    let filter = parameter("agent", &args.agent) + &parameter("instanceKey", &args.instance_key);
    let mut texts = StreamedTexts::default();
    let client = RemoteClient::new(remote, args.yes, signals, output);
    client
        .watch(&filter, |event| texts.show(event, output))
        .await
}

/// Streamed text per conversation until its step ends. Deltas of several conversations interleave.
#[derive(Default)]
struct StreamedTexts {
    texts: HashMap<InstanceId, String>,
}

impl StreamedTexts {
    /// Shows one event: as a JSON line, or as text. Streamed text is shown when its step ends.
    fn show(&mut self, event: &SwarmEvent, output: &CommandOutput) -> Result<(), CliError> {
        if output.json {
            return event_line(event).map_or(Ok(()), |line| output.json_line(&line));
        }
        match event {
            SwarmEvent::Text {
                instance, delta, ..
            } => {
                self.texts
                    .entry(instance.clone())
                    .or_default()
                    .push_str(delta);
                Ok(())
            }
            SwarmEvent::TextReset { instance, .. } => {
                self.texts.remove(instance);
                Ok(())
            }
            SwarmEvent::Runtime(event) => {
                if let RuntimeEventKind::StepCompleted { .. } = event.kind {
                    self.print_text(&event.instance(), output)?;
                }
                logs::show(event, output)
            }
            SwarmEvent::Reasoning { .. } | SwarmEvent::TurnEnded { .. } => Ok(()),
        }
    }

    /// Prints the text that the conversation has streamed in its step, and removes it. Prints
    /// nothing if the text is empty.
    fn print_text(
        &mut self,
        instance: &InstanceId,
        output: &CommandOutput,
    ) -> Result<(), CliError> {
        let text = self.texts.remove(instance).unwrap_or_default();
        if text.is_empty() {
            return Ok(());
        }
        let name_style = style::NAME;
        // Indented, so that further lines can't be mistaken for output of gdn.
        let indented_text = untrusted_text::lines(&text)
            .to_string()
            .replace('\n', "\n  ");
        output.line(&format!(
            "{name_style}{}:{name_style:#} {indented_text}",
            untrusted_text::line(instance)
        ))
    }
}
