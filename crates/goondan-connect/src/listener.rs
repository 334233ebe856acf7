//! A port of its own for one connection, where its platform can deliver events without `gdn serve`.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::routing::any;

use crate::desk::Desk;
use crate::platforms;

/// Listens on this machine alone, and hands every request to `path` in.
pub(crate) async fn listen(desk: &Arc<Desk>, port: u16, path: &str) -> Result<(), String> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let bound = tokio::net::TcpListener::bind(address).await;
    let listener = bound.map_err(|error| format!("It can't listen at {address}: {error}."))?;
    tracing::info!(
        connection = desk.bound.name,
        "a connection listens at http://{address}{path}"
    );
    let desk = Arc::clone(desk);
    let deliver = any(move |request: Request| platforms::request(Arc::clone(&desk), request));
    let served = axum::serve(listener, Router::new().route(path, deliver)).await;
    Err(served.err().map_or_else(
        || "its server has ended".to_owned(),
        |error| error.to_string(),
    ))
}
