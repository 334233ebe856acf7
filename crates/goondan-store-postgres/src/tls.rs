//! TLS through rustls, with the system's certificates.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;

/// Creates connections that are encrypted if the server supports it.
#[derive(Clone)]
pub(crate) struct PostgresTls(Arc<ClientConfig>);

impl PostgresTls {
    /// Returns the shared configuration of the process. The first call reads the system's
    /// certificates, which is slow.
    pub(crate) fn shared() -> Self {
        static CONFIG: OnceLock<Arc<ClientConfig>> = OnceLock::new();
        PostgresTls(Arc::clone(
            CONFIG.get_or_init(|| Arc::new(goondan_tls::with_system_certificates())),
        ))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> MakeTlsConnect<S> for PostgresTls {
    type Stream = EncryptedStream<S>;
    type TlsConnect = ServerTlsConnector;
    type Error = io::Error;

    fn make_tls_connect(&mut self, host: &str) -> io::Result<ServerTlsConnector> {
        // The client also calls this for a socket, whose path is not a valid name. That connection
        // is not encrypted.
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other);
        Ok(ServerTlsConnector {
            name,
            connector: TlsConnector::from(Arc::clone(&self.0)),
        })
    }
}

pub(crate) struct ServerTlsConnector {
    name: io::Result<ServerName<'static>>,
    connector: TlsConnector,
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> TlsConnect<S> for ServerTlsConnector {
    type Stream = EncryptedStream<S>;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<EncryptedStream<S>>>;

    fn connect(self, stream: S) -> Self::Future {
        Box::pin(async move {
            Ok(EncryptedStream(
                self.connector.connect(self.name?, stream).await?,
            ))
        })
    }
}

pub(crate) struct EncryptedStream<S>(tokio_rustls::client::TlsStream<S>);

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for EncryptedStream<S> {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for EncryptedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, into)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for EncryptedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
