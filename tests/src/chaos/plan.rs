//! Command-line options of a chaos run.

use std::time::Duration;

use anyhow::{Context, bail};

use super::database::DatabaseServer;

/// An event that disrupts nodes or their database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ChaosDisruption {
    /// A node receives SIGKILL.
    Kill,
    /// A node receives SIGTERM, and a new process replaces it.
    Stop,
    /// A node receives SIGSTOP, and SIGCONT later. With several nodes, its lease expires between them.
    Pause,
    /// The clock of a node is set to another time.
    Clock,
    /// The connections of a node to the database are closed, including new ones.
    Cut,
    /// The connections of a node to the database stay open, but transfer nothing for longer than the node's lease.
    Silence,
    /// The connections of a node to the database are slow.
    Delay,
    /// The database crashes and restarts.
    Crash,
    /// The database crashes and is down for ten seconds.
    Outage,
    /// The disk of the database is full for several seconds.
    Disk,
    /// Processes with another generation of the project replace all nodes, one after another.
    Deploy,
}

impl ChaosDisruption {
    /// Every disruption with its name on the command line, and its relative frequency.
    const ALL: [(ChaosDisruption, &'static str, usize); 11] = [
        (ChaosDisruption::Kill, "kills", 8),
        (ChaosDisruption::Stop, "stops", 4),
        (ChaosDisruption::Pause, "pauses", 2),
        (ChaosDisruption::Clock, "clocks", 2),
        (ChaosDisruption::Cut, "cuts", 2),
        (ChaosDisruption::Silence, "silences", 2),
        (ChaosDisruption::Delay, "delays", 1),
        (ChaosDisruption::Crash, "crashes", 1),
        (ChaosDisruption::Outage, "outages", 2),
        (ChaosDisruption::Disk, "disk", 2),
        (ChaosDisruption::Deploy, "deploys", 1),
    ];

    /// Returns the name on the command line.
    pub(super) fn name(self) -> &'static str {
        Self::ALL
            .iter()
            .find(|(disruption, ..)| *disruption == self)
            .map_or("", |(_, name, _)| name)
    }

    /// Returns whether the disruption concerns the database, or a node's connection to it.
    fn needs_database(self) -> bool {
        use ChaosDisruption::{Crash, Cut, Delay, Disk, Outage, Silence};
        matches!(self, Cut | Silence | Delay | Crash | Outage | Disk)
    }
}

/// Options of a run.
#[derive(Debug, Clone)]
pub(super) struct ChaosPlan {
    /// Duration of the disruptions.
    pub(super) seconds: Duration,
    /// Number of disruptions of one kind after which the run ends early.
    pub(super) limit: Option<(ChaosDisruption, usize)>,
    /// Seed of the random moments.
    pub(super) seed: u64,
    /// URL of the database. `None` to store everything in files.
    pub(super) store: Option<String>,
    /// Number of processes that run the swarm.
    pub(super) nodes: usize,
    /// Maximum time between two disruptions.
    pub(super) interval: Duration,
    /// Enabled disruptions, each repeated by its relative frequency.
    pub(super) disruptions: Vec<ChaosDisruption>,
    /// Database server, if the run can restart it.
    pub(super) server: Option<DatabaseServer>,
}

impl ChaosPlan {
    /// Parses the options on the command line.
    pub(super) fn parse(arguments: &[String]) -> anyhow::Result<Self> {
        let mut plan = ChaosPlan {
            seconds: Duration::from_secs(20),
            limit: None,
            seed: rand::random(),
            store: None,
            nodes: 1,
            interval: Duration::ZERO,
            disruptions: vec![ChaosDisruption::Kill],
            server: DatabaseServer::of_environment(),
        };
        let mut with = None;
        for pair in arguments.chunks(2) {
            let [name, value] = pair else {
                bail!("{} needs a value", pair[0])
            };
            match name.as_str() {
                "--store" => plan.store = Some(value.clone()),
                "--with" => with = Some(value.as_str()),
                _ => plan.set_number(name, value)?,
            }
        }
        if plan.interval.is_zero() {
            // Several nodes first elect a leader.
            plan.interval = Duration::from_millis(if plan.nodes > 1 { 2_000 } else { 400 });
        }
        if plan.nodes > 1 && plan.store.is_none() {
            bail!("several nodes need --store, a database that they share");
        }
        if let Some(with) = with {
            plan.disruptions = plan.disruptions_named(with)?;
        }
        Ok(plan)
    }

