//! Local control endpoint of a workspace. A file gives other commands of the same user the address
//! and the token of the process that runs the swarm.
//!
//! The endpoint is a local TCP port and not a Unix socket: a port works on every system and with
//! paths of any length. Tool processes and other users can connect to the port, but they cannot
//! read the file.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::auth::ServerToken;

/// The file name, relative to the workspace directory.
pub const ENDPOINT_FILE_NAME: &str = "door.json";

/// Address and token of a process that runs a swarm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalEndpoint {
    /// The address of its server.
    pub address: SocketAddr,
    /// The token that each request carries.
    pub token: ServerToken,
    /// The process id.
    pub pid: u32,
}

#[derive(Serialize, Deserialize)]
struct EndpointFile {
    address: SocketAddr,
    token: String,
    pid: u32,
}

/// A published control file. Dropping it removes the file.
#[derive(Debug)]
pub struct PublishedEndpoint {
    path: PathBuf,
    content: Vec<u8>,
}

impl LocalEndpoint {
    /// Reads the control file of a workspace directory; `None` if it is absent or invalid.
    pub fn of(workspace: &Path) -> Option<LocalEndpoint> {
        let written: EndpointFile =
            serde_json::from_slice(&std::fs::read(workspace.join(ENDPOINT_FILE_NAME)).ok()?)
                .ok()?;
        // A file that another program wrote must not send our commands to another machine.
        let is_here = written.address.ip().is_loopback();
        let token = ServerToken::new(written.token).filter(|_| is_here)?;
        Some(LocalEndpoint {
            address: written.address,
            token,
            pid: written.pid,
        })
    }

    /// Writes the file, readable only by this user.
    pub fn open(&self, workspace: &Path) -> io::Result<PublishedEndpoint> {
        let token = self.token.expose().to_owned();
        let content = serde_json::to_vec(&EndpointFile {
            address: self.address,
            token,
            pid: self.pid,
        })?;
        // `tempfile` creates the file with owner-only access, so there is no moment at which others
        // can read it.
        let mut file = tempfile::NamedTempFile::new_in(workspace)?;
        file.write_all(&content)?;
        let path = workspace.join(ENDPOINT_FILE_NAME);
        file.persist(&path).map_err(|error| error.error)?;
        Ok(PublishedEndpoint { path, content })
    }
}

impl Drop for PublishedEndpoint {
    fn drop(&mut self) {
        // The next process may have written its own file already.
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
        assert_eq!(LocalEndpoint::of(folder.path()), None);
        let door = LocalEndpoint {
            address: "127.0.0.1:1".parse().unwrap(),
            token: ServerToken::random(),
            pid: 1,
        };
        let open = door.open(folder.path()).unwrap();
        assert_eq!(LocalEndpoint::of(folder.path()), Some(door));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = std::fs::metadata(folder.path().join(ENDPOINT_FILE_NAME))
                .unwrap()
                .permissions()
                .mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        drop(open);
        assert_eq!(LocalEndpoint::of(folder.path()), None);
    }

    #[test]
    fn the_door_of_the_next_process_stays() {
        let folder = tempfile::tempdir().unwrap();
        let door = |port| LocalEndpoint {
            address: SocketAddr::from(([127, 0, 0, 1], port)),
            token: ServerToken::random(),
            pid: 1,
        };
        let (first, second) = (door(1), door(2));
        let open = first.open(folder.path()).unwrap();
        let _next = second.open(folder.path()).unwrap();
        drop(open);
        assert_eq!(LocalEndpoint::of(folder.path()), Some(second));
    }

    #[test]
    fn a_door_leads_to_no_other_machine() {
        let folder = tempfile::tempdir().unwrap();
        for broken in [
            r#"{"address":"192.0.2.1:80","token":"0123456789abcdef","pid":1}"#,
            r#"{"address":"127.0.0.1:80","token":"","pid":1}"#,
            "{",
        ] {
            std::fs::write(folder.path().join(ENDPOINT_FILE_NAME), broken).unwrap();
            assert_eq!(LocalEndpoint::of(folder.path()), None, "{broken}");
        }
    }
}
