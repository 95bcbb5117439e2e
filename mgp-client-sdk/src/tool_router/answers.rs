//! Storage for the answers of a legacy caller, so that it is not asked the same question again when the call is
//! repeated in the rounds of a modern callee.

use std::collections::HashMap;
use std::sync::Arc;

use mgp_types::Payload;
use mgp_types::RpcError;
use mgp_types::service::{BoxFuture, CallerAccess, CallerChannel, CallerRequest, Context};
use mgp_types::sync::Mutex;

/// Asks the caller each question of a call only once, although the call is repeated in each round; stores the answers.
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
