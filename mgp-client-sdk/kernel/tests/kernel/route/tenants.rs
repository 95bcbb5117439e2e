//! Tests that two hosts never receive each other's messages, even if both send the same ids and tokens to one server,
//! and that a server for another tenant does not exist for a host.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use mgp_client_sdk::{Client, ToolResult};
use mgp_discovery::{GovernanceConfig, Isolation};
use mgp_kernel::Kernel;
use mgp_security::ServerPolicy;
use mgp_server_sdk::prelude::*;
use mgp_server_sdk::{ContextExt, LogLevel, Logger, Prompt, Resource};
use mgp_testkit::Alive;
use mgp_types::Payload;
use mgp_types::mcp::{
    CompleteReference, CreateMessageResult, ElicitParams, Era, LogMessageParams, PromptReference,
};
use mgp_types::method::LogMessage;
use mgp_types::service::OutletItem;
use mgp_types::service::{Call, Outlet, Principal, ServerId};
use tokio::sync::{Barrier, Notify};

use super::world::{
    Guest, NO_ARGUMENTS, PAIRS, build, host, host_as, host_of, kernel_with, limit_era, open, until,
};

#[derive(Deserialize, JsonSchema)]
struct Who {
    /// The name of the caller.
    who: String,
}

fn shared(era: Era, both: Arc<Barrier>) -> Server {
    let met = Arc::clone(&both);
    let talk = Tool::new(
        "talk",
        "Talks",
        move |Args(Who { who }): Args<Who>, cx: Context, log: Logger| {
            let met = Arc::clone(&met);
            async move {
                met.wait().await;
                for step in 1..=20 {
                    let _ = cx.outlet.text(&who).await;
                    let total = if who == "ann" { 1000.0 } else { 2000.0 };
                    let _ = cx.outlet.progress(step.into(), total).await;
                    log.log(LogLevel::Info, &who).await;
                    tokio::task::yield_now().await;
                }
                met.wait().await;
                who
            }
        },
    );
    let meet = Arc::clone(&both);
    let think = Tool::new("think", "Thinks", move |Args(Who { who }): Args<Who>, cx: Context| {
        let both = Arc::clone(&meet);
        async move {
            both.wait().await;
            let answer = cx.sample(format!("for {who}")).max_tokens(5).await;
            both.wait().await;
            Ok::<_, RpcError>(format!("{:?}", answer?))
        }
    });
    let ask = Tool::new("ask", "Asks", move |Args(Who { who }): Args<Who>, cx: Context| {
        let both = Arc::clone(&both);
        async move {
            both.wait().await;
            let answer = cx.elicit::<Guest>(format!("for {who}")).await;
            both.wait().await;
            Ok::<_, RpcError>(
                answer?.accepted().map_or_else(|| "declined".to_owned(), |guest| guest.name),
            )
        }
    });
    limit_era(Server::new("s", "1").tool(talk).tool(ask).tool(think).logging(), era)
}

const TOOLS: [&str; 3] = ["talk", "ask", "think"];

#[derive(Clone, Default)]
struct Received(Arc<Mutex<Vec<String>>>);

impl Received {
    fn add(&self, text: impl Into<String>) {
        self.0.lock().unwrap().push(text.into());
    }
}

async fn tenant(kernel: &Kernel, who: &'static str, era: Era) -> (Client, Received) {
    let received = Received::default();
    let (logs, questions, thoughts) = (received.clone(), received.clone(), received.clone());
    let builder = host_of(era)
        .on_sampling(move |question| {
            thoughts.add(format!("question {question:?}"));
            async move { Err::<CreateMessageResult, _>(RpcError::internal("no model")) }
        })
        .on_log(move |message| logs.add(format!("log {}", message.data.as_str())))
        .on_elicitation(move |question: ElicitParams| {
            questions.add(format!("question {}", question.message));
            async move { question.accept_with(&serde_json::json!({ "name": who })) }
        });
    (host(kernel, who, builder).await, received)
}

async fn world(mgp: GovernanceConfig, era: Era) -> Kernel {
    let both = Arc::new(Barrier::new(2));
    let make = move || shared(era, Arc::clone(&both));
    kernel_with("s", mgp, 3, make).await
}

fn record_items(received: &Received) -> Outlet {
    let received = received.clone();
    Outlet::from_fn(move |item| match item {
        OutletItem::Chunk(text) => received.add(format!("chunk {}", text.content.as_str())),
        OutletItem::Progress(step) => received.add(format!("total {:?}", step.total)),
        _ => {}
    })
}

