//! Messages to people about decisions that wait for an operator: on a desktop, on a phone or in a mailbox (MGP §4.4).
//!
//! A message names agents, servers and tools, but never contains an argument of a call, because it may pass through
//! machines of other people.

mod message;
mod messenger;
mod open_decisions;

use std::time::Duration;

use mgp_discovery::{Expander, KernelConfig, NotifyConfig, QuietHours};
use mgp_server_sdk::EventReader;
use tokio::time::{Instant, sleep, sleep_until};

use self::message::{Message, Waiting};
pub(super) use self::messenger::Messenger;
pub(crate) use self::open_decisions::OpenDecisions;
use super::deliveries::{Attempt, Delivery, DeliveryContext, SenderContext};

/// The channels of the events that lead to a message.
pub(super) const CHANNELS: [&str; 4] = [
    super::APPROVAL_REQUESTED,
    super::APPROVAL_DECIDED,
    super::DEFINITION_CHANGED,
    super::TRANSACTION_STUCK,
];

/// The maximum sleep during quiet hours. It is short because the clock jumps when the machine wakes from standby.
const MAX_SLEEP: Duration = Duration::from_mins(1);

/// Collects the decisions that wait for a person, and sends them in one message after some time. Ends when the store is
/// closed.
pub(super) async fn run(
    messenger: &Messenger,
    config: &NotifyConfig,
    delivery: &Delivery,
    context: &DeliveryContext,
    reader: &EventReader,
) {
    let mut waiting = Waiting::default();
    // The position in the events is stored only after the message is sent. So if the kernel stops before that, it reads
    // the events again.
    let mut seq = 0;
    loop {
        tokio::select! {
            events = delivery.read_after(reader, seq) => {
                let Some(events) = events else { return };
                for event in events {
                    seq = event.seq;
                    waiting.add(event);
                }
            }
            () = due(waiting.since(), config) => {
                let Some(last) = waiting.last.take() else { continue };
                waiting.retain_open(&context.open);
                let (console, option) = (messenger.console(), messenger.command_option());
                if let Some(message) = waiting.take(console.as_deref(), option) {
                    let send = || messenger.send(&message);
                    delivery.deliver(&*context.store, &last, send).await;
                }
                if !delivery.acknowledge(reader, last.seq).await {
                    return;
                }
            }
        }
    }
}

/// Waits until a message must be sent: some time after `since`, but not during the quiet hours. Waits forever if
/// `since` is `None`.
async fn due(since: Option<Instant>, config: &NotifyConfig) {
    let Some(since) = since else { return std::future::pending().await };
    sleep_until(since + config.after).await;
    while let Some(left) = config.quiet.and_then(quiet_left) {
        sleep(left.min(MAX_SLEEP)).await;
    }
}

/// Returns the remaining time of the quiet hours, or `None` outside of them.
fn quiet_left(hours: QuietHours) -> Option<Duration> {
    let now = jiff::ZonedDateTime::now().time();
    let minute = u16::try_from(i32::from(now.hour()) * 60 + i32::from(now.minute())).ok()?;
    let left = Duration::from_secs(u64::from(hours.minutes_left(minute)?) * 60);
    let passed = Duration::from_secs(u64::from(now.second().unsigned_abs()));
    Some(left.saturating_sub(passed).max(Duration::from_secs(1)))
}

/// Sends a test message over each configured way, or only over the one with this name; returns the result of each
/// attempt.
///
/// # Cancel safety
/// If the future is dropped, some messages may have been sent.
pub async fn notify_test(
    config: &KernelConfig,
    name: Option<&str>,
    expander: &Expander,
) -> Vec<(String, Result<(), String>)> {
    let console = config.console_url.clone();
    let sender = SenderContext::new(expander, crate::logins::proxy(config));
    let mut results = Vec::new();
    let places = config.notify.iter().filter(|(own, _)| name.is_none_or(|name| name == *own));
    for (own, place) in places {
        let sent = match Messenger::new(&sender, place, console.clone()) {
            Ok(messenger) => match messenger.send(&Message::test(console.as_deref())).await {
                Attempt::Accepted => Ok(()),
                Attempt::Failed(error) | Attempt::Refused(error) => Err(error),
            },
            Err(error) => Err(error),
        };
        results.push((own.clone(), sent));
    }
    results
}
