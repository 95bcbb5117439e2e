//! The command `mgp callbacks`: shows and answers the questions of servers that need an operator's answer (MGP §13.4).

use clap::Subcommand;
use mgp_client_sdk::Client;
use mgp_types::Payload;
use mgp_types::method::{KernelCallbacks, KernelCallbacksAnswer};
use mgp_types::mgp::{KernelCallback, KernelCallbackAnswerParams, KernelCallbacksParams};
use serde::Serialize;

use crate::args::Global;
use crate::exit::CliResult;
use crate::output::{ActionReport, Cell, Output, Render, print};
use crate::{control, time_args};

/// `mgp callbacks`.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Callbacks {
    /// List the open questions of servers whose callers cannot be asked
    Ls,
    /// Answer a question with one of its options or a text
    #[command(after_help = "Example:\n  mgp callbacks answer 3f1c20a97e confirm")]
    Answer {
        /// Id of the question, as `mgp callbacks ls` shows it
        id: String,
        /// The answer
        answer: String,
    },
    /// Close a question without an answer: nothing is confirmed
    #[command(after_help = "Example:\n  mgp callbacks dismiss 3f1c20a97e")]
    Dismiss {
        /// Id of the question, as `mgp callbacks ls` shows it
        id: String,
    },
}

/// Open questions of servers.
#[derive(Debug, Serialize)]
#[serde(transparent)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct CallbackList(Vec<KernelCallback>);

impl Render for CallbackList {
    fn render(&self, out: &mut Output) {
        if self.0.is_empty() {
            return out.line("no open questions");
        }
        let rows = self.0.iter().map(|one| {
            [
                Cell::from(one.id.as_str()),
                one.server_id.as_str().into(),
                one.kind.as_str().into(),
                one.agent_id.as_deref().or(Some(&one.subject)).into(),
                Some(one.options.join(" | ")).filter(|options| !options.is_empty()).into(),
                time_args::left_until(&one.expires_at).into(),
            ]
        });
        out.table(["ID", "SERVER", "TYPE", "FOR", "ANSWERS", "EXPIRES"], rows);
        for one in &self.0 {
            out.line("");
            out.line(format!("{}: the server {} asks", one.id, one.server_id));
            for line in one.message.lines() {
                out.line(format!("  {line}"));
            }
        }
    }
}

/// Returns the questions of servers that wait for an operator.
pub(crate) async fn open_questions(client: &Client) -> CliResult<Vec<KernelCallback>> {
    let params = KernelCallbacksParams::new();
    Ok(client.request::<KernelCallbacks>(&params).await?.callbacks)
}

pub(crate) async fn run(global: &Global, callbacks: &Callbacks) -> CliResult {
    let (id, response, status) = match callbacks {
        Callbacks::Ls => {
            let client = control::connect(global).await?;
            let open = open_questions(&client).await;
            client.close().await;
            return print(global, &CallbackList(open?));
        }
        Callbacks::Answer { id, answer } => (id, Payload::of(answer)?, "answered"),
        Callbacks::Dismiss { id } => (id, Payload::from_trusted("null"), "dismissed"),
    };
    let client = control::connect_to_change(global).await?;
    let params = KernelCallbackAnswerParams::new(id.as_str(), response);
    let answered = client.request::<KernelCallbacksAnswer>(&params).await;
    client.close().await;
    ActionReport::new(answered?.callback.id, status).print(global)
}