#[tokio::test]
async fn messages_of_simultaneous_calls_reach_only_their_hosts() {
    for (above, below) in PAIRS {
        let pair = format!("{above:?} {below:?}");
        let kernel = world(open(&TOOLS), below).await;
        let (ann, of_ann) = tenant(&kernel, "ann", above).await;
        let (bob, of_bob) = tenant(&kernel, "bob", above).await;
        let mut calls = [
            ann.call("talk").arg("who", "ann").outlet(record_items(&of_ann)),
            bob.call("talk").arg("who", "bob").outlet(record_items(&of_bob)),
        ];
        if above == Era::Modern {
            calls = calls.map(|call| call.log_level(LogLevel::Info));
        }
        let [one, two] = calls;
        let (one, two) = tokio::join!(one.into_future(), two.into_future());
        assert_eq!(
            (one.unwrap().to_text(), two.unwrap().to_text()),
            // Each caller receives its name 20 times in chunks and once in the result.
            ("ann".repeat(21), "bob".repeat(21))
        );
        for (own, other, total, received) in
            [("ann", "bob", "2000", of_ann), ("bob", "ann", "1000", of_bob)]
        {
            let received = received.0.lock().unwrap();
            assert_eq!(
                received.iter().filter(|line| line.starts_with("chunk")).count(),
                21,
                "{pair}"
            );
            let crossed = received.iter().find(|line| line.contains(other) || line.contains(total));
            assert_eq!(crossed, None, "{pair}: a message for {other} at {own}");
        }
    }
}

#[tokio::test]
async fn a_question_that_may_belong_to_two_hosts_reaches_neither() {
    let cases = [Era::Legacy, Era::Modern].map(|above| [(above, "ask"), (above, "think")]);
    for (above, tool) in cases.into_iter().flatten() {
        let kernel = world(open(&TOOLS), Era::Legacy).await;
        let (ann, of_ann) = tenant(&kernel, "ann", above).await;
        let (bob, of_bob) = tenant(&kernel, "bob", above).await;
        let (one, two) = tokio::join!(
            ann.call(tool).arg("who", "ann").into_future(),
            bob.call(tool).arg("who", "bob").into_future()
        );
        for refused in [one, two] {
            let text = match refused {
                Ok(result) => {
                    assert_eq!(result.is_error, Some(true), "{above:?} {tool}");
                    result.to_text()
                }
                Err(error) => error.to_string(),
            };
            assert!(text.contains("several callers"), "{above:?} {tool}: {text}");
        }
        assert!(of_ann.0.lock().unwrap().is_empty() && of_bob.0.lock().unwrap().is_empty());
    }
}

