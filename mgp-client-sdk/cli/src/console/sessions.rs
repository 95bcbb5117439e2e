//! The sessions of browsers: each has a secret in a cookie, a token for its forms, and the operator who has logged in.

use std::sync::Arc;
use std::time::Duration;

use mgp_types::sync::Mutex;
use mgp_types::to_hex;
use subtle::ConstantTimeEq as _;
use tokio::sync::watch;
use tokio::time::Instant;

use super::operator::Operator;

/// The time after which an unused session of the console ends.
const SESSION_TTL: Duration = Duration::from_hours(12);

/// The maximum number of sessions; a further session ends the oldest of the operator with the most sessions.
const MAX_SESSIONS: usize = 64;

#[derive(Default)]
pub(super) struct Sessions(Mutex<Vec<Session>>);

struct Session {
    secret: String,
    token: Arc<str>,
    operator: Arc<Operator>,
    last_used: Instant,
    /// A sender that is dropped together with the session. This drop closes the event streams of the session's open
    /// pages.
    open: watch::Sender<()>,
}

/// A session that has not ended: the token for its forms, its operator, and a receiver that is closed at its end.
pub(super) struct Found {
    pub(super) token: Arc<str>,
    pub(super) operator: Arc<Operator>,
    pub(super) session: watch::Receiver<()>,
}

impl Sessions {
    /// Opens a session, and returns its secret. If there are [`MAX_SESSIONS`], ends the oldest session of the operator
    /// with the most sessions, so that the logins of one operator do not end the sessions of the others. Each login
    /// receives a new secret, so that an attacker cannot choose it in advance.
    pub(super) fn open(&self, operator: Arc<Operator>) -> Result<String, getrandom::Error> {
        let (secret, token) = (random()?, random()?.into());
        let (last_used, open) = (Instant::now(), watch::Sender::default());
        let session = Session { secret: secret.clone(), token, operator, last_used, open };
        let mut all = self.0.lock();
        if all.len() >= MAX_SESSIONS {
            let count = |one: &Session| {
                let operator = &one.operator.principal;
                all.iter().filter(|other| other.operator.principal == *operator).count()
            };
            let most = all.iter().map(count).max();
            if let Some(oldest) = all.iter().position(|one| Some(count(one)) == most) {
                all.remove(oldest);
            }
        }
        all.push(session);
        Ok(secret)
    }

    /// Returns a session that has not ended. If the operator's credentials were revoked, ends the session.
    pub(super) fn find(&self, secret: &str) -> Option<Found> {
        let mut all = self.0.lock();
        let now = Instant::now();
        all.retain(|one| {
            now.duration_since(one.last_used) < SESSION_TTL && one.operator.is_valid()
        });
        let is_it = |one: &&mut Session| one.secret.as_bytes().ct_eq(secret.as_bytes()).into();
        let session = all.iter_mut().find(is_it)?;
        session.last_used = now;
        let (token, operator) = (Arc::clone(&session.token), Arc::clone(&session.operator));
        Some(Found { token, operator, session: session.open.subscribe() })
    }

    pub(super) fn close(&self, token: &str) {
        self.0.lock().retain(|session| &*session.token != token);
    }
}

/// Returns 256 random bits as text.
pub(super) fn random() -> Result<String, getrandom::Error> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)?;
    Ok(to_hex(&bytes))
}
