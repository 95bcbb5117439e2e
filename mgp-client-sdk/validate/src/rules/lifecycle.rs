//! The rules about health and shutdown (MGP §11).

use std::time::Duration;

use serde_json::json;

use crate::json::{boolean, number, object, one_of, time};
use crate::rule::{Check, callable_tool, ensure, server_rules, skip};
use crate::session::{Answer, Session};

server_rules! { Tier3;
    "mgp.health.ping", "MGP §11.3", Must, LegacyMgp ["lifecycle"],
        "a health ping is answered with status, time and uptime" => ping;
    "mgp.health.ping.busy", "MGP §11.3", Must, LegacyMgp ["lifecycle"],
        "a health ping is answered within 5 s while a call runs" => ping_while_busy;
    "mgp.health.ping.modern", "MGP §11.3", Must, ModernMgp ["lifecycle"],
        "a health ping is answered in the modern era too" => ping;
    "mgp.health.status", "MGP §11.3", Must, LegacyMgp ["lifecycle"],
        "the health status has the counts of tools and requests" => status;
    "mgp.lifecycle.shutdown", "MGP §11.4", Must, LegacyMgp ["lifecycle"] alone,
        "a request to shut down is answered, and refused only for lack of rights" => shutdown;
    "mgp.lifecycle.shutdown.reason", "MGP §11.4", Must, LegacyMgp ["lifecycle"] alone,
        "a request to shut down with a wrong time is refused" => bad_shutdown;
    "mgp.lifecycle.ends", "MGP §11.4", Must, LegacyMgp ["lifecycle"] alone,
        "a server that accepted to shut down ends its connection" => shutdown_ends;
}

const STATUS: &[&str] = &["healthy", "degraded", "unhealthy"];

async fn ping(session: &mut Session) -> Check {
    let params = json!({ "timestamp": "2026-01-31T12:00:00Z" });
    let result = session.ask("mgp/health/ping", params).await?.result("mgp/health/ping")?;
    one_of(&result, "status", STATUS)?;
    time(&result, "timestamp")?;
    number(&result, "uptime_secs")?;
    Ok(())
}

async fn ping_while_busy(session: &mut Session) -> Check {
    let (name, arguments) = callable_tool(session).await?;
    let id = json!("busy-call");
    let call = session.request(&id, "tools/call", json!({ "name": name, "arguments": arguments }));
    session.send(call).await;
    let pinged = session.ask("mgp/health/ping", json!({}));
    let answer = tokio::time::timeout(Duration::from_secs(5), pinged).await;
    let answer = answer.map_err(|_| "the ping was not answered within 5 s".to_owned())??;
    answer.result("mgp/health/ping")?;
    Ok(())
}

async fn status(session: &mut Session) -> Check {
    let result = session.ask("mgp/health/status", json!({})).await?.result("mgp/health/status")?;
    one_of(&result, "status", STATUS)?;
    for name in ["uptime_secs", "tools_available", "tools_total", "pending_requests"] {
        number(&result, name)?;
    }
    for name in ["resources", "checks"] {
        if result.get(name).is_some() {
            object(&result, name)?;
        }
    }
    let (available, total) = (number(&result, "tools_available")?, number(&result, "tools_total")?);
    ensure(available <= total, || format!("{available} tools of {total} are available"))
}

fn request() -> serde_json::Value {
    json!({ "reason": "operator_request", "timeout_ms": 1000 })
}

/// Skips the rule if the server is at a URL, because a rule that asks a server to shut down would also affect its other
/// clients.
fn may_stop(session: &Session) -> Check {
    if session.is_http() {
        return Err(skip("a server at a URL serves others too, so it is not asked to stop"));
    }
    Ok(())
}

async fn shutdown(session: &mut Session) -> Check {
    may_stop(session)?;
    match session.ask("mgp/lifecycle/shutdown", request()).await? {
        Answer::Result(result) => {
            boolean(&result, "accepted")?;
            number(&result, "pending_requests")?;
            number(&result, "estimated_drain_ms")?;
            Ok(())
        }
        refused @ Answer::Error { .. } => {
            refused.check_error("mgp/lifecycle/shutdown", &[1000, 1001])
        }
    }
}

async fn bad_shutdown(session: &mut Session) -> Check {
    // A server that ignores the invalid `timeout_ms` would stop, so the rule is skipped for a server at a URL.
    may_stop(session)?;
    let params = json!({ "reason": "operator_request", "timeout_ms": "soon" });
    let answer = session.ask("mgp/lifecycle/shutdown", params).await?;
    answer.check_error("mgp/lifecycle/shutdown", &[-32602, 1000, 1001, 4000])
}

async fn shutdown_ends(session: &mut Session) -> Check {
    may_stop(session)?;
    let accepted = match session.ask("mgp/lifecycle/shutdown", request()).await? {
        Answer::Result(result) => boolean(&result, "accepted")?,
        Answer::Error { .. } => false,
    };
    if !accepted {
        return Err(skip("the server did not accept to shut down"));
    }
    let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
    while session.end.is_none() && tokio::time::Instant::now() < deadline {
        if session.next_until(deadline).await.is_none() {
            break;
        }
    }
    ensure(session.end.is_some(), || "the connection is still open 10 s later".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::Link;
    use crate::rule::Outcome;
    use crate::session::{Options, Setup};

    #[tokio::test]
    async fn a_server_at_a_url_is_never_asked_to_stop() {
        let mut link = Link::closed();
        link.is_http = true;
        let mut session = Session::new(link, Setup::LegacyMgp, &Options::new());
        let stopping = RULES.iter().filter(|rule| rule.info.id.starts_with("mgp.lifecycle."));
        for rule in stopping {
            let outcome = (rule.play)(&mut session).await;
            assert!(matches!(outcome, Err(Outcome::Skipped(_))), "{}: {outcome:?}", rule.info.id);
            assert!(session.sent().is_null(), "{}", rule.info.id);
        }
    }
}
