//! Starts a server, calls a tool without arguments, and answers the questions of the server in the terminal (MGP §13.4).
//!
//! `cargo run -q -p mgp-client-sdk --example answer_callbacks -- PROGRAM [TOOL]`

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "it is a program for a terminal")]

use std::io::{Write as _, stdin, stdout};

use mgp_client_sdk::CallbackAnswer;
use mgp_client_sdk::prelude::*;
use mgp_types::mgp::{CallbackRequestParams, CallbackType};

#[tokio::main(flavor = "current_thread")]
async fn main() {
    if let Err(error) = run().await {
        eprintln!("{error}");
        // Exit immediately: if `main` returned, the runtime would wait for the thread that may still be reading a line.
        std::process::exit(1);
    }
}

async fn run() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let usage = "usage: answer_callbacks PROGRAM [TOOL]";
    let program = arguments.next().ok_or(usage)?;
    let tool = arguments.next().unwrap_or_else(|| "clean".to_owned());
    let client = Client::builder("answer_callbacks", "1.0")
        // Reading a line blocks until a person has typed it, so it runs in a thread of its own.
        .on_callback(async |question| {
            let answer = tokio::task::spawn_blocking(move || ask(&question)).await;
            answer.map_err(|_| RpcError::internal("the terminal could not be read"))
        })
        .spawn(ChildCommand::new(program))
        .await?;
    println!("{}", client.call(tool).await?.to_text());
    client.close().await;
    Ok(())
}

/// Shows a question, and reads lines until one of them is an option, if the question has options. An empty line
/// dismisses the question. A notification is only shown.
fn ask(question: &CallbackRequestParams) -> CallbackAnswer {
    println!("{}", question.message.as_deref().unwrap_or_default());
    if question.kind == CallbackType::Notification {
        return CallbackAnswer::Dismissed;
    }
    let options = &question.options;
    loop {
        if !options.is_empty() {
            print!("({}) ", options.join(" / "));
        }
        let mut line = String::new();
        let is_read = stdout().flush().and_then(|()| stdin().read_line(&mut line));
        let answer = line.trim();
        if is_read.is_err() || answer.is_empty() {
            return CallbackAnswer::Dismissed;
        }
        if options.is_empty() || options.iter().any(|option| option == answer) {
            return CallbackAnswer::text(answer);
        }
    }
}
