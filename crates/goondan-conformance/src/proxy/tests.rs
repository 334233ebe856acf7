#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use super::*;

/// An echo server.
fn echo() -> DatabaseEndpoint {
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

fn say(client: &mut TcpStream, word: u8) {
    client.write_all(&[word]).unwrap();
}

/// The next byte; `None` if the connection is closed.
fn hear(client: &mut TcpStream) -> Option<u8> {
    let mut byte = [0];
    client.read_exact(&mut byte).ok().map(|()| byte[0])
}

#[test]
fn what_is_said_is_carried_both_ways_also_slowly() {
    let proxy = FaultProxy::start(echo()).unwrap();
    let mut client = client(&proxy);
    say(&mut client, 1);
    assert_eq!(hear(&mut client), Some(1));
    proxy.set(ProxyFlow::Slow(Duration::from_millis(5)));
    say(&mut client, 2);
    assert_eq!(hear(&mut client), Some(2));
}

#[test]
fn a_cut_closes_connections_and_refuses_new_ones_until_it_is_healed() {
    let proxy = FaultProxy::start(echo()).unwrap();
    let mut old = client(&proxy);
    say(&mut old, 1);
    assert_eq!(hear(&mut old), Some(1));
    proxy.set(ProxyFlow::Cut);
    assert_eq!(hear(&mut old), None);
    assert_eq!(hear(&mut client(&proxy)), None);
    proxy.set(ProxyFlow::Open);
    let mut new = client(&proxy);
    say(&mut new, 2);
    assert_eq!(hear(&mut new), Some(2));
}

#[test]
fn silence_keeps_connections_and_what_was_said_comes_later() {
    let proxy = FaultProxy::start(echo()).unwrap();
    let mut old = client(&proxy);
    say(&mut old, 1);
    assert_eq!(hear(&mut old), Some(1));
    proxy.set(ProxyFlow::Silent);
    let mut new = client(&proxy);
    say(&mut old, 2);
    say(&mut new, 3);
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
    assert_eq!((hear(&mut old), hear(&mut new)), (Some(2), Some(3)));
}

#[test]
fn without_the_proxy_connections_are_closed() {
    let proxy = FaultProxy::start(echo()).unwrap();
    let mut client = client(&proxy);
    say(&mut client, 1);
    assert_eq!(hear(&mut client), Some(1));
    drop(proxy);
    assert_eq!(hear(&mut client), None);
}
