//! Tests of data references between servers without a kernel (extension `data_references`).

use mgp_client_sdk::{Client, EraChoice, ToolResult};
use mgp_server_sdk::prelude::*;
use mgp_server_sdk::{DataReferences, FromCaller};
use mgp_types::mgp::Extension;
use mgp_types::proposal::DataReference;

fn exporter() -> Server {
    let export = Tool::new(
        "export",
        "Exports a list",
        |references: State<DataReferences>, cx: Context| async move {
            let reference = references.0.export_bytes("text/csv", "a,b\n1,2\n").await?;
            references.0.answer(&cx, &reference)
        },
    );
    Server::new("exporter", "1").tool(export).extension(DataReferences::new("exporter"))
}

fn importer(references: DataReferences) -> Server {
    let import = Tool::new(
        "import",
        "Imports exported data",
        |references: State<DataReferences>, data: FromCaller<DataReference>| async move {
            let reader = references.0.reader(data.0.as_ref())?;
            let bytes = reader.read_to_end().await.map_err(RpcError::invalid_params)?;
            Ok::<_, RpcError>(String::from_utf8_lossy(&bytes).into_owned())
        },
    );
    Server::new("importer", "1").tool(import).extension(references)
}

async fn connect(server: Server, era: EraChoice) -> Client {
    let bound = server.http("127.0.0.1:0").no_auth().bind().await.unwrap();
    let url = format!("http://{}/mcp", bound.local_addr());
    tokio::spawn(bound.run());
    let builder = Client::builder("c", "1").era(era).extension(Extension::DataReferences);
    builder.connect_url(url).await.unwrap()
}

#[tokio::test]
async fn a_reference_is_passed_from_server_to_server_in_both_eras() {
    for era in [EraChoice::Legacy, EraChoice::Modern] {
        let from = connect(exporter(), era).await;
        let references = DataReferences::new("importer").allow_host("127.0.0.1");
        let to = connect(importer(references), era).await;
        let result = from.call("export").await.unwrap();
        assert!(!result.to_text().contains("access_url"), "the model sees no URL");
        let reference = result.member::<DataReference>().unwrap().unwrap();
        let imported = to.call("import").with(&reference).await.unwrap();
        assert_eq!(imported.to_text(), "a,b\n1,2\n", "{era:?}");
    }
}

#[tokio::test]
async fn an_address_of_this_machine_is_not_imported_from_unless_it_is_allowed() {
    let from = connect(exporter(), EraChoice::Modern).await;
    let to = connect(importer(DataReferences::new("importer")), EraChoice::Modern).await;
    let result = from.call("export").await.unwrap();
    let reference = result.member::<DataReference>().unwrap().unwrap();
    let refused = to.call("import").with(&reference).await.unwrap_err();
    assert!(refused.to_string().contains("must not be fetched"), "{refused}");
}
