//! The extensions that have registered in a runner.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use super::told::{self, Base, Told};
use super::{Kept, News, Registered};
use crate::ids::InstanceId;
use crate::ports::extension::Seat;

/// So many extensions stay registered in a runner; the one that was used the longest time ago goes first.
const MOST_SESSIONS: usize = 1_000;

/// An extension that has registered for an instance.
pub struct Session {
    /// Its number in the runner.
    pub number: u64,
    /// What it has registered.
    pub registered: Registered,
    instance: InstanceId,
    /// What it was told of the conversation.
    told: Mutex<Option<Told>>,
    /// The events that it listens to.
    listens: Mutex<HashSet<String>>,
}

impl Session {
    /// A registration of `registered` for `instance`.
    pub fn new(number: u64, registered: Registered, instance: InstanceId) -> Self {
        Session {
            number,
            registered,
            instance,
            told: Mutex::default(),
            listens: Mutex::default(),
        }
    }

    /// From now on it listens to `names`, where there is something new about that.
    pub(super) fn listen(&self, names: Option<Vec<String>>) {
        if let Some(names) = names {
            *self.listens.lock().unwrap_or_else(PoisonError::into_inner) =
                names.into_iter().collect();
        }
    }

    /// Whether it listens to any event, and to this one where it is known already.
    pub(super) fn listens(&self, event: Option<&Value>) -> bool {
        let names = self.listens.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            None => !names.is_empty(),
            Some(event) => event["type"]
                .as_str()
                .is_some_and(|name| names.contains(name)),
        }
    }

    /// Nobody knows what it has heard: it is told everything once more.
    pub(super) fn doubt(&self) {
        *self.told() = None;
    }

    fn told(&self) -> MutexGuard<'_, Option<Told>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What it has to be told of the turn at `seat` now, with the conversation or without.
    pub fn news(&self, seat: &Seat, with_conversation: bool) -> News {
        let state = seat.state.news().map(|value| Kept { value });
        if !with_conversation {
            return News {
                state,
                ..News::default()
            };
        }
        let (base, events) = told::news(
            &mut self.told(),
            &seat.turn_id,
            &seat.transcript,
            self.registered.keeps,
        );
        let news = News {
            events,
            state,
            ..News::default()
        };
        match base {
            Base::Known => news,
            Base::Whole(messages) => News {
                base: Some(messages),
                ..news
            },
            Base::Changed(splice) => News {
                splice: Some(splice),
                ..news
            },
        }
    }
}

/// The sessions of a runner, by what tells one from another.
#[derive(Default)]
pub struct Sessions(Mutex<Table>);

#[derive(Default)]
struct Table {
    last: u64,
    used: u64,
    by_key: HashMap<String, (u64, Arc<Session>)>,
}

impl Sessions {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A number that none has.
    pub fn number(&self) -> u64 {
        let mut table = self.lock();
        table.last += 1;
        table.last
    }

    /// The session of that key.
    pub fn find(&self, key: &str) -> Option<Arc<Session>> {
        let mut table = self.lock();
        table.used += 1;
        let now = table.used;
        let (used, session) = table.by_key.get_mut(key)?;
        *used = now;
        Some(Arc::clone(session))
    }

    /// Keeps a session; the number of one that had to make room.
    pub fn keep(&self, key: String, session: Arc<Session>) -> Option<u64> {
        let mut table = self.lock();
        table.used += 1;
        let now = table.used;
        table.by_key.insert(key, (now, session));
        if table.by_key.len() <= MOST_SESSIONS {
            return None;
        }
        // Whoever holds one works with it.
        let idle = table
            .by_key
            .iter()
            .filter(|(_, (_, session))| Arc::strong_count(session) == 1);
        let oldest = idle
            .min_by_key(|(_, (used, _))| *used)
            .map(|(key, _)| key.clone())?;
        table
            .by_key
            .remove(&oldest)
            .map(|(_, session)| session.number)
    }

    /// Takes out the sessions of an instance; their numbers.
    pub fn forget(&self, instance: &InstanceId) -> Vec<u64> {
        let mut table = self.lock();
        let mut numbers = Vec::new();
        table.by_key.retain(|_, (_, session)| {
            let goes = session.instance == *instance;
            if goes {
                numbers.push(session.number);
            }
            !goes
        });
        numbers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(number: u64) -> Arc<Session> {
        Arc::new(Session::new(
            number,
            Registered::default(),
            InstanceId::new("a", format!("{number}")),
        ))
    }

    #[test]
    fn the_one_that_nobody_used_for_the_longest_time_makes_room() {
        let sessions = Sessions::default();
        let held = session(0);
        assert_eq!(sessions.keep("0".to_owned(), Arc::clone(&held)), None);
        for number in 1..MOST_SESSIONS as u64 {
            assert_eq!(sessions.keep(number.to_string(), session(number)), None);
        }
        assert!(sessions.find("1").is_some());
        // The first is held, the second was just used.
        assert_eq!(sessions.keep("new".to_owned(), session(9_999)), Some(2));
        assert_eq!(sessions.forget(&InstanceId::new("a", "1")), [1]);
        assert!(sessions.find("1").is_none() && sessions.find("0").is_some());
    }
}
