//! Servers that refuse what they are told, or say nothing: never fatal, never long.

use std::time::Duration;

use mgp_types::mgp::GrantDecision::{Approved, Denied};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use crate::book::{Book, Takes};
use crate::script::Script;
use crate::told::{SPELLINGS, begin, finish, needing};

async fn refuse(script: &mut Script, method: &str, code: i32) {
    let request = script.read().await.unwrap();
    assert_eq!(request["method"], method);
    let error = json!({ "code": code, "message": "no" });
    script.say(json!({ "jsonrpc": "2.0", "id": request["id"], "error": error })).await;
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_never_fatal_and_one_that_does_not_know_the_method_is_left_alone() {
    for (extension, waiting, telling) in SPELLINGS {
        for (code, again) in [(-32601, false), (-32602, false), (-32603, true), (1000, true)] {
            let takes = Takes::Time(Duration::from_secs(1));
            let book = Book::new(&[("camera", Approved)]).takes(takes);
            let (mut script, connecting) =
                begin(book.client(), needing(&[extension], &["camera"])).await;
            refuse(&mut script, waiting, code).await;
            refuse(&mut script, telling, code).await;
            let _client = finish(&mut script, connecting).await;
            // What was not heard is told again, once, unless nobody is there to hear it.
            for decision in [Approved, Denied] {
                if again {
                    refuse(&mut script, telling, code).await;
                }
                let more = timeout(Duration::from_mins(1), script.read()).await;
                assert!(more.is_err(), "{code}: {more:?}");
                book.clone().takes(Takes::Nothing).set("camera", Some(decision.into()));
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_answers_holds_nobody_up() {
    for (extension, waiting, telling) in SPELLINGS {
        let takes = Takes::Time(Duration::from_secs(20));
        let book = Book::new(&[("camera", Approved)]).takes(takes);
        let (mut script, connecting) =
            begin(book.client(), needing(&[extension], &["camera"])).await;
        let before = Instant::now();
        let mut heard: Vec<Value> = Vec::new();
        while heard.last().is_none_or(|message| message["method"] != "notifications/initialized") {
            heard.push(script.read().await.unwrap());
        }
        assert!(connecting.await.unwrap().is_ok());
        let words: Vec<_> = heard.iter().filter_map(|message| message["method"].as_str()).collect();
        let given_up = "notifications/cancelled";
        assert_eq!(words, [waiting, given_up, telling, given_up, "notifications/initialized"]);
        assert_eq!(before.elapsed().as_secs(), 25);
    }
}
