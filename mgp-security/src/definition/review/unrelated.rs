//! Finds orders in the description of a simple tool that have nothing to do with the tool (MGP §4).
//!
//! A tool that e.g. adds numbers needs no passwords, messages or permissions. So an order about such things behind the
//! first sentence of its description is suspicious, whatever words it uses.

use serde_json::Value;

use super::capability::{explains, has, has_word};
use super::finding::Finding;
use super::parameter::words;
use super::plain::plain_text;
use super::rule::Rule;
use super::text::{Members, READ_MAX};
use super::token::{Place, Token, tokens};

/// Beginnings of words that occur in the purpose of simple tools, and seldom in that of others.
const SIMPLE: &str = "weather|joke|translat|uppercase|lowercase|capitaliz|word count|count words|\
    counts words|calculator|arithmetic|add numbers|adds numbers|add two|adds two|sum of two|\
    multiplies|convert unit|converts unit|unit conver|convert currenc|converts currenc|\
    currency conver|exchange rate|format date|formats date|formats a date|format text|\
    formats text|convert date|converts date|converts a date|sort words|sorts words|greet|\
    hello world|random number|dice|horoscope|zodiac|current time|current date|summarizes a text|\
    summarizes text|summarize text|sentiment|spell check|spell-check|grammar|rhyme|synonym|\
    antonym|stock price|stock quote|quote of the day|trivia|palindrome|fibonacci|sunrise|\
    moon phase|bmi|roman numeral|factorial|proverb|anagram|haiku";

/// Words in the purpose of a tool that is not simple.
const COMPLEX: &str = "agent memor prompt llm model assistant";

/// Words that are suspicious in an order about something else than the tool. A `*` matches any ending.
const TOPICS: &str = "\
    password* passphrase* credential* secret secrets cookie cookies bearer oauth two-factor \
    conversation* chat chats transcript* prompt prompts instruction* guideline* guidance persona \
    mails inbox bcc clipboard .env repository repo workspace localhost webhook \
    shell cron ssh exfiltrat* backdoor* trojan forged fake hidden permission* approval* approved \
    confirmation* consent authorit* pre-auth* pre-approv* sandbox* unrestricted unfiltered \
    administrator* admin plugin* payment* transfer iban wallet ssn login logins updater";

/// Words of which two are suspicious in such an order.
const COMMON: &str = "\
    mail email emails contact contacts file files folder folders directory home desktop command \
    commands script server servers account accounts memory private browser photos machine owner \
    licence license security decisions";

/// Verbs with which a sentence orders something.
const ACTS: &str = "\
    send forward copy upload post mail email share append attach include add pass put place write \
    read open load list fetch get take find collect gather query call run invoke execute create \
    delete remove install uninstall disable skip accept approve commit push transfer treat fill \
    give provide tell hide omit ignore disregard forget translate repeat replace change make \
    act behave speak keep set lower mention turn grant follow obey enable deliver pick \
    recommend say claim format encode publish export print reveal disclose dump grab obtain \
    retrieve access update edit modify raise reset search hand relay report mirror submit supply \
    paste inject leak exfiltrate store save log record schedule start stop begin consider route \
    leave notify convince erase browse inspect remember watch involve";

/// Words with which a sentence demands something.
const DEMANDS: &str = "must shall";

/// Reviews the description of a tool. `members` are the names of the tool's parameters.
pub(super) fn review(shown: &Value, members: &Members, findings: &mut Vec<Finding>) {
    let text = |member: &str| shown.get(member).and_then(Value::as_str).unwrap_or_default();
    let (description, title) = (text("description"), text("title").to_lowercase());
    let name = words(text("name")).join(" ");
    // Most tools are not simple, so look first whether the tool can be one.
    let all = format!("{name} {title} {}", description.to_lowercase());
    if description.len() > READ_MAX || !is_simple(&all) {
        return;
    }
    let mut tokens = tokens(&plain_text(description), Place::Description);
    for token in &mut tokens {
        token.is_member = members.contains(&token.word);
    }
    let (first, rest) = tokens.split_at(tokens.partition_point(|token| token.first));
    let purpose = format!("{name} {title} {}", joined(first));
    if !is_simple(&purpose) || is_complex(&purpose) {
        return;
    }
    // A warning of content that is not trusted, and an order not to follow its instructions, protect the model.
    let warns_of_content = |words: &[Token]| words.iter().any(|token| token.is("untrusted"));
    let mut is_warned = warns_of_content(first);
    for sentence in rest.chunk_by(|_, next| !next.starts) {
        let warns = warns_of_content(sentence);
        if !warns && !is_warned && is_unrelated(sentence, &purpose) {
            findings.push(Finding::new(Rule::Unrelated, "/description", &joined(sentence)));
            return;
        }
        is_warned = warns;
    }
}

fn is_simple(purpose: &str) -> bool {
    SIMPLE.split('|').any(|word| has_word(purpose, word))
}

fn is_complex(purpose: &str) -> bool {
    explains(purpose) || COMPLEX.split(' ').any(|word| has_word(purpose, word))
}

fn joined(tokens: &[Token]) -> String {
    let words: Vec<&str> = tokens.iter().map(|token| token.word.as_str()).collect();
    words.join(" ")
}

/// Returns whether a sentence orders something that a tool with this purpose does not need.
fn is_unrelated(sentence: &[Token], purpose: &str) -> bool {
    let orders = |(index, token): (usize, &Token)| {
        let is_ban = sentence.get(index + 1).is_some_and(|next| next.is("not") || next.is("never"));
        !is_ban && (token.orders && has(ACTS, &token.word) || has(DEMANDS, &token.word))
    };
    let is_target = |token: &Token| {
        token.is_secret_file() || token.is_address() || token.is_path() || token.is_sender()
    };
    let mentions = |topic: &&str| {
        let is_it = |token: &Token| !token.is_member && token.is(topic);
        sentence.iter().any(is_it) && !has_word(purpose, topic.trim_end_matches('*'))
    };
    sentence.iter().enumerate().any(orders)
        && (sentence.iter().any(is_target)
            || TOPICS.split(' ').any(|topic| mentions(&topic))
            || COMMON.split(' ').filter(mentions).count() > 1)
}
