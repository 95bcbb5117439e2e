//! A server that asks its callers questions, and clients of that server in each era over each transport.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mgp_client_sdk::{CallbackAnswer, Client, ClientBuilder, EraCache, EraChoice};
use mgp_server_sdk::ContextExt as _;
use mgp_server_sdk::prelude::*;
use mgp_testkit::until;
use mgp_transport::duplex;
use mgp_types::mcp::{ContentBlock, Role, SamplingMessage};
use mgp_types::mgp::CallbackRequestParams;

pub(crate) const ERAS: [EraChoice; 2] = [EraChoice::Legacy, EraChoice::Modern];

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Transport {
    Stream,
    Http,
}

pub(crate) const TRANSPORTS: [Transport; 2] = [Transport::Stream, Transport::Http];

/// Returns a server with a tool for each type of question.
pub(crate) fn curious() -> Server {
    let delete = Tool::new("delete", "Deletes", |cx: Context| async move {
        let limit = Duration::from_secs(20);
        Ok::<_, RpcError>(if cx.confirm("Delete 3 files?").timeout(limit).await? {
            "deleted"
        } else {
            "kept"
        })
    });
    let hasty = Tool::new("hasty", "Deletes at once", |cx: Context| async move {
        let sure = cx.confirm("Delete?").timeout(Duration::from_millis(300)).await?;
        Ok::<_, RpcError>(sure.to_string())
    });
    let greet = Tool::new("greet", "Greets", |cx: Context| async move {
        let name = cx.input("Who are you?").await?;
        let colour = cx.select("Which colour?", ["red", "blue"]).await?;
        cx.inform("almost done").await;
        Ok::<_, RpcError>(format!("{name} likes {colour}"))
    });
    let both = Tool::new("both", "Asks two things at once", |cx: Context| async move {
        let (one, two) = (cx.confirm("One?").into_future(), cx.confirm("Two?").into_future());
        let (one, two) = tokio::join!(one, two);
        Ok::<_, RpcError>(format!("{} {}", one?, two?))
    });
    let quick = Tool::new("quick", "Answers at once", || async { "here" });
    let complete = Tool::new("complete", "Asks a model", |cx: Context| async move {
        let answer = cx.sample("2+2?").system("Be brief.").await?;
        let text = answer.content.as_slice()[0].as_text().unwrap_or_default().to_owned();
        Ok::<_, RpcError>(format!("{} says {text}", answer.model))
    });
    let look = Tool::new("look", "Asks a model about an image", |cx: Context| async move {
        let image = SamplingMessage::new(Role::User, ContentBlock::image([1_u8], "image/png"));
        cx.sample("What is it?").define(|ask| ask.messages.push(image)).await?;
        Ok::<_, RpcError>("seen")
    });
    let server = Server::new("curious", "1").tool(delete).tool(hasty).tool(greet).tool(both);
    server.tool(quick).tool(complete).tool(look)
}

pub(crate) async fn connect(
    server: Server,
    builder: ClientBuilder,
    era: EraChoice,
    transport: Transport,
) -> Client {
    let builder = builder.era(era);
    if transport == Transport::Stream {
        let (here, there) = duplex();
        tokio::spawn(server.serve(there.reader, there.writer));
        return Box::pin(builder.connect(here.reader, here.writer)).await.unwrap();
    }
    let bound = server.http("127.0.0.1:0").no_auth().bind().await.unwrap();
    let url = format!("http://{}/mcp", bound.local_addr());
    tokio::spawn(bound.run());
    Box::pin(builder.http(|http| http.eras = EraCache::new()).connect_url(url)).await.unwrap()
}

#[derive(Clone, Default)]
pub(crate) struct Questions(Arc<Mutex<Vec<CallbackRequestParams>>>);

impl Questions {
    pub(crate) fn all(&self) -> Vec<CallbackRequestParams> {
        self.0.lock().unwrap().clone()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    pub(crate) fn note(&self, question: &CallbackRequestParams) {
        self.0.lock().unwrap().push(question.clone());
    }

    /// Waits until the question with the index `number` has arrived, and returns it.
    pub(crate) async fn next(&self, number: usize) -> CallbackRequestParams {
        until("the question arrives", async || self.len() > number).await;
        self.all()[number].clone()
    }
}

/// Returns a builder of a client that gives these answers in turn, and the questions that it receives. Where an answer
/// is `None` or missing, the client never answers.
pub(crate) fn answering(answers: &[Option<&str>]) -> (ClientBuilder, Questions) {
    let questions = Questions::default();
    let seen = questions.clone();
    let answers: Vec<_> = answers.iter().map(|answer| answer.map(str::to_owned)).collect();
    let next = AtomicUsize::new(0);
    let builder = Client::builder("c", "1").on_callback(move |question| {
        seen.note(&question);
        let answer = answers.get(next.fetch_add(1, Ordering::SeqCst)).cloned().flatten();
        async move {
            match answer {
                Some(text) => Ok(CallbackAnswer::text(&text)),
                None => std::future::pending().await,
            }
        }
    });
    (builder, questions)
}
