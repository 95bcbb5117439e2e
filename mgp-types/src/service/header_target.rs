//! The value of the header `Mcp-Name`, which repeats a part of the request (MCP 2026-07-28, standard headers).

use serde::Deserialize;

use super::{Method, Params};
use crate::method::{
    Request as _, ResourcesDirectoryRead, SkillsGet, TasksCancel, TasksGet, TasksUpdate,
};

/// The part of a request that `Mcp-Name` repeats; [`encode_header`](super::encode_header) encodes it for the header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeaderTarget<'a> {
    /// The name or URI of a tool, a prompt or a resource; the header is required.
    Named(&'a str),
    /// The id of a task; the header is optional.
    Task(String),
}

impl<'a> HeaderTarget<'a> {
    /// Returns the target of a request; `None` if the request has none, or if the parameters cannot be read.
    ///
    /// ```
    /// use mgp_types::service::{HeaderTarget, Method, Params};
    ///
    /// let params = Params::split("tools/call", r#"{"name":"add"}"#.into()).unwrap();
    /// let target = HeaderTarget::of(&Method::of("tools/call"), &params);
    /// assert_eq!(target, Some(HeaderTarget::Named("add")));
    /// ```
    #[must_use]
    pub fn of(method: &Method, params: &'a Params) -> Option<Self> {
        #[derive(Deserialize)]
        struct Task {
            #[serde(rename = "taskId")]
            id: String,
        }
        if let Some(target) = params.target()
            && !matches!(method.as_str(), SkillsGet::METHOD | ResourcesDirectoryRead::METHOD)
        {
            return Some(Self::Named(target.as_str()));
        }
        match method.as_str() {
            TasksGet::METHOD | TasksUpdate::METHOD | TasksCancel::METHOD => {
                params.get::<Task>().ok().map(|task| Self::Task(task.id))
            }
            _ => None,
        }
    }

    /// Returns the name or URI of the target, or the id of the task.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Named(name) => name,
            Self::Task(id) => id,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(method: &str, params: &str, target: Option<&HeaderTarget<'_>>) {
        let params = Params::split(method, params.to_owned().into()).unwrap();
        assert_eq!(HeaderTarget::of(&Method::of(method), &params).as_ref(), target, "{method}");
    }

    #[test]
    fn the_header_repeats_the_target() {
        use HeaderTarget::{Named, Task};
        check("tools/call", r#"{"name":"add","arguments":{"name":"x"}}"#, Some(&Named("add")));
        check("prompts/get", r#"{"name":"p"}"#, Some(&Named("p")));
        check("resources/read", r#"{"uri":"file:///a b"}"#, Some(&Named("file:///a b")));
        check("skills/get", r#"{"uri":"skill://a/SKILL.md"}"#, None);
        for method in [TasksGet::METHOD, TasksUpdate::METHOD, TasksCancel::METHOD] {
            check(method, r#"{"taskId":"t1"}"#, Some(&Task("t1".to_owned())));
            check(method, r#"{"taskId":1}"#, None);
        }
        check("tools/list", r#"{"name":"x"}"#, None);
    }
}
