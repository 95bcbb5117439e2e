//! A client for the official conformance suite of MCP: it connects, does what a scenario is about, and leaves.
//!
//! `conformance_client URL`, with `MCP_CONFORMANCE_SCENARIO`, `MCP_CONFORMANCE_PROTOCOL_VERSION` and, for some
//! scenarios, `MCP_CONFORMANCE_CONTEXT` in the environment. It ends with 0 when everything went as it should.
//!
//! It is an ordinary user of the SDK: it offers all of MGP, and answers whatever a server asks.

mod login;
mod stories;

use std::env::VarError;
use std::error::Error;

use mgp_client_sdk::prelude::*;
use mgp_client_sdk::{ClientBuilder, EraChoice};
use mgp_types::mcp::{ContentBlock, CreateMessageResult, Revision, Role, Root};
use mgp_types::mgp::{Extension, ExtensionSet};

/// What the suite says about a run.
struct Scenario {
    url: String,
    name: String,
    /// The revision the scenario speaks; without it the client finds out.
    revision: Option<Revision>,
    context: login::Context,
}

impl Scenario {
    fn read() -> Result<Self, Box<dyn Error>> {
        let url = std::env::args().nth(1).ok_or("usage: conformance_client URL")?;
        let context = match variable("MCP_CONFORMANCE_CONTEXT")? {
            Some(text) => serde_json::from_str(&text)?,
            None => login::Context::default(),
        };
        Ok(Self {
            url,
            name: variable("MCP_CONFORMANCE_SCENARIO")?.unwrap_or_default(),
            revision: variable("MCP_CONFORMANCE_PROTOCOL_VERSION")?
                .map(|word| serde_json::from_value(word.into()))
                .transpose()?,
            context,
        })
    }

    fn era(&self) -> EraChoice {
        self.revision.as_ref().map(Revision::era).into()
    }
}

fn variable(name: &str) -> Result<Option<String>, VarError> {
    match std::env::var(name) {
        Ok(text) => Ok(Some(text)),
        Err(VarError::NotPresent) => Ok(None),
        Err(error) => Err(error),
    }
}

/// A client that offers all there is and answers everything.
fn client() -> ClientBuilder {
    let all = Extension::ALL.iter().fold(ExtensionSet::EMPTY, |set, one| set.with(*one));
    Client::builder("conformance-client", env!("CARGO_PKG_VERSION"))
        .mgp(all)
        // What a form has filled in already is what is meant.
        .on_elicitation(|question| async move { Ok(question.accept()) })
        .on_sampling(|_| async {
            let answer = ContentBlock::text("This is a test response from the client");
            Ok(CreateMessageResult::new(Role::Assistant, vec![answer], "test-model"))
        })
        .roots([Root::new("file:///test/root")])
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let scenario = Scenario::read()?;
    let oauth = login::credentials(&scenario)?;
    let builder = client().era(scenario.era()).credentials(oauth);
    let client = builder.connect_url(&scenario.url).await?;
    let outcome = stories::play(&client, &scenario).await;
    client.close().await;
    outcome.map_err(Into::into)
}
