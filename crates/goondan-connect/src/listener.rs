//! A separate port for one connection, for platforms that deliver events without `gdn serve`.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::routing::any;

use crate::connection_runtime::ConnectionRuntime;
use crate::platforms;

/// Listens on the loopback interface and handles every request to `path`.
pub(crate) async fn listen(
    runtime: &Arc<ConnectionRuntime>,
    port: u16,
    path: &str,
) -> Result<(), String> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let bound = tokio::net::TcpListener::bind(address).await;
    let listener =
        bound.map_err(|error| format!("The connection cannot listen at {address}: {error}."))?;
    tracing::info!(
        connection = runtime.bound.name,
        "connection listening at http://{address}{path}"
    );
    let runtime = Arc::clone(runtime);
    let deliver = any(move |request: Request| platforms::request(Arc::clone(&runtime), request));
    let served = axum::serve(listener, Router::new().route(path, deliver)).await;
    Err(served.err().map_or_else(
        || "the HTTP server of the connection stopped".to_owned(),
        |error| error.to_string(),
    ))
}
