//! Restricts the network addresses of tools (rule S3).
//!
//! A host name is checked by its resolved addresses at the time of connecting. The resolver returns
//! only permitted addresses, so the result cannot change between check and use. A host that is an
//! IP address, in any spelling that the URL parser accepts, is checked itself. Both checks repeat
//! for each redirect.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use serde::Deserialize;
use url::{Host, Url};

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct NetworkGuard {
    /// Permits all addresses.
    #[serde(default)]
    allow_private_network: bool,
    /// Hosts that are always permitted; `*.example.com` permits all subdomains of `example.com`.
    #[serde(default)]
    allow_hosts: Vec<String>,
}

/// The keys of [`NetworkGuard`] for the documentation.
pub(crate) const NETWORK_CONFIG_KEYS: &[(&str, &str)] = &[
    (
        "allowPrivateNetwork",
        "`true` to allow private, loopback and link-local addresses",
    ),
    (
        "allowHosts",
        "a list of hosts that are allowed at any address, such as `db.internal` or \
        `*.corp.example`",
    ),
];

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BlockedUrl {
    /// The scheme is not HTTP or HTTPS.
    #[error("`{0}:` URLs are not supported, only http: and https:")]
    Scheme(String),
    #[error("the URL has no host")]
    NoHost,
    /// The host has an address that is not public.
    #[error("{host} is {address}, {class}")]
    Address {
        /// The host in the URL.
        host: String,
        /// The resolved address.
        address: IpAddr,
        /// The type of the address.
        class: &'static str,
    },
}

impl NetworkGuard {
    pub(crate) fn new(allow_private_network: bool, allow_hosts: Vec<String>) -> Self {
        NetworkGuard {
            allow_private_network,
            allow_hosts,
        }
    }

    /// Checks a URL as far as possible without resolving its host.
    pub(crate) fn check(&self, url: &Url) -> Result<(), BlockedUrl> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(BlockedUrl::Scheme(url.scheme().to_owned()));
        }
        let address = match url.host() {
            None => return Err(BlockedUrl::NoHost),
            Some(Host::Domain(_)) => return Ok(()),
            Some(Host::Ipv4(address)) => IpAddr::V4(address),
            Some(Host::Ipv6(address)) => IpAddr::V6(address),
        };
        self.check_address(url.host_str().unwrap_or_default(), address)
    }

    /// Checks a resolved address of `host`.
    fn check_address(&self, host: &str, address: IpAddr) -> Result<(), BlockedUrl> {
        match special_address(address) {
            Some(class) if !self.allow_private_network && !self.allows_host(host) => {
                Err(BlockedUrl::Address {
                    host: host.to_owned(),
                    address,
                    class,
                })
            }
            _ => Ok(()),
        }
    }

    /// Returns true if the config permits this host.
    fn allows_host(&self, host: &str) -> bool {
        let plain = |host: &str| {
            host.trim_end_matches('.')
                .trim_matches(['[', ']'])
                .to_ascii_lowercase()
        };
        let host = plain(host);
        self.allow_hosts
            .iter()
            .map(|pattern| plain(pattern))
            .any(|pattern| match pattern.strip_prefix("*.") {
                Some(domain) => host
                    .strip_suffix(domain)
                    .is_some_and(|sub| sub.len() > 1 && sub.ends_with('.')),
                None => pattern == host,
            })
    }
}

/// Resolves names with the system, and returns only addresses that a [`NetworkGuard`] permits.
pub(crate) struct GuardedResolver(pub(crate) Arc<NetworkGuard>);

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let guard = Arc::clone(&self.0);
        Box::pin(async move {
            let addresses = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let allowed = only_allowed(&guard, name.as_str(), addresses)?;
            Ok(Box::new(allowed.into_iter()) as Addrs)
        })
    }
}

/// Returns the permitted addresses. If all are refused, returns the reason for the first.
fn only_allowed(
    guard: &NetworkGuard,
    host: &str,
    found: impl Iterator<Item = SocketAddr>,
) -> Result<Vec<SocketAddr>, BlockedUrl> {
    let mut allowed = Vec::new();
    let mut blocked = None;
    for address in found {
        match guard.check_address(host, address.ip()) {
            Ok(()) => allowed.push(address),
            Err(reason) => blocked = blocked.or(Some(reason)),
        }
    }
    match blocked {
        Some(reason) if allowed.is_empty() => Err(reason),
        _ => Ok(allowed),
    }
}

