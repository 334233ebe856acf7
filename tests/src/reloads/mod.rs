//! Reloads a busy swarm again and again and checks that nobody notices.
//!
//! All instances are in constant turns over the scripted model. Each reload puts another version of a library and of the
//! agent's prompt in place ([`project`]). The model client is watched ([`watch`]): what a step is offered and what the called
//! tool answers must be of one generation, and a prompt may change between turns alone (rule R3). [`driver`] loads, reloads
//! and counts; [`process`] looks at what the system knows of this process.

mod driver;
mod process;
pub(crate) mod project;
mod watch;

use anyhow::{Context, bail};

/// What a run does.
#[derive(Debug, Clone, Copy)]
struct Plan {
    /// How often it reloads.
    reloads: u32,
    /// How many conversations are in turns at the same time.
    instances: usize,
    /// How many versions of the library take turns. A version whose last calls are still running when it comes back is not
    /// loaded again; with more versions than reloads, each reload loads one.
    versions: u32,
    /// What the random pauses come from.
    seed: u64,
}

/// Runs the reloads of the command line.
pub fn run(arguments: &[String]) -> anyhow::Result<()> {
    let plan = parse(arguments)?;
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?
        .block_on(driver::run(plan))
}

fn parse(arguments: &[String]) -> anyhow::Result<Plan> {
    let mut plan = Plan {
        reloads: 100,
        instances: 64,
        versions: 2,
        seed: rand::random(),
    };
    for pair in arguments.chunks(2) {
        let [name, value] = pair else {
            bail!("{} needs a value", pair[0])
        };
        let number: u64 = value
            .parse()
            .with_context(|| format!("{name} takes a whole number, not `{value}`"))?;
        match name.as_str() {
            "--reloads" => plan.reloads = u32::try_from(number)?,
            "--instances" => plan.instances = usize::try_from(number)?,
            "--versions" => plan.versions = u32::try_from(number)?.max(2),
            "--seed" => plan.seed = number,
            _ => bail!(
                "there is no option {name}; there are --reloads, --instances, --versions and --seed"
            ),
        }
    }
    Ok(plan)
}
