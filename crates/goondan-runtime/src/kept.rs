//! Results of turns that are kept for whoever may ask for them again.
//!
//! Few are ever asked for, so they are kept as they are written, which takes a fourth of the memory; and one behind another.
//! Thousands of small pieces, each of which stays for ten thousand turns, would lie among those that stay for one, and keep
//! the memory between them from being given back.

use std::io;

use bytes::{Bytes, BytesMut};

use crate::event::TurnResult;

/// So many bytes lie in one piece.
const PAGE: usize = 64 * 1024;

/// What is larger lies alone.
const LARGE: usize = PAGE / 8;

/// A result that is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptResult(Bytes);

impl KeptResult {
    /// How much memory it takes, in bytes.
    pub fn size(&self) -> usize {
        self.0.len()
    }

    /// The result. An error where what a model made up nests deeper than JSON is read.
    pub fn decode(&self) -> serde_json::Result<TurnResult> {
        serde_json::from_slice(&self.0)
    }
}

/// Where things are kept. What is put here stays for as long as somebody has it, and a page is written again when everything
/// is gone that was put there.
#[derive(Debug, Default)]
pub struct Shelf {
    /// The free rest of the page that is written.
    page: Option<BytesMut>,
    /// The ends of the pages before it.
    full: Vec<BytesMut>,
    /// A result, while it is written.
    encoded: Vec<u8>,
}

impl Shelf {
    /// Keeps a result.
    pub fn put(&mut self, result: &TurnResult) -> KeptResult {
        let mut encoded = std::mem::take(&mut self.encoded);
        encoded.clear();
        // In the store it is written the same way.
        serde_json::to_writer(&mut encoded, result).expect("every part of a result has a form in JSON");
        let kept = self.put_bytes(&encoded);
        encoded.shrink_to(LARGE);
        self.encoded = encoded;
        KeptResult(kept)
    }

    /// Keeps a short text.
    pub(crate) fn put_text(&mut self, text: &str) -> Bytes {
        self.put_bytes(text.as_bytes())
    }

    fn put_bytes(&mut self, bytes: &[u8]) -> Bytes {
        if bytes.len() > LARGE {
            return Bytes::copy_from_slice(bytes);
        }
        let page = match &mut self.page {
            Some(page) if page.capacity() >= bytes.len() => page,
            _ => self.turn_page(),
        };
        page.extend_from_slice(bytes);
        page.split().freeze()
    }

    fn turn_page(&mut self) -> &mut BytesMut {
        let next = self.free_page().unwrap_or_else(|| BytesMut::with_capacity(PAGE));
        self.full.extend(self.page.take());
        self.page.insert(next)
    }

    /// A page of which nothing is left. Others of that kind are given back.
    fn free_page(&mut self) -> Option<BytesMut> {
        let mut free = self.full.extract_if(.., |page| page.try_reclaim(PAGE));
        let page = free.next();
        free.for_each(drop);
        page
    }
}

/// How much memory a result would take.
pub(crate) fn size_of(result: &TurnResult) -> usize {
    let mut count = Count(0);
    serde_json::to_writer(&mut count, result).expect("every part of a result has a form in JSON");
    count.0
}

/// Counts what is written.
struct Count(usize);

impl io::Write for Count {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::suite::samples::{event, instance, result};

    #[test]
    fn what_is_kept_comes_back_as_it_was() {
        let results: Vec<TurnResult> =
            (0..2_000).map(|number| result(&event(&format!("e{number}"), &instance("k")))).collect();
        let mut shelf = Shelf::default();
        let kept: Vec<KeptResult> = results.iter().map(|result| shelf.put(result)).collect();
        for (kept, result) in kept.iter().zip(&results) {
            assert_eq!((kept.decode().unwrap(), kept.size()), (result.clone(), size_of(result)));
        }
    }

    #[test]
    fn it_lies_in_pages_and_nothing_large_does() {
        let mut shelf = Shelf::default();
        let texts: Vec<Bytes> = (0..4 * PAGE / 16).map(|_| shelf.put_text("sixteen letters!")).collect();
        let adjoining = texts.windows(2).filter(|pair| pair[0].as_ptr_range().end == pair[1].as_ptr()).count();
        assert!(adjoining >= texts.len() - 5, "{adjoining} of {}", texts.len());
        assert_eq!(shelf.put_text(&"x".repeat(2 * PAGE)).len(), 2 * PAGE);
        assert_eq!(shelf.put_text("x"), "x");
        assert!(shelf.page.is_some_and(|page| page.capacity() > PAGE / 2) && shelf.full.len() <= 5);
    }

    #[test]
    fn pages_are_written_again_and_those_that_are_too_many_are_given_back() {
        let mut shelf = Shelf::default();
        let long = "x".repeat(1024);
        let mut lasting = vec![shelf.put_text("it stays")];
        let mut held = std::collections::VecDeque::new();
        for _ in 0..40 * PAGE / long.len() {
            held.push_back(shelf.put_text(&long));
            if held.len() > 4 * PAGE / long.len() {
                held.pop_front();
            }
        }
        assert!(shelf.full.len() <= 7, "{}: four are in use, and the one that something stays on", shelf.full.len());
        held.clear();
        lasting.extend((0..2 * PAGE / long.len()).map(|_| shelf.put_text(&long)));
        assert!(shelf.full.len() <= 3, "{}", shelf.full.len());
        assert_eq!(lasting[0], "it stays");
    }
}
