//! The messages of a conversation on their way to a model, with room for what is made of them.

use std::any::Any;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

use crate::message::Message;

/// The messages of a conversation as they stand at one moment, oldest first. Cheap to clone: nothing is copied.
///
/// A provider wants the whole conversation in each request. What a client makes of it, it may keep here, so that a request
/// costs what is new and not what the conversation has grown to. What is kept lives and ends with the conversation in memory.
#[derive(Clone, Default)]
pub struct History {
    messages: Arc<Vec<Arc<Message>>>,
    kept: Kept,
}

/// Room for one thing that was made of the messages. It goes along while a conversation only grows at its end; any other
/// change makes new, empty room.
#[derive(Clone, Default)]
pub struct Kept(Arc<Mutex<Option<Box<dyn Any + Send>>>>);

impl History {
    /// Those messages, with the room that goes along with them.
    pub fn new(messages: Arc<Vec<Arc<Message>>>, kept: Kept) -> Self {
        History { messages, kept }
    }

    /// What was kept as a `T`, or a new one, in the hands of `work`. It was made of the first messages of this history; how
    /// many those are, it has to know itself. Room is for one type: another one pushes it out.
    pub fn kept<T: Any + Default + Send, R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        let mut kept = self.kept.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !kept.as_ref().is_some_and(|kept| kept.is::<T>()) {
            *kept = Some(Box::new(T::default()));
        }
        let kept = kept
            .as_mut()
            .and_then(|kept| kept.downcast_mut())
            .expect("it was just made of that type");
        work(kept)
    }
}

impl Deref for History {
    type Target = [Arc<Message>];

    fn deref(&self) -> &Self::Target {
        &self.messages
    }
}

impl From<Vec<Arc<Message>>> for History {
    fn from(messages: Vec<Arc<Message>>) -> Self {
        History::new(Arc::new(messages), Kept::default())
    }
}

impl fmt::Debug for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Kept")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_stays_until_another_type_needs_the_room() {
        let history = History::from(Vec::new());
        history.kept(|count: &mut usize| *count += 1);
        assert_eq!(history.clone().kept(|count: &mut usize| *count), 1);
        history.kept(|text: &mut String| text.push('x'));
        assert_eq!(history.kept(|count: &mut usize| *count), 0);
    }
}
