//! Remembers what a legacy caller answered, so that a modern callee's rounds ask it nothing twice.
//!
//! Applies to: outbound.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mgp_types::Payload;
use mgp_types::RpcError;
use mgp_types::service::{Ask, Asker, Asking, BoxFuture, Context};

/// The asker of one logical call: asks the caller behind it, and each question once.
pub(crate) struct Remember {
    origin: Context,
    memory: Arc<Mutex<Memory>>,
}

#[derive(Default)]
struct Memory {
    answers: HashMap<String, Payload>,
    kept: HashMap<String, Payload>,
}

impl Remember {
    pub(crate) fn new(origin: Context) -> Self {
        Self { origin, memory: Arc::default() }
    }
}

fn open(memory: &Mutex<Memory>) -> MutexGuard<'_, Memory> {
    memory.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Asker for Remember {
    fn ask(&self, key: &str, ask: Ask) -> BoxFuture<'static, Result<Payload, RpcError>> {
        if let Some(answer) = open(&self.memory).answers.get(key) {
            return Box::pin(std::future::ready(Ok(answer.clone())));
        }
        let (origin, memory, key) = (self.origin.clone(), Arc::clone(&self.memory), key.to_owned());
        Box::pin(async move {
            let answer = origin.ask(&key, ask).await?;
            open(&memory).answers.insert(key, answer.clone());
            Ok(answer)
        })
    }

    fn forget_early(&self, key: &str) {
        if let Asking::Via(asker) = &self.origin.asking {
            asker.forget_early(key);
        }
    }

    fn kept(&self, key: &str) -> Option<Payload> {
        open(&self.memory).kept.get(key).cloned()
    }

    fn keep(&self, key: &str, value: &Payload) {
        open(&self.memory).kept.insert(key.to_owned(), value.clone());
    }
}
