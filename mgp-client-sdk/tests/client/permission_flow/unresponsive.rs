//! Tests of servers that refuse the decision or do not answer: the client must still connect, after a limited time.

use std::time::Duration;

use mgp_types::mgp::GrantDecision::{Approved, Denied};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use super::authority::{DecisionTime, TestAuthority};
use super::legacy::{SPELLINGS, begin, finish, needing};
use crate::script::Script;

async fn refuse(script: &mut Script, method: &str, code: i32) {
    let request = script.read().await.unwrap();
    assert_eq!(request["method"], method);
    let error = json!({ "code": code, "message": "no" });
    script.refuse(&request, error).await;
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_never_fatal_and_an_unknown_method_is_not_retried() {
    for (extension, waiting, method) in SPELLINGS {
        for (code, again) in [(-32601, false), (-32602, false), (-32603, true), (1000, true)] {
            let with_decision_time = DecisionTime::Time(Duration::from_secs(1));
            let authority =
                TestAuthority::new(&[("camera", Approved)]).with_decision_time(with_decision_time);
            let (mut script, connecting) =
                begin(authority.client(), needing(&[extension], &["camera"])).await;
            refuse(&mut script, waiting, code).await;
            refuse(&mut script, method, code).await;
            let _client = finish(&mut script, connecting).await;
            // A refused decision must be sent again once, unless the error code shows that the server cannot process
            // it.
            for decision in [Approved, Denied] {
                if again {
                    refuse(&mut script, method, code).await;
                }
                let more = timeout(Duration::from_mins(1), script.read()).await;
                assert!(more.is_err(), "{code}: {more:?}");
                authority
                    .clone()
                    .with_decision_time(DecisionTime::Nothing)
                    .set("camera", Some(decision.into()));
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_answers_delays_no_call() {
    for (extension, waiting, method) in SPELLINGS {
        let with_decision_time = DecisionTime::Time(Duration::from_secs(20));
        let authority =
            TestAuthority::new(&[("camera", Approved)]).with_decision_time(with_decision_time);
        let (mut script, connecting) =
            begin(authority.client(), needing(&[extension], &["camera"])).await;
        let before = Instant::now();
        let mut received: Vec<Value> = Vec::new();
        while received.last().is_none_or(|message| message["method"] != "notifications/initialized")
        {
            received.push(script.read().await.unwrap());
        }
        assert!(connecting.await.unwrap().is_ok());
        let words: Vec<_> =
            received.iter().filter_map(|message| message["method"].as_str()).collect();
        let given_up = "notifications/cancelled";
        assert_eq!(words, [waiting, given_up, method, given_up, "notifications/initialized"]);
        assert_eq!(before.elapsed().as_secs(), 25);
    }
}
