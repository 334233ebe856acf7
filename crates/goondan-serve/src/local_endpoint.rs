//! Local control endpoint of a workspace. A file gives other commands of the same user the address
//! and the token of the process that runs the swarm.
//!
//! On Unix, the endpoint is a Unix socket: sandboxed programs can't open one, and the server checks
//! the user of each client. On Windows, which has no sandboxes, it is a local TCP port.

#[cfg(unix)]
use std::fs::Permissions;
use std::io::{self, Write};
use std::net::SocketAddr;
#[cfg(unix)]
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tokio::net::TcpStream;

use crate::auth::ServerToken;
use crate::listener::{ByteStream, ServerListener};

/// The file name, relative to the workspace directory.
pub const ENDPOINT_FILE_NAME: &str = goondan::internal::layout::CONTROL_ENDPOINT;

/// Address of a control endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum EndpointAddress {
    /// Loopback TCP port.
    Address(SocketAddr),
    /// Unix socket. In the file, its path is relative to the workspace directory.
    #[cfg(unix)]
    Socket(PathBuf),
}

impl EndpointAddress {
    /// Connects to the endpoint.
    pub async fn connect(&self) -> io::Result<Box<dyn ByteStream>> {
        match self {
            EndpointAddress::Address(address) => Ok(Box::new(TcpStream::connect(address).await?)),
            #[cfg(unix)]
            EndpointAddress::Socket(path) => {
                Ok(Box::new(tokio::net::UnixStream::connect(path).await?))
            }
        }
    }

    /// Returns the host name for requests.
    pub(crate) fn host(&self) -> String {
        match self {
            EndpointAddress::Address(address) => address.to_string(),
            #[cfg(unix)]
            EndpointAddress::Socket(_) => "localhost".to_owned(),
        }
    }
}

/// Listening socket of a control endpoint. Dropping it removes the files of a Unix socket.
#[derive(Debug)]
pub struct EndpointSocket {
    /// The address for clients.
    pub address: EndpointAddress,
    #[cfg(unix)]
    _path: tempfile::TempPath,
    #[cfg(unix)]
    _directory: Option<tempfile::TempDir>,
}

#[cfg(unix)]
impl EndpointSocket {
    /// Creates a socket for this user in the workspace directory. The path of a socket has at most
    /// about 100 bytes, and some file systems have no sockets. Then the socket is in a new private
    /// directory for temporary files.
    pub fn bind(workspace: &Path) -> io::Result<(EndpointSocket, ServerListener)> {
        if let Ok(bound) = EndpointSocket::bind_in(workspace) {
            return Ok(bound);
        }
        let directory = tempfile::Builder::new()
            .prefix(DIRECTORY_PREFIX)
            .permissions(Permissions::from_mode(0o700))
            .tempdir()?;
        let (socket, listener) = EndpointSocket::bind_in(directory.path())?;
        let socket = EndpointSocket {
            _directory: Some(directory),
            ..socket
        };
        Ok((socket, listener))
    }

    /// Opens a socket with a random name in a directory. Only this user can connect to it.
    fn bind_in(place: &Path) -> io::Result<(EndpointSocket, ServerListener)> {
        let place = std::path::absolute(place)?;
        let socket = tempfile::Builder::new()
            .prefix(SOCKET_PREFIX)
            .suffix(".sock")
            .make_in(place, |path| tokio::net::UnixListener::bind(path))?;
        let (listener, path) = socket.into_parts();
        std::fs::set_permissions(&path, Permissions::from_mode(0o600))?;
        let bound = EndpointSocket {
            address: EndpointAddress::Socket(path.to_path_buf()),
            _path: path,
            _directory: None,
        };
        Ok((bound, listener.into()))
    }
}

#[cfg(not(unix))]
impl EndpointSocket {
    /// Opens a free TCP port of this machine.
    pub fn bind(_workspace: &Path) -> io::Result<(EndpointSocket, ServerListener)> {
        let listener = std::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address = EndpointAddress::Address(listener.local_addr()?);
        let listener = tokio::net::TcpListener::from_std(listener)?;
        Ok((EndpointSocket { address }, listener.into()))
    }
}

