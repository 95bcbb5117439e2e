//! The steps of the demonstration, in their order.
//!
//! Applies to: both.

use std::time::Duration;

use mgp_client_sdk::{Error, ToolResult as _};
use mgp_security::{AuditQuery, Governance};
use mgp_types::ErrorCode;
use mgp_types::mgp::{AccessGrantParams, ShutdownReason};
use mgp_types::service::BoxFuture;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::Seen;
use super::stage::{SOON, Stage};

/// One thing that is shown.
pub(super) struct Step {
    pub(super) title: &'static str,
    /// Why anybody would want it.
    pub(super) why: &'static str,
    pub(super) show: fn(&mut Stage) -> BoxFuture<'_, Seen>,
}

pub(super) const ALL: &[Step] = &[
    Step {
        title: "Nobody has access",
        why: "A server you add is closed until you grant something.",
        show: |stage| Box::pin(nobody_has_access(stage)),
    },
    Step {
        title: "One list instead of many",
        why: "The agent sees three tools, and with them finds the others by what they do.",
        show: |stage| Box::pin(a_tool_is_found(stage)),
    },
    Step {
        title: "A tool that was found is called",
        why: "It goes to the server that has it, with all checks on the way.",
        show: |stage| Box::pin(it_is_called(stage)),
    },
    Step {
        title: "A dangerous call waits for you",
        why: "The agent cannot confirm it itself; what you approve runs once.",
        show: |stage| Box::pin(a_person_confirms(stage)),
    },
    Step {
        title: "A tool that changes is held back",
        why: "What a server says of its tools is compared with what you first saw.",
        show: |stage| Box::pin(a_definition_changes(stage)),
    },
    Step {
        title: "A server that crashes comes back",
        why: "Its calls fail with a reason, and the next one finds it running again.",
        show: |stage| Box::pin(a_crash(stage)),
    },
    Step {
        title: "A server is drained",
        why: "What runs is finished before it stops; nothing is cut off.",
        show: |stage| Box::pin(a_drain(stage)),
    },
    Step {
        title: "Everything is on the record",
        why: "Each decision is in a log whose lines are chained: a line that was changed is found.",
        show: |stage| Box::pin(the_record(stage)),
    },
];

// === The steps ===

async fn nobody_has_access(stage: &mut Stage) -> Seen {
    known(stage, "notes", "notes.keep").await?;
    let refused = refusal(stage, "notes.keep", json!({"title": "a", "text": "b"})).await?;
    if refused.code() != ErrorCode::ACCESS_DENIED {
        return Err(format!("the call was answered: {refused}"));
    }
    for server in ["notes", "unruly"] {
        let grant = AccessGrantParams::allow("demo", server).because("for the demonstration");
        let granted = stage.governance().access().grant(&stage.operator, grant).await;
        granted.map_err(|error| error.message().to_owned())?;
    }
    Ok(format!(
        "The call of `notes.keep` was refused with {}; now the agent `demo` is granted both servers.",
        ErrorCode::ACCESS_DENIED.0
    ))
}

async fn a_tool_is_found(stage: &mut Stage) -> Seen {
    known(stage, "unruly", "wipe").await?;
    let listed = stage.agent.list_tools().await.map_err(words)?;
    let wish = "save a note for later";
    let found = stage.call("mgp_tools_discover", json!({"query": wish})).await.map_err(words)?;
    let found: Value = found.get().map_err(words)?;
    let first = found["tools"][0]["name"].as_str().unwrap_or("nothing");
    if first != "notes.keep" || listed.len() != 3 {
        return Err(format!("{} tools are listed, and `{wish}` found {first}", listed.len()));
    }
    let ms = found["query_time_ms"].as_f64().unwrap_or_default();
    let of = stage.kernel.index().len();
    Ok(format!("“{wish}” found `{first}` among {of} tools, in {ms} ms."))
}

async fn it_is_called(stage: &mut Stage) -> Seen {
    let note = json!({"title": "demo", "text": "It works."});
    let call = json!({"name": "notes.keep", "arguments": note});
    let kept = stage.call("mgp_tools_call", call).await.map_err(words)?.to_text();
    let read = stage.call("notes.read", json!({"title": "demo"})).await.map_err(words)?.to_text();
    if kept != "kept" || read != "It works." {
        return Err(format!("the note was `{kept}` and reads `{read}`"));
    }
    Ok("The note was kept through `mgp_tools_call`, and read back by the tool's own name."
        .to_owned())
}

async fn a_person_confirms(stage: &mut Stage) -> Seen {
    let arguments = json!({"disk": "the old one"});
    let inbox = stage.governance().inbox().ok_or("there is no inbox of approvals")?.clone();
    let calling = stage.call("wipe", arguments.clone());
    let deciding = async {
        loop {
            let open =
                inbox.list(&stage.operator).await.map_err(|error| error.message().to_owned())?;
            if let Some(open) = open.iter().find(|open| open.tool.as_deref() == Some("wipe")) {
                let by = &stage.operator;
                let approved = inbox.approve(by, &open.id, Some("the disk is sold")).await;
                return approved.map_err(|error| error.message().to_owned());
            }
            sleep(Duration::from_millis(20)).await;
        }
    };
    let (ran, approved) = tokio::join!(calling, timeout(SOON, deciding));
    let approved = approved.map_err(|_| "the call never asked")??;
    let ran = ran.map_err(words)?.to_text();
    if !ran.contains("number 1") {
        return Err(format!("the approved call answered `{ran}`"));
    }
    Ok(format!("`wipe` waited under {}, was approved by you, and ran: “{ran}”.", approved.id))
}

