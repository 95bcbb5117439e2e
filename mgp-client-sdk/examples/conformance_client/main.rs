//! A client for the official conformance suite of MCP: connects, runs a scenario, and disconnects.
//!
//! `conformance_client URL`, with `MCP_CONFORMANCE_SCENARIO`, `MCP_CONFORMANCE_PROTOCOL_VERSION` and, for some
//! scenarios, `MCP_CONFORMANCE_CONTEXT` in the environment. The exit code is 0 if everything succeeded.
//!
//! It uses the SDK like any program: it offers all of MGP, and answers forms, sampling and requests for roots.

mod login;
mod stories;

use std::env::VarError;
use std::error::Error;

use mgp_client_sdk::prelude::*;
use mgp_client_sdk::{ClientBuilder, EraChoice};
use mgp_types::mcp::{CreateMessageResult, Revision, Root};
use mgp_types::mgp::{Extension, ExtensionSet};

/// The parameters that the conformance suite passes to one run of this client.
struct Scenario {
    url: String,
    name: String,
    /// The revision that the scenario requires; without it the client negotiates.
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

fn client() -> ClientBuilder {
    let all = Extension::ALL.iter().fold(ExtensionSet::EMPTY, |set, one| set.with(*one));
    Client::builder("conformance-client", env!("CARGO_PKG_VERSION"))
        .mgp(all)
        // Answer each form with its default values.
        .on_elicitation(|question| async move { Ok(question.accept()) })
        .on_sampling(|_| async {
            Ok(CreateMessageResult::text("This is a test response from the client", "test-model"))
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
