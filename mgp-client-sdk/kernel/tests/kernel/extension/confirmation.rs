//! Tests of calls that the caller's own user confirms, with a token (extension `human_in_the_loop`).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mgp_client_sdk::{Client, ToolCall, ToolResult as _};
use mgp_kernel::Kernel;
use mgp_server_sdk::prelude::*;
use mgp_types::mcp::Era;
use mgp_types::mgp::Extension;
use mgp_types::proposal::{
    ConfirmationRequired, ConfirmationRisk, ConfirmationToken, UserConfirmed,
};
use serde_json::json;

use crate::route::world::{PAIRS, build_with_tools, config_of, host, host_of, limit_era, open};

#[derive(Deserialize, JsonSchema)]
struct Repository {
    name: String,
}

async fn kernel(below: Era) -> (Kernel, Arc<AtomicUsize>) {
    let ran = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&ran);
    let make = move || {
        let count = Arc::clone(&count);
        let delete = Tool::new("delete", "Deletes", move |Args(of): Args<Repository>| {
            count.fetch_add(1, Ordering::Relaxed);
            async move { format!("deleted {}", of.name) }
        });
        let delete = delete.confirm_each_call("Delete `{name}`?", &ConfirmationRisk::Destructive);
        limit_era(Server::new("git", "1").tool(delete), below)
    };
    let config = "[kernel]\napproval_timeout = '100ms'\n[agents.ada]\ninteractive = true";
    let builder = Kernel::builder().config(config_of(config)).local_with("git", open(&[]), make);
    let kernel = build_with_tools(builder, [("git", 1)]).await;
    (kernel, ran)
}

fn delete(client: &Client, name: &str) -> ToolCall {
    client.call("delete").args(json!({"name": name}))
}

fn answer(call: ToolCall, token: &str, confirmed: bool) -> ToolCall {
    call.with(&ConfirmationToken(token.to_owned())).with(&UserConfirmed(confirmed))
}

async fn required(call: ToolCall) -> ConfirmationRequired {
    let result = call.await.unwrap();
    ConfirmationRequired::of(&result).unwrap_or_else(|| panic!("{}", result.to_text()))
}

#[tokio::test]
async fn a_confirmed_call_runs_once_and_only_as_it_was_confirmed() {
    for (above, below) in PAIRS {
        let (kernel, ran) = kernel(below).await;
        let client =
            host(&kernel, "ada", host_of(above).extension(Extension::HumanInTheLoop)).await;
        let asked = required(delete(&client, "app")).await;
        assert_eq!(asked.risk_level, ConfirmationRisk::Destructive);
        let message = asked.confirmation_message;
        assert!(message.contains("\nThe server asks: Delete `app`?\nArguments:"), "{message}");
        assert_eq!(ran.load(Ordering::Relaxed), 0);

        let token = asked.confirmation_token;
        required(answer(delete(&client, "production"), &token, true)).await;
        required(answer(delete(&client, "app"), "made-up", true)).await;
        required(delete(&client, "app").with(&UserConfirmed(true))).await;
        assert_eq!(ran.load(Ordering::Relaxed), 0, "{above:?} {below:?}");

        let done = answer(delete(&client, "app"), &token, true).await.unwrap();
        assert_eq!(done.to_text(), "deleted app", "{above:?} {below:?}");
        let again = required(answer(delete(&client, "app"), &token, true)).await;
        assert_eq!(ran.load(Ordering::Relaxed), 1, "a token is used once");

        let denied = answer(delete(&client, "app"), &again.confirmation_token, false).await;
        assert!(denied.unwrap_err().to_string().contains("denied"));
        assert_eq!(ran.load(Ordering::Relaxed), 1);
    }
}

#[tokio::test]
async fn an_agent_without_a_user_and_a_caller_without_the_extension_do_not_confirm_their_calls() {
    let (kernel, ran) = kernel(Era::Modern).await;
    let with = host_of(Era::Modern).extension(Extension::HumanInTheLoop);
    let plain = host(&kernel, "ada", host_of(Era::Modern)).await;
    let agent = host(&kernel, "robot", with).await;
    for client in [plain, agent] {
        let refused = delete(&client, "app").with(&UserConfirmed(true)).await.unwrap_err();
        assert!(refused.to_string().contains("did not run"), "{refused}");
        client.close().await;
    }
    assert_eq!(ran.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_confirmation_message_shows_invisible_characters() {
    let (kernel, _) = kernel(Era::Modern).await;
    let with = host_of(Era::Modern).extension(Extension::HumanInTheLoop);
    let client = host(&kernel, "ada", with).await;
    let message = required(delete(&client, "a\u{202e}b")).await.confirmation_message;
    assert!(message.contains(r"The server asks: Delete `a\u{202e}b`?"), "{message}");
    assert!(!message.contains('\u{202e}'), "{message}");
}
