//! Tests that types and futures are `Send`.

use mgp_client_sdk::{Client, ClientBuilder, Error, TestClient, ToolCall, ToolStream};
use mgp_transport::ChildCommand;
use mgp_types::mcp::SubscriptionFilter;

fn sends<T: Send>(_: &T) {}

fn shares<T: Send + Sync + 'static>() {}

#[test]
fn handles_and_errors_are_shared() {
    shares::<Client>();
    shares::<TestClient>();
    shares::<Error>();
}

/// The functions in this test are never called: that they compile is the check.
#[test]
fn futures_are_sent() {
    fn futures(client: &Client, builder: ClientBuilder, call: ToolCall) {
        sends(&builder.spawn(ChildCommand::new("server")));
        sends(&call.send());
        sends(&client.close());
        sends(&client.ping());
        sends(&client.tools());
        sends(&client.list_tools());
        sends(&client.listen(SubscriptionFilter::new()));
        sends(&client.call_many(Vec::new(), 1));
        sends(&client.mgp().health_ping());
    }
    fn streams(stream: &ToolStream) {
        sends(stream);
    }
    let _ = (futures, streams);
}
