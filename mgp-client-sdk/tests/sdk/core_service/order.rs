//! Tests that notifications are handled in the order in which they were sent.

use std::sync::{Arc, Mutex};

use mgp_transport::{Connection, duplex};
use mgp_types::service::{Call, Method, Params, Reply, Router, Stack};
use serde::Deserialize;

use super::world::both;

#[test]
fn two_thousand_notifications_stay_in_order_with_a_yielding_handler() {
    both(|| async {
        #[derive(Deserialize)]
        struct Number {
            number: u32,
        }
        const COUNT: u32 = 2000;
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (done, finished) = tokio::sync::oneshot::channel();
        let done = Arc::new(Mutex::new(Some(done)));
        let handler = {
            let seen = Arc::clone(&seen);
            Stack::from_fn(move |call: Call| {
                let (seen, done) = (Arc::clone(&seen), Arc::clone(&done));
                async move {
                    let Number { number } = call.params().get()?;
                    tokio::task::yield_now().await;
                    seen.lock().unwrap().push(number);
                    if number + 1 == COUNT {
                        let _ = done.lock().unwrap().take().unwrap().send(());
                    }
                    Ok(Reply::None)
                }
            })
        };
        let (here, there) = duplex();
        tokio::spawn(Connection::new(there.reader, there.writer, handler).run());
        let connection = Connection::new(here.reader, here.writer, Stack::new(Router::new()));
        let (peer, cx) = (connection.peer(), connection.context());
        tokio::spawn(connection.run());
        for number in 0..COUNT {
            let text = format!(r#"{{"number":{number}}}"#);
            let params = Params::split("notifications/x", text.into()).unwrap();
            let call =
                Call::notification(Method::from_static("notifications/x"), params, cx.clone());
            peer.send(call).await.unwrap();
        }
        finished.await.unwrap();
        assert!(seen.lock().unwrap().iter().copied().eq(0..COUNT));
    });
}
