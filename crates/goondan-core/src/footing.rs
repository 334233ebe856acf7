//! Answers that a turn stands on before they are on disk.
//!
//! A turn that waits for another agent goes on as soon as the record that ends the other turn is written: a kill does not take
//! it any more, and it is on its way to the disk. If the power fails before it gets there, nothing that the waiting turn made
//! of the answer may count. So the turn notes which answers it stands on; its journal keeps that with each outcome; and
//! nothing that others see, nor its own end, comes before those answers are on disk ([`Footing::secure`]).

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::ports::store::{OnDurable, StoreError};

/// Tells whether something is on disk by now.
#[derive(Debug, Clone)]
pub struct Durable(watch::Receiver<Option<Result<(), StoreError>>>);

impl Durable {
    /// What the store calls, and what waits for that.
    pub fn new() -> (OnDurable, Durable) {
        let (sender, receiver) = watch::channel(None);
        // Nobody may be interested.
        (Box::new(move |written| drop(sender.send(Some(written)))), Durable(receiver))
    }

    fn is_there(&self) -> bool {
        matches!(*self.0.borrow(), Some(Ok(())))
    }

    /// Waits until it is on disk, or could not be put there.
    pub async fn wait(mut self) -> Result<(), StoreError> {
        let told = self.0.wait_for(Option::is_some).await.ok().and_then(|told| told.clone());
        told.unwrap_or_else(|| Err(StoreError { message: "the inbox was closed".to_owned() }))
    }
}

/// The answers that a turn stands on.
#[derive(Debug, Default)]
pub struct Footing {
    /// Events of which it was known when the turn began that they are handled, on disk. Only a turn that is resumed asks.
    known: HashSet<String>,
    /// Events whose answers the turn got, and whose ends may not be on disk yet.
    open: Mutex<Vec<(String, Durable)>>,
}

impl Footing {
    /// That of a turn that begins, or begins again, while these events are handled.
    pub fn new(known: HashSet<String>) -> Self {
        Footing { known, open: Mutex::default() }
    }

    fn open(&self) -> MutexGuard<'_, Vec<(String, Durable)>> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|(_, durable)| !durable.is_there());
        open
    }

    /// The turn gets the answer to that event.
    pub fn stand_on(&self, event_id: String, durable: Durable) {
        self.open().push((event_id, durable));
    }

    /// The events whose answers the turn stands on, and which may be lost if the power fails now.
    pub fn uncertain(&self) -> Vec<String> {
        self.open().iter().map(|(event_id, _)| event_id.clone()).collect()
    }

    /// Whether something counts that stands on the answers to these events.
    pub fn holds(&self, event_ids: &[String]) -> bool {
        event_ids.iter().all(|event_id| self.known.contains(event_id))
    }

    /// Waits until all that the turn stands on is on disk.
    pub async fn secure(&self) -> Result<(), StoreError> {
        let open: Vec<Durable> = self.open().iter().map(|(_, durable)| durable.clone()).collect();
        for durable in open {
            durable.wait().await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_answer_is_uncertain_until_it_is_on_disk() {
        let footing = Footing::default();
        let ((on_disk, first), (failed, second)) = (Durable::new(), Durable::new());
        footing.stand_on("one".to_owned(), first);
        footing.stand_on("two".to_owned(), second);
        assert_eq!(footing.uncertain(), ["one", "two"]);
        on_disk(Ok(()));
        assert_eq!(footing.uncertain(), ["two"]);
        failed(Err(StoreError { message: "full".to_owned() }));
        assert_eq!(footing.secure().await.unwrap_err().message, "full");
        assert_eq!(footing.uncertain(), ["two"]);
    }

    #[tokio::test]
    async fn a_store_that_goes_away_has_put_nothing_on_disk() {
        let (on_durable, durable) = Durable::new();
        drop(on_durable);
        durable.wait().await.unwrap_err();
    }
}