/// Returns the type of an address that is not public. An IPv4 address embedded in an IPv6 address
/// is checked itself.
fn special_address(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => special_v4(address),
        IpAddr::V6(address) => match embedded_v4(address) {
            Some(inner) => special_v4(inner),
            None => {
                let bits = address.to_bits();
                let contains_address = |(net, length, _): &&(Ipv6Addr, u32, &str)| {
                    (bits ^ net.to_bits()) >> (128 - length) == 0
                };
                NON_PUBLIC_IPV6_NETWORKS
                    .iter()
                    .find(contains_address)
                    .map(|row| row.2)
            }
        },
    }
}

/// Returns the kind of a special address; `None` for public addresses.
fn special_v4(address: Ipv4Addr) -> Option<&'static str> {
    let bits = address.to_bits();
    let inside =
        |(net, length, _): &&(Ipv4Addr, u32, &str)| (bits ^ net.to_bits()) >> (32 - length) == 0;
    NON_PUBLIC_IPV4_NETWORKS
        .iter()
        .find(inside)
        .map(|row| row.2)
}

/// Returns the IPv4 address in a mapped, compatible, NAT64 or 6to4 address. `::` and `::1` contain
/// none.
fn embedded_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let segments = address.segments();
    let from =
        |high: u16, low: u16| Some(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)));
    match segments {
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => None,
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low] => from(high, low),
        [0, 0, 0, 0, 0xffff, 0, high, low] => from(high, low),
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => from(high, low),
        [0x2002, high, low, ..] => from(high, low),
        _ => None,
    }
}

const fn v4(a: u8, b: u8, c: u8, d: u8) -> Ipv4Addr {
    Ipv4Addr::new(a, b, c, d)
}

const fn v6(a: u16, b: u16) -> Ipv6Addr {
    Ipv6Addr::new(a, b, 0, 0, 0, 0, 0, 0)
}

/// IPv4 networks that are not public: IANA's special-purpose registry, and other cloud addresses.
const NON_PUBLIC_IPV4_NETWORKS: &[(Ipv4Addr, u32, &str)] = &[
    (v4(0, 0, 0, 0), 8, "an address of this host"),
    (v4(10, 0, 0, 0), 8, "a private address"),
    (v4(100, 64, 0, 0), 10, "a carrier-grade NAT address"),
    (v4(127, 0, 0, 0), 8, "a loopback address"),
    (v4(168, 63, 129, 16), 32, "a cloud metadata address"),
    (v4(169, 254, 0, 0), 16, "a link-local or metadata address"),
    (v4(172, 16, 0, 0), 12, "a private address"),
    (v4(192, 0, 0, 0), 24, "a reserved address"),
    (v4(192, 0, 2, 0), 24, "a documentation address"),
    (v4(192, 88, 99, 0), 24, "a 6to4 relay address"),
    (v4(192, 168, 0, 0), 16, "a private address"),
    (v4(198, 18, 0, 0), 15, "a benchmarking address"),
    (v4(198, 51, 100, 0), 24, "a documentation address"),
    (v4(203, 0, 113, 0), 24, "a documentation address"),
    (v4(224, 0, 0, 0), 4, "a multicast address"),
    (v4(240, 0, 0, 0), 4, "a reserved address"),
];

