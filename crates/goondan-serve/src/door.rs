//! The door of a workspace: a file that tells other commands of the same user where the process listens that runs the swarm,
//! and the token that it wants.
//!
//! It is a port of this machine and not a socket in the file system: that works on every system and under any path. Programs
//! of tools may reach the port, and other users, too; none of them can read the file.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::guard::Token;

/// The file, relative to the folder of the workspace.
pub const FILE: &str = "door.json";

/// Where a process listens, and what it wants to hear.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Door {
    /// Where.
    pub address: SocketAddr,
    /// What every request has to carry.
    pub token: Token,
    /// The process.
    pub pid: u32,
}

#[derive(Serialize, Deserialize)]
struct Written {
    address: SocketAddr,
    token: String,
    pid: u32,
}

/// A door that stands open. Dropping it takes the file away.
#[derive(Debug)]
pub struct OpenDoor {
    path: PathBuf,
    content: Vec<u8>,
}

impl Door {
    /// The door of the workspace in that folder, as its file tells; `None` where there is none.
    pub fn of(workspace: &Path) -> Option<Door> {
        let written: Written =
            serde_json::from_slice(&std::fs::read(workspace.join(FILE)).ok()?).ok()?;
        // What somebody else wrote there must not send our commands to another machine.
        let is_here = written.address.ip().is_loopback();
        let token = Token::new(written.token).filter(|_| is_here)?;
        Some(Door {
            address: written.address,
            token,
            pid: written.pid,
        })
    }

    /// Writes the file, for this user alone.
    pub fn open(&self, workspace: &Path) -> io::Result<OpenDoor> {
        let token = self.token.expose().to_owned();
        let content = serde_json::to_vec(&Written {
            address: self.address,
            token,
            pid: self.pid,
        })?;
        // Made by `tempfile`, it is readable for its owner alone from its first moment.
        let mut file = tempfile::NamedTempFile::new_in(workspace)?;
        file.write_all(&content)?;
        let path = workspace.join(FILE);
        file.persist(&path).map_err(|error| error.error)?;
        Ok(OpenDoor { path, content })
    }
}

impl Drop for OpenDoor {
    fn drop(&mut self) {
        // The next process may have written its own already.
        if std::fs::read(&self.path).is_ok_and(|content| content == self.content) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_door_is_found_while_it_is_open() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Door::of(folder.path()), None);
        let door = Door {
            address: "127.0.0.1:1".parse().unwrap(),
            token: Token::random(),
            pid: 1,
        };
        let open = door.open(folder.path()).unwrap();
        assert_eq!(Door::of(folder.path()), Some(door));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = std::fs::metadata(folder.path().join(FILE))
                .unwrap()
                .permissions()
                .mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        drop(open);
        assert_eq!(Door::of(folder.path()), None);
    }

    #[test]
    fn the_door_of_the_next_process_stays() {
        let folder = tempfile::tempdir().unwrap();
        let door = |port| Door {
            address: SocketAddr::from(([127, 0, 0, 1], port)),
            token: Token::random(),
            pid: 1,
        };
        let (first, second) = (door(1), door(2));
        let open = first.open(folder.path()).unwrap();
        let _next = second.open(folder.path()).unwrap();
        drop(open);
        assert_eq!(Door::of(folder.path()), Some(second));
    }

    #[test]
    fn a_door_leads_to_no_other_machine() {
        let folder = tempfile::tempdir().unwrap();
        for broken in [
            r#"{"address":"192.0.2.1:80","token":"0123456789abcdef","pid":1}"#,
            r#"{"address":"127.0.0.1:80","token":"","pid":1}"#,
            "{",
        ] {
            std::fs::write(folder.path().join(FILE), broken).unwrap();
            assert_eq!(Door::of(folder.path()), None, "{broken}");
        }
    }
}
