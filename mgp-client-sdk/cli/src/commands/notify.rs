//! The command `mgp notify`: tests the messages that people get when a decision waits for them.

use clap::Subcommand;
use mgp_discovery::{Expander, SecretFile};
use serde::Serialize;

use super::known_names::did_you_mean;
use crate::args::{ConfigArg, Global};
use crate::exit::{CliResult, Failure};
use crate::output::{Cell, Color, Output, Render, print};
use crate::{state, state_option};

/// `mgp notify`.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Notify {
    /// Send a test message to the places of `[kernel.notify]`
    #[command(
        after_help = "The message is sent by this command; no kernel needs to run.\n\nExample:\n  mgp notify test phone"
    )]
    Test {
        /// Name of the place; the default is all places
        name: Option<String>,
        #[command(flatten)]
        config: ConfigArg,
    },
}

/// The results of test messages.
#[derive(Debug, Serialize)]
#[serde(transparent)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct TestedPlaces(Vec<TestedPlace>);

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct TestedPlace {
    name: String,
    /// The reason why the message was not sent; absent if it was accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl Render for TestedPlaces {
    fn render(&self, out: &mut Output) {
        for place in &self.0 {
            match &place.error {
                None => out.status_line(&Cell::from("SENT").color(Color::Green), &place.name),
                Some(error) => {
                    let text = format!("{}: {error}", place.name);
                    let text = state_option::add_to(&text);
                    out.status_line(&Cell::from("FAILED").color(Color::Red), &text);
                }
            }
        }
    }
}

pub(crate) async fn run(global: &Global, notify: &Notify) -> CliResult {
    let Notify::Test { name, config } = notify;
    let kernel = config.load(global).await?.config.kernel;
    if kernel.notify.is_empty() {
        let message = "no place is configured; add `[kernel.notify.NAME]` to your configuration";
        return Err(Failure::failed(message));
    }
    if let Some(name) = name.as_ref().filter(|name| !kernel.notify.contains_key(*name)) {
        let known = kernel.notify.keys().map(String::as_str);
        let hint = did_you_mean(name, known).unwrap_or_default();
        return Err(Failure::failed(format!("no place `{name}` is configured{hint}")));
    }
    let expander = Expander::from_env().secrets(SecretFile::in_folder(&state::folder(global)?));
    let results = mgp_kernel::notify_test(&kernel, name.as_deref(), &expander).await;
    let tested = results.into_iter().map(|(name, sent)| TestedPlace { name, error: sent.err() });
    let tested = TestedPlaces(tested.collect());
    print(global, &tested)?;
    match tested.0.iter().filter(|place| place.error.is_some()).count() {
        0 => Ok(()),
        1 => Err(Failure::failed("a message was not sent")),
        failed => Err(Failure::failed(format!("{failed} messages were not sent"))),
    }
}
