//! The references that servers returned, each for the caller that received it.

use mgp_types::proposal::DataReference;
use mgp_types::service::{Principal, ServerId};
use mgp_types::sync::Mutex;
use tokio::time::Instant;

/// The maximum number of references per caller; a further one replaces the caller's oldest one.
const MAX_PER_CALLER: usize = 128;

/// A reference that a server returned to a caller.
#[derive(Clone)]
pub(super) struct KnownReference {
    /// The caller that received the reference; only this caller can use it.
    pub(super) owner: Principal,
    pub(super) origin: ServerId,
    /// The tool that returned the reference, by the server's own name.
    pub(super) tool: String,
    /// The reference in the form that the caller received, without its URL.
    pub(super) reference: DataReference,
    /// The id of the data at the kernel's server for references.
    pub(super) id: String,
    /// The URL of the data at that server; the same for each call, so that confirmations and keys of calls stay valid.
    pub(super) url: String,
    pub(super) expires_at: Instant,
}

/// The references of all callers, the oldest first. The kernel's server for references limits their number.
#[derive(Default)]
pub(super) struct KnownReferences(Mutex<Vec<KnownReference>>);

impl KnownReferences {
    /// Adds a reference; returns the ids of the references that were removed for it: one with the same id of the same
    /// server, or the caller's oldest one if there were too many.
    pub(super) fn insert(&self, new: KnownReference) -> Vec<String> {
        let now = Instant::now();
        let mut all = self.0.lock();
        all.retain(|known| known.expires_at > now);
        let is_replaced = |known: &KnownReference| {
            known.owner == new.owner
                && known.origin == new.origin
                && known.reference.ref_id == new.reference.ref_id
        };
        let mut dropped: Vec<_> = all.extract_if(.., |known| is_replaced(known)).collect();
        if all.iter().filter(|known| known.owner == new.owner).count() >= MAX_PER_CALLER
            && let Some(oldest) = all.iter().position(|known| known.owner == new.owner)
        {
            dropped.push(all.remove(oldest));
        }
        all.push(new);
        dropped.into_iter().map(|known| known.id).collect()
    }

    /// Returns a reference of a caller; `None` if it is unknown, or if several servers use the id and `origin` is
    /// `None`.
    pub(super) fn get(
        &self,
        owner: &Principal,
        ref_id: &str,
        origin: Option<&str>,
    ) -> Option<KnownReference> {
        let now = Instant::now();
        let all = self.0.lock();
        let mut found = all.iter().filter(|known| {
            known.owner == *owner
                && known.reference.ref_id == ref_id
                && known.expires_at > now
                && origin.is_none_or(|origin| known.origin.as_str() == origin)
        });
        let first = found.next()?;
        found.next().is_none().then(|| first.clone())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn known(agent: &str, origin: &str, ref_id: &str) -> KnownReference {
        let reference =
            DataReference::new(ref_id.to_owned(), origin.to_owned(), "text/plain".to_owned());
        KnownReference {
            owner: Principal::local().agent(agent),
            origin: origin.into(),
            tool: "export".to_owned(),
            reference,
            id: format!("{agent} {origin} {ref_id}"),
            url: String::new(),
            expires_at: Instant::now() + Duration::from_mins(1),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_reference_is_found_by_its_owner_until_it_expires() {
        let all = KnownReferences::default();
        let (ada, bob) = (Principal::local().agent("ada"), Principal::local().agent("bob"));
        assert!(all.insert(known("ada", "a", "r")).is_empty());
        assert_eq!(all.insert(known("ada", "a", "r")), ["ada a r"], "replaced");
        assert!(all.get(&ada, "r", None).is_some() && all.get(&bob, "r", None).is_none());
        all.insert(known("ada", "b", "r"));
        assert!(all.get(&ada, "r", None).is_none(), "two servers use the id");
        assert_eq!(all.get(&ada, "r", Some("b")).unwrap().id, "ada b r");
        tokio::time::advance(Duration::from_mins(1)).await;
        assert!(all.get(&ada, "r", Some("b")).is_none());
    }

    #[test]
    fn the_oldest_reference_of_a_caller_makes_room() {
        let all = KnownReferences::default();
        all.insert(known("bob", "a", "r"));
        let dropped: Vec<_> = (0..=MAX_PER_CALLER)
            .flat_map(|count| all.insert(known("ada", "a", &count.to_string())))
            .collect();
        assert_eq!(dropped, ["ada a 0"]);
        assert!(all.get(&Principal::local().agent("bob"), "r", None).is_some());
    }
}
