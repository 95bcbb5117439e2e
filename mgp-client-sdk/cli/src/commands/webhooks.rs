//! `mgp webhooks`: shows the webhooks and the events that they could not deliver (MGP §13).

use mgp_types::method::KernelWebhooks;
use mgp_types::mgp::{KernelWebhook, KernelWebhooksParams};
use serde::Serialize;

use crate::args::Global;
use crate::control;
use crate::exit::CliResult;
use crate::output::{Cell, Color, Output, Render, print};

/// The maximum length of an event in the table that the command prints.
const MAX_EVENT: usize = 160;

/// The webhooks.
#[derive(Debug, Serialize)]
#[serde(transparent)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct WebhookTable(Vec<KernelWebhook>);

impl Render for WebhookTable {
    fn render(&self, out: &mut Output) {
        if self.0.is_empty() {
            return out.line("no webhooks; add `[kernel.webhooks.NAME]` or `[kernel.notify.NAME]` to your configuration");
        }
        let rows = self.0.iter().map(|webhook| {
            let failed = webhook.failures.len();
            let color = if failed == 0 { Color::Green } else { Color::Red };
            [
                Cell::from(webhook.url.as_str()),
                webhook.delivered.to_string().into(),
                webhook.waiting.to_string().into(),
                Cell::from(failed.to_string()).color(color),
                webhook.last_error.clone().into(),
            ]
        });
        out.table(["TO", "DELIVERED", "WAITING", "FAILED", "LAST ERROR"], rows);
        for failure in self.0.iter().flat_map(|webhook| &webhook.failures) {
            let event = mgp_types::clip(failure.event.as_str(), MAX_EVENT);
            out.line(format!("{}  {}  {event}", failure.at, failure.error));
        }
    }
}

pub(crate) async fn run(global: &Global) -> CliResult {
    let client = control::connect(global).await?;
    let listed = client.request::<KernelWebhooks>(&KernelWebhooksParams::new()).await?;
    print(global, &WebhookTable(listed.webhooks))
}
