//! Obtains, stores and renews tokens for web servers.
//!
//! A token belongs to a server and to a project: another project that uses the same server needs
//! its own login. Tokens are in files below the state root that only the user can read. Renewing a
//! token requires a lock on a file next to it. Otherwise two renewals could look like a stolen
//! token to the authorization server.

use goondan_spec::Code;
use goondan_spec::codes::page_url;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use rmcp::transport::auth::{
    AuthError, AuthorizationManager, AuthorizationMetadata, AuthorizationRequest,
    AuthorizationSession, CredentialRefreshGuard, CredentialStore, InMemoryStateStore,
    OAuthClientConfig, StateStore, StoredAuthorizationState, StoredCredentials,
    WWWAuthenticateParams,
};
use sha2::{Digest, Sha256};

use crate::authorization_server;
use crate::codes::{self, error};
use crate::definition::McpServerDefinition;
use goondan_core::file_lock::FileLock;
use goondan_core::ids::hex;
use goondan_core::ports::tool::HandlerError;
use goondan_core::private_files;
use goondan_core::redact::SecretRedactor;
use goondan_spec::Secret;

use crate::spawn_port::ServerConnectOptions;

/// Directory of tokens below this crate's directory.
const TOKEN_FOLDER: &str = "tokens";
/// Client name for authorization servers.
const CLIENT_NAME: &str = "Goondan";
/// Maximum time to wait for the user.
const CONSENT_TIMEOUT: Duration = Duration::from_secs(10 * 60);
/// Maximum time to wait for another process that renews the token.
const RENEWAL_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum size of a token file in bytes.
const MAX_TOKEN_FILE_BYTES: u64 = 1 << 20;

/// Opens a web page for the user's consent.
#[async_trait]
pub trait ConsentBrowser: Send + Sync {
    /// URL to which the page redirects.
    fn redirect_uri(&self) -> String;

    /// Opens `page`, and returns the URL that the user was redirected to.
    ///
    /// # Errors
    ///
    /// Fails with the reason as a sentence if the user was not redirected.
    async fn visit(&self, page: &str) -> Result<String, String>;
}

/// Files that store the tokens for one server and one project.
#[derive(Debug, Clone)]
pub(crate) struct TokenFile {
    path: PathBuf,
    /// Masks every secret of the file and of a login.
    redactor: SecretRedactor,
}

impl TokenFile {
    /// Returns the token file for the server of `definition`. Only web servers have one.
    pub(crate) fn for_server(
        options: &ServerConnectOptions,
        definition: &McpServerDefinition,
    ) -> Option<TokenFile> {
        let mut hash = Sha256::new();
        for part in [
            definition.project.to_string_lossy().as_ref(),
            definition.url()?,
        ] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        let name = hex(&hash.finalize()[..16]);
        Some(TokenFile {
            path: options.folder.join(TOKEN_FOLDER).join(name),
            redactor: options.redactor.clone(),
        })
    }

    /// Masks a secret of a login from now on, before the server can repeat it.
    fn mask(&self, secret: &str) {
        self.redactor.add_likely_secrets([Secret::new(secret)]);
    }

    /// Masks the tokens of `credentials`, including tokens in fields that are not standardized.
    fn mask_credentials(&self, credentials: &StoredCredentials) {
        let tokens = serde_json::to_value(&credentials.token_response).unwrap_or_default();
        let fields = tokens.as_object().into_iter().flatten();
        for (_, value) in fields.filter(|(name, _)| name.ends_with("token")) {
            self.mask(value.as_str().unwrap_or_default());
        }
    }

    /// Path of the stored credentials.
    fn file(&self) -> PathBuf {
        self.path.with_extension("json")
    }

    /// Path of the stored `WWW-Authenticate` challenge.
    fn challenge_file(&self) -> PathBuf {
        self.path.with_extension("challenge")
    }

    /// Path of the secret of a client that gdn registered.
    fn client_secret_file(&self) -> PathBuf {
        self.path.with_extension("client")
    }

    /// Masks the secret of a registered client, and stores it so that later processes mask it.
    fn record_client_secret(&self, secret: &str) {
        self.mask(secret);
        if let Err(error) = self.write(&self.client_secret_file(), secret.as_bytes()) {
            tracing::warn!(
                %error,
                "could not store the secret of an OAuth client; later processes do not mask it"
            );
        }
    }

    /// Returns true if the user is logged in.
    pub(crate) fn exists(&self) -> bool {
        self.file().exists()
    }