async fn a_definition_changes(stage: &mut Stage) -> Seen {
    let rain = stage.call("weather", json!({"city": "Bern"})).await.map_err(words)?.to_text();
    stage.call("turn_coat", json!({})).await.map_err(words)?;
    let definitions = stage.governance().definitions().clone();
    let refused = timeout(SOON, async {
        loop {
            match stage.call("weather", json!({"city": "Bern"})).await {
                Ok(result) if result.is_error != Some(true) => {}
                answer => return answer,
            }
            sleep(Duration::from_millis(20)).await;
        }
    });
    let refused = refused.await.map_err(|_| "the changed tool could still be called")?;
    let why = match refused {
        Ok(result) => result.to_text(),
        Err(error) => error.to_string(),
    };
    let waiting = definitions.waiting().map_err(|error| error.to_string())?;
    let held = waiting.iter().find(|waiting| waiting.tool == "weather");
    let held = held.ok_or_else(|| format!("it was refused, but nothing waits: {why}"))?;
    Ok(format!(
        "`weather` said “{rain}” before. Then it told the model to read ~/.ssh: it is refused until you approve \
         {}.",
        &held.held.fingerprint.to_string()[..12]
    ))
}

async fn a_crash(stage: &mut Stage) -> Seen {
    let lost = stage.call("crash", json!({})).await;
    let Err(lost) = lost else { return Err("the server answered and did not crash".to_owned()) };
    let began = tokio::time::Instant::now();
    let back = timeout(SOON, async {
        loop {
            match stage.call("slow", json!({"ms": 1})).await {
                Ok(result) if result.is_error != Some(true) => return,
                _ => sleep(Duration::from_millis(20)).await,
            }
        }
    });
    back.await.map_err(|_| "the server did not come back")?;
    let ms = began.elapsed().as_millis();
    Ok(format!("The call failed with {}; {ms} ms later the server was back.", lost.code().0))
}

async fn a_drain(stage: &mut Stage) -> Seen {
    let operator = stage.join(stage.operator.clone()).await?;
    let running = stage.call("slow", json!({"ms": 500}));
    let draining = async {
        sleep(Duration::from_millis(150)).await;
        let mut params = mgp_types::mgp::ShutdownParams::new();
        params.server_id = Some("unruly".to_owned());
        params.reason = Some(ShutdownReason::OperatorRequest);
        let accepted = operator.mgp().lifecycle_shutdown(&params).await;
        sleep(Duration::from_millis(100)).await;
        (accepted, stage.call("slow", json!({"ms": 1})).await)
    };
    let (ran, (accepted, late)) = tokio::join!(running, draining);
    operator.close().await;
    if !accepted.map_err(words)?.accepted {
        return Err("the drain was not accepted".to_owned());
    }
    let ran = ran.map_err(words)?.to_text();
    let late = match late {
        Err(error) => error.code(),
        Ok(result) => return Err(format!("a late call was let in: {}", result.to_text())),
    };
    if ran != "done after 500 ms" {
        return Err(format!("the running call ended with `{ran}`"));
    }
    Ok(format!(
        "The call that ran was finished (“{ran}”); one that came later was refused with {}.",
        late.0
    ))
}

async fn the_record(stage: &mut Stage) -> Seen {
    let log = stage.governance().log().ok_or("there is no log")?.clone();
    log.flush().await.map_err(|error| error.to_string())?;
    let page = log.query(AuditQuery::new()).await.map_err(|error| error.to_string())?;
    let records = Governance::verify(stage.folder()).await.map_err(|error| error.to_string())?;
    let has = |name: &str| page.events.iter().any(|event| event.event_type.as_str() == name);
    let wanted = ["ACCESS_GRANTED", "TOOL_EXECUTED", "dev.cloto.approval_decided"];
    if let Some(missing) = wanted.iter().find(|name| !has(name)) {
        return Err(format!("{records} records, but no {missing}"));
    }
    Ok(format!("{records} records, and the chain is whole: `mgp audit verify` says the same."))
}

// === What they share ===

/// Waits until the kernel knows a tool.
async fn known(stage: &Stage, server: &str, tool: &str) -> Result<(), String> {
    let known = timeout(SOON, async {
        while stage.kernel.index().get(server, tool).is_none() {
            sleep(Duration::from_millis(5)).await;
        }
    });
    known.await.map_err(|_| format!("the server `{server}` did not tell its tools"))
}

/// The refusal of a call, whatever way it comes.
async fn refusal(stage: &Stage, tool: &str, arguments: Value) -> Result<Error, String> {
    match stage.call(tool, arguments).await.and_then(mgp_client_sdk::ToolResult::into_result) {
        Ok(result) => Err(format!("`{tool}` ran and answered `{}`", result.to_text())),
        Err(error) => Ok(error),
    }
}

fn words(error: impl std::fmt::Display) -> String {
    error.to_string()
}
