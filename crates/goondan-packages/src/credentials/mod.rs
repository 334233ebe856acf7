//! Credentials for registries: from the files of Docker and Podman, and from the environment. A
//! credential is sent only to its own host.

mod credential_helper;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

/// Value: `HOST=USER:PASSWORD`, separated by spaces.
const REGISTRY_AUTH_VARIABLE: &str = "GOONDAN_REGISTRY_AUTH";

/// A user name and a password.
#[derive(Clone, PartialEq, Eq)]
pub struct BasicCredentials {
    pub(crate) user: String,
    pub(crate) password: String,
}

impl fmt::Debug for BasicCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Basic({}, …)", self.user)
    }
}

/// Credentials by host.
#[derive(Debug, Clone, Default)]
pub struct RegistryCredentials {
    by_host: BTreeMap<String, BasicCredentials>,
    /// Credentials from the environment.
    stated: BTreeMap<String, BasicCredentials>,
    /// Names of credential helpers by host.
    helpers: BTreeMap<String, String>,
    /// Name of the credential helper for all other hosts.
    store: Option<String>,
    /// Directories of programs (`PATH`).
    path: String,
    /// URL of the default registry, with its token.
    registry: Option<(String, String)>,
}

/// The credentials for one registry.
#[derive(Debug, Clone, Default)]
pub(crate) struct HostCredentials {
    pub(crate) basic: Option<BasicCredentials>,
    /// Error of the credential helper.
    pub(crate) trouble: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct DockerConfig {
    auths: BTreeMap<String, DockerAuth>,
    cred_helpers: BTreeMap<String, String>,
    creds_store: Option<String>,
}

#[derive(Deserialize)]
struct DockerAuth {
    auth: Option<String>,
}

impl RegistryCredentials {
    /// Reads the credentials from environment variables and the files they refer to.
    pub fn find(variable: &dyn Fn(&str) -> Option<String>) -> RegistryCredentials {
        let mut credentials = RegistryCredentials {
            path: variable("PATH").unwrap_or_default(),
            ..RegistryCredentials::default()
        };
        let home = variable("HOME")
            .or_else(|| variable("USERPROFILE"))
            .map(PathBuf::from);
        let podman = variable("XDG_RUNTIME_DIR")
            .map(|folder| PathBuf::from(folder).join("containers/auth.json"));
        let docker = match variable("DOCKER_CONFIG") {
            Some(folder) => Some(PathBuf::from(folder).join("config.json")),
            None => home.map(|home| home.join(".docker/config.json")),
        };
        let files = [
            podman,
            docker,
            variable("REGISTRY_AUTH_FILE").map(PathBuf::from),
        ];
        // Later files have precedence.
        for text in files
            .into_iter()
            .flatten()
            .filter_map(|path| std::fs::read_to_string(path).ok())
        {
            credentials.read(&text);
        }
        for entry in variable(REGISTRY_AUTH_VARIABLE)
            .unwrap_or_default()
            .split_whitespace()
        {
            if let Some((host, (user, password))) = entry
                .split_once('=')
                .and_then(|(host, rest)| Some((host, rest.split_once(':')?)))
            {
                credentials.stated.insert(
                    host.to_lowercase(),
                    BasicCredentials {
                        user: user.into(),
                        password: password.into(),
                    },
                );
            }
        }
        credentials.registry = variable("GOONDAN_REGISTRY").zip(variable("GOONDAN_REGISTRY_TOKEN"));
        credentials
    }

    /// Reads the logins of a Docker configuration file; ignores text that is not valid.
    fn read(&mut self, text: &str) {
        // A file in another format contains no credentials.
        let config: DockerConfig = serde_json::from_str(text).unwrap_or_default();
        self.helpers.extend(
            config
                .cred_helpers
                .into_iter()
                .map(|(host, name)| (host_of(&host), name)),
        );
        self.store = config
            .creds_store
            .filter(|name| !name.is_empty())
            .or(self.store.take());
        for (host, auth) in config.auths {
            let decoded = auth.auth.and_then(|auth| STANDARD.decode(auth.trim()).ok());
            let decoded = decoded.and_then(|bytes| String::from_utf8(bytes).ok());
            if let Some((user, password)) = decoded.as_deref().and_then(|text| text.split_once(':'))
            {
                let password = password.trim_end_matches('\0').to_owned();
                self.by_host.insert(
                    host_of(&host),
                    BasicCredentials {
                        user: user.to_owned(),
                        password,
                    },
                );
            }
        }
    }

    /// Returns the credentials for `host`, which may include a port. The environment has precedence
    /// over credential helpers, and those over files.
    pub(crate) async fn for_host(&self, host: &str) -> HostCredentials {
        let host = host.to_lowercase();
        if let Some(basic) = self.stated.get(&host) {
            return HostCredentials {
                basic: Some(basic.clone()),
                trouble: None,
            };
        }
        let written = self.by_host.get(&host).cloned();
        let Some(helper) = self.helpers.get(&host).or(self.store.as_ref()) else {
            return HostCredentials {
                basic: written,
                trouble: None,
            };
        };
        match credential_helper::read_credentials(helper, &host, &self.path).await {
            Ok(from_helper) => HostCredentials {
                basic: from_helper.or(written),
                trouble: None,
            },
            Err(trouble) => HostCredentials {
                basic: written,
                trouble: Some(trouble),
            },
        }
    }