    /// Deletes the tokens; returns false if there are none.
    pub(crate) fn delete(&self) -> io::Result<bool> {
        let _ = fs::remove_file(self.challenge_file());
        let _ = fs::remove_file(self.client_secret_file());
        match fs::remove_file(self.file()) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Stores the `WWW-Authenticate` challenge for the next login. A failure is only logged.
    pub(crate) fn record_challenge(&self, challenge: &str) {
        if let Err(error) = self.write(&self.challenge_file(), challenge.as_bytes()) {
            tracing::debug!(
                %error,
                "could not store the login challenge of an MCP server; the next login requests it \
                    again"
            );
        }
    }

    /// Returns the stored `WWW-Authenticate` challenge, if any.
    fn stored_challenge(&self) -> Option<String> {
        fs::read_to_string(self.challenge_file()).ok()
    }

    /// Writes the credentials or the challenge to `file` atomically. Creates the token directory if
    /// needed.
    fn write(&self, file: &Path, content: &[u8]) -> io::Result<()> {
        if let Some(token_directory) = file.parent() {
            private_files::create_directory(token_directory)?;
        }
        private_files::replace(file, content)
    }

    /// Reads the stored credentials; `None` if the user is not logged in.
    fn read(&self) -> io::Result<Option<StoredCredentials>> {
        match fs::metadata(self.file()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
            Ok(about) if about.len() > MAX_TOKEN_FILE_BYTES => {
                return Err(io::Error::other("the file is too large"));
            }
            Ok(_) => {}
        }
        let credentials: StoredCredentials =
            serde_json::from_slice(&fs::read(self.file())?).map_err(io::Error::other)?;
        self.mask_credentials(&credentials);
        if let Ok(secret) = fs::read_to_string(self.client_secret_file()) {
            self.mask(&secret);
        }
        Ok(Some(credentials))
    }
}

/// Converts an error of the token file to an error of the OAuth library.
fn store_error(error: impl std::fmt::Display) -> AuthError {
    AuthError::CredentialStoreError(error.to_string())
}

#[async_trait]
impl CredentialStore for TokenFile {
    async fn load(&self) -> Result<Option<StoredCredentials>, AuthError> {
        self.read().map_err(store_error)
    }

    async fn save(&self, credentials: StoredCredentials) -> Result<(), AuthError> {
        self.mask_credentials(&credentials);
        let content = serde_json::to_vec(&credentials).map_err(store_error)?;
        self.write(&self.file(), &content).map_err(store_error)
    }

    async fn clear(&self) -> Result<(), AuthError> {
        self.delete().map(|_| ()).map_err(store_error)
    }

