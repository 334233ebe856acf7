//! What a run does, as the command line says.

use std::time::Duration;

use anyhow::{Context, bail};

use super::database::Server;

/// What may happen to the nodes and to their database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Trouble {
    /// A node gets SIGKILL.
    Kill,
    /// A node stands still for longer than its lease, and goes on.
    Pause,
    /// The connections of a node to the database are closed, and new ones too.
    Cut,
    /// Connections of a node to the database stay open, and nothing comes through for longer than its lease.
    Silence,
    /// What a node and the database say to each other comes late.
    Delay,
    /// The database crashes and starts again.
    Crash,
    /// The database crashes and is away for ten seconds.
    Outage,
    /// The disk of the database is full for some seconds.
    Disk,
    /// All nodes are replaced by those of another generation, one after another.
    Deploy,
}

impl Trouble {
    /// All of them, and how often one comes among the others.
    const ALL: [(Trouble, &'static str, usize); 9] = [
        (Trouble::Kill, "kills", 8),
        (Trouble::Pause, "pauses", 2),
        (Trouble::Cut, "cuts", 2),
        (Trouble::Silence, "silences", 2),
        (Trouble::Delay, "delays", 1),
        (Trouble::Crash, "crashes", 1),
        (Trouble::Outage, "outages", 2),
        (Trouble::Disk, "disk", 2),
        (Trouble::Deploy, "deploys", 1),
    ];

    /// As the command line calls it.
    pub(super) fn name(self) -> &'static str {
        Self::ALL
            .iter()
            .find(|(trouble, ..)| *trouble == self)
            .map_or("", |(_, name, _)| name)
    }
}

/// What a run does.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    /// How long there is trouble.
    pub(super) seconds: Duration,
    /// It ends earlier after that many of these.
    pub(super) enough: Option<(Trouble, usize)>,
    /// What the random moments come from.
    pub(super) seed: u64,
    /// The database that keeps everything, instead of files.
    pub(super) store: Option<String>,
    /// So many processes run the swarm.
    pub(super) nodes: usize,
    /// The longest time between two troubles.
    pub(super) life: Duration,
    /// What happens, each as often as it is to come among the others.
    pub(super) troubles: Vec<Trouble>,
    /// How the database is ended and started.
    pub(super) server: Option<Server>,
}

impl Plan {
    /// What the command line says.
    pub(super) fn parse(arguments: &[String]) -> anyhow::Result<Self> {
        let mut plan = Plan {
            seconds: Duration::from_secs(20),
            enough: None,
            seed: rand::random(),
            store: None,
            nodes: 1,
            life: Duration::ZERO,
            troubles: vec![Trouble::Kill],
            server: Server::of_environment(),
        };
        let mut with = None;
        for pair in arguments.chunks(2) {
            let [name, value] = pair else {
                bail!("{} needs a value", pair[0])
            };
            match name.as_str() {
                "--store" => plan.store = Some(value.clone()),
                "--with" => with = Some(value.as_str()),
                _ => plan.take_number(name, value)?,
            }
        }
        if plan.life.is_zero() {
            // Several nodes have to find each other first.
            plan.life = Duration::from_millis(if plan.nodes > 1 { 2_000 } else { 400 });
        }
        if plan.nodes > 1 && plan.store.is_none() {
            bail!("several nodes need a --store that they share");
        }
        if let Some(with) = with {
            plan.troubles = plan.troubles_of(with)?;
        }
        Ok(plan)
    }

    fn take_number(&mut self, name: &str, value: &str) -> anyhow::Result<()> {
        let number: u64 = value
            .parse()
            .with_context(|| format!("{name} takes a whole number, not `{value}`"))?;
        match name {
            "--seconds" => self.seconds = Duration::from_secs(number),
            "--kills" => self.enough = Some((Trouble::Kill, usize::try_from(number)?)),
            "--pauses" => self.enough = Some((Trouble::Pause, usize::try_from(number)?)),
            "--seed" => self.seed = number,
            "--life" => self.life = Duration::from_millis(number),
            "--nodes" => self.nodes = usize::try_from(number)?.max(1),
            _ => bail!(
                "there is no option {name}; there are --seconds, --kills, --pauses, --seed, --store, --nodes, --life and --with"
            ),
        }
        Ok(())
    }

    /// `everything`, or names with commas between them.
    #[allow(clippy::print_stdout, reason = "a program's result")]
    fn troubles_of(&self, with: &str) -> anyhow::Result<Vec<Trouble>> {
        let mut troubles = Vec::new();
        for (trouble, name, weight) in Trouble::ALL {
            let is_named = with.split(',').any(|wanted| wanted == name);
            if !is_named && with != "everything" {
                continue;
            }
            match self.lacks(trouble) {
                None => troubles.extend(std::iter::repeat_n(trouble, weight)),
                Some(lack) if is_named => bail!("there can't be {name}: {lack}"),
                Some(lack) => println!("without {name}: {lack}"),
            }
        }
        let is_known = |wanted: &str| Trouble::ALL.iter().any(|(_, name, _)| *name == wanted);
        if let Some(unknown) = with
            .split(',')
            .find(|wanted| *wanted != "everything" && !is_known(wanted))
        {
            let names: Vec<_> = Trouble::ALL.iter().map(|(_, name, _)| *name).collect();
            bail!(
                "--with takes everything, or some of {}; not `{unknown}`",
                names.join(",")
            );
        }
        Ok(troubles)
    }

    /// Why there can't be such trouble.
    fn lacks(&self, trouble: Trouble) -> Option<&'static str> {
        match trouble {
            Trouble::Kill => None,
            Trouble::Pause | Trouble::Deploy if self.is_on_files() => None,
            _ if self.nodes < 2 => Some("it takes several --nodes"),
            Trouble::Crash | Trouble::Outage if self.server.is_none() => {
                Some("nothing says how the database is ended and started; see tests/postgres.sh")
            }
            Trouble::Disk
                if self
                    .server
                    .as_ref()
                    .is_none_or(|server| server.disk.is_none()) =>
            {
                Some(
                    "the database has no disk of its own; see GOONDAN_POSTGRES_DISK in tests/postgres.sh",
                )
            }
            _ => None,
        }
    }

    /// Whether the swarm keeps its state in files.
    pub(super) fn is_on_files(&self) -> bool {
        self.store.is_none()
    }

    /// Whether a node may end by itself, as it does where it can't start without its database, and whether it and its agents may
    /// be told that the store has failed a turn.
    pub(super) fn may_fail(&self) -> bool {
        !self.troubles.iter().all(|trouble| match trouble {
            Trouble::Kill | Trouble::Deploy => true,
            Trouble::Pause => self.is_on_files(),
            _ => false,
        })
    }
}
