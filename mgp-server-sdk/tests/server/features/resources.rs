//! Tests of the lists, contents and subscriptions of resources: of resources with fixed URIs, templates and sets.

use mgp_server_sdk::prelude::*;
use mgp_server_sdk::{Contents, Page, Resource, ResourceSet, Uri};
use mgp_types::mcp::{self, Annotations, Era};
use mgp_types::service::Principal;
use serde_json::json;

use super::wire::{ERAS, Wire, code};

#[derive(Deserialize, JsonSchema)]
struct Item {
    id: u32,
}

/// A resource set of the rows of a table, which divides its list into pages itself.
struct Rows;

impl ResourceSet for Rows {
    async fn list(
        &self,
        _: &Context,
        cursor: Option<&str>,
    ) -> Result<Page<mcp::Resource>, RpcError> {
        let from: usize = cursor.map_or(Ok(0), str::parse).map_err(RpcError::invalid_params)?;
        let row = |number: usize| mcp::Resource::new(format!("row://{number}"), number.to_string());
        let page = Page::from((from..from + 2).map(row).collect::<Vec<_>>());
        Ok(if from < 2 { page.next((from + 2).to_string()) } else { page })
    }

    async fn templates(&self, _: &Context) -> Result<Vec<mcp::ResourceTemplate>, RpcError> {
        Ok(vec![mcp::ResourceTemplate::new("row://{number}", "row")])
    }

    async fn read(&self, _: &Context, uri: &str) -> Result<Option<Contents>, RpcError> {
        let number = uri.strip_prefix("row://").filter(|number| *number < "4");
        Ok(number.map(|number| Contents::text(format!("row {number}"))))
    }

    fn has(&self, uri: &str) -> bool {
        uri.starts_with("row://")
    }
}

fn server() -> Server {
    let mut hints = Annotations::new();
    hints.priority = Some(0.5.into());
    Server::new("resources", "1")
        .resource(
            Resource::text("test://static-text", "text", "This is static.")
                .title("Static text")
                .description("Never changes")
                .annotations(hints),
        )
        .resource(Resource::bytes("test://static-binary", "binary", b"\x89PNG").mime("image/png"))
        .resource(Resource::new("test://who", "who", |who: Principal, Uri(uri): Uri| async move {
            format!("{} reads {uri}", who.subject())
        }))
        .resource(Resource::new("test://gone", "gone", || async { None::<String> }))
        .resource(Resource::new("test://boom", "boom", || async { panic!("inside") as String }))
        .resource(
            Resource::template(
                "test://template/{id}/data",
                "family",
                |Args(item): Args<Item>| async move { Json(json!({ "id": item.id })) },
            )
            .mime("application/json"),
        )
        .resource(Resource::template(
            "file:///{+path}",
            "files",
            |Uri(uri): Uri| async move { uri },
        ))
}

#[tokio::test]
async fn lists_name_the_resources_and_modern_ones_their_ttl() {
    for era in ERAS {
        let mut wire = Wire::join(server(), era).await;
        let list = wire.ask("resources/list", json!({})).await.unwrap();
        assert_eq!(
            list["resources"][0],
            json!({
                "uri": "test://static-text", "name": "text", "title": "Static text",
                "description": "Never changes", "mimeType": "text/plain", "size": 15,
                "annotations": { "priority": 0.5 },
            })
        );
        assert_eq!(list["resources"][1]["size"], 4);
        assert_eq!(list["resources"].as_array().unwrap().len(), 5);
        let templates = wire.ask("resources/templates/list", json!({})).await.unwrap();
        let expected = json!({
            "uriTemplate": "test://template/{id}/data", "name": "family", "mimeType": "application/json",
        });
        assert_eq!(templates["resourceTemplates"][0], expected);
        for list in [list, templates] {
            let modern = ["resultType", "ttlMs", "cacheScope"].map(|name| list.get(name).cloned());
            match era {
                Era::Legacy => assert_eq!(modern, [None, None, None]),
                Era::Modern => assert_eq!(
                    modern,
                    [Some(json!("complete")), Some(json!(60_000)), Some(json!("private"))]
                ),
            }
            assert!(list.get("nextCursor").is_none());
        }
    }
}

#[tokio::test]
async fn contents_are_text_or_bytes_by_uri_and_by_template() {
    for era in ERAS {
        let mut wire = Wire::join(server(), era).await;
        for (uri, contents) in [
            ("test://static-text", json!({ "mimeType": "text/plain", "text": "This is static." })),
            ("test://static-binary", json!({ "mimeType": "image/png", "blob": "iVBORw==" })),
            ("test://who", json!({ "text": "local reads test://who" })),
            (
                "test://template/123/data",
                json!({ "mimeType": "application/json", "text": "{\"id\":123}" }),
            ),
            ("file:///a/b.txt", json!({ "text": "file:///a/b.txt" })),
        ] {
            let mut expected = contents;
            expected["uri"] = json!(uri);
            let result = wire.ask("resources/read", json!({ "uri": uri })).await.unwrap();
            assert_eq!(result["contents"], json!([expected]));
            let is_fixed = uri.starts_with("test://static");
            match era {
                Era::Legacy => assert_eq!(result.as_object().unwrap().len(), 1, "{result}"),
                Era::Modern => {
                    assert_eq!(result["resultType"], "complete");
                    assert_eq!(result["ttlMs"], if is_fixed { 60_000 } else { 0 });
                    assert_eq!(result["cacheScope"], "private");
                }
            }
        }
    }
}

