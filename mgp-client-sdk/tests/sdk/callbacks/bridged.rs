//! Tests that callers that did not negotiate callbacks get the same questions as elicitation forms.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mgp_client_sdk::{Client, ClientBuilder, ToolResult as _};
use mgp_types::mcp::{ElicitAction, ElicitResult};
use serde_json::json;

use super::world::{ERAS, TRANSPORTS, connect, curious};

/// Returns a builder of a client that answers forms but no callbacks, and a counter of the forms that it received.
fn with_forms(
    answer: impl Fn(&str) -> serde_json::Value + Send + Sync + 'static,
) -> (ClientBuilder, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let builder = Client::builder("c", "1").on_elicitation(move |form| {
        count.fetch_add(1, Ordering::SeqCst);
        let answer = answer(&form.message);
        std::future::ready(if answer.is_null() {
            Ok(ElicitResult::new(ElicitAction::Decline))
        } else {
            form.accept_with(&json!({ "answer": answer }))
        })
    });
    (builder, asked)
}

#[tokio::test]
async fn the_same_questions_are_forms() {
    for era in ERAS {
        for transport in TRANSPORTS {
            let (builder, asked) = with_forms(|message| match message {
                "Delete 3 files?" => json!("confirm"),
                "Who are you?" => json!("Ann"),
                "Which colour?" => json!("red"),
                _ => json!(null),
            });
            for builder in [builder] {
                let client = connect(curious(), builder, era, transport).await;
                let text = client.call("delete").await.unwrap().to_text();
                assert_eq!(text, "deleted", "{era:?} {transport:?}");
                assert_eq!(client.call("greet").await.unwrap().to_text(), "Ann likes red");
                assert_eq!(client.call("both").await.unwrap().to_text(), "false false");
                assert_eq!(asked.load(Ordering::SeqCst), 5, "no question was asked twice");
            }
        }
    }
}

#[tokio::test]
async fn a_form_without_a_clear_answer_confirms_nothing() {
    for era in ERAS {
        for transport in TRANSPORTS {
            let (builder, _) = with_forms(|_| json!("maybe"));
            let client = connect(curious(), builder, era, transport).await;
            let error = client.call("delete").await.unwrap_err();
            assert_eq!(error.code().0, -32602, "{era:?} {transport:?} {error}");

            let empty = Client::builder("c", "1")
                .on_elicitation(|_| async { Ok(ElicitResult::new(ElicitAction::Accept)) });
            let client = connect(curious(), empty, era, transport).await;
            assert_eq!(
                client.call("delete").await.unwrap_err().code().0,
                3003,
                "no answer, no yes"
            );

            let closed = Client::builder("c", "1")
                .on_elicitation(|_| async { Ok(ElicitResult::new(ElicitAction::Cancel)) });
            let client = connect(curious(), closed, era, transport).await;
            assert_eq!(client.call("delete").await.unwrap_err().code().0, 3003);

            // A caller that can be asked in neither form must get the refusal of its era.
            let client = connect(curious(), Client::builder("c", "1"), era, transport).await;
            let code = client.call("delete").await.unwrap_err().code().0;
            assert!([1000, -32021].contains(&code), "{era:?} {code}");
        }
    }
}
