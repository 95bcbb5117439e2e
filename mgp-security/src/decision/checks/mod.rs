//! The checks of a call: methods of [`CallDecision`](super::CallDecision), which calls them in order. Each one returns
//! [`Passed`](super::Passed) if its rules do not object to the call. Otherwise it returns the refusal, or the
//! requirement that the call must meet first.

mod access;
mod arguments;
mod confirmation;
mod definition;
mod permissions;
mod scopes;

pub(crate) use access::{admit, see};
pub(crate) use definition::ListingState;
pub(crate) use permissions::{judge_permissions, missing};