    fn set_number(&mut self, name: &str, value: &str) -> anyhow::Result<()> {
        let number: u64 = value
            .parse()
            .with_context(|| format!("{name} needs an integer, not `{value}`"))?;
        match name {
            "--seconds" => self.seconds = Duration::from_secs(number),
            "--kills" => self.limit = Some((ChaosDisruption::Kill, usize::try_from(number)?)),
            "--pauses" => self.limit = Some((ChaosDisruption::Pause, usize::try_from(number)?)),
            "--seed" => self.seed = number,
            "--interval" => self.interval = Duration::from_millis(number),
            "--nodes" => self.nodes = usize::try_from(number)?.max(1),
            _ => bail!(
                "there is no option {name}; use --seconds, --kills, --pauses, --seed, --store, --nodes, --interval or --with"
            ),
        }
        Ok(())
    }

    /// Parses `everything`, or a list of names separated by commas.
    #[allow(clippy::print_stdout, reason = "output of the program")]
    fn disruptions_named(&self, with: &str) -> anyhow::Result<Vec<ChaosDisruption>> {
        let mut disruptions = Vec::new();
        for (disruption, name, weight) in ChaosDisruption::ALL {
            let is_named = with.split(',').any(|wanted| wanted == name);
            if !is_named && with != "everything" {
                continue;
            }
            match self.missing_requirement(disruption) {
                None => disruptions.extend(std::iter::repeat_n(disruption, weight)),
                Some(missing) if is_named => bail!("{name} are not possible: {missing}"),
                Some(missing) => println!("without {name}: {missing}"),
            }
        }
        let is_known = |wanted: &str| {
            ChaosDisruption::ALL
                .iter()
                .any(|(_, name, _)| *name == wanted)
        };
        if let Some(unknown) = with
            .split(',')
            .find(|wanted| *wanted != "everything" && !is_known(wanted))
        {
            let names: Vec<_> = ChaosDisruption::ALL
                .iter()
                .map(|(_, name, _)| *name)
                .collect();
            bail!(
                "--with needs `everything` or names from {}; not `{unknown}`",
                names.join(",")
            );
        }
        Ok(disruptions)
    }

    /// Returns the reason why a disruption is not possible in this run.
    fn missing_requirement(&self, disruption: ChaosDisruption) -> Option<&'static str> {
        match disruption {
            _ if disruption.needs_database() && self.store.is_none() => Some("no --store"),
            ChaosDisruption::Cut | ChaosDisruption::Silence | ChaosDisruption::Delay
                if self.nodes < 2 =>
            {
                Some("only one node; use --nodes")
            }
            ChaosDisruption::Crash | ChaosDisruption::Outage if self.server.is_none() => {
                Some("the server can't be restarted; see tests/postgres.sh")
            }
            ChaosDisruption::Disk
                if self
                    .server
                    .as_ref()
                    .is_none_or(|server| server.disk.is_none()) =>
            {
                Some(
                    "the database has no separate disk; see GOONDAN_POSTGRES_DISK in tests/postgres.sh",
                )
            }
            _ => None,
        }
    }

    /// Returns whether the store may fail: a node may then exit because it can't start, and callers and agents may receive store
    /// errors.
    pub(super) fn store_may_fail(&self) -> bool {
        let is_pause = |disruption: &ChaosDisruption| *disruption == ChaosDisruption::Pause;
        self.disruptions
            .iter()
            .any(|disruption| disruption.needs_database() || self.nodes > 1 && is_pause(disruption))
    }
}
