//! Collections of the members that proposals add to tool calls and results: the members of a call while the call passes
//! the layers, and the members that layers add to the call's result.

use std::sync::{Arc, LazyLock};

use super::Member;
use crate::method::MEMBERS;
use crate::mgp::{Extension, ExtensionSet};
use crate::record::{Extras, Object};
use crate::service::{Body, Call, Context, Params};
use crate::sync::Mutex;
use crate::wire::{Payload, RpcError};

/// The members that proposals add to tool calls, each with the extension to which it belongs. These are the entries of
/// [`MEMBERS`] with a path `params._meta.NAME`.
static OF_CALLS: LazyLock<Vec<(&'static str, Extension)>> = LazyLock::new(|| rows("params._meta."));

/// The members that proposals add to results of tools: the entries of [`MEMBERS`] with a path `result._meta.NAME`.
static OF_RESULTS: LazyLock<Vec<(&'static str, Extension)>> =
    LazyLock::new(|| rows("result._meta."));

fn rows(place: &str) -> Vec<(&'static str, Extension)> {
    let of_place = |path: &'static str| path.strip_prefix(place).filter(|name| !name.contains('.'));
    let rows = MEMBERS.iter().filter(|row| row.method == "tools/call");
    let named = rows.filter_map(|row| Some((of_place(row.path)?, row.extension?)));
    named.filter(|(_, extension)| ExtensionSet::PROPOSALS.contains(*extension)).collect()
}

/// The members that proposals add to a call; stored in the extensions of the call's context. In a server, they come
/// from the caller; in a client, the program sets them.
///
/// A client sends only the members whose extensions the next server negotiated.
#[derive(Clone, Debug, Default)]
pub struct CallMembers(Vec<(&'static str, Extension, Payload)>);

impl CallMembers {
    /// Reads the members of negotiated proposals from a call's params, and stores them in the call's context.
    ///
    /// Members belong in `_meta`. Members in `_mgp` and at the top level of the params are read too, because other
    /// implementations write them there. If a member is in several of these objects, the value in `_meta` counts.
    /// Members at the top level are removed from the params. A member with the value `null` counts as absent.
    ///
    /// # Errors
    /// Returns −32602 (invalid params) if `_meta` or `_mgp` is not an object.
    pub fn receive(call: &mut Call, active: ExtensionSet) -> Result<(), RpcError> {
        let mut found = Self::default();
        let wanted = || OF_CALLS.iter().filter(|(_, extension)| active.contains(*extension));
        let places = [call.params().meta(), call.params().mgp()];
        for place in places.into_iter().flatten() {
            let members: Extras = place.get()?;
            for &(name, extension) in wanted() {
                if let Some(value) = members.get(name) {
                    found.add_first(name, extension, value.clone());
                }
            }
        }
        if wanted().any(|(name, _)| call.params().may_contain_member(&format!("\"{name}\""))) {
            found.take_from_top(call, wanted())?;
        }
        call.cx_mut().extensions.insert(found);
        Ok(())
    }

    /// Moves members of proposals from the top level of the params into this collection. If they stayed there, they
    /// would be forwarded to the next server as ordinary params.
    fn take_from_top<'a>(
        &mut self,
        call: &mut Call,
        wanted: impl Iterator<Item = &'a (&'static str, Extension)>,
    ) -> Result<(), RpcError> {
        let mut members: Extras = call.params().get()?;
        let before = members.len();
        for &(name, extension) in wanted {
            if let Some(value) = members.remove(name) {
                self.add_first(name, extension, value);
            }
        }
        if members.len() < before {
            *call.params_mut() = Params::of(call.method().as_str(), &members)?;
        }
        Ok(())
    }

    fn add_first(&mut self, name: &'static str, extension: Extension, value: Payload) {
        if !value.is_null() && !self.0.iter().any(|(known, ..)| *known == name) {
            self.0.push((name, extension, value));
        }
    }

    /// Adds a member, or replaces its earlier value.
    ///
    /// # Errors
    /// Returns −32603 (internal error) if the member cannot be written as JSON.
    pub fn set<M: Member>(&mut self, member: &M) -> Result<(), RpcError> {
        let value = Payload::of(member)?;
        self.remove::<M>();
        self.0.push((M::NAME, M::EXTENSION, value));
        Ok(())
    }

    /// Returns the collection without the member `M`, e.g. because the next server must not receive it.
    #[must_use]
    pub fn without<M: Member>(mut self) -> Self {
        self.remove::<M>();
        self
    }

    /// Removes the member `M` from the context of a call and returns it, so that the call is forwarded without the
    /// member.
    ///
    /// # Errors
    /// Returns −32602 (invalid params) if the member has the wrong form.
    pub fn take<M: Member>(cx: &mut Context) -> Result<Option<M>, RpcError> {
        let found = cx.member::<M>()?;
        if found.is_some()
            && let Some(mut members) = cx.extensions.get::<Self>().cloned()
        {
            members.remove::<M>();
            cx.extensions.insert(members);
        }
        Ok(found)
    }

    /// Returns whether the collection is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Removes the member `M` from the collection, if it is there.
    pub fn remove<M: Member>(&mut self) {
        self.0.retain(|(name, ..)| *name != M::NAME);
    }

    /// Returns the members whose extensions are in `active`, the set that a peer has negotiated.
    pub fn for_peer(&self, active: ExtensionSet) -> impl Iterator<Item = (&'static str, &Payload)> {
        let known = self.0.iter().filter(move |(_, extension, _)| active.contains(*extension));
        known.map(|(name, _, value)| (*name, value))
    }
}

/// The members of proposals that layers and handlers add to the result of a call, collected while the call runs; stored
/// in the extensions of the call's context.
#[derive(Debug)]
pub struct ResultMembers {
    active: ExtensionSet,
    members: Mutex<Vec<(&'static str, Payload)>>,
}

impl ResultMembers {
    /// Creates the collection for the result of a call, and stores it in the call's context. `active` are the
    /// extensions that the caller negotiated.
    #[must_use]
    pub fn collect(cx: &mut Context, active: ExtensionSet) -> Arc<Self> {
        let new = Arc::new(Self { active, members: Mutex::default() });
        cx.extensions.insert_shared(Arc::clone(&new));
        new
    }

    /// Moves the collected members into the `_meta` of a result.
    pub fn write(&self, body: &mut Body) {
        for (name, value) in std::mem::take(&mut *self.members.lock()) {
            body.insert_meta(name, value);
        }
    }

    /// Moves the members that were collected during an earlier request for the same call into this collection. Members
    /// whose extensions the caller did not negotiate with its current request are dropped.
    pub fn take_from(&self, earlier: &Self) {
        let taken = std::mem::take(&mut *earlier.members.lock());
        let dropped = Self::names_of(ExtensionSet::PROPOSALS.difference(self.active));
        let mut members = self.members.lock();
        for (name, value) in taken.into_iter().filter(|(name, _)| !dropped.contains(name)) {
            members.retain(|(known, _)| *known != name);
            members.push((name, value));
        }
    }

    /// Returns the members that were collected so far, which stay in this collection.
    #[must_use]
    pub fn to_object(&self) -> Object {
        let mut all = Object::new();
        for (name, value) in &*self.members.lock() {
            all.insert(*name, value.clone());
        }
        all
    }

    /// Adds the members of an earlier result, as [`to_object`](Self::to_object) returned them. Members whose extensions
    /// the caller did not negotiate are left out.
    pub fn restore(&self, earlier: &Object) {
        let mut members = self.members.lock();
        for name in Self::names_of(self.active) {
            if let Some(value) = earlier.get(name) {
                members.retain(|(known, _)| *known != name);
                members.push((name, value.clone()));
            }
        }
    }

    /// Returns the names of those members of a result's `_meta` that belong to the given extensions.
    ///
    /// A gateway removes these members from results that it forwards, if its own caller did not negotiate the
    /// extensions.
    #[must_use]
    pub fn names_of(foreign: ExtensionSet) -> Vec<&'static str> {
        let rows = OF_RESULTS.iter().filter(|(_, extension)| foreign.contains(*extension));
        rows.map(|(name, _)| *name).collect()
    }
}

impl Context {
    /// Returns the member of a proposal that the caller sent; `None` if the caller did not send it, or did not
    /// negotiate the proposal.
    ///
    /// # Errors
    /// Returns −32602 (invalid params) if the member has the wrong form.
    pub fn member<M: Member>(&self) -> Result<Option<M>, RpcError> {
        let members = self.extensions.get::<CallMembers>();
        let found = members.and_then(|all| all.0.iter().find(|(name, ..)| *name == M::NAME));
        let Some((_, _, value)) = found else { return Ok(None) };
        serde_json::from_str(value.as_str())
            .map(Some)
            .map_err(|error| RpcError::invalid_member(&format!("_meta.{}", M::NAME), error))
    }

    /// Returns the member that the tool of this process added to the result of this call with
    /// [`add_to_result`](Self::add_to_result); `None` if the tool did not add the member, or
    /// added it in another form.
    #[must_use]
    pub fn added_to_result<M: Member>(&self) -> Option<M> {
        let results = self.extensions.get::<ResultMembers>()?;
        let members = results.members.lock();
        let (_, value) = members.iter().find(|(name, _)| *name == M::NAME)?;
        value.get().ok()
    }

    /// Adds a JSON member that a proposal defines to the result of this call; does nothing if the caller did not
    /// negotiate the proposal.
    ///
    /// # Errors
    /// Returns −32603 (internal error) if the member cannot be written as JSON.
    pub fn add_to_result<M: Member>(&self, member: &M) -> Result<(), RpcError> {
        let results = self.extensions.get::<ResultMembers>();
        let Some(results) = results.filter(|results| results.active.contains(M::EXTENSION)) else {
            return Ok(());
        };
        let value = Payload::of(member)?;
        let mut members = results.members.lock();
        members.retain(|(name, _)| *name != M::NAME);
        members.push((M::NAME, value));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proposal::{Intent, Suggestion};
    use crate::service::{Method, Stack, mock};

    fn received(params: &str, active: ExtensionSet) -> Call {
        let params = Params::split("tools/call", params.to_owned().into()).unwrap();
        let mut call = Call::request(
            Method::from_static("tools/call"),
            params,
            mock::client(Stack::new(crate::service::Router::new())).cx,
        );
        CallMembers::receive(&mut call, active).unwrap();
        call
    }

    #[test]
    fn a_member_is_read_in_each_of_the_three_places() {
        let active = ExtensionSet::EMPTY.with(Extension::IntentHints);
        for (params, expected) in [
            (r#"{"name":"a","_meta":{"intent":"x"}}"#, Some("x")),
            (r#"{"name":"a","_mgp":{"intent":"x"}}"#, Some("x")),
            (r#"{"name":"a","intent":"x","arguments":{"intent":"y"}}"#, Some("x")),
            (
                r#"{"name":"a","intent":"y","_mgp":{"intent":"z"},"_meta":{"intent":"x"}}"#,
                Some("x"),
            ),
            (r#"{"name":"a","arguments":{"intent":"y"}}"#, None),
            (r#"{"name":"a","_meta":{"intent":null}}"#, None),
            (r#"{"name":"a","intent":null}"#, None),
            (r#"{"name":"a","intent":"x","_meta":{"intent":null}}"#, Some("x")),
        ] {
            let call = received(params, active);
            let intent = call.cx().member::<Intent>().unwrap();
            assert_eq!(intent.as_ref().map(|intent| intent.0.as_str()), expected, "{params}");
            assert!(!call.params().may_contain_member("\"intent\""), "{params}");
            // If the extension is not negotiated, the params of the call must stay unchanged.
            let plain = received(params, ExtensionSet::EMPTY);
            assert_eq!(plain.cx().member::<Intent>().unwrap(), None, "{params}");
        }
    }

    #[test]
    fn a_member_whose_name_has_escapes_is_not_overlooked() {
        let call = received(r#"{"name":"a","arguments":{},"ta\u0073k":{}}"#, ExtensionSet::EMPTY);
        assert!(call.params().may_contain_member("\"task\""));
    }

    #[test]
    fn a_member_of_another_form_is_refused_by_name() {
        let active = ExtensionSet::EMPTY.with(Extension::IntentHints);
        let call = received(r#"{"name":"a","_meta":{"intent":5}}"#, active);
        let refused = call.cx().member::<Intent>().unwrap_err();
        let expected = "invalid params: `_meta.intent`: expected a string, found integer `5`";
        assert_eq!(refused.message(), expected);
    }

    #[test]
    fn only_negotiated_members_are_sent_on_and_added_to_results() {
        let mut members = CallMembers::default();
        members.set(&Intent("x".to_owned())).unwrap();
        assert_eq!(members.for_peer(ExtensionSet::EMPTY).count(), 0);
        assert_eq!(members.for_peer(ExtensionSet::PROPOSALS).count(), 1);

        for (active, expected) in [
            (ExtensionSet::EMPTY, "{}"),
            (ExtensionSet::PROPOSALS, r#"{"_meta":{"suggestion":{"recommended_tool":"b"}}}"#),
        ] {
            let mut cx = mock::client(Stack::new(crate::service::Router::new())).cx;
            let results = ResultMembers::collect(&mut cx, active);
            cx.add_to_result(&Suggestion::new("b")).unwrap();
            let mut body = Body::new(Payload::empty_object());
            results.write(&mut body);
            assert_eq!(String::from_utf8(body.to_json()).unwrap(), expected);
        }
    }
}
