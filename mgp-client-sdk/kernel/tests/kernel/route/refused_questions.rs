//! Tests that an operator finds the refused questions of servers in the log.

use std::fmt::{Debug, Write as _};
use std::sync::{Arc, Mutex};

use mgp_server_sdk::prelude::*;
use mgp_types::Payload;
use mgp_types::mcp::Era;
use mgp_types::method::{Request as _, ToolsCall};
use mgp_types::service::{Call, Method, Params, Reply};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use super::world::{Guest, answering, host, kernel_with, limit_era, open};

/// A subscriber that records what is logged at the level of `kernel.log`, as text.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<String>>);

struct Line<'a>(&'a mut String);

impl Visit for Line<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, "{}={value:?} ", field.name()).unwrap();
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::INFO
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut log = self.0.lock().unwrap();
        event.record(&mut Line(&mut log));
        log.push('\n');
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[tokio::test]
async fn a_refused_question_is_logged_with_its_server_and_reason() {
    let log = Log::default();
    let _guard = tracing::subscriber::set_default(log.clone());
    let server = || {
        let form = Tool::new("form", "Asks", |cx: Context| async move {
            let guest = cx.elicit::<Guest>("Who comes?").await?.accepted();
            Ok::<_, RpcError>(guest.map_or_else(String::new, |guest| guest.name))
        });
        limit_era(Server::new("c", "1").tool(form), Era::Legacy)
    };
    let kernel = kernel_with("c", open(&["form"]), 1, server).await;
    // The first client leaves its question open, so it is unclear for whom the question of the second call is.
    let first = host(&kernel, "ann", answering(Era::Modern)).await;
    let params = Params::tool("form", &Payload::empty_object());
    let call = Call::request(Method::from_static(ToolsCall::METHOD), params, first.context());
    let left = first.stack().send(call).await.unwrap();
    assert!(matches!(left, Reply::InputRequired(_)), "{left:?}");
    let second = host(&kernel, "ann", answering(Era::Modern)).await;
    let refused = second.call("form").await;
    let is_refused = refused.as_ref().map_or(true, |result| result.is_error == Some(true));
    assert!(is_refused, "{refused:?}");
    let log = log.0.lock().unwrap().clone();
    let line = log.lines().find(|line| line.contains("question of a server refused"));
    let line = line.unwrap_or_else(|| panic!("{log}"));
    let facts = [r#"server="c""#, r#"method="elicitation/create""#, "code=1000", "several clients"];
    for fact in facts {
        assert!(line.contains(fact), "{fact}: {line}");
    }
}
