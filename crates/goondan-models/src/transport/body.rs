//! Request bodies that share their bytes with other requests.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};

/// A body of shared pieces, whose length is known.
pub(crate) struct SharedBody {
    pieces: std::vec::IntoIter<Bytes>,
    /// Bytes in `pieces`.
    left: u64,
}

impl SharedBody {
    pub(crate) fn new(pieces: Vec<Bytes>) -> Self {
        let remaining_bytes = pieces.iter().map(|piece| piece.len() as u64).sum();
        SharedBody {
            pieces: pieces.into_iter(),
            left: remaining_bytes,
        }
    }

    /// Returns the whole body as a string; `None` if it is longer than `max_bytes`.
    pub(crate) fn text(&self, max_bytes: usize) -> Option<String> {
        let is_short = usize::try_from(self.left).is_ok_and(|bytes| bytes <= max_bytes);
        let bytes = || self.pieces.as_slice().concat();
        is_short.then(|| String::from_utf8_lossy(&bytes()).into_owned())
    }
}

impl http_body::Body for SharedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = self.pieces.next();
        self.left -= piece.as_ref().map_or(0, |piece| piece.len() as u64);
        Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
