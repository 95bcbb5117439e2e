//! Tests of data that moves from server to server by reference (extension `data_references`).

use std::time::Duration;

use mgp_client_sdk::{Client, ToolResult};
use mgp_kernel::{Kernel, KernelBuilder};
use mgp_server_sdk::prelude::*;
use mgp_server_sdk::{DataReferences, FromCaller};
use mgp_transport::{Connection, duplex};
use mgp_types::mcp::Era;
use mgp_types::method::ToolsCall;
use mgp_types::mgp::{AccessGrantParams, Extension, Permission, TrustLevel};
use mgp_types::proposal::DataReference;
use mgp_types::service::{CredentialGrant, Principal, Stack};
use mgp_types::{ErrorCode, Sha256Hash};
use serde_json::json;

use crate::route::world::{
    PAIRS, build_with_tools, config_of, grant, host, host_of, limit_era, open,
};

const ENABLED: &str = "[kernel.references]\nenabled = true";

const CSV: &str = "a,b\n1,2\n";

/// A server with the tool `list`, which exports a list, and `broken`, whose reference has a wrong checksum.
pub(crate) fn exporter() -> Server {
    let list = Tool::new(
        "list",
        "Exports a list",
        |references: State<DataReferences>, cx: Context| async move {
            let reference = references.0.export_bytes("text/csv", CSV).await?;
            references.0.answer(&cx, &reference)
        },
    );
    let broken = Tool::new(
        "broken",
        "Exports a list with a wrong checksum",
        |references: State<DataReferences>, cx: Context| async move {
            let mut reference = references.0.export_bytes("text/csv", CSV).await?;
            let other = Sha256Hash::digest(b"other").to_string();
            reference.checksum.as_mut().unwrap().value = other;
            references.0.answer(&cx, &reference)
        },
    );
    Server::new("exporter", "1").tool(list).tool(broken).extension(DataReferences::new("exporter"))
}

/// A server whose tool reads the data of a reference, and returns the number of bytes.
fn importer() -> Server {
    let import = Tool::new(
        "import_from_ref",
        "Imports exported data",
        |references: State<DataReferences>, data: FromCaller<DataReference>| async move {
            let mut reader = references.0.reader(data.0.as_ref())?;
            let (mut bytes, mut last) = (0, Vec::new());
            loop {
                match reader.next().await {
                    Ok(Some(piece)) => {
                        bytes += piece.len();
                        last = piece.to_vec();
                    }
                    Ok(None) => break,
                    Err(error) => {
                        return Ok(Json(json!({ "status": "failed", "error": error.to_string() })));
                    }
                }
            }
            last.truncate(100);
            let text = String::from_utf8_lossy(&last).into_owned();
            Ok::<_, RpcError>(Json(json!({ "status": "imported", "bytes": bytes, "last": text })))
        },
    );
    let references = DataReferences::new("importer").allow_host("127.0.0.1");
    Server::new("importer", "1").tool(import).extension(references)
}

/// A server that does not support references. The result of its tool `long` is long.
fn plain() -> Server {
    #[derive(Deserialize, JsonSchema)]
    struct Text {
        text: String,
    }
    let measure =
        Tool::new("measure", "Measures a text", |Args(Text { text }): Args<Text>| async move {
            format!("{} {}", text.len(), Sha256Hash::digest(text.as_bytes()))
        });
    let long = Tool::new("long", "Returns a long text", || async { long_text() });
    Server::new("plain", "1").tool(measure).tool(long).without_mgp()
}

fn long_text() -> String {
    (0..20_000).flat_map(|row| ["row ".to_owned(), row.to_string(), "\n".to_owned()]).collect()
}

/// Returns the builder of a kernel with the server `plain`, which all agents may use.
fn builder(config: &str) -> KernelBuilder {
    let builder = Kernel::builder().config(config_of(config));
    builder.local_with("plain", open(&["measure", "long"]), plain)
}

/// Starts a kernel with the three servers, which all agents may use.
async fn kernel(config: &str) -> Kernel {
    kernel_in(config, Era::Modern).await
}

