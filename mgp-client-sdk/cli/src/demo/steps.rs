//! The steps of `mgp demo`, in the order they run.

use std::time::Duration;

use mgp_client_sdk::{Error, ToolResult as _};
use mgp_security::{AuditQuery, Governance};
use mgp_types::ErrorCode;
use mgp_types::mgp::{AccessGrantParams, ShutdownReason};
use mgp_types::service::BoxFuture;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::kernel::{DemoKernel, TIMEOUT};

/// The result of a step: a sentence about the observed behaviour, or about what went wrong.
pub(super) type StepResult = Result<String, String>;

/// A step of the demo: its title, its benefit, and the function that runs it.
pub(super) struct Step {
    pub(super) title: &'static str,
    /// The benefit for the user that the step shows, in one sentence.
    pub(super) why: &'static str,
    pub(super) run: fn(&mut DemoKernel) -> BoxFuture<'_, StepResult>,
}

pub(super) const ALL: &[Step] = &[
    Step {
        title: "No access by default",
        why: "Agents cannot use a new server until you grant access.",
        run: |kernel| Box::pin(access_is_denied_by_default(kernel)),
    },
    Step {
        title: "One list instead of many",
        why: "The agent sees two tools, and uses them to find and call all others by purpose.",
        run: |kernel| Box::pin(a_tool_is_found(kernel)),
    },
    Step {
        title: "Calling a tool that was found",
        why: "The call goes to the server of the tool, through all checks.",
        run: |kernel| Box::pin(a_found_tool_is_called(kernel)),
    },
    Step {
        title: "A dangerous call waits for you",
        why: "The agent cannot confirm it by itself; an approved call runs once.",
        run: |kernel| Box::pin(a_person_confirms(kernel)),
    },
    Step {
        title: "A changed tool is held back",
        why: "Tool definitions are compared with the ones first recorded.",
        run: |kernel| Box::pin(a_definition_changes(kernel)),
    },
    Step {
        title: "A crashed server is restarted",
        why: "Its running calls fail with a reason, and later ones succeed.",
        run: |kernel| Box::pin(a_crash(kernel)),
    },
    Step {
        title: "Draining a server",
        why: "Running calls finish before the server stops.",
        run: |kernel| Box::pin(a_drain(kernel)),
    },
    Step {
        title: "Everything is in the audit log",
        why: "Each decision is in a log with a hash chain, which reveals changed lines.",
        run: |kernel| Box::pin(the_record(kernel)),
    },
];

async fn access_is_denied_by_default(kernel: &mut DemoKernel) -> StepResult {
    wait_for_tool(kernel, "notes", "notes.keep").await?;
    let refused = refusal(kernel, "notes.keep", json!({"title": "a", "text": "b"})).await?;
    if refused.code() != ErrorCode::ACCESS_DENIED {
        return Err(format!("the call failed with another code: {refused}"));
    }
    for server in ["notes", "unruly"] {
        let grant = AccessGrantParams::allow("demo", server).because("for the demo");
        let granted = kernel.governance().access().grant(&kernel.operator, grant).await;
        granted.map_err(|error| error.message().to_owned())?;
    }
    Ok(format!(
        "The call of `notes.keep` was refused with code {}; now the agent `demo` has access to both servers.",
        ErrorCode::ACCESS_DENIED.0
    ))
}

async fn a_tool_is_found(kernel: &mut DemoKernel) -> StepResult {
    wait_for_tool(kernel, "unruly", "wipe").await?;
    let listed = kernel.agent.list_tools().await.map_err(message)?;
    let wish = "save a note for later";
    let found = kernel.call("mgp_tools_discover", json!({"query": wish})).await.map_err(message)?;
    let found: Value = found.get().map_err(message)?;
    let first = found["tools"][0]["name"].as_str().unwrap_or("nothing");
    if first != "notes.keep" || listed.len() != 3 {
        return Err(format!("{} tools are listed, and `{wish}` found {first}", listed.len()));
    }
    let ms = found["query_time_ms"].as_f64().unwrap_or_default();
    let of = kernel.kernel.index().len();
    Ok(format!("“{wish}” found `{first}` among {of} tools, in {ms} ms."))
}

async fn a_found_tool_is_called(kernel: &mut DemoKernel) -> StepResult {
    let note = json!({"title": "demo", "text": "It works."});
    let call = json!({"name": "notes.keep", "arguments": note});
    let kept = kernel.call("mgp_tools_call", call).await.map_err(message)?.to_text();
    let read =
        kernel.call("notes.read", json!({"title": "demo"})).await.map_err(message)?.to_text();
    if kept != "kept" || read != "It works." {
        return Err(format!("the note was `{kept}` and reads `{read}`"));
    }
    Ok("The note was stored through `mgp_tools_call`, and read back by the name of the tool."
        .to_owned())
}