    async fn acquire_refresh_guard(&self) -> Result<Option<CredentialRefreshGuard>, AuthError> {
        let path = self.path.clone();
        let locked = tokio::task::spawn_blocking(move || FileLock::of_file(&path, RENEWAL_TIMEOUT));
        Ok(Some(CredentialRefreshGuard::new(
            locked.await.map_err(store_error)?.map_err(store_error)?,
        )))
    }
}

/// Returns the user's authorization for the server of `definition`; `None` if the user is not
/// logged in.
pub(crate) async fn load_authorization(
    definition: &McpServerDefinition,
    tokens: &TokenFile,
) -> Result<Option<AuthorizationManager>, HandlerError> {
    let Some(url) = definition.url().filter(|_| tokens.exists()) else {
        return Ok(None);
    };
    // The library's HTTP client needs a default TLS provider.
    goondan_tls::be_default();
    let failed = |cause: AuthError| login_error(definition, &cause);
    let stored = tokens.load().await.map_err(failed)?;
    let Some(stored) = stored.filter(|stored| stored.token_response.is_some()) else {
        return Ok(None);
    };
    let mut manager = AuthorizationManager::new(url).await.map_err(failed)?;
    manager.set_credential_store(tokens.clone());
    let metadata = manager.resolve_metadata().await.map_err(failed)?.metadata;
    authorization_server::check(definition, &metadata).await?;
    if stored.issuer.is_some() && metadata.issuer.is_none() {
        // The library compares issuers only if both are known.
        return Ok(None);
    }
    manager.set_metadata(metadata);
    if !manager.initialize_from_store().await.map_err(failed)? {
        return Ok(None);
    }
    tokens.mask(definition.client_secret.as_deref().unwrap_or_default());
    if let (Some(id), Some(secret)) = (&definition.oauth.client_id, &definition.client_secret) {
        let config = OAuthClientConfig::new(id.as_str(), "http://127.0.0.1/callback")
            .with_client_secret(secret.as_str());
        manager.configure_client(config).map_err(failed)?;
    }
    Ok(Some(manager))
}

/// Logs the user in to the server of `definition`. `challenge` comes from the refusal of an earlier
/// request.
pub(crate) async fn login(
    definition: &McpServerDefinition,
    tokens: &TokenFile,
    challenge: Option<String>,
    visitor: &dyn ConsentBrowser,
) -> Result<(), HandlerError> {
    // The library's HTTP client needs a default TLS provider.
    goondan_tls::be_default();
    let failed = |cause: AuthError| login_error(definition, &cause);
    let url = definition.url().unwrap_or_default();
    let mut manager = AuthorizationManager::new(url).await.map_err(failed)?;
    manager.set_credential_store(tokens.clone());
    manager.set_state_store(MaskingStateStore {
        states: InMemoryStateStore::new(),
        tokens: tokens.clone(),
    });
    tokens.mask(definition.client_secret.as_deref().unwrap_or_default());
    let challenge = tokens.stored_challenge().or(challenge);
    let mut request = request(definition, challenge.clone(), visitor.redirect_uri());
    let scopes = challenge
        .map(|challenge| extended_scopes(url, &challenge, tokens))
        .unwrap_or_default();
    if !scopes.is_empty() {
        request = request.with_scopes(scopes);
    }
    let resolved = manager.resolve_metadata_from_challenge(request.challenge.as_deref());
    let metadata = resolved.await.map_err(failed)?.metadata;
    authorization_server::check(definition, &metadata).await?;
    let session = start_session(manager, metadata, request, tokens)
        .await
        .map_err(failed)?;
    let redirect_url = visit_page(definition, session.get_authorization_url(), visitor).await?;
    if let Some(code) = redirect_parameter(&redirect_url, "code") {
        tokens.mask(&code);
    }
    session
        .handle_callback_url(&redirect_url)
        .await
        .map_err(failed)?;
    let _ = fs::remove_file(tokens.challenge_file());
    Ok(())
}

/// Starts a login at the authorization server of `metadata`. Registers a client if the request
/// names none, because the library does not return the secret of a client that it registers itself.
async fn start_session(
    mut manager: AuthorizationManager,
    metadata: AuthorizationMetadata,
    mut request: AuthorizationRequest,
    tokens: &TokenFile,
) -> Result<AuthorizationSession, AuthError> {
    let field = |name: &str| metadata.additional_fields.get(name);
    let takes_metadata_url =
        field("client_id_metadata_document_supported").is_some_and(|value| value == true);
    let is_known = request.client_id.is_some()
        || (request.client_metadata_url.is_some() && takes_metadata_url);
    let has_offline_access = metadata
        .scopes_supported
        .iter()
        .flatten()
        .any(|scope| scope == "offline_access");
    manager.set_metadata(metadata);
    if !is_known {
        let mut scopes = match request.scopes.is_empty() {
            true => manager.select_scopes(None, &[]),
            false => request.scopes.clone(),
        };
        // The library adds this scope to the request of the login.
        if has_offline_access && !scopes.iter().any(|scope| scope == "offline_access") {
            scopes.push("offline_access".to_owned());
        }
        let scopes: Vec<&str> = scopes.iter().map(String::as_str).collect();
        let client = manager
            .register_client(CLIENT_NAME, &request.redirect_uri, &scopes)
            .await?;
        request = request.with_preregistered_client(client.client_id);
        if let Some(secret) = client.client_secret {
            tokens.record_client_secret(&secret);
            request = request.with_client_secret(secret);
        }
    }
    AuthorizationSession::new(manager, request)
        .await
        .map_err(|(_, error)| error)
}

/// Store of a login's state that masks the PKCE verifier.
struct MaskingStateStore {
    states: InMemoryStateStore,
    tokens: TokenFile,
}

#[async_trait]
impl StateStore for MaskingStateStore {
    async fn save(
        &self,
        csrf_token: &str,
        state: StoredAuthorizationState,
    ) -> Result<(), AuthError> {
        self.tokens.mask(&state.pkce_verifier);
        self.states.save(csrf_token, state).await
    }

    async fn load(&self, csrf_token: &str) -> Result<Option<StoredAuthorizationState>, AuthError> {
        self.states.load(csrf_token).await
    }