/// Starts a kernel with the three servers. `era` is the era of the two servers that support references.
async fn kernel_in(config: &str, era: Era) -> Kernel {
    let exports = open(&["list", "broken"]);
    let builder = builder(config)
        .local_with("exporter", exports, move || limit_era(exporter(), era))
        .local_with("importer", open(&["import_from_ref"]), move || limit_era(importer(), era));
    build_with_tools(builder, [("exporter", 2), ("importer", 1), ("plain", 2)]).await
}

/// Returns an argument that refers to data by the id of the reference.
fn data(ref_id: &str) -> serde_json::Value {
    json!({ "data_reference": { "ref_id": ref_id } })
}

async fn connect(kernel: &Kernel, agent: &str) -> Client {
    let builder = host_of(Era::Modern);
    host(kernel, agent, builder.extension(Extension::DataReferences)).await
}

async fn export(client: &Client) -> DataReference {
    let result = client.call("list").await.unwrap();
    result.member::<DataReference>().unwrap().unwrap()
}

async fn import(client: &Client, reference: &DataReference) -> serde_json::Value {
    let call = client.call("import_from_ref");
    let call = call.arg("ref_id", &reference.ref_id).arg("origin_server", &reference.origin_server);
    call.await.unwrap().get().unwrap()
}

#[tokio::test]
async fn a_reference_of_one_server_is_imported_by_another_in_each_pair_of_eras() {
    for (above, below) in PAIRS {
        let kernel = kernel_in(ENABLED, below).await;
        let host_builder = host_of(above).extension(Extension::DataReferences);
        let client = host(&kernel, "ada", host_builder).await;
        let result = client.call("list").await.unwrap();
        let text = serde_json::to_string(&result).unwrap();
        assert!(!text.contains("access_url") && !text.contains("1,2"), "{text}");
        let reference = result.member::<DataReference>().unwrap().unwrap();
        assert_eq!((&*reference.origin_server, reference.size_bytes), ("exporter", Some(8)));
        let expected = json!({ "status": "imported", "bytes": 8, "last": CSV });
        assert_eq!(import(&client, &reference).await, expected, "{above:?} {below:?}");
        // The caller can also send the reference as a member of `_meta` instead of an argument.
        let imported = client.call("import_from_ref").with(&reference).await.unwrap();
        assert_eq!(imported.get::<serde_json::Value>().unwrap(), expected);
    }
}

#[tokio::test]
async fn a_foreign_agent_and_one_without_a_grant_on_the_origin_are_refused() {
    let kernel = kernel(ENABLED).await;
    let (ada, bob) = (connect(&kernel, "ada").await, connect(&kernel, "bob").await);
    let reference = export(&ada).await;
    let refused = bob.call("import_from_ref").with(&reference).await.unwrap_err();
    assert_eq!(refused.code(), ErrorCode::INVALID_PARAMS, "{refused}");
    assert!(refused.to_string().contains("another agent"), "{refused}");

    grant(&kernel, AccessGrantParams::deny("ada", "exporter")).await;
    let refused = ada.call("import_from_ref").with(&reference).await.unwrap_err();
    assert_eq!(refused.code(), ErrorCode::INVALID_PARAMS, "{refused}");
}

#[tokio::test]
async fn a_call_on_behalf_of_an_agent_gets_no_data_of_a_server_that_the_agent_may_not_use() {
    let kernel = kernel(ENABLED).await;
    let ada = connect(&kernel, "ada").await;
    let reference = export(&ada).await;
    let params = json!({
        "name": "import_from_ref",
        "arguments": { "ref_id": reference.ref_id, "origin_server": "exporter" },
        "_mgp": { "delegation": { "agent_id": "bob" } },
    });
    let params = serde_json::from_value(params).unwrap();
    ada.request::<ToolsCall>(&params).await.unwrap();
    grant(&kernel, AccessGrantParams::deny("bob", "exporter")).await;
    let refused = ada.request::<ToolsCall>(&params).await.err().unwrap();
    assert_eq!(refused.code(), ErrorCode::INVALID_PARAMS, "{refused}");
    import(&ada, &reference).await;
}

