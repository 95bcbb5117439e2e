//! Tests of callbacks (questions to callers) through the kernel, for all four pairs of eras of host and server (MGP
//! §13.4).

use std::sync::{Arc, Mutex};

use mgp_client_sdk::{CallbackAnswer, ClientBuilder, ToolResult};
use mgp_kernel::Kernel;
use mgp_server_sdk::ContextExt as _;
use mgp_server_sdk::prelude::*;
use mgp_types::mcp::Era;
use mgp_types::method::{KernelCallbacks, KernelCallbacksAnswer};
use mgp_types::mgp::{
    CallbackRespondParams, CallbackStatus, KernelCallbackAnswerParams, KernelCallbacksParams,
};
use mgp_types::service::Principal;
use mgp_types::{ErrorCode, Payload};
use serde_json::json;

use super::world::{PAIRS, host, host_as, host_of, kernel_with, limit_era, open, until};

const TOOLS: [&str; 2] = ["delete", "greet"];

fn curious(era: Era) -> Server {
    let delete = Tool::new("delete", "Deletes", |cx: Context| async move {
        Ok::<_, RpcError>(if cx.confirm("Delete 3 files?").await? { "deleted" } else { "kept" })
    });
    let greet = Tool::new("greet", "Greets", |cx: Context| async move {
        let name = cx.input("Who are you?").await?;
        let colour = cx.select("Which colour?", ["red", "blue"]).await?;
        Ok::<_, RpcError>(format!("{name} likes {colour}"))
    });
    limit_era(Server::new("c", "1").tool(delete).tool(greet), era)
}

async fn world(era: Era) -> Kernel {
    kernel_with("c", open(&TOOLS), 2, move || curious(era)).await
}

/// Returns the builder of a host that answers callbacks, and the list in which the host records the questions.
fn asked(builder: ClientBuilder) -> (ClientBuilder, Arc<Mutex<Vec<String>>>) {
    let questions: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = Arc::clone(&questions);
    let builder = builder.on_callback(move |question| {
        let message = question.message.unwrap_or_default();
        seen.lock().unwrap().push(message.clone());
        async move {
            Ok(match message.lines().last() {
                Some("Who are you?") => CallbackAnswer::text("Ann"),
                Some("Which colour?") => CallbackAnswer::text("blue"),
                Some("Delete 3 files?") => CallbackAnswer::text("confirm"),
                _ => CallbackAnswer::Dismissed,
            })
        }
    });
    (builder, questions)
}

#[tokio::test]
async fn a_host_with_callbacks_gets_the_question_with_the_name_of_the_server() {
    for (above, below) in PAIRS {
        let kernel = world(below).await;
        let (builder, questions) = asked(host_of(above));
        let host = host(&kernel, "ann", builder).await;
        let pair = format!("{above:?} {below:?}");
        assert_eq!(host.call("greet").await.unwrap().to_text(), "Ann likes blue", "{pair}");
        assert_eq!(host.call("delete").await.unwrap().to_text(), "deleted", "{pair}");
        let questions = questions.lock().unwrap().clone();
        let expected = ["Who are you?", "Which colour?", "Delete 3 files?"]
            .map(|text| format!("The server `c` asks:\n{text}"));
        assert_eq!(questions, expected, "{pair}");
    }
}

#[tokio::test]
async fn an_information_of_a_server_is_not_called_a_question() {
    let make = || {
        let tool = Tool::new("work", "Works", |cx: Context| async move {
            cx.inform("almost done").await;
            "done"
        });
        Server::new("c", "1").tool(tool)
    };
    let kernel = kernel_with("c", open(&["work"]), 1, make).await;
    let (builder, questions) = asked(host_of(Era::Legacy));
    let host = host(&kernel, "ann", builder).await;
    assert_eq!(host.call("work").await.unwrap().to_text(), "done");
    until("it is shown", async || !questions.lock().unwrap().is_empty()).await;
    assert_eq!(questions.lock().unwrap()[0], "The server `c` reports:\nalmost done");
}

