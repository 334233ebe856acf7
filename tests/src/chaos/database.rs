//! A database server that can crash, be down or have a full disk.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

/// Duration of an outage.
const OUTAGE_DURATION: Duration = Duration::from_secs(10);

/// Duration of a full disk.
const FULL_DISK_DURATION: Duration = Duration::from_secs(6);

/// Time without disruption of the server after each disruption.
const RECOVERY_DURATION: Duration = Duration::from_secs(15);

/// Commands that control a server; `tests/postgres.sh` sets them.
#[derive(Debug, Clone)]
pub(super) struct DatabaseServer {
    /// `pg_ctl` with its first arguments.
    control: Vec<String>,
    /// Log file of the server.
    log: PathBuf,
    /// Mount point of the server's separate disk.
    pub(super) disk: Option<PathBuf>,
}

impl DatabaseServer {
    pub(super) fn of_environment() -> Option<Self> {
        let control = std::env::var("GOONDAN_TEST_POSTGRES_CONTROL").ok()?;
        let control = control.split_whitespace().map(str::to_owned).collect();
        let log = std::env::var_os("GOONDAN_TEST_POSTGRES_LOG")?.into();
        Some(DatabaseServer {
            control,
            log,
            disk: std::env::var_os("GOONDAN_TEST_POSTGRES_DISK").map(PathBuf::from),
        })
    }

    fn run(&self, arguments: &[&str]) -> anyhow::Result<bool> {
        let (program, first) = self
            .control
            .split_first()
            .context("GOONDAN_TEST_POSTGRES_CONTROL is empty")?;
        let mut command = Command::new(program);
        // The user of the server may have no access to the current directory.
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

    fn crash(&self) -> anyhow::Result<()> {
        ensure!(
            self.run(&["stop", "-m", "immediate"])?,
            "the database could not be stopped"
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

    fn is_running(&self) -> anyhow::Result<bool> {
        self.run(&["status"])
    }

    fn filler_file(&self) -> anyhow::Result<PathBuf> {
        let disk = self.disk.as_ref().context("no separate disk")?;
        Ok(disk.join("filler"))
    }

    fn fill_disk(&self) -> anyhow::Result<()> {
        let mut filler = File::create(self.filler_file()?)?;
        for size in [1 << 20, 1 << 12] {
            let chunk = vec![0; size];
            while filler.write_all(&chunk).is_ok() {}
        }
        Ok(())
    }

    /// Returns the number of writes that failed because of a full disk.
    pub(super) fn full_disk_errors(&self) -> usize {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        log.lines()
            .filter(|line| line.contains("No space left on device"))
            .count()
    }
}

#[derive(Debug)]
enum DatabaseState {
    Running { recovered: Option<Instant> },
    Down { since: Instant },
    DiskFull { since: Instant },
}

/// A server that is disrupted at times.
#[derive(Debug)]
pub(super) struct DisruptedDatabase {
    server: DatabaseServer,
    state: DatabaseState,
}

impl DisruptedDatabase {
    pub(super) fn new(server: DatabaseServer) -> Self {
        DisruptedDatabase {
            server,
            state: DatabaseState::Running { recovered: None },
        }
    }

    /// Returns whether the next disruption may begin.
    pub(super) fn is_recovered(&self) -> bool {
        match self.state {
            DatabaseState::Running { recovered } => {
                recovered.is_none_or(|at| at.elapsed() > RECOVERY_DURATION)
            }
            _ => false,
        }
    }

    pub(super) fn crash(&mut self) -> anyhow::Result<()> {
        self.server.crash()?;
        self.server.start()?;
        self.state = DatabaseState::Running {
            recovered: Some(Instant::now()),
        };
        Ok(())
    }

    pub(super) fn begin_outage(&mut self) -> anyhow::Result<()> {
        self.server.crash()?;
        self.state = DatabaseState::Down {
            since: Instant::now(),
        };
        Ok(())
    }

    pub(super) fn fill_disk(&mut self) -> anyhow::Result<()> {
        self.server.fill_disk()?;
        self.state = DatabaseState::DiskFull {
            since: Instant::now(),
        };
        Ok(())
    }

    /// Ends a disruption after its duration, or immediately if `all`.
    pub(super) fn recover(&mut self, all: bool) -> anyhow::Result<()> {
        match self.state {
            DatabaseState::Down { since } if all || since.elapsed() > OUTAGE_DURATION => {
                self.server.start()?;
            }
            DatabaseState::DiskFull { since } if all || since.elapsed() > FULL_DISK_DURATION => {
                std::fs::remove_file(self.server.filler_file()?)?;
                // PostgreSQL exits if it can't write its log.
                if !self.server.is_running()? {
                    self.server.start()?;
                }
            }
            _ => return Ok(()),
        }
        self.state = DatabaseState::Running {
            recovered: Some(Instant::now()),
        };
        Ok(())
    }
}