#[tokio::test]
async fn an_agent_without_access_to_a_tool_is_refused_before_its_reference_is_looked_up() {
    let kernel = kernel(ENABLED).await;
    let ada = connect(&kernel, "ada").await;
    grant(&kernel, AccessGrantParams::deny("ada", "importer")).await;
    let call = ada.call("import_from_ref").arg("ref_id", "gone").arg("origin_server", "exporter");
    let refused = call.await.unwrap_err();
    assert_eq!(refused.code(), ErrorCode::ACCESS_DENIED, "{refused}");
}

#[tokio::test]
async fn an_agent_that_may_only_see_a_tool_is_refused_before_its_reference_is_looked_up() {
    let kernel = kernel(ENABLED).await;
    let stack = kernel.server().into_stack().unwrap();
    let stack = Stack::from_fn(move |mut call| {
        call.cx_mut().extensions.insert(CredentialGrant::new(["tools.list"], || true));
        stack.send(call)
    });
    let (here, there) = duplex();
    let connection = Connection::new(there.reader, there.writer, stack);
    tokio::spawn(connection.principal(Principal::local().agent("ada")).run());
    let builder = host_of(Era::Modern).extension(Extension::DataReferences);
    let ada = builder.connect(here.reader, here.writer).await.unwrap();
    let call = ada.call("import_from_ref").arg("ref_id", "gone").arg("origin_server", "exporter");
    let refused = call.await.unwrap_err();
    assert_eq!(refused.code(), ErrorCode::ACCESS_DENIED, "{refused}");
}

#[tokio::test]
async fn a_wrong_checksum_fails_the_import_and_an_inline_argument() {
    let kernel = kernel(ENABLED).await;
    let client = connect(&kernel, "ada").await;
    let result = client.call("broken").await.unwrap();
    let reference = result.member::<DataReference>().unwrap().unwrap();
    let imported = import(&client, &reference).await;
    assert_eq!(imported["status"], "failed", "{imported}");
    assert!(imported["error"].as_str().unwrap().contains("checksum"), "{imported}");
    let by_reference = client.call("measure").arg("text", data(&reference.ref_id));
    let refused = by_reference.await.unwrap_err();
    assert!(refused.to_string().contains("checksum"), "{refused}");
}

#[tokio::test]
async fn a_plain_server_gets_the_data_as_an_argument_and_its_long_result_is_a_reference() {
    let kernel = kernel(ENABLED).await;
    let client = connect(&kernel, "ada").await;
    let measured = |text: &str| format!("{} {}", text.len(), Sha256Hash::digest(text.as_bytes()));
    let csv = export(&client).await;
    let result = client.call("measure").arg("text", data(&csv.ref_id)).await.unwrap();
    assert_eq!(result.to_text(), measured(CSV));

    let long = client.call("long").await.unwrap();
    let reference = long.member::<DataReference>().unwrap().unwrap();
    let whole = long_text();
    assert!(long.to_text().len() < whole.len());
    assert!(long.to_text().contains(&reference.ref_id), "the model sees the id");
    let result = client.call("measure").arg("text", data(&reference.ref_id)).await.unwrap();
    assert_eq!(result.to_text(), measured(&whole));
    assert_eq!(import(&client, &reference).await["bytes"], whole.len());

    // A caller without the extension must receive no reference. If it sends a reference in an argument, the kernel
    // passes the argument on unchanged. The call then fails, because the schema of the tool does not accept the
    // argument.
    let plain = host(&kernel, "ada", host_of(Era::Modern)).await;
    assert_eq!(plain.call("long").await.unwrap().meta, None);
    assert_eq!(plain.call("list").await.unwrap().meta, None);
    let outcome = plain.call("measure").arg("text", data(&csv.ref_id)).await;
    assert!(outcome.is_err() || outcome.unwrap().is_error == Some(true));
}

