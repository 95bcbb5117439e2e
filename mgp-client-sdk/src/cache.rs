//! The lists a client keeps: until the server says they changed, or for as long as it said they hold.
//!
//! Applies to: outbound.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mgp_lifecycle::RetryLayer;
use mgp_types::mcp::{Prompt, Resource, ResourceTemplate, Tool};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::config::ClientConfig;
use crate::handler::Changed;

/// The lists of one server.
#[derive(Debug, Default)]
pub(crate) struct Lists {
    /// Moves when somebody on the way shows other things than before.
    moves: Option<Mutex<watch::Receiver<u64>>>,
    /// Knows tools from the lists that passed.
    retry: Option<RetryLayer>,
    pub(crate) tools: Kept<Tool>,
    pub(crate) resources: Kept<Resource>,
    pub(crate) templates: Kept<ResourceTemplate>,
    pub(crate) prompts: Kept<Prompt>,
}

impl Lists {
    /// The lists of a client with this configuration.
    pub(crate) fn of(config: &ClientConfig) -> Self {
        let moves = config.hooks.moves.clone().map(Mutex::new);
        Self { moves, retry: config.retry.clone(), ..Self::default() }
    }

    /// Forgets everything, if somebody on the way shows other things than before.
    pub(crate) fn catch_up(&self) {
        let Some(moves) = &self.moves else { return };
        let mut moves = moves.lock().unwrap_or_else(PoisonError::into_inner);
        if moves.has_changed().unwrap_or(false) {
            moves.mark_unchanged();
            drop(moves);
            for what in [Changed::Tools, Changed::Prompts, Changed::Resources] {
                self.forget(&what);
            }
        }
    }

    pub(crate) fn forget(&self, what: &Changed) {
        match what {
            Changed::Tools => {
                self.tools.forget();
                if let Some(retry) = &self.retry {
                    retry.tools_changed(None);
                }
            }
            Changed::Prompts => self.prompts.forget(),
            Changed::Resources => {
                self.resources.forget();
                self.templates.forget();
            }
            Changed::Resource(_) => {}
        }
    }
}

/// One list.
pub(crate) struct Kept<T>(Mutex<State<T>>);

struct State<T> {
    /// Grows with every change, so that a list that was asked for before is not kept after.
    generation: u64,
    list: Option<(Arc<[T]>, Option<Instant>)>,
}

impl<T> Kept<T> {
    /// The list, if it still holds, and the generation a new one belongs to.
    pub(crate) fn look(&self) -> (Option<Arc<[T]>>, u64) {
        let state = self.state();
        let fresh =
            state.list.as_ref().filter(|(_, until)| until.is_none_or(|at| at > Instant::now()));
        (fresh.map(|(list, _)| Arc::clone(list)), state.generation)
    }

    /// Keeps a list of a generation, for this long or until it changes.
    pub(crate) fn keep(&self, generation: u64, list: &Arc<[T]>, hold: Option<Duration>) {
        let mut state = self.state();
        if state.generation == generation {
            let until = hold.and_then(|time| Instant::now().checked_add(time));
            state.list = Some((Arc::clone(list), until));
        }
    }

    fn forget(&self) {
        let mut state = self.state();
        state.generation += 1;
        state.list = None;
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self(Mutex::new(State { generation: 0, list: None }))
    }
}

impl<T> fmt::Debug for Kept<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.state().list.is_some() { "kept" } else { "not kept" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_list_is_kept_for_its_time_and_until_it_changes() {
        let kept = Kept::<u8>::default();
        let list: Arc<[u8]> = [1].into();
        let (none, generation) = kept.look();
        assert!(none.is_none());
        kept.keep(generation, &list, Some(Duration::from_secs(5)));
        assert!(kept.look().0.is_some());
        tokio::time::advance(Duration::from_secs(6)).await;
        assert!(kept.look().0.is_none());
        kept.keep(generation, &list, None);
        kept.forget();
        // It was asked for before the change and came after.
        kept.keep(generation, &list, None);
        assert!(kept.look().0.is_none());
    }
}
