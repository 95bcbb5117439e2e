//! The filter of a subscription, which selects events on its channels.

use std::cell::LazyCell;

use mgp_types::RpcError;
use mgp_types::mgp::{EventFilter, Severity};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::recent::check_severity;

/// The maximum size of `data` in a filter, in bytes; the limit exists because each subscription stores its filter.
const MAX_BYTES: usize = 4 * 1024;

/// The members of the data of an event.
pub(super) type Members = Map<String, Value>;

/// The filter of a subscription; durable subscriptions store it in this form.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub(super) struct Filter {
    /// The rank of the lowest severity to deliver.
    pub(super) rank: u8,
    /// The members that the data of an event must have, with these values.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub(super) data: Members,
}

impl Filter {
    pub(super) fn of_rank(rank: u8) -> Self {
        Self { rank, data: Members::new() }
    }

    /// Reads the filter of a request. Refuses unknown members: if they were ignored, the subscriber would get events
    /// that it does not want.
    pub(super) fn read(filter: Option<&EventFilter>) -> Result<Self, RpcError> {
        let Some(filter) = filter else { return Ok(Self::default()) };
        if let Some((name, _)) = filter.extra.iter().next() {
            let name = mgp_types::clip(name, 64);
            return Err(RpcError::invalid_params(format!(
                "unknown member `{name}` of `filter`; known: min_severity, data"
            )));
        }
        check_severity(filter.min_severity.as_ref())?;
        let mut read = Self::of_rank(filter.min_severity.as_ref().map_or(0, Severity::rank));
        if let Some(data) = &filter.data {
            if data.as_payload().as_str().len() > MAX_BYTES {
                let message =
                    format!("`filter.data` has more than {MAX_BYTES} bytes; name fewer members");
                return Err(RpcError::invalid_params(message));
            }
            read.data = data.get()?;
        }
        Ok(read)
    }

    /// Returns whether the data of an event have the members of this filter. The data are parsed only if needed; `None`
    /// means that they are not an object.
    pub(super) fn accepts<F: FnOnce() -> Option<Members>>(
        &self,
        data: &LazyCell<Option<Members>, F>,
    ) -> bool {
        self.data.is_empty()
            || LazyCell::force(data).as_ref().is_some_and(|data| {
                self.data.iter().all(|(name, value)| data.get(name) == Some(value))
            })
    }
}