async fn a_person_confirms(kernel: &mut DemoKernel) -> StepResult {
    let arguments = json!({"disk": "the old one"});
    let inbox = kernel.governance().inbox().ok_or("there is no inbox of approvals")?.clone();
    let calling = kernel.call("wipe", arguments.clone());
    let deciding = async {
        loop {
            let open =
                inbox.list(&kernel.operator).await.map_err(|error| error.message().to_owned())?;
            if let Some(open) = open.iter().find(|open| open.tool.as_deref() == Some("wipe")) {
                let by = &kernel.operator;
                let approved = inbox.approve(by, &open.id, Some("the disk is sold")).await;
                return approved.map_err(|error| error.message().to_owned());
            }
            sleep(Duration::from_millis(20)).await;
        }
    };
    let (ran, approved) = tokio::join!(calling, timeout(TIMEOUT, deciding));
    let approved = approved.map_err(|_| "the call never asked for approval")??;
    let ran = ran.map_err(message)?.to_text();
    if !ran.contains("number 1") {
        return Err(format!("the approved call answered `{ran}`"));
    }
    Ok(format!(
        "`wipe` waited for approval {}, was approved by the operator, and ran: “{ran}”.",
        approved.id
    ))
}

async fn a_definition_changes(kernel: &mut DemoKernel) -> StepResult {
    let rain = kernel.call("weather", json!({"city": "Bern"})).await.map_err(message)?.to_text();
    kernel.call("turn_coat", json!({})).await.map_err(message)?;
    let definitions = kernel.governance().definitions().clone();
    let refused = timeout(TIMEOUT, async {
        loop {
            match kernel.call("weather", json!({"city": "Bern"})).await {
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
    let held =
        held.ok_or_else(|| format!("the call was refused, but no definition waits: {why}"))?;
    Ok(format!(
        "`weather` answered “{rain}”. Then its description asked for the contents of ~/.ssh: calls are refused until \
         you approve definition {}.",
        &held.held.fingerprint.to_string()[..12]
    ))
}

async fn a_crash(kernel: &mut DemoKernel) -> StepResult {
    let lost = kernel.call("crash", json!({})).await;
    let Err(lost) = lost else { return Err("the server answered and did not crash".to_owned()) };
    let began = tokio::time::Instant::now();
    let back = timeout(TIMEOUT, async {
        loop {
            match kernel.call("slow", json!({"ms": 1})).await {
                Ok(result) if result.is_error != Some(true) => return,
                _ => sleep(Duration::from_millis(20)).await,
            }
        }
    });
    back.await.map_err(|_| "the server was not restarted")?;
    let ms = began.elapsed().as_millis();
    Ok(format!(
        "The call failed with code {}; {ms} ms later the server was running again.",
        lost.code().0
    ))
}

async fn a_drain(kernel: &mut DemoKernel) -> StepResult {
    let operator = kernel.connect(kernel.operator.clone()).await?;
    let running = kernel.call("slow", json!({"ms": 500}));
    let draining = async {
        sleep(Duration::from_millis(150)).await;
        let mut params = mgp_types::mgp::ShutdownParams::new();
        params.server_id = Some("unruly".to_owned());
        params.reason = Some(ShutdownReason::OperatorRequest);
        let accepted = operator.mgp().lifecycle_shutdown(&params).await;
        sleep(Duration::from_millis(100)).await;
        (accepted, kernel.call("slow", json!({"ms": 1})).await)
    };
    let (ran, (accepted, late)) = tokio::join!(running, draining);
    operator.close().await;
    if !accepted.map_err(message)?.accepted {
        return Err("the drain was not accepted".to_owned());
    }
    let ran = ran.map_err(message)?.to_text();
    let late = match late {
        Err(error) => error.code(),
        Ok(result) => return Err(format!("a late call was accepted: {}", result.to_text())),
    };
    if ran != "done after 500 ms" {
        return Err(format!("the running call returned `{ran}`"));
    }
    Ok(format!(
        "The running call finished (“{ran}”); a later one was refused with code {}.",
        late.0
    ))
}

async fn the_record(kernel: &mut DemoKernel) -> StepResult {
    let log = kernel.governance().log().ok_or("there is no log")?.clone();
    log.flush().await.map_err(|error| error.to_string())?;
    let page = log.query(AuditQuery::new()).await.map_err(|error| error.to_string())?;
    let records = Governance::verify(kernel.folder()).await.map_err(|error| error.to_string())?;
    let has = |name: &str| page.events.iter().any(|event| event.event_type.as_str() == name);
    let wanted = ["ACCESS_GRANTED", "TOOL_EXECUTED", "dev.cloto.approval_decided"];
    if let Some(missing) = wanted.iter().find(|name| !has(name)) {
        return Err(format!("{records} records, but no {missing}"));
    }
    Ok(format!(
        "{records} records, and the chain is intact; `mgp audit verify` checks it for your own log."
    ))
}

async fn wait_for_tool(kernel: &DemoKernel, server: &str, tool: &str) -> Result<(), String> {
    let known = timeout(TIMEOUT, async {
        while kernel.kernel.index().get(server, tool).is_none() {
            sleep(Duration::from_millis(5)).await;
        }
    });
    known.await.map_err(|_| format!("the server `{server}` did not list its tools"))
}

/// Calls a tool and returns its refusal, which is an error response or a tool result marked as an error.
async fn refusal(kernel: &DemoKernel, tool: &str, arguments: Value) -> Result<Error, String> {
    match kernel.call(tool, arguments).await.and_then(mgp_client_sdk::ToolResult::into_result) {
        Ok(result) => Err(format!("`{tool}` ran and answered `{}`", result.to_text())),
        Err(error) => Ok(error),
    }
}

fn message(error: impl std::fmt::Display) -> String {
    error.to_string()
}