#[tokio::test]
async fn isolated_instances_ask_both_hosts() {
    for (above, below) in PAIRS {
        let mut mgp = open(&TOOLS);
        mgp.isolation = Isolation::PerAgent;
        let kernel = world(mgp, below).await;
        let (ann, of_ann) = tenant(&kernel, "ann", above).await;
        let (bob, of_bob) = tenant(&kernel, "bob", above).await;
        let (one, two) = tokio::join!(
            ann.call("ask").arg("who", "ann").into_future(),
            bob.call("ask").arg("who", "bob").into_future()
        );
        // At a modern server, the tool runs again after the answer, and waits at the barrier again. So check only the
        // results of legacy servers.
        if below == Era::Legacy {
            assert_eq!(one.unwrap().to_text(), "ann", "{above:?} {below:?}");
            assert_eq!(two.unwrap().to_text(), "bob", "{above:?} {below:?}");
        }
        assert_eq!(
            *of_ann.0.lock().unwrap(),
            ["question The server `s` asks:\nfor ann"],
            "{above:?} {below:?}"
        );
        assert_eq!(
            *of_bob.0.lock().unwrap(),
            ["question The server `s` asks:\nfor bob"],
            "{above:?} {below:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn an_unused_instance_is_stopped_to_make_room() {
    let servers = Alive::default();
    let made = servers.clone();
    let mut mgp = open(&["hello"]);
    mgp.isolation = Isolation::PerAgent;
    let make = move || {
        let life = made.begin();
        Server::new("s", "1").tool(Tool::new("hello", "Greets", move || {
            let _kept = &life;
            async { "hello" }
        }))
    };
    let kernel = kernel_with("s", mgp, 1, make).await;
    assert_eq!(servers.ever(), 1, "the shared instance, whose lists are read");
    let ann = host(&kernel, "ann", host_of(Era::Legacy)).await;
    for _ in 0..3 {
        ann.call("hello").await.unwrap();
    }
    assert_eq!(servers.ever(), 2, "one of ann");
    tokio::time::sleep(Duration::from_mins(6)).await;
    assert_eq!(servers.now(), 1, "it was stopped");
    ann.call("hello").await.unwrap();
    assert_eq!(servers.ever(), 3);

    for number in 0..40 {
        let host = host(&kernel, &format!("agent-{number}"), host_of(Era::Legacy)).await;
        host.call("hello").await.unwrap();
    }
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(servers.ever(), 43);
    assert!(servers.now() <= 33, "{servers:?}");
}

#[tokio::test]
async fn a_log_message_after_calls_of_two_principals_is_dropped() {
    let goes = Arc::new(Notify::new());
    let gate = Arc::clone(&goes);
    let make = move || {
        let gate = Arc::clone(&gate);
        let later =
            Tool::new("later", "Tells later", move |Args(Who { who }): Args<Who>, cx: Context| {
                let gate = Arc::clone(&gate);
                async move {
                    tokio::spawn(async move {
                        gate.notified().await;
                        let data = Payload::of(&who).unwrap();
                        let message = LogMessageParams::new(LogLevel::Error, data);
                        let call = Call::tell::<LogMessage>(&message, cx.clone()).unwrap();
                        let _ = cx.peer.send(call).await;
                    });
                    "later"
                }
            });
        limit_era(Server::new("s", "1").tool(later).logging(), Era::Legacy)
    };
    let kernel = kernel_with("s", open(&["later"]), 1, make).await;
    let (ann, of_ann) = tenant(&kernel, "ann", Era::Legacy).await;
    ann.set_level(LogLevel::Debug).await.unwrap();
    let has = |who: &'static str| {
        let received = Arc::clone(&of_ann.0);
        move || {
            let is_received = received.lock().unwrap().iter().any(|line| line.contains(who));
            async move { is_received }
        }
    };
    ann.call("later").arg("who", "of ann").await.unwrap();
    goes.notify_one();
    until("ann gets the log message of her call", has("of ann")).await;

    // A modern host has no session. So after the end of `bob`'s call, only the host of `ann` could receive the message.
    let (bob, _) = tenant(&kernel, "bob", Era::Modern).await;
    bob.call("later").arg("who", "of bob").await.unwrap();
    goes.notify_one();
    tokio::time::sleep(Duration::from_millis(200)).await;
    let received = of_ann.0.lock().unwrap().clone();
    assert!(!received.iter().any(|line| line.contains("of bob")), "{received:?}");
}

#[tokio::test]
async fn the_entries_of_a_server_that_is_for_another_tenant_do_not_exist() {
    let make = |name: &'static str| {
        move || {
            let plan =
                Prompt::new(format!("plan_{name}"), "Plans", |Args(by): Args<Who>| async move {
                    by.who
                });
            let note = Resource::text(format!("note://{name}"), name, name);
            Server::new("s", "1").prompt(plan).resource(note)
        }
    };
    let builder = Kernel::builder().local_with("open", open(&[]), make("open")).local_with(
        "secret",
        open(&[]),
        make("secret"),
    );
    let kernel = build(builder).await;
    let ann = host(&kernel, "ann", host_of(Era::Legacy)).await;
    until("both are listed", || async { ann.prompts().await.unwrap().len() == 2 }).await;
    ann.read_resource("note://secret").await.unwrap();

    let policies = kernel.governance().policies();
    let policy = ServerPolicy::clone(&policies.get(Some(&ServerId::from("secret"))));
    policies.set("secret", policy.tenants(["local"]));
    for era in [Era::Legacy, Era::Modern] {
        let of_beta = Principal::new("beta", "ann").agent("ann");
        let beta = host_as(&kernel, of_beta, host_of(era)).await;
        let refused = async |name: &str| {
            let prompt = format!("plan_{name}");
            let reference = CompleteReference::Prompt(PromptReference::new(prompt.as_str()));
            let errors = [
                // For a resource that is not listed, the kernel must ask only `open`, and not `secret`.
                beta.read_resource(&format!("note://{name}")).await.unwrap_err(),
                beta.get_prompt(&prompt, [("who", "ann")]).await.unwrap_err(),
                beta.complete(reference, "who", "a", NO_ARGUMENTS).await.unwrap_err(),
            ];
            errors.map(|error| error.to_string().replace(name, "NAME"))
        };
        assert_eq!(refused("secret").await, refused("nothing").await, "{era:?}");
    }
    ann.get_prompt("plan_secret", [("who", "ann")]).await.unwrap();
}
