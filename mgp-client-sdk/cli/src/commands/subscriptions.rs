//! The command `mgp subscriptions`: shows and ends the subscriptions to events that clients requested (MGP §13.2).

use clap::{Args, Subcommand};
use mgp_types::method::{KernelSubscriptions, KernelSubscriptionsEnd};
use mgp_types::mgp::{KernelSubscription, KernelSubscriptionEndParams, KernelSubscriptionsParams};
use serde::Serialize;

use crate::args::Global;
use crate::exit::CliResult;
use crate::output::{ActionReport, Cell, Color, Output, Render, print};
use crate::{control, time_args};

/// `mgp subscriptions`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Option<Subscriptions>,
}

/// The commands below `mgp subscriptions`.
#[derive(Clone, Debug, Subcommand)]
enum Subscriptions {
    /// List the subscriptions to events, also without `ls`
    Ls,
    /// End a subscription, e.g. a durable one of a client that does not return
    #[command(
        after_help = "A connected client gets the event `subscription_terminated`; events that it did not get are lost.\n\nExample:\n  mgp subscriptions end sub-4c9a41e8d7b05f6291d3e0a8c7b4f512"
    )]
    End {
        /// Id of the subscription, as `mgp subscriptions` shows it
        id: String,
    },
}

/// The subscriptions of clients to events.
#[derive(Debug, Serialize)]
#[serde(transparent)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct SubscriptionList(Vec<KernelSubscription>);

impl Render for SubscriptionList {
    fn render(&self, out: &mut Output) {
        if self.0.is_empty() {
            return out.line("no client has a subscription to events");
        }
        let rows = self.0.iter().map(|one| {
            let (state, color) =
                if one.connected { ("connected", Color::Green) } else { ("away", Color::Dim) };
            [
                Cell::from(one.id.as_str()),
                one.agent_id.as_deref().or(Some(&one.subject)).into(),
                Cell::from(state).color(color),
                one.durable.then_some("yes").into(),
                one.waiting.to_string().into(),
                one.channels.join(" ").into(),
                one.expires_at.as_ref().and_then(time_args::left_until).into(),
            ]
        });
        let heads = ["ID", "FOR", "STATE", "DURABLE", "WAITING", "CHANNELS", "EXPIRES"];
        out.table(heads, rows);
    }
}

pub(crate) async fn run(global: &Global, arguments: &Arguments) -> CliResult {
    let Some(Subscriptions::End { id }) = &arguments.command else {
        let client = control::connect(global).await?;
        let listed = client.request::<KernelSubscriptions>(&KernelSubscriptionsParams::new()).await;
        client.close().await;
        return print(global, &SubscriptionList(listed?.subscriptions));
    };
    let client = control::connect_to_change(global).await?;
    let params = KernelSubscriptionEndParams::new(id.as_str());
    let ended = client.request::<KernelSubscriptionsEnd>(&params).await;
    client.close().await;
    ActionReport::new(ended?.subscription.id, "ended").print(global)
}
