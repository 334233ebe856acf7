#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use super::*;

/// Starts an echo server.
fn start_echo_server() -> DatabaseEndpoint {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for connection in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || {
                let (mut from, mut to) = (connection.try_clone().unwrap(), connection);
                let _ = io::copy(&mut from, &mut to);
            });
        }
    });
    DatabaseEndpoint::Tcp("127.0.0.1".to_owned(), port)
}

fn client(proxy: &FaultProxy) -> TcpStream {
    TcpStream::connect(proxy.place()).unwrap()
}

fn send_byte(client: &mut TcpStream, byte: u8) {
    client.write_all(&[byte]).unwrap();
}

/// Returns the next byte, or `None` if the connection is closed.
fn receive_byte(client: &mut TcpStream) -> Option<u8> {
    let mut byte = [0];
    client.read_exact(&mut byte).ok().map(|()| byte[0])
}

#[test]
fn an_open_or_slow_proxy_forwards_bytes_in_both_directions() {
    let proxy = FaultProxy::start(start_echo_server()).unwrap();
    let mut client = client(&proxy);
    send_byte(&mut client, 1);
    assert_eq!(receive_byte(&mut client), Some(1));
    proxy.set(ProxyFlow::Slow(Duration::from_millis(5)));
    send_byte(&mut client, 2);
    assert_eq!(receive_byte(&mut client), Some(2));
}

#[test]
fn a_cut_closes_old_and_new_connections_until_the_proxy_is_open() {
    let proxy = FaultProxy::start(start_echo_server()).unwrap();
    let mut old = client(&proxy);
    send_byte(&mut old, 1);
    assert_eq!(receive_byte(&mut old), Some(1));
    proxy.set(ProxyFlow::Cut);
    assert_eq!(receive_byte(&mut old), None);
    assert_eq!(receive_byte(&mut client(&proxy)), None);
    proxy.set(ProxyFlow::Open);
    let mut new = client(&proxy);
    send_byte(&mut new, 2);
    assert_eq!(receive_byte(&mut new), Some(2));
}

#[test]
fn a_silent_proxy_keeps_connections_and_delays_bytes() {
    let proxy = FaultProxy::start(start_echo_server()).unwrap();
    let mut old = client(&proxy);
    send_byte(&mut old, 1);
    assert_eq!(receive_byte(&mut old), Some(1));
    proxy.set(ProxyFlow::Silent);
    let mut new = client(&proxy);
    send_byte(&mut old, 2);
    send_byte(&mut new, 3);
    for client in [&mut old, &mut new] {
        client
            .set_read_timeout(Some(Duration::from_millis(50)))
            .unwrap();
        let error = client.read(&mut [0]).unwrap_err();
        assert!(
            matches!(
                error.kind(),
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
            ),
            "{error}"
        );
        client.set_read_timeout(None).unwrap();
    }
    proxy.set(ProxyFlow::Open);
    assert_eq!(
        (receive_byte(&mut old), receive_byte(&mut new)),
        (Some(2), Some(3))
    );
}

#[test]
fn dropping_the_proxy_closes_connections() {
    let proxy = FaultProxy::start(start_echo_server()).unwrap();
    let mut client = client(&proxy);
    send_byte(&mut client, 1);
    assert_eq!(receive_byte(&mut client), Some(1));
    drop(proxy);
    assert_eq!(receive_byte(&mut client), None);
}
