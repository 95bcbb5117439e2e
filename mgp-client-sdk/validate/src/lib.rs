//! Judges servers and clients of MCP and of the Model General Protocol (MGP) by what they send.
//!
//! The rules cover what MCP and MGP require of every peer, as far as it can be seen from outside. Each rule is data: a
//! name, a section, a level, and a function that drives a connection and looks at the answers. [`judge_server`] starts
//! a server or connects to one, checks all rules that apply, and returns a [`Report`]; [`judge_client`] acts as a
//! server for a client, and [`judge_pair`] watches a client and a server.
//!
//! ```no_run
//! use mgp_validate::{Options, Target, judge_server};
//!
//! # async fn run() {
//! let target = Target::command(["uvx", "mcp-server-time"]);
//! let report = judge_server(&target, &Options::new()).await;
//! println!("{}", report.to_text());
//! assert!(report.is_passed());
//! # }
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]

mod client;
mod json;
mod link;
mod notices;
mod pair;
mod recording;
mod report;
mod rule;
mod rules;
mod server;
mod session;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

pub use client::judge_client;
pub use link::Target;
pub use pair::{judge_pair, pair_rules};
pub use report::{Report, RuleResult, Status, Subject, Summary, TierSummary};
pub use rule::{RuleInfo, RuleLevel, Tier, rules};
pub use server::judge_server;
pub use session::Options;