    /// Returns the token for the registry at `address`; `None` if the user set it for another
    /// registry.
    pub(crate) fn token_of(&self, address: &str) -> Option<&str> {
        let (registry, token) = self.registry.as_ref()?;
        (registry.trim_end_matches('/') == address.trim_end_matches('/')).then_some(token.as_str())
    }
}

/// Returns the registry host for a key of Docker's config file, such as
/// `https://index.docker.io/v1/`. The config names Docker Hub by other hosts than its registry API.
fn host_of(config_key: &str) -> String {
    let host = config_key
        .trim_start_matches("https://")
        .trim_start_matches("http://");
    let host = host.split('/').next().unwrap_or(host).to_lowercase();
    match host.as_str() {
        "index.docker.io" | "docker.io" => "registry-1.docker.io".to_owned(),
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn credentials_are_used_only_for_their_host() {
        let variables = |name: &str| match name {
            "GOONDAN_REGISTRY_AUTH" => Some("Ghcr.io=me:a:b  broken other=x".to_owned()),
            "GOONDAN_REGISTRY" => Some("https://r.example/".to_owned()),
            "GOONDAN_REGISTRY_TOKEN" => Some("t".to_owned()),
            _ => None,
        };
        let mut known = RegistryCredentials::find(&variables);
        known.read(r#"{"auths": {"https://index.docker.io/v1/": {"auth": "dTpw"}, "x": {}}}"#);
        known.read("[");
        let basic_of = async |host: &str| known.for_host(host).await.basic;
        assert_eq!(
            basic_of("ghcr.io")
                .await
                .map(|basic| basic.password)
                .as_deref(),
            Some("a:b")
        );
        assert_eq!(
            basic_of("registry-1.docker.io")
                .await
                .map(|basic| basic.user)
                .as_deref(),
            Some("u")
        );
        assert_eq!(
            (basic_of("evil.ghcr.io").await, basic_of("x").await),
            (None, None)
        );
        assert_eq!(
            (
                known.token_of("https://r.example"),
                known.token_of("https://r.example.evil")
            ),
            (Some("t"), None)
        );
        assert!(!format!("{:?}", known.for_host("ghcr.io").await).contains("a:b"));
    }

    #[cfg(unix)]
    fn write_helper(folder: &std::path::Path, name: &str, script: &str) {
        use std::os::unix::fs::PermissionsExt as _;
        let path = folder.join(format!("docker-credential-{name}"));
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn docker_credential_helpers_provide_credentials() {
        let folder = tempfile::tempdir().unwrap();
        // The helper returns the requested server as the user name.
        write_helper(
            folder.path(),
            "all",
            r#"test "$1" = get && read -r s; printf '{"Username":"%s","Secret":"kept"}' "$s""#,
        );
        write_helper(
            folder.path(),
            "none",
            "echo credentials not found in native keychain; exit 1",
        );
        write_helper(folder.path(), "odd", "echo hunter2");
        write_helper(
            folder.path(),
            "locked",
            r"printf 'it is \033[2J locked'; exit 2",
        );
        write_helper(
            folder.path(),
            "token",
            r#"echo '{"Username":"<token>","Secret":"kept"}'"#,
        );
        let path = format!("relative:{}", folder.path().display());
        let variables = |name: &str| match name {
            "PATH" => Some(path.clone()),
            "GOONDAN_REGISTRY_AUTH" => Some("stated.example=me:mine".to_owned()),
            _ => None,
        };
        let mut known = RegistryCredentials::find(&variables);
        known.read(
            r#"{"credsStore": "all", "auths": {"none.example": {"auth": "dTpw"}}, "credHelpers":
                {"none.example": "none", "odd.example": "odd", "locked.example": "locked", "token.example": "token",
                 "absent.example": "absent", "stated.example": "odd", "path.example": "../odd"}}"#,
        );
        let user = async |host: &str| known.for_host(host).await.basic.map(|basic| basic.user);
        assert_eq!(
            user("Some.example:5000").await.as_deref(),
            Some("some.example:5000")
        );
        assert_eq!(
            user("registry-1.docker.io").await.as_deref(),
            Some("https://index.docker.io/v1/")
        );
        assert_eq!(user("stated.example").await.as_deref(), Some("me"));
        assert_eq!(
            user("none.example").await.as_deref(),
            Some("u"),
            "the configured credentials are used if the helper has none"
        );
        for (host, words) in [
            ("odd.example", "returned an invalid answer"),
            ("locked.example", "failed: it is \\u{1b}[2J locked"),
            ("token.example", "identity token"),
            ("absent.example", "configuration uses, is not in PATH"),
            ("path.example", "is not the name of a credential helper"),
        ] {
            let HostCredentials { basic, trouble } = known.for_host(host).await;
            let trouble = trouble.unwrap();
            assert!(
                basic.is_none() && trouble.contains(words) && !trouble.contains("hunter2"),
                "{host}: {trouble}"
            );
        }
    }
}
