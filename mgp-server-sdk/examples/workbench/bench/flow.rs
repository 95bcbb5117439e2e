//! Tools that send items while they run, or ask the caller for input.

use std::time::Duration;

use mgp_server_sdk::EventHub;
use mgp_server_sdk::prelude::*;
use mgp_types::mcp::{ContentBlock, ElicitAction, ElicitParams, ElicitResult};
use mgp_types::method::{ElicitationCreate, Request as _};
use mgp_types::service::CallerRequest;
use mgp_types::{Payload, RawObject};

#[derive(Deserialize, JsonSchema)]
struct Stream {
    /// The number of chunks.
    chunks: u32,
    /// The length of each chunk.
    bytes: usize,
    /// The delay before each chunk, in milliseconds.
    #[serde(default)]
    delay_ms: u64,
}

#[derive(Deserialize, JsonSchema)]
struct Steps {
    /// The number of steps.
    steps: u32,
    /// The delay before each step, in milliseconds.
    #[serde(default)]
    delay_ms: u64,
}

#[derive(Deserialize, JsonSchema)]
struct Confirm {
    /// The question to the user.
    message: String,
}

#[derive(Deserialize, JsonSchema)]
struct Publish {
    /// The channel.
    channel: String,
    /// The severity: info, warning or error.
    #[serde(default)]
    severity: Option<String>,
    /// The data of each event.
    #[serde(default)]
    data: serde_json::Value,
    /// The number of events; `data.number` counts them from 1 if the data is an object.
    #[serde(default)]
    count: Option<u32>,
}

pub(super) fn tools(events: &EventHub) -> Vec<Tool> {
    let events = events.clone();
    vec![
        Tool::new("stream", "Sends chunks, then the whole text", stream),
        Tool::new("progress", "Reports progress", progress),
        Tool::new("confirm", "Asks the user to confirm", confirm),
        Tool::new("publish", "Publishes events", move |Args(what): Args<Publish>| {
            publish(events.clone(), what)
        }),
    ]
}

async fn stream(Args(stream): Args<Stream>, outlet: Outlet) -> Result<String, RpcError> {
    let mut whole = String::new();
    for number in 0..stream.chunks {
        tokio::time::sleep(Duration::from_millis(stream.delay_ms)).await;
        // Each chunk repeats one letter, and the letters are in alphabetical order, so that a test can check the order
        // of the chunks.
        let letter = char::from(b'a' + u8::try_from(number % 26).unwrap_or_default());
        let text = letter.to_string().repeat(stream.bytes);
        // The error is ignored, because a caller that has disconnected or accepts no chunks does not affect the result.
        let _ = outlet.send(OutletItem::chunk(Payload::of(&ContentBlock::text(&*text))?)).await;
        whole += &text;
    }
    Ok(whole)
}

async fn publish(events: EventHub, publish: Publish) -> Result<String, RpcError> {
    let count = publish.count.unwrap_or(1);
    for number in 1..=count {
        let mut data = publish.data.clone();
        if let Some(data) = data.as_object_mut() {
            data.entry("number").or_insert_with(|| number.into());
        }
        let severity = publish.severity.as_deref().unwrap_or("info").into();
        events.emit(&publish.channel, severity, &data).await?;
    }
    Ok(format!("published {count}"))
}

async fn progress(Args(steps): Args<Steps>, outlet: Outlet) -> String {
    for step in 1..=steps.steps {
        tokio::time::sleep(Duration::from_millis(steps.delay_ms)).await;
        let progress = Progress {
            progress: step.into(),
            total: Some(steps.steps.into()),
            message: Some(format!("step {step}")),
            estimated_remaining_ms: Some(u64::from(steps.steps - step) * steps.delay_ms),
        };
        let _ = outlet.send(OutletItem::Progress(progress)).await;
    }
    format!("{} steps", steps.steps)
}

async fn confirm(Args(confirm): Args<Confirm>, cx: Context) -> Result<&'static str, RpcError> {
    let form = serde_json::json!({
        "type": "object",
        "properties": {"yes": {"type": "boolean", "description": "Whether to go on"}},
        "required": ["yes"],
    });
    let mut params = ElicitParams::new(confirm.message);
    params.requested_schema = Some(RawObject::of(&form).map_err(RpcError::invalid_params)?);
    let ask = CallerRequest::new(ElicitationCreate::METHOD, Payload::of(&params)?);
    let answer: ElicitResult = cx.ask("confirm", ask).await?.get()?;
    let yes = answer.content.as_ref().and_then(|content| content.get("yes")).map(Payload::as_str);
    Ok(match (answer.action, yes) {
        (ElicitAction::Accept, Some("true")) => "confirmed",
        (ElicitAction::Accept | ElicitAction::Decline, _) => "declined",
        _ => "no answer",
    })
}
