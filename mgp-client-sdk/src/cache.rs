//! Cached lists of a client. A list is valid until the server reports a change, or until its time to live ends.

use std::sync::Arc;
use std::time::Duration;

use mgp_lifecycle::RetryLayer;
use mgp_types::mcp::{Prompt, Resource, ResourceTemplate, Tool};
use mgp_types::sync::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::config::ClientConfig;
use crate::handler::ServerChange;

#[derive(Debug, Default)]
pub(crate) struct ListCache {
    /// A version that changes when the client's layers begin to show different items in lists, e.g. after access was
    /// granted. The cached lists are then dropped.
    visibility: Option<Mutex<watch::Receiver<u64>>>,
    /// The retry layer, which drops its stored tools when the list of tools changes.
    retry: Option<RetryLayer>,
    pub(crate) tools: CachedList<Tool>,
    pub(crate) resources: CachedList<Resource>,
    pub(crate) templates: CachedList<ResourceTemplate>,
    pub(crate) prompts: CachedList<Prompt>,
}

impl ListCache {
    pub(crate) fn new(config: &ClientConfig) -> Self {
        let visibility = config.hooks.visibility.clone().map(Mutex::new);
        Self { visibility, retry: config.retry.clone(), ..Self::default() }
    }

    /// Drops all lists if the client's layers show other items than before.
    pub(crate) fn invalidate_if_changed(&self) {
        let Some(visibility) = &self.visibility else { return };
        let mut visibility = visibility.lock();
        if visibility.has_changed().unwrap_or(false) {
            visibility.mark_unchanged();
            drop(visibility);
            for what in [ServerChange::Tools, ServerChange::Prompts, ServerChange::Resources] {
                self.invalidate(&what);
            }
        }
    }

    pub(crate) fn invalidate(&self, what: &ServerChange) {
        match what {
            ServerChange::Tools => {
                self.tools.invalidate();
                if let Some(retry) = &self.retry {
                    retry.tools_changed(None);
                }
            }
            ServerChange::Prompts => self.prompts.invalidate(),
            ServerChange::Resources => {
                self.resources.invalidate();
                self.templates.invalidate();
            }
            ServerChange::Resource(_) | ServerChange::Manifest => {}
        }
    }
}

pub(crate) struct CachedList<T>(Mutex<ListState<T>>);

struct ListState<T> {
    /// A counter that is incremented with each change. With it, a list that was requested before a change is not stored
    /// after the change.
    generation: u64,
    list: Option<(Arc<[T]>, Option<Instant>)>,
}

impl<T> CachedList<T> {
    /// Returns the list if it is still valid, and the generation that must be given to insert a new list.
    pub(crate) fn get(&self) -> (Option<Arc<[T]>>, u64) {
        let state = self.0.lock();
        let fresh =
            state.list.as_ref().filter(|(_, until)| until.is_none_or(|at| at > Instant::now()));
        (fresh.map(|(list, _)| Arc::clone(list)), state.generation)
    }

    /// Stores a list that was requested in the given generation, unless the list has changed since. The list is valid
    /// for `ttl`, or without it until the next change.
    pub(crate) fn insert(&self, generation: u64, list: &Arc<[T]>, ttl: Option<Duration>) {
        let mut state = self.0.lock();
        if state.generation == generation {
            let until = ttl.and_then(|time| Instant::now().checked_add(time));
            state.list = Some((Arc::clone(list), until));
        }
    }

    fn invalidate(&self) {
        let mut state = self.0.lock();
        state.generation += 1;
        state.list = None;
    }
}

impl<T> Default for CachedList<T> {
    fn default() -> Self {
        Self(Mutex::new(ListState { generation: 0, list: None }))
    }
}

mgp_types::opaque_debug!(CachedList<T>);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_list_is_kept_for_its_time_and_until_it_changes() {
        let cached = CachedList::<u8>::default();
        let list: Arc<[u8]> = [1].into();
        let (none, generation) = cached.get();
        assert!(none.is_none());
        cached.insert(generation, &list, Some(Duration::from_secs(5)));
        assert!(cached.get().0.is_some());
        tokio::time::advance(Duration::from_secs(6)).await;
        assert!(cached.get().0.is_none());
        cached.insert(generation, &list, None);
        cached.invalidate();
        // This list was requested before the change, but received after it, so it must not be stored.
        cached.insert(generation, &list, None);
        assert!(cached.get().0.is_none());
    }
}