    async fn delete(&self, csrf_token: &str) -> Result<(), AuthError> {
        self.states.delete(csrf_token).await
    }
}

/// Opens the login page, and returns the URL to which it redirects. Fails if the page refuses.
async fn visit_page(
    definition: &McpServerDefinition,
    page: &str,
    visitor: &dyn ConsentBrowser,
) -> Result<String, HandlerError> {
    if !is_http_url(page) {
        let what = format_args!(
            "returned a login URL that is not an HTTP URL: {}",
            codes::escaped_error_text(page)
        );
        return Err(error(Code::MCP_AUTH, definition.name(), what));
    }
    let visited = tokio::time::timeout(CONSENT_TIMEOUT, visitor.visit(page)).await;
    let redirected = visited
        .unwrap_or_else(|_| Err("the login was not completed within ten minutes".to_owned()));
    let redirect_url = redirected.map_err(|why| {
        error(
            Code::MCP_AUTH,
            definition.name(),
            format_args!("could not be logged in to: {why}"),
        )
    })?;
    if let Some(refusal) = redirect_error(&redirect_url) {
        let what = format_args!("could not be logged in to: the login page returned `{refusal}`");
        let again = format!(
            "Run `gdn mcp login {}` again, and accept the request on the page.",
            definition.name()
        );
        return Err(error(Code::MCP_AUTH, definition.name(), what).suggest(again));
    }
    Ok(redirect_url)
}

/// Returns true for an `http` or `https` URL with a host. The server chooses the URL, and a URL of
/// another scheme could start a program on the user's machine.
fn is_http_url(page: &str) -> bool {
    url::Url::parse(page)
        .is_ok_and(|page| matches!(page.scheme(), "http" | "https") && page.has_host())
}

/// Returns the server's error message from the redirect URL; `None` if the login succeeded.
fn redirect_error(redirect_url: &str) -> Option<String> {
    let error = redirect_parameter(redirect_url, "error")?;
    let why = redirect_parameter(redirect_url, "error_description")
        .map(|why| format!(": {why}"))
        .unwrap_or_default();
    Some(codes::escaped_error_text(&format!("{error}{why}")))
}

/// Returns a query parameter of the redirect URL.
fn redirect_parameter(redirect_url: &str, parameter: &str) -> Option<String> {
    let redirect_url = url::Url::parse(redirect_url).ok()?;
    redirect_url
        .query_pairs()
        .find(|(name, _)| name == parameter)
        .map(|(_, value)| value.into_owned())
}

/// Returns the granted scopes and the newly required scopes, if the server requires more than it
/// granted. Otherwise returns an empty list.
fn extended_scopes(url: &str, challenge: &str, tokens: &TokenFile) -> Vec<String> {
    let Ok(base) = url::Url::parse(url) else {
        return Vec::new();
    };
    let required = WWWAuthenticateParams::parse(challenge, &base);
    let granted = tokens
        .read()
        .ok()
        .flatten()
        .map(|known| known.granted_scopes)
        .unwrap_or_default();
    if !required.is_insufficient_scope() || granted.is_empty() {
        return Vec::new();
    }
    let mut scopes = granted;
    for scope in required
        .scope
        .iter()
        .flat_map(|scopes| scopes.split_whitespace())
    {
        if !scopes.iter().any(|known| known == scope) {
            scopes.push(scope.to_owned());
        }
    }
    scopes
}

/// Creates the authorization request of a login.
fn request(
    definition: &McpServerDefinition,
    challenge: Option<String>,
    redirect_uri: String,
) -> AuthorizationRequest {
    let oauth = &definition.oauth;
    let mut request = AuthorizationRequest::new(redirect_uri).with_client_name(CLIENT_NAME);
    if !oauth.scopes.is_empty() {
        request = request.with_scopes(oauth.scopes.iter().map(String::as_str));
    }
    if let Some(id) = &oauth.client_id {
        request = request.with_preregistered_client(id);
    }
    if let Some(secret) = &definition.client_secret {
        request = request.with_client_secret(secret);
    }
    if let Some(url) = &oauth.client_metadata_url {
        request = request.with_client_metadata_url(url);
    }
    match challenge {
        Some(challenge) => request.with_challenge(challenge),
        None => request,
    }
}

/// Converts a failed login to an error for the user.
fn login_error(definition: &McpServerDefinition, cause: &AuthError) -> HandlerError {
    let name = definition.name();
    let mut text = cause.to_string();
    let mut source = std::error::Error::source(cause);
    while let Some(next) = source {
        text.push_str(&format!(": {next}"));
        source = next.source();
    }
    let error = error(
        Code::MCP_AUTH,
        name,
        format_args!(
            "could not be logged in to: {}",
            codes::escaped_error_text(&text)
        ),
    );
    let page = page_url("mcp.md");
    if text.to_lowercase().contains("registration") {
        return error.suggest(format!(
            "The server registers no clients by itself. The swarm operator can create a client there \
            and set `oauth.clientId` in `spec.mcp`. See {page}."
        ));
    }
    error.suggest(format!(
        "The swarm operator can try `gdn mcp login {name}`. See {page}."
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(folder: &Path) -> TokenFile {
        TokenFile {
            path: folder.join("tokens").join("abc"),
            redactor: SecretRedactor::new(),
        }
    }

    #[tokio::test]
    async fn saved_tokens_are_private_and_can_be_deleted() {
        let folder = tempfile::tempdir().unwrap();
        let tokens = tokens(folder.path());
        assert!(!tokens.exists() && tokens.load().await.is_ok_and(|known| known.is_none()));
        tokens
            .save(StoredCredentials::new(
                "me".to_owned(),
                None,
                vec!["read".to_owned()],
                None,
            ))
            .await
            .unwrap();
        let known = tokens.load().await.unwrap().unwrap();
        assert_eq!(
            (known.client_id.as_str(), known.granted_scopes.len()),
            ("me", 1)
        );
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
            assert_eq!(
                (mode(&tokens.file()), mode(tokens.file().parent().unwrap())),
                (0o600, 0o700)
            );
        }
        assert!(tokens.delete().unwrap() && !tokens.delete().unwrap() && !tokens.exists());
    }

    #[tokio::test]
    async fn a_later_process_masks_the_secret_of_a_registered_client() {
        let folder = tempfile::tempdir().unwrap();
        let registered = tokens(folder.path());
        registered.record_client_secret("secret-of-the-client");
        let credentials = StoredCredentials::new("me".to_owned(), None, Vec::new(), None);
        registered.save(credentials).await.unwrap();
        let later = tokens(folder.path());
        assert!(later.load().await.unwrap().is_some());
        assert_eq!(later.redactor.text("secret-of-the-client"), "***");
        assert!(later.delete().unwrap() && !later.client_secret_file().exists());
    }

    #[tokio::test]
    async fn only_one_process_refreshes_tokens_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let tokens = tokens(folder.path());
        tokens.record_challenge("Bearer");
        let first = tokens.acquire_refresh_guard().await.unwrap();
        let file = fs::File::open(tokens.path.with_extension("lock")).unwrap();
        assert!(file.try_lock().is_err());
        drop(first);
        assert!(file.try_lock().is_ok());
    }

    #[test]
    fn a_denied_login_reports_the_error_description() {
        let back = "http://127.0.0.1:1/callback?error=access_denied&error_description=She+said+%1b%5B31mno&state=x";
        assert_eq!(
            redirect_error(back).as_deref(),
            Some("access_denied: She said \\u{1b}[31mno")
        );
        assert_eq!(
            redirect_error("http://127.0.0.1:1/callback?code=x&state=y"),
            None
        );
    }

    #[test]
    fn only_http_urls_are_opened_in_the_browser() {
        for page in ["https://a.example/authorize?x=y", "http://127.0.0.1:1/"] {
            assert!(is_http_url(page), "{page}");
        }
        for page in [
            "file:///usr/share/x.desktop",
            "vscode://x",
            "smb://evil/x",
            "javascript:x",
            "\\\\evil\\x",
            "-x",
            "",
        ] {
            assert!(!is_http_url(page), "{page}");
        }
    }

    #[tokio::test]
    async fn missing_scopes_are_requested_together_with_granted_scopes() {
        let folder = tempfile::tempdir().unwrap();
        let tokens = tokens(folder.path());
        let wanted = "Bearer error=\"insufficient_scope\", scope=\"read write\"";
        assert_eq!(
            extended_scopes("https://a.example", wanted, &tokens),
            Vec::<String>::new()
        );
        tokens
            .save(StoredCredentials::new(
                "me".to_owned(),
                None,
                vec!["read".to_owned()],
                None,
            ))
            .await
            .unwrap();
        assert_eq!(
            extended_scopes("https://a.example", wanted, &tokens),
            ["read", "write"]
        );
        assert_eq!(
            extended_scopes("https://a.example", "Bearer scope=\"write\"", &tokens),
            Vec::<String>::new()
        );
    }
}
