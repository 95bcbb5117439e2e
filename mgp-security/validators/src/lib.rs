//! The validators of the Model General Protocol (MGP §4.5, §7): checks of a tool call's arguments before it is sent.
//!
//! | Validator | What it blocks |
//! |---|---|
//! | `sandbox` | shell syntax beyond one simple command; recursive delete, privileges, disks, power, code in arguments |
//! | `readonly` | calls whose name, declarations or arguments write |
//! | `network_restricted` | URLs and hosts that are not on the public internet |
//! | `code_safety` | imports and patterns of code, by the level and lists of the tool |
//! | `none` | nothing |
//!
//! [`ValidatorSet`] checks a [`GuardedCall`] by the validator's name. Whatever cannot be judged is blocked: an unknown
//! validator, an argument of the wrong type, code that cannot be parsed, input that is too long or too deep. Validators
//! judge the text of a call, not its intent; `docs/validators.md` describes what each of them cannot see.
//!
//! Features: `python`, `javascript` and `typescript`, all of them default.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod argument_values;
mod code;
mod declared;
mod hidden;
mod lines;
mod network;
mod readonly;
mod rejection;
mod set;
mod shell;
mod words;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

pub use code::CodePolicy;
pub use lines::{CaseKind, Cases};
pub use network::{NetworkRules, Resolver};
pub use readonly::{has_write_verb, reads_by_name};
pub use rejection::Rejection;
pub use set::{GuardedCall, ValidatorSet};
