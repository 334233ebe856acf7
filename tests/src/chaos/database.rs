//! The server of the database, which crashes, is away, or has a full disk.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

/// How long the database is away.
const AWAY: Duration = Duration::from_secs(10);

/// How long its disk is full.
const FULL: Duration = Duration::from_secs(6);

/// How long it is left alone afterwards.
const QUIET: Duration = Duration::from_secs(15);

/// How a server is ended and started: as `tests/postgres.sh` says.
#[derive(Debug, Clone)]
pub(super) struct Server {
    /// `pg_ctl` with its first arguments.
    control: Vec<String>,
    /// What it writes down.
    log: PathBuf,
    /// The disk that it has to itself.
    pub(super) disk: Option<PathBuf>,
}

impl Server {
    pub(super) fn of_environment() -> Option<Self> {
        let control = std::env::var("GOONDAN_TEST_POSTGRES_CONTROL").ok()?;
        let control = control.split_whitespace().map(str::to_owned).collect();
        let log = std::env::var_os("GOONDAN_TEST_POSTGRES_LOG")?.into();
        Some(Server {
            control,
            log,
            disk: std::env::var_os("GOONDAN_TEST_POSTGRES_DISK").map(PathBuf::from),
        })
    }

    fn run(&self, arguments: &[&str]) -> anyhow::Result<bool> {
        let (program, first) = self
            .control
            .split_first()
            .context("how the database is ended and started")?;
        let mut command = Command::new(program);
        // Its user need not see the folder that we are in.
        command
            .args(first)
            .args(arguments)
            .arg("-l")
            .arg(&self.log)
            .current_dir("/");
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Ok(command.status()?.success())
    }

    /// Ends it as a crash does.
    fn crash(&self) -> anyhow::Result<()> {
        ensure!(
            self.run(&["stop", "-m", "immediate"])?,
            "the database could not be ended"
        );
        Ok(())
    }

    fn start(&self) -> anyhow::Result<()> {
        ensure!(
            self.run(&["start", "-w", "-t", "60"])?,
            "the database does not start; see {}",
            self.log.display()
        );
        Ok(())
    }

    fn is_up(&self) -> anyhow::Result<bool> {
        self.run(&["status"])
    }

    fn filler(&self) -> anyhow::Result<PathBuf> {
        Ok(self
            .disk
            .as_ref()
            .context("a disk of its own")?
            .join("filler"))
    }

    /// Takes all room.
    fn fill(&self) -> anyhow::Result<()> {
        let mut filler = File::create(self.filler()?)?;
        for size in [1 << 20, 1 << 12] {
            let chunk = vec![0; size];
            while filler.write_all(&chunk).is_ok() {}
        }
        Ok(())
    }

    /// How often it has met a full disk.
    pub(super) fn full_disks(&self) -> usize {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        log.lines()
            .filter(|line| line.contains("No space left on device"))
            .count()
    }
}

/// What is the matter with a server.
#[derive(Debug)]
enum Matter {
    Nothing { since: Option<Instant> },
    IsAway { since: Instant },
    IsFull { since: Instant },
}

/// A server that is troubled now and then.
#[derive(Debug)]
pub(super) struct Patient {
    server: Server,
    matter: Matter,
}

impl Patient {
    pub(super) fn new(server: Server) -> Self {
        Patient {
            server,
            matter: Matter::Nothing { since: None },
        }
    }

    /// Whether it has been well for a while.
    pub(super) fn is_well(&self) -> bool {
        matches!(self.matter, Matter::Nothing { since } if since.is_none_or(|since| since.elapsed() > QUIET))
    }

    pub(super) fn crash(&mut self) -> anyhow::Result<()> {
        self.server.crash()?;
        self.server.start()?;
        self.matter = Matter::Nothing {
            since: Some(Instant::now()),
        };
        Ok(())
    }

    pub(super) fn go_away(&mut self) -> anyhow::Result<()> {
        self.server.crash()?;
        self.matter = Matter::IsAway {
            since: Instant::now(),
        };
        Ok(())
    }

    pub(super) fn fill(&mut self) -> anyhow::Result<()> {
        self.server.fill()?;
        self.matter = Matter::IsFull {
            since: Instant::now(),
        };
        Ok(())
    }

    /// Ends what has lasted for long enough, or all.
    pub(super) fn heal(&mut self, all: bool) -> anyhow::Result<()> {
        match self.matter {
            Matter::IsAway { since } if all || since.elapsed() > AWAY => self.server.start()?,
            Matter::IsFull { since } if all || since.elapsed() > FULL => {
                std::fs::remove_file(self.server.filler()?)?;
                // It may have ended for want of room, and somebody starts it again.
                if !self.server.is_up()? {
                    self.server.start()?;
                }
            }
            _ => return Ok(()),
        }
        self.matter = Matter::Nothing {
            since: Some(Instant::now()),
        };
        Ok(())
    }
}