#[tokio::test]
async fn data_reach_an_argument_although_the_url_for_servers_leads_elsewhere() {
    let kernel = kernel(&format!("{ENABLED}\nurl = 'http://kernel.invalid:7070'")).await;
    let client = connect(&kernel, "ada").await;
    let reference = export(&client).await;
    let result = client.call("measure").arg("text", data(&reference.ref_id)).await.unwrap();
    assert_eq!(result.to_text(), format!("{} {}", CSV.len(), Sha256Hash::digest(CSV.as_bytes())));
}

#[tokio::test]
async fn a_reference_as_a_url_is_the_same_in_each_call() {
    #[derive(Deserialize, JsonSchema)]
    struct Place {
        #[schemars(extend("format" = "uri"))]
        url: String,
    }
    let locator = || {
        let locate = Tool::new(
            "locate",
            "Names the place",
            |Args(place): Args<Place>| async move { place.url },
        );
        Server::new("plain", "1").tool(locate).without_mgp()
    };
    let mut mgp = open(&["locate"]);
    mgp.permissions.push(Permission::NetworkOutbound);
    let builder = Kernel::builder()
        .config(config_of(ENABLED))
        .local_with("exporter", open(&["list"]), exporter)
        .local_with("plain", mgp, locator);
    let kernel = build_with_tools(builder, [("exporter", 2), ("plain", 1)]).await;
    let client = connect(&kernel, "ada").await;
    let reference = export(&client).await;
    let mut places = Vec::new();
    for _ in 0..2 {
        let called = client.call("locate").arg("url", data(&reference.ref_id)).await;
        places.push(called.unwrap().to_text());
    }
    assert!(places[0].starts_with("http://127.0.0.1:"), "{places:?}");
    assert_eq!(places[0], places[1]);
}

#[tokio::test]
async fn an_expired_reference_is_refused() {
    let kernel = kernel(&format!("{ENABLED}\nkeep = '1s'")).await;
    let client = connect(&kernel, "ada").await;
    let reference = export(&client).await;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let refused = client.call("import_from_ref").with(&reference).await.unwrap_err();
    assert!(refused.to_string().contains("expired"), "{refused}");
}

#[tokio::test]
async fn a_url_that_could_carry_data_out_of_a_sandbox_is_not_read() {
    let exporter_of = |url: &'static str| {
        move || {
            let list = Tool::new("list", "Exports a list", move |cx: Context| async move {
                let (id, origin) = ("r".to_owned(), "exporter".to_owned());
                let mut reference = DataReference::new(id, origin, "text/plain".to_owned());
                reference.access_url = Some(url.to_owned());
                cx.add_to_result(&reference)?;
                Ok::<_, RpcError>("exported")
            });
            Server::new("exporter", "1").tool(list).extension(Extension::DataReferences)
        }
    };
    let sandboxed = || {
        let mut policy = open(&["list"]);
        policy.trust_level = TrustLevel::Sandboxed;
        policy
    };
    let mut may_listen = sandboxed();
    may_listen.permissions = vec![Permission::NetworkListen];
    let here = "http://127.0.0.1:9/x";
    for (url, policy, is_kept) in [
        ("https://169.254.169.254/latest/meta-data", open(&["list"]), false),
        ("https://public.example/?text=a-secret", open(&["list"]), false),
        (here, open(&["list"]), true),
        (here, sandboxed(), false),
        (here, may_listen, true),
    ] {
        let builder = builder(ENABLED).local_with("exporter", policy, exporter_of(url));
        let kernel = build_with_tools(builder, [("exporter", 1), ("plain", 2)]).await;
        let client = connect(&kernel, "ada").await;
        let result = client.call("list").await.unwrap();
        assert_eq!(result.member::<DataReference>().unwrap().is_some(), is_kept, "{url}");
        if is_kept {
            let refused = client.call("measure").arg("text", data("r")).await.unwrap_err();
            assert!(refused.to_string().contains("it cannot be reached"), "{refused}");
        }
    }
}
