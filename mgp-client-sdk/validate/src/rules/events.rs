//! The rules about events and callbacks (MGP §13).

use serde_json::{Value, json};

use crate::json::{boolean, text, texts};
use crate::rule::{Check, ensure, server_rules, skip};
use crate::session::{Answer, Session};

server_rules! { Tier3;
    "mgp.events.subscribe", "MGP §13.2", Must, LegacyMgp ["bidirectional"],
        "a channel that does not exist is named as unsupported" => unsupported;
    "mgp.events.filter", "MGP §13.2", Should, LegacyMgp ["bidirectional"],
        "an unknown severity is refused" => unknown_severity;
    "mgp.events.unsubscribe", "MGP §13.2", Must, LegacyMgp ["bidirectional"],
        "an unknown subscription is not removed" => unknown_subscription;
    "mgp.events.params", "MGP §13.2", Must, LegacyMgp ["bidirectional"],
        "a subscription to something that is no list is refused" => bad_channels;
    "mgp.callback.unknown", "MGP §13.4", Must, LegacyMgp ["bidirectional"],
        "an answer to an unknown callback is not accepted" => unknown_callback;
}

/// Skips the rule if the server does not know the method. The extension `bidirectional` consists of events and
/// callbacks, and such a server implements only the other half.
fn served(answer: &Answer) -> Result<(), crate::rule::Outcome> {
    match answer {
        Answer::Error { code: -32601, .. } => {
            Err(skip("the server has the other half of `bidirectional`"))
        }
        _ => Ok(()),
    }
}

async fn unsupported(session: &mut Session) -> Check {
    const CHANNEL: &str = "judge.no.such.channel";
    let answer = session.ask("mgp/events/subscribe", json!({ "channels": [CHANNEL] })).await?;
    served(&answer)?;
    let result = answer.result("mgp/events/subscribe")?;
    ensure(texts(&result, "subscribed")?.is_empty(), || {
        "an unknown channel was subscribed".to_owned()
    })?;
    let unsupported = texts(&result, "unsupported")?;
    ensure(unsupported.contains(&CHANNEL), || format!("`unsupported` lacks `{CHANNEL}`"))?;
    let id = result.get("subscription_id").filter(|id| !id.is_null());
    if id.is_some() {
        let id = text(&result, "subscription_id")?;
        session.ask("mgp/events/unsubscribe", json!({ "subscription_id": id })).await?;
    }
    Ok(())
}

async fn unknown_severity(session: &mut Session) -> Check {
    let params = json!({ "channels": ["system.*"], "filter": { "min_severity": "loud" } });
    let answer = session.ask("mgp/events/subscribe", params).await?;
    served(&answer)?;
    answer.check_error("mgp/events/subscribe", &[-32602, 4000])
}

async fn unknown_subscription(session: &mut Session) -> Check {
    let params = json!({ "subscription_id": "no-such-subscription" });
    let answer = session.ask("mgp/events/unsubscribe", params).await?;
    served(&answer)?;
    match answer {
        Answer::Result(result) => {
            let removed = result.get("removed").and_then(Value::as_bool).unwrap_or_default();
            ensure(!removed, || "an unknown subscription was removed".to_owned())
        }
        Answer::Error { .. } => Ok(()),
    }
}

async fn bad_channels(session: &mut Session) -> Check {
    let answer = session.ask("mgp/events/subscribe", json!({ "channels": 7 })).await?;
    served(&answer)?;
    answer.check_error("mgp/events/subscribe", &[-32602, 4000])
}

async fn unknown_callback(session: &mut Session) -> Check {
    let params = json!({ "callback_id": "no-such-callback", "response": "yes" });
    let answer = session.ask("mgp/callback/respond", params).await?;
    served(&answer)?;
    match answer {
        Answer::Result(result) => {
            let accepted = result.get("status") == Some(&json!("accepted"))
                || result.get("accepted").is_some() && boolean(&result, "accepted")?;
            ensure(!accepted, || "an answer to an unknown callback was accepted".to_owned())
        }
        Answer::Error { .. } => Ok(()),
    }
}