#[tokio::test]
async fn a_host_with_forms_gets_a_form() {
    for (above, below) in PAIRS {
        let kernel = world(below).await;
        let builder = host_of(above).on_elicitation(|form| async move {
            let answer = match form.message.strip_prefix("The server `c` asks:\n") {
                Some("Who are you?") => "Ann",
                Some("Which colour?") => "red",
                Some("Delete 3 files?") => "cancel",
                _ => panic!("{}", form.message),
            };
            form.accept_with(&json!({ "answer": answer }))
        });
        let host = host(&kernel, "ann", builder).await;
        let pair = format!("{above:?} {below:?}");
        assert_eq!(host.call("greet").await.unwrap().to_text(), "Ann likes red", "{pair}");
        assert_eq!(host.call("delete").await.unwrap().to_text(), "kept", "{pair}");
    }
}

#[tokio::test]
async fn an_operator_answers_for_a_host_that_cannot_be_asked() {
    for (above, below) in PAIRS {
        let kernel = world(below).await;
        let pair = format!("{above:?} {below:?}");
        let agent = host(&kernel, "ann", host_of(above)).await;
        let operator = host_as(&kernel, Principal::local().operator(), host_of(above)).await;
        let list = async || {
            let params = KernelCallbacksParams::new();
            operator.request::<KernelCallbacks>(&params).await.unwrap().callbacks
        };
        for (answer, outcome) in [(r#""confirm""#, "deleted"), (r#""cancel""#, "kept")] {
            let call = tokio::spawn(agent.call("delete").into_future());
            until("the question is open", async || !list().await.is_empty()).await;
            let open = list().await.remove(0);
            assert_eq!((open.server_id.as_str(), open.agent_id.as_deref()), ("c", Some("ann")));
            assert_eq!(open.message, "Delete 3 files?");
            let params = |response: &str| {
                KernelCallbackAnswerParams::new(open.id.as_str(), Payload::parse(response).unwrap())
            };
            // The agent must not be able to answer in place of the operator, and the operator's answer must fit the
            // question.
            let own = agent.request::<KernelCallbacksAnswer>(&params(answer)).await.unwrap_err();
            assert_eq!(own.code(), ErrorCode::PERMISSION_DENIED, "{pair}");
            let wrong = params(r#""maybe""#);
            let wrong = operator.request::<KernelCallbacksAnswer>(&wrong).await.unwrap_err();
            assert_eq!(wrong.code(), ErrorCode::INVALID_PARAMS, "{pair}");
            operator.request::<KernelCallbacksAnswer>(&params(answer)).await.unwrap();
            assert_eq!(call.await.unwrap().unwrap().to_text(), outcome, "{pair}");
            let late = operator.request::<KernelCallbacksAnswer>(&params(answer)).await;
            assert_eq!(late.unwrap_err().code(), ErrorCode::INVALID_PARAMS, "{pair}");
        }
        // The kernel withdraws a question when the call that waits for the answer ends.
        let call = tokio::spawn(agent.call("delete").into_future());
        until("the question is open", async || !list().await.is_empty()).await;
        call.abort();
        until("the question is closed", async || list().await.is_empty()).await;
    }
}

#[tokio::test]
async fn another_host_cannot_answer() {
    for (above, below) in PAIRS {
        let kernel = world(below).await;
        let ids: Arc<Mutex<Vec<String>>> = Arc::default();
        let seen = Arc::clone(&ids);
        let builder = host_of(above).on_callback(move |question| {
            seen.lock().unwrap().push(question.callback_id);
            std::future::pending()
        });
        let owner = host(&kernel, "ann", builder).await;
        let other = host(&kernel, "bob", asked(host_of(above)).0).await;
        let call = tokio::spawn(owner.call("delete").into_future());
        until("the host is asked", async || !ids.lock().unwrap().is_empty()).await;
        let id = ids.lock().unwrap()[0].clone();
        let params = CallbackRespondParams::new(id.as_str(), Payload::of("confirm").unwrap());
        let foreign = other.mgp().callback_respond(&params).await.unwrap();
        assert_eq!(foreign.status, CallbackStatus::Unknown, "{above:?} {below:?}");
        // The tool `mgp.callback.respond` is another name of the same method. It also rejects the answer of the other
        // agent.
        let tool = other.call("mgp.callback.respond").arg("callback_id", &id);
        let tool = tool.arg("response", "confirm").await.unwrap();
        assert!(serde_json::to_string(&tool).unwrap().contains("unknown"), "{tool:?}");
        assert!(!call.is_finished());
        let own = owner.mgp().callback_respond(&params).await.unwrap();
        assert_eq!(own.status, CallbackStatus::Accepted, "{above:?} {below:?}");
        assert_eq!(call.await.unwrap().unwrap().to_text(), "deleted");
    }
}
