//! Tests that the log shows an operator which questions of servers the kernel refused.

use mgp_server_sdk::prelude::*;
use mgp_testkit::RecordedLog;
use mgp_types::Payload;
use mgp_types::mcp::Era;
use mgp_types::method::{Request as _, ToolsCall};
use mgp_types::service::{Call, Method, Params, Reply};
use tracing::Level;

use super::world::{Guest, answering, host, kernel_with, limit_era, open};

#[tokio::test]
async fn a_refused_question_is_logged_with_its_server_and_reason() {
    let log = RecordedLog::of(Level::INFO);
    let _guard = tracing::subscriber::set_default(log.clone());
    let server = || {
        let form = Tool::new("form", "Asks", |cx: Context| async move {
            let guest = cx.elicit::<Guest>("Who comes?").await?.accepted();
            Ok::<_, RpcError>(guest.map_or_else(String::new, |guest| guest.name))
        });
        limit_era(Server::new("c", "1").tool(form), Era::Legacy)
    };
    let kernel = kernel_with("c", open(&["form"]), 1, server).await;
    // The first client leaves its question open. So the kernel cannot find out which client the second question is for,
    // and refuses it.
    let first = host(&kernel, "ann", answering(Era::Modern)).await;
    let params = Params::tool("form", &Payload::empty_object());
    let call = Call::request(Method::from_static(ToolsCall::METHOD), params, first.context());
    let left = first.stack().send(call).await.unwrap();
    assert!(matches!(left, Reply::InputRequired(_)), "{left:?}");
    let second = host(&kernel, "ann", answering(Era::Modern)).await;
    let refused = second.call("form").await;
    let is_refused = refused.as_ref().map_or(true, |result| result.is_error == Some(true));
    assert!(is_refused, "{refused:?}");
    let log = log.lines();
    let line = log.iter().find(|line| line.contains("question of a server refused"));
    let line = line.unwrap_or_else(|| panic!("{log:?}"));
    let facts = [r#"server="c""#, r#"method="elicitation/create""#, "code=1000", "several clients"];
    for fact in facts {
        assert!(line.contains(fact), "{fact}: {line}");
    }
}