/// First letters of the name of a socket in a workspace.
#[cfg(unix)]
const SOCKET_PREFIX: &str = "control-";
/// First letters of the name of a private directory for a socket.
#[cfg(unix)]
const DIRECTORY_PREFIX: &str = "gdn-";

/// Address and token of a process that runs a swarm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalEndpoint {
    /// The address of its server.
    pub address: EndpointAddress,
    /// The token that each request carries.
    pub token: ServerToken,
    /// The process id.
    pub pid: u32,
}

#[derive(Serialize, Deserialize)]
struct EndpointFile {
    #[serde(flatten)]
    address: EndpointAddress,
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
    #[expect(clippy::disallowed_methods, reason = "gdn's own file in the workspace")]
    pub fn of(workspace: &Path) -> Option<LocalEndpoint> {
        let written: EndpointFile =
            serde_json::from_slice(&std::fs::read(workspace.join(ENDPOINT_FILE_NAME)).ok()?)
                .ok()?;
        let address = match written.address {
            // A file that another program wrote must not send our commands to another machine.
            EndpointAddress::Address(address) if !address.ip().is_loopback() => return None,
            #[cfg(unix)]
            EndpointAddress::Socket(path) => EndpointAddress::Socket(workspace.join(path)),
            address => address,
        };
        Some(LocalEndpoint {
            address,
            token: ServerToken::new(written.token)?,
            pid: written.pid,
        })
    }

    /// Writes the file, readable only by this user.
    pub fn open(&self, workspace: &Path) -> io::Result<PublishedEndpoint> {
        let content = serde_json::to_vec(&EndpointFile {
            address: address_in_workspace(&self.address, workspace),
            token: self.token.expose().to_owned(),
            pid: self.pid,
        })?;
        // `tempfile` creates the file with owner-only access, so there is no moment at which others
        // can read it.
        let mut file = tempfile::NamedTempFile::new_in(workspace)?;
        file.write_all(&content)?;
        #[cfg(unix)]
        remove_dead_socket(workspace);
        let path = workspace.join(ENDPOINT_FILE_NAME);
        file.persist(&path).map_err(|error| error.error)?;
        Ok(PublishedEndpoint { path, content })
    }
}

/// Returns the address for the file. A workspace can have another path elsewhere, such as in a
/// container.
fn address_in_workspace(address: &EndpointAddress, workspace: &Path) -> EndpointAddress {
    #[cfg(unix)]
    if let EndpointAddress::Socket(path) = address
        && let Ok(workspace) = std::path::absolute(workspace)
        && let Ok(path) = path.strip_prefix(workspace)
    {
        return EndpointAddress::Socket(path.to_owned());
    }
    let _ = workspace;
    address.clone()
}

/// Removes the socket of a process that was killed, with its private directory.
#[cfg(unix)]
fn remove_dead_socket(workspace: &Path) {
    let Some(LocalEndpoint {
        address: EndpointAddress::Socket(path),
        ..
    }) = LocalEndpoint::of(workspace)
    else {
        return;
    };
    let begins_with = |path: &Path, prefix: &str| {
        let name = path.file_name().unwrap_or_default();
        name.to_string_lossy().starts_with(prefix)
    };
    let refused = std::os::unix::net::UnixStream::connect(&path)
        .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
    if refused && begins_with(&path, SOCKET_PREFIX) {
        let _ = std::fs::remove_file(&path);
        let directory = path.parent().filter(|directory| *directory != workspace);
        if let Some(directory) = directory.filter(|name| begins_with(name, DIRECTORY_PREFIX)) {
            // Fails if the directory contains other files.
            let _ = std::fs::remove_dir(directory);
        }
    }
}

