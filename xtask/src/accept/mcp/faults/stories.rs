//! Bad networks, bad clients and bad luck, a line for each story that tests tell.

use crate::{
    accept::{Verdict, binary},
    run::Outcome,
};

/// Where most stories are told.
const FAULTS: binary::Binary = ("mgp-server-sdk", "http_faults");
const CUTS: binary::Binary = ("mgp-client-sdk", "http_cuts");
const CARRIERS: binary::Binary = ("mgp-server-sdk", "carriers");

/// A story, and the tests that tell it: those whose names contain a word.
const STORIES: &[(&str, binary::Binary, &str)] = &[
    ("the client is gone in the middle", FAULTS, "client_gone::"),
    ("a proxy cuts every stream", CUTS, ""),
    ("ten thousand idle sessions", FAULTS, "idle_sessions::"),
    ("clients that send and read slowly", FAULTS, "slow_clients::"),
    ("a body of a gibibyte", FAULTS, "large_bodies::"),
    ("replayed and tampered state", FAULTS, "sealed_state::"),
    ("a token of another audience", FAULTS, "other_audience::"),
    ("two conversations with equal ids", FAULTS, "two_chats::"),
    ("a session of another tenant", FAULTS, "other_tenant::"),
    ("cancelling as a request of its own", FAULTS, "stream_cancel::"),
    ("streams whose key is revoked", FAULTS, "credentials::"),
    ("a thousand calls dropped", FAULTS, "dropped_calls::"),
    ("requests of random bytes", FAULTS, "noise::"),
    ("what travels where", CARRIERS, ""),
];

/// Runs every story.
pub(super) fn told() -> Outcome<Verdict> {
    let mut held = 0;
    for (story, binary, filter) in STORIES {
        let (passed, failed) = binary::filtered(*binary, filter)?;
        // A filter that finds nothing proves nothing.
        let holds = passed > 0 && failed == 0;
        held += usize::from(holds);
        let word = if holds { "PASS" } else { "FAIL" };
        println!("{story}: {word} {passed} passed, {failed} failed");
    }
    Ok(Verdict {
        pass: held == STORIES.len(),
        figure: format!("{held} of {} stories", STORIES.len()),
        bound: "all".to_owned(),
    })
}
