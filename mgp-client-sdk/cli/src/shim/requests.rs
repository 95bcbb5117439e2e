//! The unanswered requests of a host, and those among them that the shim repeats with the next kernel.

use std::collections::HashMap;

use mgp_types::Id;
use mgp_types::method::{
    Initialize, Ping, PromptsList, Request as _, ResourcesList, ResourcesTemplatesList,
    ServerDiscover, SubscriptionsListen, ToolsList,
};

use super::session::MAX_REMEMBERED;

/// Maximum total length of the lines of unanswered requests that are kept.
const MAX_KEPT_BYTES: usize = 8 << 20;

/// The unanswered requests of a host by id.
#[derive(Default)]
pub(super) struct OpenRequests {
    requests: HashMap<Id, OpenRequest>,
    /// The total length of the lines in `requests`, in bytes.
    kept_bytes: usize,
    /// `true` while the kernel is about to end, so that requests wait for the next kernel.
    is_holding: bool,
}

struct OpenRequest {
    /// The line of the request; `None` if there was no room to keep it.
    line: Option<Vec<u8>>,
    repeat: Repeat,
}

/// The occasions on which a request is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Repeat {
    /// The request is never sent again, because the kernel may have executed it.
    Never,
    /// The request changes nothing, so it is sent to the next kernel if its kernel ends without an answer. It is sent
    /// to one more kernel only, because it may be the cause of the end.
    IfUnanswered,
    /// The request is sent to the next kernel only, because the current kernel did not start it.
    Once,
    /// The request is sent to each further kernel: a `subscriptions/listen` request.
    Always,
}

impl Repeat {
    /// Returns the occasions on which a request of the host is sent again.
    pub(super) fn of(method: &str) -> Self {
        match method {
            SubscriptionsListen::METHOD => Self::Always,
            Initialize::METHOD
            | Ping::METHOD
            | ServerDiscover::METHOD
            | ToolsList::METHOD
            | PromptsList::METHOD
            | ResourcesList::METHOD
            | ResourcesTemplatesList::METHOD => Self::IfUnanswered,
            _ => Self::Never,
        }
    }

    /// Returns whether the next kernel gets the request.
    fn is_certain(self) -> bool {
        matches!(self, Self::Once | Self::Always)
    }
}

impl OpenRequests {
    pub(super) fn add(&mut self, id: Id, repeat: Repeat, line: &[u8]) {
        self.end(&id);
        let repeat = match repeat {
            Repeat::Never | Repeat::IfUnanswered if self.is_holding => Repeat::Once,
            repeat => repeat,
        };
        let is_repeated = repeat.is_certain();
        if is_repeated || self.requests.len() < MAX_REMEMBERED {
            let is_kept = is_repeated || self.kept_bytes + line.len() <= MAX_KEPT_BYTES;
            self.kept_bytes += if is_kept { line.len() } else { 0 };
            let line = is_kept.then(|| line.to_vec());
            self.requests.insert(id, OpenRequest { line, repeat });
        }
    }

    pub(super) fn end(&mut self, id: &Id) {
        let line = self.requests.remove(id).and_then(|request| request.line);
        self.kept_bytes -= line.map_or(0, |line| line.len());
    }

    /// Holds further requests back until the next kernel is connected.
    pub(super) fn hold(&mut self) {
        self.is_holding = true;
    }

    pub(super) fn is_holding(&self) -> bool {
        self.is_holding
    }

    /// Returns whether a request waits for the next kernel.
    pub(super) fn has_held(&self) -> bool {
        self.requests.values().any(|request| request.repeat == Repeat::Once)
    }

    /// Marks a request for repetition with the next kernel. If its line was not kept, ends the request and returns
    /// `false`.
    pub(super) fn repeat_later(&mut self, id: &Id) -> bool {
        if let Some(OpenRequest { line: Some(_), repeat }) = self.requests.get_mut(id) {
            if !repeat.is_certain() {
                *repeat = Repeat::Once;
            }
            return true;
        }
        self.end(id);
        false
    }

    /// Removes the requests that ended with their kernel, and returns their ids. Keeps those that the next kernel gets.
    pub(super) fn end_kernel(&mut self) -> Vec<Id> {
        self.is_holding = false;
        for request in self.requests.values_mut() {
            if request.repeat == Repeat::IfUnanswered && request.line.is_some() {
                request.repeat = Repeat::Once;
            }
        }
        self.end_all(|repeat| !repeat.is_certain())
    }

    /// Removes the requests that wait for the next kernel, and returns their ids. Requests for notification streams are
    /// kept.
    pub(super) fn end_held(&mut self) -> Vec<Id> {
        self.end_all(|repeat| repeat != Repeat::Always)
    }

    fn end_all(&mut self, is_ended: impl Fn(Repeat) -> bool) -> Vec<Id> {
        let ended = self.requests.iter().filter(|(_, request)| is_ended(request.repeat));
        let ended: Vec<Id> = ended.map(|(id, _)| id.clone()).collect();
        for id in &ended {
            self.end(id);
        }
        ended
    }

    /// Returns the lines that are sent again to the next kernel.
    pub(super) fn repeated(&mut self) -> Vec<u8> {
        let mut lines = Vec::new();
        for request in self.requests.values_mut() {
            match request.repeat {
                Repeat::Never | Repeat::IfUnanswered => continue,
                // Do not send the request again after this, because the next kernel may execute it.
                Repeat::Once => request.repeat = Repeat::Never,
                Repeat::Always => {}
            }
            lines.extend(request.line.iter().flatten());
        }
        lines
    }

    /// Returns whether a request is for a notification stream that the host has not ended.
    pub(super) fn is_listening(&self, id: &Id) -> bool {
        self.requests.get(id).is_some_and(|request| request.repeat == Repeat::Always)
    }

    /// Returns the requests for notification streams, which are sent to each kernel, with their lines.
    pub(super) fn listening(&self) -> impl Iterator<Item = (&Id, &[u8])> {
        let listening = self.requests.iter().filter(|(_, one)| one.repeat == Repeat::Always);
        listening.filter_map(|(id, request)| Some((id, request.line.as_deref()?)))
    }
}

#[cfg(test)]
mod tests {
    use mgp_types::method::ToolsCall;

    use super::*;

    #[test]
    fn a_request_that_changes_nothing_is_sent_to_one_more_kernel() {
        let mut requests = OpenRequests::default();
        let (list, call) = (Id::from(1), Id::from(2));
        requests.add(list.clone(), Repeat::of(ToolsList::METHOD), b"list\n");
        requests.add(call.clone(), Repeat::of(ToolsCall::METHOD), b"call\n");
        assert_eq!(requests.end_kernel(), [call], "only the call may have had an effect");
        assert!(requests.has_held());
        assert_eq!(requests.repeated(), b"list\n");
        assert_eq!(requests.end_kernel(), [list], "it may be what ends each kernel");
    }
}
