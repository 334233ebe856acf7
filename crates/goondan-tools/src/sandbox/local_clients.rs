//! Detects TCP clients that are sandboxed programs of this process.
//!
//! A sandboxed program with network access can reach each port of this machine. A server of this
//! process must not obey it, even if it has the token.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::unix::fs::MetadataExt as _;
use std::sync::atomic::{AtomicBool, Ordering};

use super::orphans::{is_sandboxed, parent, visible_pids};

/// True once a program was started in a sandbox with network access.
static HAS_NETWORK_PROGRAMS: AtomicBool = AtomicBool::new(false);

/// Tables of the TCP sockets of this machine.
const SOCKET_TABLES: [&str; 2] = ["/proc/net/tcp", "/proc/net/tcp6"];

/// Records that a program starts in a sandbox with network access.
pub(super) fn note_network_program() {
    HAS_NETWORK_PROGRAMS.store(true, Ordering::Relaxed);
}

/// Returns true if the client at `client` may be a sandboxed program of this process. Blocks the
/// thread for some milliseconds once such a program was started with network access.
///
/// A client on this machine that runs as the same user is permitted only if its process is found.
/// A closed socket has no process any more, so its client is not permitted: its request is already
/// in the queue.
pub fn is_sandboxed_client(client: SocketAddr) -> bool {
    HAS_NETWORK_PROGRAMS.load(Ordering::Relaxed) && !has_permitted_process(client)
}

/// Returns true for a client on another machine, of another user, or whose process runs outside of
/// the sandboxes of this process.
fn has_permitted_process(client: SocketAddr) -> bool {
    let Some(socket) = socket_at(client).filter(LocalSocket::is_open) else {
        return !is_own_address(client.ip());
    };
    let is_own = fs::metadata("/proc/self").is_ok_and(|own| own.uid() == socket.user);
    !is_own || is_open_outside_sandboxes(socket.inode)
}

/// Returns true for an address of this machine. A socket can be bound to no other address.
fn is_own_address(address: IpAddr) -> bool {
    let address = address.to_canonical();
    address.is_loopback() || UdpSocket::bind((address, 0)).is_ok()
}

/// A TCP socket of this machine.
#[derive(Debug, PartialEq, Eq)]
struct LocalSocket {
    user: u32,
    /// 0 for a socket that its process has closed.
    inode: u64,
}

impl LocalSocket {
    fn is_open(&self) -> bool {
        self.inode != 0
    }
}

/// Returns the socket with the local address `address`.
fn socket_at(address: SocketAddr) -> Option<LocalSocket> {
    let client_address = (address.ip().to_canonical(), address.port());
    SOCKET_TABLES
        .iter()
        .filter_map(|table| read(table))
        .find_map(|table| {
            let mut rows = table.lines().skip(1).filter_map(socket_row);
            rows.find(|(local, _)| *local == client_address)
                .map(|(_, socket)| socket)
        })
}

/// Parses a row of a socket table: its local address and its socket.
fn socket_row(row: &str) -> Option<((IpAddr, u16), LocalSocket)> {
    let fields: Vec<&str> = row.split_whitespace().collect();
    let (address, port) = fields.get(1)?.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let socket = LocalSocket {
        user: fields.get(7)?.parse().ok()?,
        inode: fields.get(9)?.parse().ok()?,
    };
    Some(((ip_address(address)?.to_canonical(), port), socket))
}

/// Parses an address of a socket table: words of 32 bits in the byte order of the machine.
fn ip_address(text: &str) -> Option<IpAddr> {
    let word = |at: usize| {
        let word = u32::from_str_radix(text.get(at * 8..at * 8 + 8)?, 16).ok()?;
        Some(word.to_ne_bytes())
    };
    match text.len() {
        8 => word(0).map(|bytes| Ipv4Addr::from(bytes).into()),
        32 => {
            let words = [word(0)?, word(1)?, word(2)?, word(3)?].concat();
            let bytes: [u8; 16] = words.try_into().ok()?;
            Some(Ipv6Addr::from(bytes).into())
        }
        _ => None,
    }
}

/// Returns true if any process has the socket open, other than the sandboxed programs that this
/// process started.
fn is_open_outside_sandboxes(inode: u64) -> bool {
    let link = format!("socket:[{inode}]");
    let mut pids = visible_pids().into_iter();
    pids.any(|pid| may_have_open(pid, &link) && !is_own_sandboxed(pid))
}

/// Returns true for a sandboxed descendant of this process.
fn is_own_sandboxed(pid: i32) -> bool {
    let own_pid = i32::try_from(std::process::id()).unwrap_or_default();
    let mut ancestors = std::iter::successors(Some(pid), |pid| parent(*pid));
    ancestors.any(|ancestor| ancestor == own_pid) && is_sandboxed(pid)
}

/// Returns true if a process has a descriptor with the link `link`. A process of this user whose
/// descriptors are unreadable may have it: another `gdn` hides its memory.
#[expect(clippy::disallowed_methods, reason = "the kernel generates /proc")]
fn may_have_open(pid: i32, link: &str) -> bool {
    match fs::read_dir(format!("/proc/{pid}/fd")) {
        Ok(descriptors) => descriptors.flatten().any(|entry| {
            fs::read_link(entry.path()).is_ok_and(|target| target.as_os_str() == link)
        }),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            let user = |path: &str| fs::metadata(path).ok().map(|process| process.uid());
            user(&format!("/proc/{pid}")) == user("/proc/self")
        }
        Err(_) => false,
    }
}

#[expect(clippy::disallowed_methods, reason = "the kernel generates /proc")]
fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn socket_table_rows_are_parsed() {
        let row = "   0: 0100007F:1F90 0200007F:C001 01 00000000:00000000 00:00000000 00000000  1000        0 4711 1 0";
        let (local, socket) = socket_row(row).unwrap();
        let expected = u32::from_ne_bytes([127, 0, 0, 1]);
        if expected == 0x0100_007F {
            assert_eq!(local, (IpAddr::from([127, 0, 0, 1]), 8080));
        }
        assert_eq!(
            socket,
            LocalSocket {
                user: 1000,
                inode: 4711
            }
        );
        assert_eq!(socket_row("  sl  local_address rem_address"), None);
        assert_eq!(ip_address("0100007F0"), None);
    }

    /// This test's own process has the client's socket open.
    #[test]
    fn a_socket_of_an_unsandboxed_process_is_found() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let socket = socket_at(client.local_addr().unwrap()).unwrap();
        assert!(is_open_outside_sandboxes(socket.inode));
        drop(client);
        assert!(!is_open_outside_sandboxes(socket.inode));
    }

    #[test]
    fn a_local_client_is_permitted_only_while_its_socket_is_open() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let address = client.local_addr().unwrap();
        assert!(has_permitted_process(address));
        drop(client);
        // The accepted end is still open, so the system keeps the closed end.
        let accepted = listener.accept().unwrap().0;
        assert!(!has_permitted_process(address));
        drop(accepted);
        // No socket has the address of a connection that was reset.
        assert!(!has_permitted_process(SocketAddr::from((
            [127, 0, 0, 2],
            1
        ))));
        assert!(has_permitted_process(SocketAddr::from((
            [203, 0, 113, 1],
            1
        ))));
    }
}
