//! The answers of a legacy caller to the questions of a modern callee. The router stores them and asks the caller each
//! question only once, although each round of questions repeats the call.

use std::collections::HashMap;
use std::sync::Arc;

use mgp_types::Payload;
use mgp_types::RpcError;
use mgp_types::service::{BoxFuture, CallerAccess, CallerChannel, CallerRequest, Context};
use mgp_types::sync::Mutex;

/// A channel to a legacy caller. It asks each question of a call only once, and stores the answers for the repetitions
/// of the call.
pub(crate) struct AnswerCache {
    origin: Context,
    cache: Arc<Mutex<CachedAnswers>>,
}

#[derive(Default)]
struct CachedAnswers {
    answers: HashMap<String, Payload>,
    stored: HashMap<String, Payload>,
}

impl AnswerCache {
    pub(crate) fn new(origin: Context) -> Self {
        Self { origin, cache: Arc::default() }
    }
}

impl CallerChannel for AnswerCache {
    fn ask(&self, key: &str, ask: CallerRequest) -> BoxFuture<'static, Result<Payload, RpcError>> {
        if let Some(answer) = self.cache.lock().answers.get(key) {
            return Box::pin(std::future::ready(Ok(answer.clone())));
        }
        let (origin, cache, key) = (self.origin.clone(), Arc::clone(&self.cache), key.to_owned());
        Box::pin(async move {
            let answer = origin.ask(&key, ask).await?;
            cache.lock().answers.insert(key, answer.clone());
            Ok(answer)
        })
    }

    fn forget_early(&self, key: &str) {
        if let CallerAccess::Channel(asker) = &self.origin.caller_access {
            asker.forget_early(key);
        }
    }

    fn kept(&self, key: &str) -> Option<Payload> {
        self.cache.lock().stored.get(key).cloned()
    }

    fn keep(&self, key: &str, value: &Payload) {
        self.cache.lock().stored.insert(key.to_owned(), value.clone());
    }
}
