//! Ends the connections of clients that do not read their responses.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// Waiting time after which the number of accepted bytes is checked.
const RATE_WINDOW: Duration = Duration::from_secs(60);
/// Number of bytes that a client must accept in each [`RATE_WINDOW`], which is 1 KiB per second.
const MIN_WINDOW_BYTES: u64 = 60 * 1024;

/// Stream whose writes fail with `TimedOut` if the client accepts no bytes within a time limit, or
/// fewer bytes than [`MIN_WINDOW_BYTES`] during [`RATE_WINDOW`].
///
/// The time counts only while bytes wait to be written. An idle event stream is not affected.
pub(crate) struct WriteTimeoutStream<S> {
    stream: S,
    limit: Duration,
    wait: Option<WriteWait>,
    window: WriteRateWindow,
}

/// Waits of a stream that are measured together. A stream without waits for [`RATE_WINDOW`] starts
/// a new window.
struct WriteRateWindow {
    /// Total waiting time.
    waited: Duration,
    /// Number of accepted bytes.
    accepted: u64,
    /// End of the last wait.
    end: Instant,
}

impl WriteRateWindow {
    fn starting_now() -> Self {
        WriteRateWindow {
            waited: Duration::ZERO,
            accepted: 0,
            end: Instant::now(),
        }
    }

    /// Adds a wait that ends now. Returns false if the client accepts too few bytes.
    fn add_wait(&mut self, start: Instant) -> bool {
        if start.duration_since(self.end) >= RATE_WINDOW {
            *self = WriteRateWindow::starting_now();
        }
        self.end = Instant::now();
        self.waited += self.end.duration_since(start);
        if self.waited < RATE_WINDOW {
            return true;
        }
        let is_enough = self.accepted >= MIN_WINDOW_BYTES;
        *self = WriteRateWindow::starting_now();
        is_enough
    }
}

/// A write that waits.
struct WriteWait {
    start: Instant,
    timer: Pin<Box<Sleep>>,
}

impl<S> WriteTimeoutStream<S> {
    pub(crate) fn new(stream: S, limit: Duration) -> Self {
        WriteTimeoutStream {
            stream,
            limit,
            wait: None,
            window: WriteRateWindow::starting_now(),
        }
    }

    /// Starts the timer if `progress` is pending, and stops it otherwise.
    fn update_timer<T>(
        &mut self,
        cx: &mut Context<'_>,
        progress: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        let limit = self.limit;
        if progress.is_pending() {
            let wait = self.wait.get_or_insert_with(|| WriteWait {
                start: Instant::now(),
                timer: Box::pin(tokio::time::sleep(limit)),
            });
            ready!(wait.timer.as_mut().poll(cx));
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        let is_too_slow = |wait: WriteWait| !self.window.add_wait(wait.start);
        if self.wait.take().is_some_and(is_too_slow) {
            Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
        } else {
            progress
        }
    }

    /// Counts the bytes of a write, and limits it.
    fn limit_write(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(count)) = &written {
            self.window.accepted = self.window.accepted.saturating_add(*count as u64);
        }
        self.update_timer(cx, written)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeoutStream<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeoutStream<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write(cx, bytes);
        this.limit_write(cx, written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write_vectored(cx, parts);
        this.limit_write(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let flushed = Pin::new(&mut this.stream).poll_flush(cx);
        this.update_timer(cx, flushed)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let closed = Pin::new(&mut this.stream).poll_shutdown(cx);
        this.update_timer(cx, closed)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::time::{Instant, sleep};

    use super::*;

    const LIMIT: Duration = Duration::from_secs(30);

    /// Returns a stream that buffers eight bytes and the opposite end of the pipe.
    fn pair() -> (WriteTimeoutStream<DuplexStream>, DuplexStream) {
        let (near, far) = duplex(8);
        (WriteTimeoutStream::new(near, LIMIT), far)
    }

    // The tests use a paused clock, so they take no real time.

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_nothing_is_timed_out() {
        let (mut stream, _far) = pair();
        let start = Instant::now();
        let error = stream.write_all(&[0; 9]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(start.elapsed() >= LIMIT);
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_client_receives_all_bytes() {
        let (mut stream, mut far) = pair();
        let bytes = vec![0; 300 * 1024];
        let reading = async {
            // More than 1 KiB per second.
            let mut page = [0; 30 * 1024];
            for _ in 0..10 {
                sleep(LIMIT - Duration::from_secs(1)).await;
                far.read_exact(&mut page).await.unwrap();
            }
        };
        let (written, ()) = tokio::join!(stream.write_all(&bytes), reading);
        written.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_single_bytes_is_timed_out() {
        let (mut stream, mut far) = pair();
        let start = Instant::now();
        let reading = async {
            let mut byte = [0];
            loop {
                sleep(LIMIT - Duration::from_secs(1)).await;
                if far.read_exact(&mut byte).await.is_err() {
                    break;
                }
            }
        };
        let writing = async {
            let error = stream.write_all(&[0; 1024]).await.unwrap_err();
            drop(stream);
            error
        };
        let (error, ()) = tokio::join!(writing, reading);
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(start.elapsed() < 20 * LIMIT);
    }

    /// Waits between writes do not count, even if each write is small.
    #[tokio::test(start_paused = true)]
    async fn a_stream_with_little_to_send_is_not_timed_out() {
        let (mut stream, mut far) = pair();
        for _ in 0..200 {
            // The ninth byte waits until the reader has read the first eight.
            let writing = stream.write_all(&[0; 9]);
            let reading = async {
                sleep(Duration::from_millis(500)).await;
                far.read_exact(&mut [0; 9]).await.unwrap();
            };
            let (written, ()) = tokio::join!(writing, reading);
            written.unwrap();
            sleep(10 * LIMIT).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_stream_is_not_timed_out() {
        let (mut stream, mut far) = pair();
        for _ in 0..3 {
            stream.write_all(&[0; 8]).await.unwrap();
            stream.flush().await.unwrap();
            sleep(10 * LIMIT).await;
            far.read_exact(&mut [0; 8]).await.unwrap();
        }
    }
}