impl Drop for PublishedEndpoint {
    #[expect(clippy::disallowed_methods, reason = "gdn's own file in the workspace")]
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
    fn an_endpoint_is_found_while_it_is_open() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(LocalEndpoint::of(directory.path()), None);
        let endpoint = LocalEndpoint {
            address: EndpointAddress::Address("127.0.0.1:1".parse().unwrap()),
            token: ServerToken::random(),
            pid: 1,
        };
        let open = endpoint.open(directory.path()).unwrap();
        assert_eq!(LocalEndpoint::of(directory.path()), Some(endpoint));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = std::fs::metadata(directory.path().join(ENDPOINT_FILE_NAME))
                .unwrap()
                .permissions()
                .mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        drop(open);
        assert_eq!(LocalEndpoint::of(directory.path()), None);
    }

    #[test]
    fn closing_keeps_the_endpoint_of_a_newer_process() {
        let directory = tempfile::tempdir().unwrap();
        let endpoint = |port| LocalEndpoint {
            address: EndpointAddress::Address(([127, 0, 0, 1], port).into()),
            token: ServerToken::random(),
            pid: 1,
        };
        let (first, second) = (endpoint(1), endpoint(2));
        let open = first.open(directory.path()).unwrap();
        let _next = second.open(directory.path()).unwrap();
        drop(open);
        assert_eq!(LocalEndpoint::of(directory.path()), Some(second));
    }

    #[test]
    fn non_loopback_and_invalid_endpoints_are_ignored() {
        let directory = tempfile::tempdir().unwrap();
        for content in [
            r#"{"address":"192.0.2.1:80","token":"0123456789abcdef","pid":1}"#,
            r#"{"address":"127.0.0.1:80","token":"","pid":1}"#,
            "{",
        ] {
            std::fs::write(directory.path().join(ENDPOINT_FILE_NAME), content).unwrap();
            assert_eq!(LocalEndpoint::of(directory.path()), None, "{content}");
        }
    }

    #[cfg(unix)]
    fn published(workspace: &Path) -> (EndpointSocket, ServerListener, PublishedEndpoint) {
        let (socket, listener) = EndpointSocket::bind(workspace).unwrap();
        let endpoint = LocalEndpoint {
            address: socket.address.clone(),
            token: ServerToken::random(),
            pid: 1,
        };
        let published = endpoint.open(workspace).unwrap();
        assert_eq!(LocalEndpoint::of(workspace), Some(endpoint));
        (socket, listener, published)
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn sockets_are_private_and_reachable_for_any_path_length() {
        let directory = tempfile::tempdir().unwrap();
        let long = directory.path().join("w".repeat(120));
        std::fs::create_dir(&long).unwrap();
        for workspace in [directory.path(), long.as_path()] {
            let (socket, _listener, _published) = published(workspace);
            let EndpointAddress::Socket(path) = &socket.address else {
                panic!("a Unix socket");
            };
            let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
            assert_eq!(mode(path), 0o600);
            let is_elsewhere = path.parent() != Some(workspace);
            assert_eq!(is_elsewhere, workspace == long);
            assert!(!is_elsewhere || mode(path.parent().unwrap()) == 0o700);
            socket.address.connect().await.unwrap();
            let path = path.clone();
            drop(socket);
            assert!(!path.exists());
        }
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn the_socket_of_a_killed_process_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let (socket, listener, published_endpoint) = published(directory.path());
        drop(listener);
        std::mem::forget((socket, published_endpoint));
        let _next = published(directory.path());
        let is_socket = |entry: &std::fs::DirEntry| {
            entry
                .file_name()
                .to_string_lossy()
                .starts_with(SOCKET_PREFIX)
        };
        let entries = std::fs::read_dir(directory.path()).unwrap();
        assert_eq!(entries.flatten().filter(is_socket).count(), 1);
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn the_private_directory_of_a_killed_process_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let workspace = directory.path().join("w".repeat(120));
        std::fs::create_dir(&workspace).unwrap();
        let (socket, listener, published_endpoint) = published(&workspace);
        let EndpointAddress::Socket(path) = socket.address.clone() else {
            panic!("a Unix socket");
        };
        drop(listener);
        std::mem::forget((socket, published_endpoint));
        let _next = published(&workspace);
        assert!(!path.parent().unwrap().exists());
    }
}
