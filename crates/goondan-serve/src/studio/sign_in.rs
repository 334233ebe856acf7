//! Sign-in of a browser without the server token. A one-time code starts a session that ends with
//! the process.
//!
//! A session has its own token, which the page keeps in the browser's local storage for its host and
//! port, and sends in a header. A cookie would be unsafe: browsers send cookies to every port of a
//! host, so also to other local programs. They also send cookies with requests from other pages.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::auth::ServerToken;

/// Validity of a code.
const CODE_LIFETIME: Duration = Duration::from_secs(600);
/// Maximum number of open codes; the oldest are dropped first.
const MAX_OPEN_CODES: usize = 16;
/// Maximum number of sessions; the oldest are dropped first.
const MAX_SESSIONS: usize = 64;

/// Open codes and sessions of the studio. Cheap to clone.
#[derive(Clone, Default)]
pub struct SignIns(Arc<Mutex<SignInState>>);

#[derive(Default)]
struct SignInState {
    codes: VecDeque<(ServerToken, Instant)>,
    sessions: VecDeque<ServerToken>,
}

impl SignIns {
    /// Returns a new code.
    pub fn code(&self) -> ServerToken {
        let code = ServerToken::random();
        let mut inner = self.lock_state();
        if inner.codes.len() == MAX_OPEN_CODES {
            inner.codes.pop_front();
        }
        inner
            .codes
            .push_back((code.clone(), Instant::now() + CODE_LIFETIME));
        code
    }

    /// Starts a session and invalidates the code. `None` for an invalid code.
    pub(crate) fn begin(&self, code: &str) -> Option<ServerToken> {
        let (now, mut inner) = (Instant::now(), self.lock_state());
        inner.codes.retain(|(_, until)| *until > now);
        let position = inner
            .codes
            .iter()
            .position(|(known, _)| known.matches(code))?;
        inner.codes.remove(position);
        let session = ServerToken::random();
        if inner.sessions.len() == MAX_SESSIONS {
            inner.sessions.pop_front();
        }
        inner.sessions.push_back(session.clone());
        Some(session)
    }

    /// Ends a session; false for an unknown token.
    pub(crate) fn end(&self, token: &str) -> bool {
        let mut inner = self.lock_state();
        let before = inner.sessions.len();
        inner.sessions.retain(|session| !session.matches(token));
        inner.sessions.len() < before
    }

    /// Returns true for the token of an open session.
    pub(crate) fn has_session(&self, token: &str) -> bool {
        self.lock_state()
            .sessions
            .iter()
            .any(|session| session.matches(token))
    }

    /// Locks the state.
    fn lock_state(&self) -> MutexGuard<'_, SignInState> {
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
    fn a_sign_in_code_works_once() {
        let sign_ins = SignIns::default();
        let code = sign_ins.code();
        assert!(
            !sign_ins.has_session(code.expose()),
            "a code is not a session token"
        );
        let session = sign_ins.begin(code.expose()).unwrap();
        assert!(sign_ins.has_session(session.expose()));
        assert_eq!(sign_ins.begin(code.expose()), None);
        assert_eq!(sign_ins.begin("guessed"), None);
        assert!(
            sign_ins.end(session.expose())
                && !sign_ins.has_session(session.expose())
                && !sign_ins.end(session.expose())
        );
    }

    #[test]
    fn old_codes_and_sessions_are_discarded() {
        let sign_ins = SignIns::default();
        let (oldest, codes) = (
            sign_ins.code(),
            (0..MAX_OPEN_CODES)
                .map(|_| sign_ins.code())
                .collect::<Vec<_>>(),
        );
        assert_eq!(sign_ins.begin(oldest.expose()), None);
        let first = sign_ins.begin(codes[0].expose()).unwrap();
        for _ in 0..MAX_SESSIONS {
            let code = sign_ins.code();
            sign_ins.begin(code.expose()).unwrap();
        }
        assert!(!sign_ins.has_session(first.expose()));
        let expired = ServerToken::random();
        sign_ins
            .lock_state()
            .codes
            .push_back((expired.clone(), Instant::now()));
        assert_eq!(
            sign_ins.begin(expired.expose()),
            None,
            "the code has expired"
        );
    }
}
