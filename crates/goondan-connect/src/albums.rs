//! Albums: messages that belong together and arrive one after another become one event.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use crate::event::{AlbumKey, PlatformEvent};
use crate::event_acceptance::{EventAcceptance, EventRefusal};

/// Time in which the other messages of an album arrive.
pub(crate) const ALBUM_WAIT: Duration = Duration::from_secs(1);

/// Outcome of an album; `None` until it is known.
type AlbumOutcome = Option<Result<EventAcceptance, EventRefusal>>;

/// Albums whose messages arrive in separate requests.
#[derive(Default)]
pub(crate) struct AlbumCollector {
    open: Mutex<HashMap<AlbumKey, OpenAlbum>>,
}

/// An album whose messages still arrive.
struct OpenAlbum {
    event: PlatformEvent,
    outcome: watch::Receiver<AlbumOutcome>,
}

impl AlbumCollector {
    /// Accepts an event with `accept`. The first message of an album waits for the others, which get
    /// the outcome of the whole album. So a message is confirmed only if it is part of an input.
    pub(crate) async fn accept<F>(
        &self,
        event: PlatformEvent,
        accept: impl FnOnce(PlatformEvent) -> F,
    ) -> Result<EventAcceptance, EventRefusal>
    where
        F: Future<Output = Result<EventAcceptance, EventRefusal>>,
    {
        let Some(key) = event.album_key() else {
            return accept(event).await;
        };
        let (sender, receiver) = watch::channel(None);
        if let Some(mut outcome) = self.join(&key, event, receiver) {
            let album_outcome = outcome.wait_for(Option::is_some).await;
            return match album_outcome.as_deref() {
                Ok(Some(outcome)) => outcome.clone(),
                _ => Err(interrupted_refusal()),
            };
        }
        tokio::time::sleep(ALBUM_WAIT).await;
        let album = self.lock().remove(&key);
        let outcome = match album {
            Some(album) => accept(album.event).await,
            None => Err(interrupted_refusal()),
        };
        // Fails only if the album has no other message.
        let _ = sender.send(Some(outcome.clone()));
        outcome
    }

    /// Adds a message to its album. Returns the outcome to wait for, or `None` for the first message.
    fn join(
        &self,
        key: &AlbumKey,
        event: PlatformEvent,
        outcome: watch::Receiver<AlbumOutcome>,
    ) -> Option<watch::Receiver<AlbumOutcome>> {
        let mut open_albums = self.lock();
        match open_albums.get_mut(key) {
            Some(album) => {
                album.event.absorb(event);
                Some(album.outcome.clone())
            }
            None => {
                open_albums.insert(key.clone(), OpenAlbum { event, outcome });
                None
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<AlbumKey, OpenAlbum>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the refusal of a message whose album was not accepted. The platform delivers it again.
fn interrupted_refusal() -> EventRefusal {
    EventRefusal {
        message: "The album was interrupted.".to_owned(),
        is_retryable: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn photo(album: &str, text: &str) -> PlatformEvent {
        PlatformEvent {
            text: text.to_owned(),
            album: Some(album.to_owned()),
            ..PlatformEvent::default()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn messages_of_an_album_are_accepted_together() {
        let albums = AlbumCollector::default();
        let accepted = Mutex::new(Vec::new());
        let accept = |event: PlatformEvent| {
            accepted.lock().unwrap().push(event.text);
            std::future::ready(Ok(EventAcceptance::Accepted))
        };
        let outcomes = tokio::join!(
            albums.accept(photo("g", "compare"), accept),
            albums.accept(photo("g", "[a photo]"), accept),
            albums.accept(photo("h", "other"), accept),
        );
        assert!(outcomes.0.is_ok() && outcomes.1.is_ok() && outcomes.2.is_ok());
        let mut accepted = accepted.into_inner().unwrap();
        accepted.sort_unstable();
        assert_eq!(accepted, ["compare\n[a photo]", "other"]);
        assert!(albums.lock().is_empty());
    }
}
