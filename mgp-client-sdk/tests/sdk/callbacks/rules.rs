//! Tests of the rules of callbacks, for each era and transport.

use std::time::Duration;

use mgp_client_sdk::{CallbackAnswer, Client, ToolResult as _};
use mgp_types::method::CallbackRequest;
use mgp_types::mgp::{CallbackRespondParams, CallbackStatus, CallbackType};
use mgp_types::{Id, Payload};

use super::world::{ERAS, Questions, TRANSPORTS, answering, connect, curious};

/// Returns a builder of a client, and the questions that this client receives. The client only stores the questions, so
/// that the test can answer them.
fn by_hand() -> (mgp_client_sdk::ClientBuilder, Questions) {
    let questions = Questions::default();
    let seen = questions.clone();
    (Client::builder("c", "1").on::<CallbackRequest>(move |asked| seen.note(&asked)), questions)
}

#[tokio::test]
async fn each_type_is_asked_and_answered() {
    for era in ERAS {
        for transport in TRANSPORTS {
            for (answer, outcome) in [("confirm", "deleted"), ("cancel", "kept")] {
                let (builder, questions) = answering(&[Some(answer)]);
                let client = connect(curious(), builder, era, transport).await;
                let text = client.call("delete").await.unwrap().to_text();
                assert_eq!(text, outcome, "{era:?} {transport:?}");
                let asked = &questions.all()[0];
                assert_eq!(asked.kind, CallbackType::Confirmation);
                assert_eq!(asked.options[..], ["confirm", "cancel"]);
                assert!(matches!(asked.request_id, Some(Id::Number(_))));
                assert_eq!(asked.timeout_ms, Some(20_000));
            }
            let (builder, questions) = answering(&[Some("Ann"), Some("blue"), None]);
            let client = connect(curious(), builder, era, transport).await;
            let text = client.call("greet").await.unwrap().to_text();
            assert_eq!(text, "Ann likes blue", "{era:?} {transport:?}");
            let note = questions.next(2).await;
            assert_eq!(note.kind, CallbackType::Notification, "and the call did not wait");
        }
    }
}

#[tokio::test]
async fn an_open_question_holds_nothing_else_up_and_never_becomes_a_yes() {
    for era in ERAS {
        for transport in TRANSPORTS {
            let (builder, questions) = answering(&[]);
            let client = connect(curious(), builder, era, transport).await;
            let call = tokio::spawn(client.call("delete").into_future());
            questions.next(0).await;
            let other = tokio::time::timeout(Duration::from_secs(10), client.call("quick")).await;
            assert_eq!(other.unwrap().unwrap().to_text(), "here", "{era:?} {transport:?}");
            let error = client.call("hasty").await.unwrap_err();
            assert_eq!(error.code().0, 3003, "{era:?} {transport:?} {error}");
            assert!(error.to_string().contains("nothing was confirmed"), "{error}");
            call.abort();
        }
    }
}

#[tokio::test]
async fn only_the_session_of_the_call_answers_and_only_once() {
    for era in ERAS {
        for transport in TRANSPORTS {
            let (builder, questions) = by_hand();
            let client = connect(curious(), builder, era, transport).await;
            let call = tokio::spawn(client.call("delete").into_future());
            let id = questions.next(0).await.callback_id;
            let respond = async |id: &str, response: &str| {
                let response = Payload::parse(response).unwrap();
                let params = CallbackRespondParams::new(id, response);
                client.mgp().callback_respond(&params).await
            };
            let refused = respond(&id, r#""perhaps""#).await.unwrap_err();
            assert_eq!(refused.code().0, -32602, "{era:?} {transport:?}");
            let unknown = respond("cb-001", r#""confirm""#).await.unwrap();
            assert_eq!(unknown.status, CallbackStatus::Unknown);
            let accepted = respond(&id, r#""confirm""#).await.unwrap();
            assert_eq!(accepted.status, CallbackStatus::Accepted, "{era:?} {transport:?}");
            assert_eq!(accepted.callback_id, id);
            let again = respond(&id, r#""cancel""#).await.unwrap();
            assert_eq!(again.status, CallbackStatus::AlreadyProcessed);
            assert_eq!(call.await.unwrap().unwrap().to_text(), "deleted");
        }
    }
}

#[tokio::test]
async fn several_questions_are_open_at_once_and_cancelled_ones_leave_nothing() {
    for era in ERAS {
        for transport in TRANSPORTS {
            let (builder, questions) = by_hand();
            let client = connect(curious(), builder, era, transport).await;
            let call = tokio::spawn(client.call("both").into_future());
            questions.next(1).await;
            let mut asked = questions.all();
            asked.reverse();
            for question in &asked {
                let answer =
                    if question.message.as_deref() == Some("One?") { "confirm" } else { "cancel" };
                let params =
                    CallbackRespondParams::new(&question.callback_id, Payload::of(answer).unwrap());
                let status = client.mgp().callback_respond(&params).await.unwrap().status;
                assert_eq!(status, CallbackStatus::Accepted);
            }
            assert_eq!(call.await.unwrap().unwrap().to_text(), "true false");

            let call = tokio::spawn(client.call("delete").into_future());
            let id = questions.next(2).await.callback_id;
            call.abort();
            let params = CallbackRespondParams::new(&id, Payload::of("confirm").unwrap());
            let mut status = CallbackStatus::Accepted;
            for _ in 0..2_000 {
                // Over HTTP, an answer can overtake the cancellation, so send wrong answers until the question is gone.
                tokio::time::sleep(Duration::from_millis(10)).await;
                let wrong = CallbackRespondParams::new(&id, Payload::of("?").unwrap());
                if client.mgp().callback_respond(&wrong).await.is_ok() {
                    status = client.mgp().callback_respond(&params).await.unwrap().status;
                    break;
                }
            }
            assert_eq!(status, CallbackStatus::Unknown, "{era:?} {transport:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_repeated_question_is_shown_once_and_its_response_sent_again() {
    let (builder, questions) = answering(&[]);
    let transport = super::world::Transport::Stream;
    let client = connect(curious(), builder, ERAS[0], transport).await;
    let error = client.call("delete").await.unwrap_err();
    assert_eq!(error.code().0, 3003, "{error}");
    assert_eq!(questions.len(), 1, "four notifications of one question");
}

#[tokio::test]
async fn a_model_is_asked_by_a_callback_where_the_caller_offers_only_that() {
    for era in ERAS {
        for transport in TRANSPORTS {
            let builder = Client::builder("c", "1").on_callback(|question| async move {
                let asked = Payload::of(&question).unwrap().get::<serde_json::Value>().unwrap();
                assert_eq!(asked["messages"][0]["content"], "Be brief.");
                assert_eq!(
                    (&asked["messages"][1]["content"], &asked["max_tokens"]),
                    (&"2+2?".into(), &1_024.into())
                );
                let answer = serde_json::json!({"content": "four", "model": "m", "tool_calls": []});
                Ok(CallbackAnswer::Given(Payload::of(&answer).unwrap()))
            });
            let client = connect(curious(), builder, era, transport).await;
            let text = client.call("complete").await.unwrap().to_text();
            assert_eq!(text, "m says four", "{era:?} {transport:?}");
        }
    }
}

#[tokio::test]
async fn a_model_is_not_asked_without_the_image_of_the_request() {
    let (builder, questions) = answering(&[Some("four")]);
    let transport = super::world::Transport::Stream;
    let client = connect(curious(), builder, ERAS[0], transport).await;
    assert!(client.call("look").await.is_err());
    assert_eq!(questions.len(), 0);
}
