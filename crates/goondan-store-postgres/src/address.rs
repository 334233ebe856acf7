//! The address of a database, displayed without its password.

use std::fmt;
use std::net::SocketAddr;
#[cfg(unix)]
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::Host;

/// Default connect timeout.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Time without acknowledgement after which a connection is closed.
const UNACKED_TIMEOUT: Duration = Duration::from_secs(10);

/// The address of a database, in the form `postgres://user@host/name`. `Display` omits the
/// password.
#[derive(Clone)]
pub struct DatabaseAddress {
    pub(crate) config: Config,
}

/// The endpoint of a database server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DatabaseEndpoint {
    /// Host and port.
    Tcp(String, u16),
    /// Unix socket.
    #[cfg(unix)]
    Unix(PathBuf),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the store URL is not a valid PostgreSQL URL: {0}")]
pub struct AddressError(String);

impl FromStr for DatabaseAddress {
    type Err = AddressError;

    /// Parses an address. Errors never repeat the input, which may contain a password.
    fn from_str(text: &str) -> Result<Self, AddressError> {
        if !["postgres://", "postgresql://"]
            .iter()
            .any(|scheme| text.starts_with(scheme))
        {
            return Err(AddressError("it must begin with `postgres://`".to_owned()));
        }
        // The client's mode `require` already verifies the certificate and the name in this crate.
        let text = text
            .replace("sslmode=verify-full", "sslmode=require")
            .replace("sslmode=verify-ca", "sslmode=require");
        let mut config: Config = text
            .parse()
            .map_err(|error| AddressError(parse_error_text(&error)))?;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(AddressError("it names no host".to_owned()));
        }
        if config.get_user().is_none() {
            return Err(AddressError("it names no user".to_owned()));
        }
        #[cfg(unix)]
        if config
            .get_hosts()
            .iter()
            .all(|host| matches!(host, Host::Unix(_)))
        {
            // A local socket cannot be intercepted, and has no name that a certificate could
            // contain.
            config.ssl_mode(tokio_postgres::config::SslMode::Disable);
        }
        let (connect, silence) = (
            config.get_connect_timeout().copied(),
            config.get_tcp_user_timeout().copied(),
        );
        set_timeouts(&mut config, connect, silence);
        Ok(DatabaseAddress { config })
    }
}

impl DatabaseAddress {
    /// Returns the first server of the address.
    pub fn server(&self) -> DatabaseEndpoint {
        let port = self.config.get_ports().first().copied().unwrap_or(5432);
        if let Some(place) = self.config.get_hostaddrs().first() {
            return DatabaseEndpoint::Tcp(place.to_string(), port);
        }
        match self.config.get_hosts().first() {
            Some(Host::Tcp(name)) => DatabaseEndpoint::Tcp(name.clone(), port),
            #[cfg(unix)]
            Some(Host::Unix(folder)) => {
                DatabaseEndpoint::Unix(folder.join(format!(".s.PGSQL.{port}")))
            }
            // A parsed address names a host.
            None => DatabaseEndpoint::Tcp("localhost".to_owned(), port),
        }
    }

    /// Returns the address of the same database, reached through a proxy at `proxy`.
    #[must_use]
    pub fn by_way_of(&self, proxy: SocketAddr) -> DatabaseAddress {
        let (old, mut config) = (&self.config, Config::new());
        config
            .ssl_mode(old.get_ssl_mode())
            .hostaddr(proxy.ip())
            .port(proxy.port());
        match old.get_hosts().first() {
            // The certificate contains the server's name, not the proxy's.
            Some(Host::Tcp(name)) => config.host(name),
            _ => config.host(proxy.ip().to_string()),
        };
        if let Some(user) = old.get_user() {
            config.user(user);
        }
        if let Some(password) = old.get_password() {
            config.password(password);
        }
        if let Some(name) = old.get_dbname() {
            config.dbname(name);
        }
        if let Some(options) = old.get_options() {
            config.options(options);
        }
        set_timeouts(
            &mut config,
            old.get_connect_timeout().copied(),
            old.get_tcp_user_timeout().copied(),
        );
        DatabaseAddress { config }
    }
}

