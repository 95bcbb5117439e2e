//! Tests of requests and notifications through a kernel, between hosts and servers in this process.

mod asking;
mod callbacks;
mod changes;
mod contracts;
mod eras;
mod events;
mod flow;
mod hops;
mod lists;
mod members;
mod portable_names;
mod refused_questions;
mod search_notes;
mod skills_apps;
mod structured;
mod system_tools;
mod tasks;
mod tenants;
mod tenants_mixed;
mod traces;
mod undeclared;
pub(crate) mod world;
