//! The behaviour that each scenario expects of a client.

use std::collections::BTreeMap;

use mgp_client_sdk::prelude::*;
use mgp_types::mcp::{SkillResources, Tool};
use mgp_types::{Object, Payload, RpcError};
use serde::Deserialize;
use serde_json::json;

use crate::Scenario;

pub(crate) async fn play(client: &Client, scenario: &Scenario) -> Result<(), Error> {
    match scenario.name.as_str() {
        "tools_call" => {
            client.tools().await?;
            call(client, "add_numbers", &json!({ "a": 5, "b": 3 })).await
        }
        "sep-2322-client-request-state" => rounds(client).await,
        "http-custom-headers" => {
            client.tools().await?;
            for planned in &scenario.context.tool_calls {
                call(client, &planned.name, &planned.arguments).await?;
            }
            Ok(())
        }
        "http-standard-headers" => {
            every_tool(client).await?;
            every_resource_and_prompt(client).await
        }
        "json-schema-2020-12-preservation" => echo_schema(client).await,
        // List the skills only, because the files of a skill must not be read before it is used.
        "sep-2640-client-no-prefetch" => client.list_skills().await.map(drop),
        name if name.starts_with("sep-2640-client-verify") => every_skill(client).await,
        // Do not call the tool: the scenario checks that the client does not fetch the references in its schema.
        "initialize" | "json-schema-ref-no-deref" => client.tools().await.map(drop),
        _ => every_tool(client).await,
    }
}

async fn every_tool(client: &Client) -> Result<(), Error> {
    for tool in client.tools().await?.iter() {
        call(client, &tool.name, &sample(tool)?).await?;
    }
    Ok(())
}

/// Loads `SKILL.md` and the listed files of each skill. Stops with an error at the first file that differs from the
/// skill's entry in the list.
async fn every_skill(client: &Client) -> Result<(), Error> {
    for skill in client.list_skills().await? {
        client.read_skill_file(&skill, &skill.uri).await?;
        let SkillResources::Files(files) = &skill.resources else { continue };
        for file in files {
            client.read_skill_file(&skill, &file.uri).await?;
        }
    }
    Ok(())
}

async fn every_resource_and_prompt(client: &Client) -> Result<(), Error> {
    for resource in client.resources().await?.iter() {
        client.read_resource(&resource.uri).await?;
    }
    for prompt in client.prompts().await?.iter() {
        client.get_prompt(&prompt.name, BTreeMap::<String, String>::new()).await?;
    }
    Ok(())
}

/// Makes calls during which the server asks questions, and an unrelated call at the same time as the first.
async fn rounds(client: &Client) -> Result<(), Error> {
    client.tools().await?;
    let nothing = json!({});
    let (first, other) = tokio::join!(
        call(client, "test_mrtr_echo_state", &nothing),
        call(client, "test_mrtr_unrelated", &nothing),
    );
    first.and(other)?;
    call(client, "test_mrtr_no_state", &nothing).await?;
    call(client, "test_mrtr_no_result_type", &nothing).await
}

/// Sends the schema of a tool back to the server unchanged.
async fn echo_schema(client: &Client) -> Result<(), Error> {
    let tools = client.tools().await?;
    let focal = tools.iter().find(|tool| tool.name == "json_schema_2020_12_tool");
    let focal = focal.ok_or_else(|| RpcError::internal("the tool with the schema is missing"))?;
    client.call("json_schema_echo").arg("schema", &focal.input_schema).await.map(drop)
}

async fn call(
    client: &Client,
    tool: &str,
    arguments: &(impl serde::Serialize + Sync),
) -> Result<(), Error> {
    client.call(tool).args(arguments).await?.into_result().map(drop)
}

/// Creates arguments of the types that a tool's schema requires.
fn sample(tool: &Tool) -> Result<Object, RpcError> {
    #[derive(Deserialize)]
    struct Schema {
        #[serde(default)]
        properties: BTreeMap<String, Payload>,
        #[serde(default)]
        required: Vec<String>,
    }
    #[derive(Deserialize)]
    struct Property {
        #[serde(rename = "type", default)]
        kind: String,
    }
    let schema: Schema = tool.input_schema.get()?;
    let mut arguments = Object::new();
    for name in schema.required {
        let property = schema.properties.get(&name).and_then(|one| one.get::<Property>().ok());
        let value = match property.as_ref().map(|property| property.kind.as_str()) {
            Some("integer" | "number") => json!(1),
            Some("boolean") => json!(true),
            Some("array") => json!([]),
            Some("object") => json!({}),
            _ => json!("test"),
        };
        arguments.encode(name, &value)?;
    }
    Ok(arguments)
}
