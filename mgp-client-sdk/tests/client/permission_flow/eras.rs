//! Tests of permissions with our client, our server, and a hop that translates between the eras: granted tools run, and
//! other tools are refused.

use mgp_client_sdk::{Client, EraChoice, Hop, TestClient, ToolResult as _, ToolRouter};
use mgp_server_sdk::{Grants, Server, Tool};
use mgp_transport::duplex;
use mgp_types::ErrorCode;
use mgp_types::method::Request as _;
use mgp_types::method::ToolsCall;
use mgp_types::mgp::GrantDecision::{Approved, Denied};
use mgp_types::mgp::Permission;
use mgp_types::service::{Router, Stack};

use super::authority::TestAuthority;

fn server() -> Server {
    let run = Tool::new("run", "Runs", |grants: Grants| async move {
        grants.standing(&Permission::ShellExecute).as_str().to_owned()
    });
    Server::new("s", "1").tool(run.permissions(["shell"]))
}

async fn connected(authority: &TestAuthority, era: EraChoice) -> Client {
    let (here, there) = duplex();
    tokio::spawn(server().serve(there.reader, there.writer));
    authority.client().era(era).connect(here.reader, here.writer).await.unwrap()
}

const ERAS: [EraChoice; 2] = [EraChoice::Legacy, EraChoice::Modern];

#[tokio::test]
async fn both_sides_of_ours_agree_in_both_eras() {
    for era in ERAS {
        let authority = TestAuthority::new(&[("shell.execute", Approved)]);
        let client = connected(&authority, era).await;
        assert_eq!(client.server().permissions_required, ["shell.execute"]);
        assert_eq!(client.call("run").await.unwrap().to_text(), "granted");
        authority.set("shell.execute", Some(Denied.into()));
        // A legacy server is notified by a separate message, so call until the server refuses.
        let refused = async {
            loop {
                match client.call("run").await {
                    Ok(_) => tokio::time::sleep(std::time::Duration::from_millis(10)).await,
                    Err(error) => return error,
                }
            }
        };
        let error =
            tokio::time::timeout(std::time::Duration::from_secs(10), refused).await.unwrap();
        assert_eq!(error.code(), ErrorCode::PERMISSION_DENIED, "{era:?}");
        assert!(error.message().contains("which is denied; the client's operator"), "{error}");
    }
}

#[tokio::test]
async fn a_client_without_an_authority_runs_tools_as_before() {
    for era in ERAS {
        let client = TestClient::with_builder(server(), Client::builder("c", "1").era(era)).await;
        assert_eq!(client.text("run", ()).await, "unknown");
        let client =
            TestClient::with_builder(server(), Client::builder("c", "1").without_mgp().era(era))
                .await;
        assert_eq!(client.text("run", ()).await, "unknown");
    }
}

#[tokio::test]
async fn a_hop_decides_itself_for_each_pair_of_eras() {
    for above in ERAS {
        for below in ERAS {
            for (decision, says) in [(Approved, "granted"), (Denied, "to this server (1000)")] {
                let authority = TestAuthority::new(&[("shell.execute", decision)]);
                let hop = Hop::new("files", connected(&authority, below).await);
                let board = ToolRouter::new().route("run", hop);
                let upstream = Server::new("hub", "1")
                    .endpoints(Router::new().route(ToolsCall::METHOD, Stack::new(board)));
                let client = Client::builder("c", "1").without_mgp().era(above);
                let client = TestClient::with_builder(upstream, client).await;
                let result = client.call("run").await.unwrap();
                assert_eq!(
                    result.is_error == Some(true),
                    decision == Denied,
                    "{above:?} {below:?}"
                );
                assert!(result.to_text().contains(says), "{above:?} {below:?}: {result:?}");
            }
        }
    }
}

#[tokio::test]
async fn it_works_over_http_in_both_eras() {
    for era in ERAS {
        let bound = server().http("127.0.0.1:0").no_auth().bind().await.unwrap();
        let url = format!("http://{}/mcp", bound.local_addr());
        tokio::spawn(bound.run());
        let authority = TestAuthority::new(&[("shell.execute", Approved)]);
        let builder = authority.client().era(era);
        let builder = builder.http(|http| http.eras = mgp_client_sdk::EraCache::new());
        let client = builder.connect_url(&url).await.unwrap();
        assert_eq!(client.call("run").await.unwrap().to_text(), "granted", "{era:?}");
        // Another client of the same server must not have these grants.
        let other = TestAuthority::new(&[("shell.execute", Denied)]).client().era(era);
        let other = other.http(|http| http.eras = mgp_client_sdk::EraCache::new());
        let other = other.connect_url(&url).await.unwrap();
        assert_eq!(other.call("run").await.unwrap_err().code().0, 1000, "{era:?}");
        assert_eq!(client.call("run").await.unwrap().to_text(), "granted", "{era:?}");
    }
}
