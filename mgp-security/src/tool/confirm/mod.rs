//! Confirmations of calls: which calls need one, and how it is obtained (MGP §4.4).
//!
//! | risk of the call | runs immediately if | needs a confirmation if |
//! |---|---|---|
//! | safe | always | never |
//! | moderate | `confirm = "dangerous"`, or the operator named the tool | `confirm = "moderate"` |
//! | dangerous | the operator named the tool | otherwise |
//! | any, and the server requires a confirmation | the operator named the tool with `confirm = "never"` | otherwise |
//!
//! A confirmation is bound to the caller, the server, the tool, the exact arguments, the data reference that the call
//! has in addition to them, and the tool's definition. It is valid for one run of one logical call, and only for a few
//! minutes.

mod confirmations;
mod named_tool;
mod pending;
mod refused;
mod rule;
mod used;
mod with_reference;

pub use confirmations::{ConfirmConfig, Confirmations};
pub(crate) use confirmations::{RiskyCall, note};
pub use named_tool::{NamedTool, NamedTools};
pub use refused::{ConfirmRefused, Unconfirmed};
pub(crate) use with_reference::with_reference;
