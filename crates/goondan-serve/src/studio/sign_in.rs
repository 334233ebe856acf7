//! How a browser gets in without the token: a code that works once, for a session that ends with the process.
//!
//! The session is a token of its own, which the page keeps for its tab alone and sends in a header. It is no cookie: browsers send
//! those to every port of a host, and so to whatever else listens on this machine, and with requests that other pages make.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::guard::Token;

/// How long a code works.
const CODE_TIME: Duration = Duration::from_secs(600);
/// So many codes may be open; the oldest go first.
const CODES: usize = 16;
/// So many sessions may there be; the oldest go first.
const SESSIONS: usize = 64;

/// Who signed in. Cheap to clone.
#[derive(Clone, Default)]
pub struct SignIns(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    codes: VecDeque<(Token, Instant)>,
    sessions: VecDeque<Token>,
}

impl SignIns {
    /// A new code.
    pub fn code(&self) -> Token {
        let code = Token::random();
        let mut inner = self.inner();
        if inner.codes.len() == CODES {
            inner.codes.pop_front();
        }
        inner
            .codes
            .push_back((code.clone(), Instant::now() + CODE_TIME));
        code
    }

    /// The token of a new session, for a code that works: from then on it does not. `None` for any other.
    pub(crate) fn begin(&self, code: &str) -> Option<Token> {
        let (now, mut inner) = (Instant::now(), self.inner());
        inner.codes.retain(|(_, until)| *until > now);
        let place = inner.codes.iter().position(|(known, _)| known.is(code))?;
        inner.codes.remove(place);
        let session = Token::random();
        if inner.sessions.len() == SESSIONS {
            inner.sessions.pop_front();
        }
        inner.sessions.push_back(session.clone());
        Some(session)
    }

    /// Ends a session; false where there is none of that token.
    pub(crate) fn end(&self, token: &str) -> bool {
        let mut inner = self.inner();
        let before = inner.sessions.len();
        inner.sessions.retain(|session| !session.is(token));
        inner.sessions.len() < before
    }

    /// Whether a session has that token.
    pub(crate) fn has(&self, token: &str) -> bool {
        self.inner()
            .sessions
            .iter()
            .any(|session| session.is(token))
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for SignIns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SignIns")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_works_once() {
        let sign_ins = SignIns::default();
        let code = sign_ins.code();
        assert!(!sign_ins.has(code.expose()), "a code is no session");
        let session = sign_ins.begin(code.expose()).unwrap();
        assert!(sign_ins.has(session.expose()));
        assert_eq!(sign_ins.begin(code.expose()), None);
        assert_eq!(sign_ins.begin("guessed"), None);
        assert!(
            sign_ins.end(session.expose())
                && !sign_ins.has(session.expose())
                && !sign_ins.end(session.expose())
        );
    }

    #[test]
    fn what_nobody_uses_goes() {
        let sign_ins = SignIns::default();
        let (old, codes) = (
            sign_ins.code(),
            (0..CODES).map(|_| sign_ins.code()).collect::<Vec<_>>(),
        );
        assert_eq!(sign_ins.begin(old.expose()), None);
        let first = sign_ins.begin(codes[0].expose()).unwrap();
        for _ in 0..SESSIONS {
            let code = sign_ins.code();
            sign_ins.begin(code.expose()).unwrap();
        }
        assert!(!sign_ins.has(first.expose()));
        let late = Token::random();
        sign_ins
            .inner()
            .codes
            .push_back((late.clone(), Instant::now()));
        assert_eq!(sign_ins.begin(late.expose()), None, "its time is over");
    }
}