#[tokio::test]
async fn wrong_reads_are_answered_and_the_server_survives() {
    for era in ERAS {
        let mut wire = Wire::join(server(), era).await;
        for uri in ["test://nothing", "test://gone", "", "test://template/1/2/data"] {
            let answer = wire.ask("resources/read", json!({ "uri": uri })).await;
            assert_eq!(code(&answer), if era == Era::Legacy { -32002 } else { -32602 }, "{uri}");
            assert_eq!(answer.unwrap_err()["data"], json!({ "uri": uri }));
        }
        for params in [json!({}), json!({ "uri": 7 }), json!({ "uri": null })] {
            assert_eq!(code(&wire.ask("resources/read", params).await), -32602);
        }
        let answer = wire.ask("resources/read", json!({ "uri": "test://template/x/data" })).await;
        assert_eq!(code(&answer), -32602);
        assert!(answer.unwrap_err()["message"].as_str().unwrap().contains("`id`"));
        let answer = wire.ask("resources/read", json!({ "uri": "test://boom" })).await;
        assert_eq!(code(&answer), -32603);
        for method in ["resources/list", "resources/templates/list"] {
            for cursor in ["x", "", "p1.0", "p0.0", "s0", "s9.1", "s", "p99999999999999999999.0"] {
                let answer = wire.ask(method, json!({ "cursor": cursor })).await;
                assert_eq!(code(&answer), -32602, "{cursor}");
            }
            assert_eq!(code(&wire.ask(method, json!({ "cursor": 1 })).await), -32602);
        }
        assert!(wire.ask("resources/list", json!({})).await.is_ok());
    }
}

#[tokio::test]
async fn pages_list_fixed_resources_and_then_sets() {
    for era in ERAS {
        let server = server().page_size(2).resource_set(Rows);
        let resources = server.resources();
        let mut wire = Wire::join(server, era).await;
        let (mut names, mut cursors, mut params) = (Vec::new(), Vec::new(), json!({}));
        loop {
            let list = wire.ask("resources/list", params).await.unwrap();
            let page = list["resources"].as_array().unwrap();
            assert!(page.len() <= 2);
            names.extend(page.iter().map(|one| one["name"].as_str().unwrap().to_owned()));
            let Some(cursor) = list.get("nextCursor") else { break };
            cursors.push(cursor.clone());
            params = json!({ "cursor": cursor });
        }
        assert_eq!(names, ["text", "binary", "who", "gone", "boom", "0", "1", "2", "3"]);
        let list = wire.ask("resources/templates/list", json!({})).await.unwrap();
        let params = json!({ "cursor": list["nextCursor"] });
        let list = wire.ask("resources/templates/list", params).await.unwrap();
        assert_eq!(
            list["resourceTemplates"],
            json!([{ "uriTemplate": "row://{number}", "name": "row" }])
        );

        let row = wire.ask("resources/read", json!({ "uri": "row://3" })).await.unwrap();
        assert_eq!(row["contents"], json!([{ "uri": "row://3", "text": "row 3" }]));
        assert!(wire.ask("resources/read", json!({ "uri": "row://7" })).await.is_err());

        assert!(wire.ask("resources/list", json!({ "cursor": cursors[0] })).await.is_ok());
        assert!(resources.remove("test://gone"));
        let stale = wire.ask("resources/list", json!({ "cursor": cursors[0] })).await;
        assert_eq!(code(&stale), -32602, "the list has changed since");
    }
}

#[tokio::test]
async fn a_reader_that_takes_too_long_is_answered_with_a_timeout() {
    let server = Server::new("slow", "1")
        .timeout(std::time::Duration::from_millis(20))
        .resource(Resource::new("test://slow", "slow", std::future::pending::<String>));
    let mut wire = Wire::join(server, Era::Legacy).await;
    let late = wire.ask("resources/read", json!({ "uri": "test://slow" })).await;
    assert_eq!(code(&late), 3003);
    let message = late.unwrap_err()["message"].to_string();
    assert!(message.contains("`Server::timeout`"), "{message}");
}

#[tokio::test]
async fn an_invalid_template_stops_the_server_from_being_built() {
    let template = |text: &str| Resource::template(text, "t", || async { "" });
    for wrong in ["test://{", "test://{?q}", "test://fixed"] {
        let error = Server::new("s", "1").resource(template(wrong)).into_stack().unwrap_err();
        assert!(error.message().contains(wrong), "{error}");
    }
    let wrong = template("test://{a}").complete("b", || async { ["x"] });
    let error = Server::new("s", "1").resource(wrong).into_stack().unwrap_err();
    assert!(error.message().contains("no argument `b`"), "{error}");
}