/// Sets the timeouts of a connection.
fn set_timeouts(config: &mut Config, connect: Option<Duration>, silence: Option<Duration>) {
    config
        .connect_timeout(connect.unwrap_or(CONNECT_TIMEOUT))
        .tcp_user_timeout(silence.unwrap_or(UNACKED_TIMEOUT));
    config
        .keepalives_idle(UNACKED_TIMEOUT)
        .keepalives_interval(Duration::from_secs(2))
        .keepalives_retries(3);
}

/// Returns the parser's message without the input.
fn parse_error_text(error: &tokio_postgres::Error) -> String {
    use std::error::Error as _;
    let cause = error.source().map(ToString::to_string).unwrap_or_default();
    match cause.split_once('`') {
        Some((before, _)) => before.trim_end().to_owned(),
        None if cause.is_empty() => "it can't be read".to_owned(),
        None => cause,
    }
}

impl fmt::Display for DatabaseAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let config = &self.config;
        write!(f, "postgres://")?;
        if let Some(user) = config.get_user() {
            write!(f, "{user}@")?;
        }
        for (number, host) in config.get_hosts().iter().enumerate() {
            let before = if number == 0 { "" } else { "," };
            match host {
                Host::Tcp(name) => write!(f, "{before}{name}")?,
                #[cfg(unix)]
                Host::Unix(folder) => write!(f, "{before}{}", folder.display())?,
            }
            let port = config
                .get_ports()
                .get(number)
                .or_else(|| config.get_ports().first());
            if let Some(port) = port {
                write!(f, ":{port}")?;
            }
        }
        write!(
            f,
            "/{}",
            config
                .get_dbname()
                .or(config.get_user())
                .unwrap_or_default()
        )
    }
}

impl fmt::Debug for DatabaseAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({self})")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test may panic")]

    use super::*;

    #[test]
    fn a_password_is_never_shown() {
        let address: DatabaseAddress =
            "postgres://me:hunter2@db.example:5433/swarms?sslmode=verify-full"
                .parse()
                .unwrap();
        assert_eq!(address.to_string(), "postgres://me@db.example:5433/swarms");
        assert_eq!(
            format!("{address:?}"),
            "Address(postgres://me@db.example:5433/swarms)"
        );
    }

    #[test]
    fn by_way_of_changes_only_the_endpoint() {
        let address: DatabaseAddress =
            "postgres://me:hunter2@db.example:5433/swarms?sslmode=require"
                .parse()
                .unwrap();
        assert_eq!(
            address.server(),
            DatabaseEndpoint::Tcp("db.example".to_owned(), 5433)
        );
        let (tunneled, old) = (
            address.by_way_of(([127, 0, 0, 1], 4000).into()),
            &address.config,
        );
        let new = &tunneled.config;
        assert_eq!(
            tunneled.server(),
            DatabaseEndpoint::Tcp("127.0.0.1".to_owned(), 4000)
        );
        assert_eq!(
            (new.get_hosts(), new.get_ssl_mode()),
            (old.get_hosts(), old.get_ssl_mode())
        );
        assert_eq!(
            (new.get_user(), new.get_password()),
            (old.get_user(), old.get_password())
        );
        assert_eq!(
            (new.get_dbname(), new.get_connect_timeout()),
            (old.get_dbname(), old.get_connect_timeout())
        );
    }

    #[cfg(unix)]
    #[test]
    fn a_unix_socket_address_is_parsed() {
        let address: DatabaseAddress = "postgres://me@%2Frun%2Fpg/swarms".parse().unwrap();
        assert_eq!(
            address.server(),
            DatabaseEndpoint::Unix("/run/pg/.s.PGSQL.5432".into())
        );
        assert_eq!(
            address.by_way_of(([127, 0, 0, 1], 4000).into()).to_string(),
            "postgres://me@127.0.0.1:4000/swarms"
        );
    }

    #[test]
    fn an_invalid_address_error_does_not_contain_the_password() {
        for text in [
            "mysql://me:hunter2@h/d",
            "postgres://me:hunter2@h:port/d",
            "postgres://me:hunter2@h/d?hunter2=hunter2",
        ] {
            let error = text.parse::<DatabaseAddress>().unwrap_err().to_string();
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