/// IPv6 networks that are not public.
const NON_PUBLIC_IPV6_NETWORKS: &[(Ipv6Addr, u32, &str)] = &[
    (Ipv6Addr::UNSPECIFIED, 128, "an address of this host"),
    (Ipv6Addr::LOCALHOST, 128, "a loopback address"),
    (
        Ipv6Addr::new(0x64, 0xff9b, 1, 0, 0, 0, 0, 0),
        48,
        "a local NAT64 address",
    ),
    (v6(0x100, 0), 64, "a discard address"),
    (v6(0x2001, 0), 23, "a reserved address"),
    (v6(0x2001, 0xdb8), 32, "a documentation address"),
    (v6(0x3fff, 0), 20, "a documentation address"),
    (v6(0x5f00, 0), 16, "a segment routing address"),
    (v6(0xfc00, 0), 7, "a private address"),
    (v6(0xfe80, 0), 10, "a link-local address"),
    (v6(0xfec0, 0), 10, "a site-local address"),
    (v6(0xff00, 0), 8, "a multicast address"),
];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(guard: &NetworkGuard, url: &str) -> Result<(), BlockedUrl> {
        guard.check(&Url::parse(url).unwrap())
    }

    #[test]
    fn nonpublic_addresses_are_blocked_in_every_notation() {
        let guard = NetworkGuard::default();
        let hosts = [
            "127.0.0.1",
            "127.1",
            "2130706433",
            "0x7f000001",
            "0177.0.0.1",
            "0",
            "10.1.2.3",
            "172.31.0.1",
            "192.168.0.1",
            "169.254.169.254",
            "100.100.100.200",
            "168.63.129.16",
            "224.0.0.1",
            "255.255.255.255",
            "[::]",
            "[::1]",
            "[::ffff:127.0.0.1]",
            "[::7f00:1]",
            "[64:ff9b::a9fe:a9fe]",
            "[64:ff9b:1::1]",
            "[2002:7f00:1::]",
            "[2002:c0a8:1::1]",
            "[fe80::1]",
            "[fd00:ec2::254]",
            "[ff02::1]",
            "[2001:0:1::1]",
        ];
        for host in hosts {
            let blocked = check(&guard, &format!("http://{host}/"));
            assert!(
                matches!(blocked, Err(BlockedUrl::Address { .. })),
                "{host}: {blocked:?}"
            );
        }
    }

    #[test]
    fn public_addresses_and_names_are_allowed() {
        let guard = NetworkGuard::default();
        for host in [
            "8.8.8.8",
            "172.32.0.1",
            "100.128.0.1",
            "[2606:4700::1]",
            "[::ffff:8.8.8.8]",
            "example.com",
        ] {
            assert_eq!(check(&guard, &format!("https://{host}/")), Ok(()), "{host}");
        }
    }

    #[test]
    fn only_http_and_https_urls_are_allowed() {
        let guard = NetworkGuard {
            allow_private_network: true,
            allow_hosts: Vec::new(),
        };
        for url in [
            "file:///etc/passwd",
            "ftp://example.com/",
            "data:text/plain,x",
            "gopher://example.com",
        ] {
            assert!(
                matches!(check(&guard, url), Err(BlockedUrl::Scheme(_))),
                "{url}"
            );
        }
        assert_eq!(check(&guard, "http://127.0.0.1/"), Ok(()));
    }

    #[test]
    fn hosts_in_allow_hosts_may_have_private_addresses() {
        let allow_hosts = vec![
            "10.0.0.5".to_owned(),
            "DB.internal".to_owned(),
            "*.corp.example".to_owned(),
        ];
        let guard = NetworkGuard {
            allow_private_network: false,
            allow_hosts,
        };
        let local = |host: &str| {
            only_allowed(
                &guard,
                host,
                [SocketAddr::from(([10, 0, 0, 9], 0))].into_iter(),
            )
            .is_ok()
        };
        assert!(
            local("db.internal")
                && local("db.internal.")
                && local("a.corp.example")
                && local("a.b.corp.example")
        );
        assert!(
            !local("corp.example")
                && !local("xcorp.example")
                && !local("other")
                && !local(".corp.example")
        );
        assert_eq!(check(&guard, "http://10.0.0.5/"), Ok(()));
        assert!(check(&guard, "http://10.0.0.6/").is_err());
    }

    #[test]
    fn only_public_addresses_of_a_host_name_are_kept() {
        let public = SocketAddr::from(([8, 8, 8, 8], 0));
        let private = SocketAddr::from(([10, 0, 0, 1], 0));
        let guard = NetworkGuard::default();
        assert_eq!(
            only_allowed(&guard, "h", [private, public].into_iter()),
            Ok(vec![public])
        );
        assert!(only_allowed(&guard, "h", [private].into_iter()).is_err());
        assert_eq!(only_allowed(&guard, "h", [].into_iter()), Ok(vec![]));
    }

    proptest! {
        /// An IPv4 address is checked equally in all its IPv6 forms.
        #[test]
        fn ipv4_addresses_embedded_in_ipv6_get_the_same_classification(bits: u32) {
            let plain = Ipv4Addr::from_bits(bits);
            let (high, low) = ((bits >> 16) as u16, bits as u16);
            let wrapped = [
                plain.to_ipv6_mapped(),
                Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low),
                Ipv6Addr::new(0x2002, high, low, 0, 0, 0, 0, 1),
            ];
            for wrapped in wrapped {
                prop_assert_eq!(special_address(IpAddr::V6(wrapped)), special_v4(plain));
            }
        }
    }
}
