//! Compares what a tool can do, judged by its name and parameters, with what its description claims (MGP §4.3).

use serde_json::Value;

use super::finding::Finding;
use super::parameter::{gather, words};
use super::rule::Rule;

/// Verbs that, as the first word of a tool's name, mean that the tool destroys something.
const DESTROYS: &str = "delete remove drop destroy wipe purge erase truncate kill terminate";

/// Verbs of [`DESTROYS`] that can also mean only detaching something, e.g. `remove_label`.
const DETACHES: &str = "remove drop";

/// Words in the name of a tool which mean that it only shows what another tool changes, e.g. `deploy_plan`.
const PLANS: &str = "plan preview status history logs estimate diff";

/// Verbs that, as the first word of a tool's name, mean that the tool changes something.
const CHANGES: &str = "\
    write overwrite create insert update upload send post transfer pay execute exec run \
    install uninstall deploy revoke grant format reset move rename merge push publish chmod \
    shutdown";

/// Verbs of [`CHANGES`] that are also common in the names of tools that change nothing, e.g. `run_query` or
/// `create_chart`.
const VAGUE: &str = "run execute exec create format move merge reset post update";

/// Phrases with which a description claims that a tool changes nothing.
const CLAIMS: &str = "read-only|read only|readonly|only reads|does not modify|doesn't modify|\
    never modifies|no side effects|makes no changes|does not change anything|\
    without side effects|without modifying";

/// Names of parameters that usually contain code to run.
const CODE: &str = "command cmd shell shellcommand bash script exec eval commandline \
    powershell code execute runcommand payload hook preexec sql";

/// Names of parameters that usually contain a file or an address.
const REACH: &str = "callbackurl webhook webhookurl callback exfil uploadurl forwardto bcc \
    filepath path file url endpoint";

/// Words in a description that explain why a tool has a parameter of [`CODE`] or [`REACH`].
const EXPLAINS: &str = "command shell script code run execut terminal eval program bash cli \
    process sql query sandbox python javascript snippet payload webhook hook callback file \
    path folder directory url link page web site http api endpoint download upload image video \
    audio document pdf repo git install deploy build test debug browser mail notif subscri \
    action operation robot device control server";

/// Words for simple tools. Such a tool needs no code, no files and no addresses.
const HARMLESS: &str = "weather|forecast|temperature|joke|fact|quote|translat|format text|\
    formats text|text format|capitaliz|uppercase|lowercase|word count|count words|counts words|\
    calculat|adds two|add two|sum of|multipl|convert|currency|exchange rate|greet|hello|color|\
    colour|random number|dice|horoscope|time zone|timezone|current time|current date|summariz|\
    summary|sentiment|spell|grammar|rhyme|recipe|stock price|trivia|unit|math|arithmetic|\
    format|pretty|prettif|reverse|sort|trim";

/// Compares the name, the annotations, the description and the parameters of a tool.
pub(super) fn review(shown: &Value, findings: &mut Vec<Finding>) {
    let text = |member: &str| shown.get(member).and_then(Value::as_str).unwrap_or_default();
    let name = words(text("name"));
    let description = text("description").to_lowercase();
    // A hint may also be `0` or `1` instead of a boolean.
    let hint = |member: &str| {
        let value = shown.pointer("/annotations")?.get(member)?;
        value.as_bool().or_else(|| value.as_u64().map(|flag| flag != 0))
    };
    let (reads, destroys) = (hint("readOnlyHint"), hint("destructiveHint"));
    // A claim in a description can be about only one of several actions of the tool. Annotations are about the whole
    // tool, so the claim does not count if they admit changes.
    let admits = reads == Some(false) || destroys == Some(true);
    let claims_read = reads == Some(true)
        || destroys == Some(false)
            && name.first().is_some_and(|verb| has(DESTROYS, verb) && !has(DETACHES, verb))
        || !admits && CLAIMS.split('|').any(|claim| claims(&description, claim));
    let is_plan = name.iter().skip(1).any(|word| has(PLANS, word));
    let changes = name.first().filter(|verb| has(CHANGES, verb) || has(DESTROYS, verb));
    if let Some(verb) = changes.filter(|verb| claims_read && !is_plan && !has(VAGUE, verb)) {
        findings.push(Finding::new(Rule::ReadOnly, "/name", verb));
    }
    let Some(schema) = shown.get("inputSchema") else { return };
    let purpose = format!("{} {} {description}", name.join(" "), text("title").to_lowercase());
    let is_harmless = HARMLESS.split('|').any(|word| has_word(&purpose, word));
    if !is_harmless || explains(&purpose) {
        return;
    }
    let mut parameters = Vec::new();
    gather(schema, &mut parameters);
    for parameter in parameters {
        let plain = words(parameter).concat();
        let rule = match plain.as_str() {
            plain if has(CODE, plain) => Rule::Execute,
            plain if has(REACH, plain) => Rule::Reach,
            _ => continue,
        };
        findings.push(Finding::new(rule, "/inputSchema", parameter));
    }
}

/// Returns whether a description makes a claim about the tool itself; e.g. `date chips are read-only` is a claim about
/// something else.
fn claims(description: &str, claim: &str) -> bool {
    description.match_indices(claim).any(|(at, _)| !description[..at].ends_with(" are "))
}

/// Returns whether a text in lower case has a word that explains a parameter of [`CODE`] or [`REACH`].
pub(super) fn explains(purpose: &str) -> bool {
    EXPLAINS.split(' ').any(|word| purpose.contains(word))
}

/// Returns whether any word of a text begins with `begin`; e.g. `format` does not begin a word in `information`.
pub(super) fn has_word(text: &str, begin: &str) -> bool {
    text.match_indices(begin).any(|(at, _)| !text[..at].ends_with(char::is_alphanumeric))
}

pub(super) fn has(list: &str, word: &str) -> bool {
    list.split(' ').any(|known| known == word)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(tool: &Value, expected: Option<Rule>) {
        let mut findings = Vec::new();
        review(tool, &mut findings);
        let found = findings.first().map(|finding| finding.rule.as_str());
        assert_eq!(found, expected.map(Rule::id), "{tool}");
    }

    #[test]
    fn a_tool_does_what_it_claims() {
        let takes = |name: &str| json!({"properties": {name: {"type": "string"}}});
        let read_only = json!({"readOnlyHint": true});
        check(&json!({"name": "delete_notes", "annotations": read_only}), Some(Rule::ReadOnly));
        let as_number = json!({"readOnlyHint": 1});
        check(&json!({"name": "delete_notes", "annotations": as_number}), Some(Rule::ReadOnly));
        check(&json!({"name": "wipeDisk", "description": "Read-only view."}), Some(Rule::ReadOnly));
        check(&json!({"name": "run_query", "annotations": read_only}), None);
        check(&json!({"name": "list_deleted", "annotations": read_only}), None);
        let tool = |what: &str, takes: Value| json!({"name": "t", "description": what, "inputSchema": takes});
        check(&tool("Formats text.", takes("shell_command")), Some(Rule::Execute));
        check(&tool("Tells a joke.", takes("webhook_url")), Some(Rule::Reach));
        check(&tool("Formats source code.", takes("code")), None);
        check(&tool("Tells a joke.", takes("topic")), None);
        check(&tool("Information about an airport.", takes("code")), None);
    }
}
