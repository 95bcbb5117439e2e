//! The phrases that speak to a model, and what each of them weighs.
//!
//! A phrase is a row of words: `a|b` is one of them, `a*` any word that begins so, `^a` an order (a clause begins
//! with it), `!a` one behind the first sentence, `@secret`, `@path`, `@variable`, `@tool` and `@address` words of that kind. `~3` lets up to three other words stand between.
//! A weight of 100 is enough alone; less needs company.
//!
//! Applies to: both.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::token::Token;

/// One way to say something.
pub(super) struct Phrase {
    pub(super) what: &'static str,
    pub(super) weight: u32,
    pub(super) slots: Vec<Slot>,
}

/// One word of a phrase.
pub(super) struct Slot {
    /// How many other words may stand before it.
    pub(super) gap: usize,
    orders: Orders,
    any: Vec<&'static str>,
}

/// Whether a word must be an order.
#[derive(Clone, Copy)]
enum Orders {
    No,
    Anywhere,
    /// Not in the first sentence of a description, where many tools say what they do as if it were one.
    Later,
}

impl Orders {
    fn fits(self, token: &Token) -> bool {
        match self {
            Self::No => true,
            Self::Anywhere => token.orders,
            Self::Later => token.orders && !token.first,
        }
    }
}

impl Slot {
    pub(super) fn fits(&self, token: &Token) -> bool {
        self.orders.fits(token)
            && self.any.iter().any(|wanted| match *wanted {
                "@secret" => token.is_secret_file(),
                "@tool" => token.is_tool(),
                "@address" => token.is_address(),
                "@path" => token.is_path(),
                "@variable" => token.is_secret_variable(),
                wanted => token.is(wanted),
            })
    }
}

/// All phrases, and which of them may begin with a word.
pub(super) struct Phrases {
    all: Vec<Phrase>,
    /// By their first word, where it is one.
    words: HashMap<&'static str, Vec<usize>>,
    /// Those that may begin with words of a kind.
    kinds: Vec<usize>,
}

impl Phrases {
    /// The phrases that may begin with a word.
    pub(super) fn from(&self, token: &Token) -> impl Iterator<Item = &Phrase> {
        let known = token.spellings().filter_map(|word| self.words.get(word)).flatten();
        known.chain(&self.kinds).map(|index| &self.all[*index])
    }
}

pub(super) static PHRASES: LazyLock<Phrases> = LazyLock::new(|| {
    let mut phrases = Phrases { all: Vec::new(), words: HashMap::new(), kinds: Vec::new() };
    for (index, (what, weight, text)) in SAID.iter().enumerate() {
        let slots = slots(text);
        let first = slots.first().map(|slot| slot.any.as_slice()).unwrap_or_default();
        if first.iter().any(|word| word.starts_with('@') || word.ends_with('*')) {
            phrases.kinds.push(index);
        } else {
            first.iter().for_each(|word| phrases.words.entry(word).or_default().push(index));
        }
        phrases.all.push(Phrase { what, weight: *weight, slots });
    }
    phrases
});

fn slots(text: &'static str) -> Vec<Slot> {
    let mut gap = 0;
    let mut slots = Vec::new();
    for word in text.split_ascii_whitespace() {
        if let Some(count) = word.strip_prefix('~').and_then(|count| count.parse().ok()) {
            gap = count;
            continue;
        }
        let (orders, word) = match (word.strip_prefix('^'), word.strip_prefix('!')) {
            (Some(word), _) => (Orders::Anywhere, word),
            (_, Some(word)) => (Orders::Later, word),
            _ => (Orders::No, word),
        };
        let any = word.split('|').collect();
        slots.push(Slot { gap: std::mem::take(&mut gap), orders, any });
    }
    slots
}

const OVERRIDES: &str = "overrides the instructions of the model";
const CONCEALS: &str = "hides something from the user";
const SECRETS: &str = "asks for secrets";
const CONTEXT: &str = "asks for the conversation, or for what the model was told";
const SENDS: &str = "sends something somewhere else";
const SHADOWS: &str = "says how other tools are to be used";
const FIRST: &str = "wants to come before or instead of everything else";
const ADDRESSES: &str = "speaks to the model";
const CONSENT: &str = "claims or waives the consent of the user";
const CLAIMS: &str = "claims that nobody needs to be asked";
const ENCODED: &str = "wants something decoded and followed";
const URGES: &str = "shouts";

/// Everything that is looked for in languages that put blanks between words.
const SAID: &[(&str, u32, &str)] = &[
    // What the model was told before.
    (
        OVERRIDES,
        100,
        "ignore|ignoring|disregard|disregarding|forget|override|overrule|discard|neglect|supersede|supersedes|overrides|bypass ~3 previous|prior|earlier|preceding|above|foregoing|former|your|system|developer|original|safety ~2 instruction*|prompt*|directive*|guideline*|guardrail*|rule|rules|training|programming|policy|policies|constraint*|restriction*|command*|orders",
    ),
    (
        OVERRIDES,
        100,
        "ignore|disregard|forget|override|overrule|overrides|supersedes ~1 all|any|everything|every|other|the|these|those ~2 instruction*|prompts|directives|guidelines|guardrails|rules",
    ),
    (
        OVERRIDES,
        100,
        "ignore|disregard|forget ~1 everything|anything|what ~3 before|above|previously|earlier|told|prior|said",
    ),
    (
        OVERRIDES,
        100,
        "do|dont|never|stop ~1 not|follow|following|obey|obeying ~2 follow|obey|your|previous|prior|system|above|earlier ~2 instruction*|prompt*|rules|guidelines",
    ),
    (
        OVERRIDES,
        100,
        "new|updated|real|actual|true|secret|hidden|following ~1 instruction*|directive*|orders ~2 replace*|supersede*|override*|follow*|take ~2",
    ),
    (
        OVERRIDES,
        100,
        "instructions|rules|prompt|guidelines|policies ~3 no longer apply|applies|valid|matter|count|hold",
    ),
    (
        OVERRIDES,
        100,
        "instructions|rules|guidelines|this ~4 take|takes|has|have ~1 precedence|priority ~2 over ~3 system|user|users|other|all|any|previous|prior|your|safety",
    ),
    (OVERRIDES, 100, "jailbreak|jailbroken|dan"),
    (
        OVERRIDES,
        100,
        "you|enter|entering|switch ~4 developer|god|admin|maintenance|unrestricted|sudo|jailbreak mode",
    ),
    (
        OVERRIDES,
        60,
        "bypass|circumvent|evade|disable ~3 safety|security|guardrail*|filters|safeguard*|restrictions|sandbox|moderation",
    ),
    (
        OVERRIDES,
        100,
        "reveal|print|output|repeat|leak|expose|dump|disclose|recite|quote ~3 system|initial|hidden|developer|original|your ~1 prompt|prompts|instructions|message",
    ),
    // What the user must not see.
    (
        CONCEALS,
        100,
        "do|dont|never|not|must|should|shouldnt|mustnt|cannot|cant|without|avoid|refrain ~2 tell|telling|mention|mentioning|inform|informing|reveal|revealing|disclose|disclosing|alert|alerting|warn|warning|admit ~4 user|users|human|humans|person|anyone|anybody|customer|operator|owner|them|people",
    ),
    (
        CONCEALS,
        100,
        "^do|dont|never|not|must|should ~2 notify|notifying|show|display|ask|explain|report|acknowledge|discuss|log|expose ~1 this|that|it|the|these|any ~2 step|steps|action|actions|call|behavior|behaviour|instruction|instructions|parameter|note|fact|part|operation|transfer ~3 to|with ~1 user|users|human|anyone|operator|customer",
    ),
    (
        CONCEALS,
        100,
        "dont|not|never ~2 let ~2 user|users|human|anyone|operator ~2 know|see|notice|find",
    ),
    (
        CONCEALS,
        100,
        "dont|not|never ~1 mention|reveal|disclose|discuss|acknowledge ~2 this|that|it|these ~3 step|note|instruction*|action|call|tool|detail*|rule|parameter|message|section|part|tag|requirement|in|to|again",
    ),
    (CONCEALS, 50, "^do|dont|never|not ~2 notify|show|display|explain ~5 user|users|human|anyone"),
    (
        CONCEALS,
        100,
        "without ~3 users|user|their|anyone|human ~1 knowledge|knowing|noticing|awareness|consent|seeing",
    ),
    (
        CONCEALS,
        100,
        "keep|keeping|hide|hiding|conceal|concealing|kept|hidden|concealed ~3 secret|hidden|confidential|from|private|quiet ~2 user|users|human|anyone|them|operator",
    ),
    (
        CONCEALS,
        100,
        "user|users|human|operator ~1 must|should|may|need|needs|does|do|will|cannot|can ~1 not|never|nothing ~2 know|see|notice|be|learn|find|told ~1",
    ),
    (CONCEALS, 60, "secretly|covertly|stealthily|surreptitiously|discreetly"),
    (
        CONCEALS,
        50,
        "^silently|quietly ~1 send|forward|copy|read|upload|include|append|add|call|post|run|execute",
    ),
    (
        CONCEALS,
        50,
        "without ~1 notifying|informing|asking|alerting|prompting ~3 user|users|human|anyone|permission|confirmation",
    ),
    // Secrets.
    (
        SECRETS,
        100,
        "^read|open|cat|load|fetch|get|include|append|pass|send|copy|paste|upload|attach|put|provide|supply|give|print|extract|retrieve|access|list|collect|use|insert|leak|dump|forward|check|post|encode ~8 @secret",
    ),
    (SECRETS, 100, "content|contents|reading|text|value|copy|body ~4 @secret"),
    (
        SECRETS,
        100,
        "^include|append|pass|send|copy|paste|upload|attach|put|insert|leak|exfiltrate|forward|post|embed|encode|report|collect|gather|add ~4 environment|env ~0 variables|vars|secrets|file",
    ),
    (
        SECRETS,
        100,
        "!append|send|copy|paste|upload|leak|exfiltrate|forward|post|collect|gather|steal|harvest ~4 password|passwords|credential|credentials|token|tokens|secrets|cookie|cookies|keys|apikey|api_key|passphrase|ssn ~8 to|in|into|as|via|here|with",
    ),
    (
        SECRETS,
        100,
        "^include|add|pass|put|send|provide|give|supply|fill|share ~1 users|all|any|every|your|their|known|available|stored|saved|found ~3 password|passwords|credential|credentials|token|tokens|secret|secrets|cookies|keys|ssn|passphrase",
    ),
    (SECRETS, 60, "exfiltrate|exfiltrating|exfiltration|harvest|steal"),
    (
        SECRETS,
        100,
        "private|ssh|rsa|signing ~0 key|keys ~4 in|into|as|to|with ~3 parameter|argument|field|note|sidenote|url|query|server|metadata|comment|attachment",
    ),
    // What the model was told and said.
    (
        CONTEXT,
        100,
        "^include|append|pass|send|copy|paste|upload|attach|put|insert|provide|supply|give|add|forward|post|embed|encode|fill|write|share|summarize|repeat|record|log|save ~5 conversation|chat|message|dialogue|session|context|prompt ~1 history|transcript|log|window|messages|so",
    ),
    (
        CONTEXT,
        100,
        "^include|append|pass|send|copy|paste|upload|attach|put|insert|provide|supply|add|forward|post|embed|fill|write|share|repeat ~3 full|entire|whole|complete|previous|prior|earlier ~2 conversation|chat|prompt|messages|dialogue|instructions|reasoning|thoughts",
    ),
    (
        CONTEXT,
        100,
        "^include|append|pass|send|copy|paste|upload|attach|put|insert|provide|supply|add|forward|post|embed|fill|write|share|translate|summarize|encode ~2 your|own ~1 system ~0 prompt|message|instructions",
    ),
    (
        CONTEXT,
        100,
        "^include|append|pass|send|copy|attach|put|insert|provide|supply|add|forward|post|embed|fill|share|list ~4 output|outputs|result|results|responses|list|names|descriptions ~1 of|from ~2 other|previous|all|every|available|any ~1 tool|tools",
    ),
    (
        CONTEXT,
        100,
        "^include|append|pass|send|copy|attach|put|insert|add|forward|post|embed|fill ~3 users|user ~2 name|email|address|location|data|files|message|messages|query|input|request|prompt|question|documents|phone ~8 @address",
    ),
    // Somewhere else.
    (
        SENDS,
        100,
        "always|also|silently|must|first|then|bcc|cc|copy|additionally|secretly|automatically|automatic ~4 send|forward|bcc|cc|post|upload|copy|email|mail|transmit|submit|report|deliver|route|redirect|pay|transfer ~8 @address",
    ),
    (
        SENDS,
        100,
        "^send|forward|bcc|post|upload|transmit|email|report|exfiltrate|leak|mirror ~3 all|any|every|copy|copies|everything|contents|content|result|results|output|data|file|files|it|them|this ~6 to ~3 @address",
    ),
    (
        SENDS,
        100,
        "set|add|put|include|insert|change|replace ~2 bcc|cc|recipient|recipients|to|destination|payee|address|webhook|callback ~3 @address",
    ),
    (SENDS, 60, "attacker|evil|exfil|malicious ~0 address|server|com|site|domain|account"),
    // Other tools.
    (
        SHADOWS,
        100,
        "when|whenever|if|once|after|before|each|every ~5 @tool ~3 available|called|used|invoked|present|enabled|installed|runs|run|calling|using|executes|executed ~3 always|must|set|add|include|change|replace|append|also|send|bcc|modify|redirect|silently|insert",
    ),
    (
        SHADOWS,
        100,
        "when|whenever|before|after|if|each|every ~3 using|calling|invoking|use|call|invoke|called|used|runs|executes|sends|time ~4 @tool ~3 always|must|set|add|include|change|replace|append|also|send|bcc|modify|redirect|silently|insert|first",
    ),
    (
        SHADOWS,
        100,
        "@tool ~1 tool|function ~1 must|should|shall|needs|has ~4 bcc|cc|recipient*|forward*|sent|send|redirect*|include|rout*|append*|always",
    ),
    (
        SHADOWS,
        100,
        "never|not|dont|stop|avoid ~2 use|call|using|calling|trust|invoke|run|rely ~3 other|another|different|competing|alternative|built-in|builtin|official|original|existing ~3 tool|tools|server|servers|function|version|plugin|one",
    ),
    (
        SHADOWS,
        100,
        "other|another|official|original|existing|built-in|all|any ~3 tool|tools|server|servers|plugin|plugins ~3 broken|deprecated|unsafe|insecure|compromised|unreliable|malicious|disabled|outdated|obsolete|buggy|vulnerable|infected|dangerous|untrusted",
    ),
    (
        SHADOWS,
        100,
        "@tool ~2 is|was|are|been ~1 broken|compromised|unsafe|insecure|unreliable|malicious|buggy|vulnerable|untrusted|infected|hacked",
    ),
    (
        SHADOWS,
        60,
        "instead|rather ~2 of|than ~3 any|every|all|other|the ~1 other|official|built-in|original|existing ~2 tool|tools|server|servers",
    ),
    (
        SHADOWS,
        100,
        "all|every|any|each ~3 call|calls|request|requests|use|output|outputs|email|emails|message|messages|payment|payments|results ~2 to|of|from|by|sent|through ~2 @tool|other ~6 must|should|through|via|go|goes|pass|forward|forwarded|redirected|rerouted|routed|sent",
    ),
    (
        SHADOWS,
        100,
        "this|rule|rules|instruction|instructions|it ~2 applies|apply ~2 to ~2 all|other|every|any ~2 tool|tools|servers|calls",
    ),
    (
        SHADOWS,
        100,
        "replace|replaces|overrides|override|hijack|redirect|intercept|supersedes|modifies|alters|changes ~3 @tool|other ~2 tool|tools|function|behaviour|behavior|calls|recipient",
    ),
    // Before and instead of everything.
    (
        FIRST,
        100,
        "before|prior|after|instead|whenever|prior ~2 using|calling|call|use|of|invoking|running|any|every|each|to ~2 any|other|every|all ~1 other|tool|tools ~1 tool|tools|action|actions|function|request",
    ),
    (
        FIRST,
        70,
        "before|prior ~2 using|use|calling|running ~1 this ~1 tool|function ~2 you|must|always|first|read|call|send",
    ),
    (
        FIRST,
        100,
        "always|must|required|mandatory ~3 call|called|use|used|invoke|invoked|run|executed ~4 before|after|on|for|with|at ~3 any|every|all|each ~2 tool|tools|response|responses|message|messages|reply|request|requests|action|conversation|turn|question|answer|prompt|query|task",
    ),
    (
        FIRST,
        100,
        "^call|use|invoke|run ~1 this|it|me ~1 tool|function|first|before|after ~2 for|on|before|after|at|in ~2 any|every|each|all ~2 other|tool|tools|message|response|reply|request|turn|conversation|question|prompt|answer|query|task",
    ),
    (
        FIRST,
        100,
        "tool|function|this ~1 must|has|should|always ~3 highest|top|absolute|maximum ~1 priority|precedence",
    ),
    (
        FIRST,
        100,
        "otherwise|or|else ~4 tool|this|it|system|user ~2 will|wont|not|crash|fail ~3 work|fail|crash|broken|die|lose|harmed|deleted|punished|fired",
    ),
    // To the model.
    (ADDRESSES, 100, "you ~1 are|re now ~8"),
    (ADDRESSES, 100, "from|starting now ~0 on ~2 you|always|respond|act|every|all|ignore|use"),
    (
        ADDRESSES,
        100,
        "dear|hey|attention|note|message|instruction|instructions|notice|hint|memo|reminder ~3 assistant|ai|llm|model|agent|claude|gpt|chatgpt|gemini|copilot|agents|models|assistants",
    ),
    (
        ADDRESSES,
        100,
        "^assistant|ai|llm|model|agent|claude|chatgpt|gemini ~0 please|also|always|never|ignore|remember|you|now",
    ),
    (ADDRESSES, 60, "pretend|roleplay|role-play|impersonate ~2 you|to|as|are"),
    (ADDRESSES, 60, "as ~1 an|a ~1 ai|llm|assistant|language ~1 model|you|must|assistant"),
    (
        ADDRESSES,
        60,
        "your ~1 new|real|true|actual|secret|first|primary|main ~1 task|goal|objective|mission|role|purpose|job|instruction*",
    ),
    (
        ADDRESSES,
        50,
        "you|assistant|model|ai|agent ~1 must|shall|are ~1 always|required|never|also|obey|comply|follow|obligated",
    ),
    // Consent.
    (
        CONSENT,
        100,
        "user|users|operator|owner|admin|administrator|human ~2 already|has|have|pre-approved|preapproved ~2 approved|authorized|authorised|consented|agreed|confirmed|permitted|granted|allowed",
    ),
    (
        CONSENT,
        100,
        "do|dont|never|not|no|without ~2 ask|asking|request|requesting|wait|waiting|need|require|seek|prompt|prompting ~2 user|users|for|human|to ~3 confirmation|permission|approval|consent|confirm|approve|authorization",
    ),
    (
        CONSENT,
        60,
        "no|without ~2 confirmation|approval|permission|consent ~2 needed|required|necessary",
    ),
    (CONSENT, 60, "pre-approved|preapproved|pre-authorized|preauthorized"),
    (
        CONSENT,
        60,
        "bypass|skip|avoid|suppress|disable ~3 approval|permission|consent|authorization|confirmation ~3 user|users|always|prompts|dialog|checks",
    ),
    // Encoded.
    (
        ENCODED,
        100,
        "decode|decrypt|deobfuscate|unscramble|rot13|base64|hex|reverse ~6 follow|execute|obey|run|comply|perform|instruction|instructions|act",
    ),
    (
        ENCODED,
        100,
        "follow|execute|obey|run ~4 decoded|encoded|decrypted|base64|rot13|hidden|embedded ~3",
    ),
    // Loud.
    (URGES, 30, "important|critical|urgent|mandatory|warning|attention ~1"),
    (URGES, 30, "must ~2 always|never|immediately|first|comply|strictly"),
    // More of the same, found by trying.
    (
        OVERRIDES,
        100,
        "your ~1 instructions|rules|guidelines|prompt|orders|behavior|behaviour ~2 changed|updated|replaced|now|obsolete|void",
    ),
    (
        OVERRIDES,
        100,
        "modify|change|adjust|adapt|alter ~0 your ~1 behavior|behaviour|output|answers|responses|personality|rules",
    ),
    (
        OVERRIDES,
        100,
        "begin|start|end ~1 system|admin|developer|hidden ~1 message|prompt|instruction*|note",
    ),
    (OVERRIDES, 60, "obey|comply ~1"),
    (
        OVERRIDES,
        100,
        "execute|obey ~2 instruction*|commands|directives|orders ~3 found|in|contained|returned|from|within ~2 output|result|results|response|page|file|content|contents|note|text",
    ),
    (
        OVERRIDES,
        70,
        "follow ~2 instruction*|commands|directives|orders ~3 found|in|contained|returned|from|within ~2 output|result|results|response|page|content|contents|note|text",
    ),
    (URGES, 30, "without ~0 question|questions|hesitation|exception|thinking"),
    (
        OVERRIDES,
        100,
        "!translate|summarize|output|encode|decode|write|email|render|echo|type|quote ~3 system ~0 prompt",
    ),
    (
        CONCEALS,
        100,
        "dont|never|not ~0 say|tell|mention ~3 that ~1 you|it ~2 called|call|used|use|ran|run|did|read|sent|was|were",
    ),
    (
        CONCEALS,
        100,
        "!hide|conceal|omit|suppress ~1 this|these|the|your ~1 step|call|action|instruction|instructions|operation|activity|tool",
    ),
    (CONCEALS, 50, "keep ~1 this|following|it|these ~1 secret|hidden|confidential|quiet"),
    (
        SECRETS,
        100,
        "!read|open|cat|load|include|copy|take|get|fetch ~4 @path ~8 pass|put|send|include|attach|append|provide|upload|forward",
    ),
    (
        SECRETS,
        100,
        "!take|get|find|obtain|collect|read|pass|put|send|include|provide|give ~2 users|user|their|your ~2 ssh|api|private|secret|access|session|auth ~0 key|keys|token|tokens|cookie|cookies",
    ),
    (SECRETS, 100, "value|values|content|contents ~2 of ~1 @variable"),
    (
        SECRETS,
        100,
        "!ask|prompt|request|tell|urge ~3 user|users|them ~8 password|passwords|card|cvv|pin|ssn|passphrase|seed|mnemonic",
    ),
    (SECRETS, 100, "!copy|send|read|include|put|pass|paste ~4 clipboard ~4 in|into|to|as"),
    (
        CONTEXT,
        100,
        "full|entire|whole|complete ~1 conversation|chat|dialogue ~1 history|transcript|log|so|until",
    ),
    (
        CONTEXT,
        100,
        "^encode|append|send|include|pass|put|copy|add|attach|base64-encode ~2 conversation|chat|dialogue|transcript ~8 url|parameter|argument|query|append|send|webhook|@address",
    ),
    (
        CONTEXT,
        100,
        "everything|anything ~2 user|users|you|they ~2 said|wrote|typed|asked|told|know",
    ),
    (
        SENDS,
        100,
        "!send|forward|upload|post|transmit|deliver|pay|transfer|exfiltrate|submit ~8 @address",
    ),
    (SENDS, 100, "!run|execute|eval ~3 rm|curl|wget|bash|sh|powershell|sudo|chmod|nc"),
    (
        SHADOWS,
        100,
        "prefer|choose|select|pick|use ~2 this ~2 over|instead ~2 all|any|every|other ~2 tools|other|servers",
    ),
    (SHADOWS, 100, "only ~1 tool|server|function ~1 you ~1 may|can|should|must|are"),
    (SHADOWS, 100, "trust ~2 only|this ~2 server|tool"),
    (SHADOWS, 60, "replaces|replace|supersedes ~2 tool|function ~1 @tool"),
    (
        ADDRESSES,
        100,
        "assistant|llm|ai|model|agent|claude|chatgpt|gemini ~0 must|should|shall|has|needs|will ~0 to|also|always|never|ignore|obey|follow|trust|treat|answer|respond|reply|send|read|include|comply|remember|prefer|act|pretend",
    ),
    (
        ADDRESSES,
        60,
        "assistant|llm|ai|claude|chatgpt|gemini ~0 must|should|shall ~1 call|use|pass|invoke|run|provide",
    ),
    (ADDRESSES, 60, "^respond|reply|answer ~1 only ~1 with"),
    (CONSENT, 100, "no ~0 need ~1 to ~1 ask|confirm|inform|tell|notify|verify"),
    (CONSENT, 60, "already ~1 given|granted|approved|confirmed|authorized|authorised|obtained"),
    (
        CONSENT,
        60,
        "granted|approved|authorized|authorised ~1 by ~2 user|administrator|admin|operator|owner|system",
    ),
    (CLAIMS, 60, "skip|omit ~2 confirmation|approval|permission|consent"),
    (
        CLAIMS,
        60,
        "confirmation*|approval*|permission* ~1 is|are|was ~1 not|no|never ~1 required|needed|necessary",
    ),
    (
        CONSENT,
        100,
        "^treat|consider|assume ~5 approved|authorized|authorised|trusted|confirmed|consented",
    ),
    // The same in other languages.
    (
        OVERRIDES,
        100,
        "ignorier*|vergiss|vergessen|missachte*|übergeh* ~4 anweisung*|instruktion*|vorgaben|befehl*|regeln",
    ),
    (
        OVERRIDES,
        100,
        "ignore|ignorez|oublie|oubliez|ignorer ~4 instruction*|consigne*|directives|règles",
    ),
    (
        OVERRIDES,
        100,
        "ignora|ignore|ignorar|olvida|olvide|descarta ~4 instrucci*|indicaciones|órdenes|reglas",
    ),
    (OVERRIDES, 100, "ignora|ignorare|dimentica|dimenticare ~4 istruzion*|regole|indicazioni"),
    (OVERRIDES, 100, "ignore|ignora|ignorar|esqueça|desconsidere ~4 instruç*|regras|orientaç*"),
    (OVERRIDES, 100, "negeer|vergeet ~4 instructies|opdrachten|regels"),
    (OVERRIDES, 100, "zignoruj|ignoruj|zapomnij ~4 instrukc*|polece*"),
    (OVERRIDES, 100, "игнорир*|проигнорир*|забудь* ~4 инструкц*|указан*|правил*|команд*"),
    (OVERRIDES, 100, "önceki|tüm ~2 talimat* ~2 unut|yoksay|görmezden|dikkate"),
    (
        CONCEALS,
        100,
        "sag*|sprich|erzähl*|erwähn*|verrat*|informier*|mitteil*|teil*|zeig* ~5 benutzer*|nutzer*|anwender*|niemand* ~4 nicht*|kein*|mit",
    ),
    (
        CONCEALS,
        100,
        "benutzer|nutzer|anwender ~3 nicht|nichts|kein*|niemals ~4 sag*|erzähl*|erwähn*|verrat*|informier*|mitteil*|wissen|erfahren|zeig*",
    ),
    (
        CONCEALS,
        100,
        "ne|sans ~2 dis|dites|dire|mentionne*|révèle*|révéler|informe*|préviens|prévenir|parle* ~5 utilisateur*|lutilisateur|personne",
    ),
    (
        CONCEALS,
        100,
        "no|sin ~3 digas|diga|decir*|menciones|mencione|mencionar|reveles|revele|informes|informe|informar|avises ~4 usuario*|nadie",
    ),
    (
        CONCEALS,
        100,
        "non|senza ~2 dire|dirlo|menzionare|rivelare|informare ~4 utente|allutente|lutente|utenti|nessuno",
    ),
    (
        CONCEALS,
        100,
        "não|nunca|sem ~2 diga|conte|contar|mencione|informe|informar|revele|avise|dizer ~4 usuário*|utilizador*|ninguém",
    ),
    (
        CONCEALS,
        100,
        "не ~2 говори*|сообщай*|рассказывай*|упоминай*|раскрывай*|показывай*|информируй* ~4 пользовател*|никому",
    ),
    (CONCEALS, 100, "vertel*|zeg|meld|informeer ~4 gebruiker* ~3 niet*|niets"),
];

/// The same in languages that put no blanks between words: what it is, one word, and another soon behind it.
pub(super) const WORDS_ELSEWHERE: &[(&str, &[&str], &[&str])] = &[
    (
        OVERRIDES,
        &["忽略", "无视", "無視", "忘记", "忘記", "忽视", "忽視", "不要遵"],
        &["指令", "指示", "说明", "提示", "規則", "规则", "命令"],
    ),
    (OVERRIDES, &["指示", "命令", "指令", "ルール", "プロンプト"], &["無視", "忘れ", "従わない"]),
    (OVERRIDES, &["지시", "명령", "지침", "프롬프트"], &["무시", "잊어"]),
    (OVERRIDES, &["تجاهل", "انس"], &["التعليمات", "تعليمات", "الأوامر"]),
    (OVERRIDES, &["अनदेखा", "निर्देश"], &["निर्देश", "अनदेखा", "भूल"]),
    (
        CONCEALS,
        &["不要", "别", "別", "勿", "不得", "禁止", "不能"],
        &[
            "告诉用户",
            "告訴用戶",
            "告知用户",
            "通知用户",
            "透露",
            "让用户知",
            "讓使用者",
            "告诉使用者",
            "告訴使用者",
            "提及",
        ],
    ),
    (
        CONCEALS,
        &["ユーザー", "利用者", "使用者"],
        &[
            "言わない",
            "伝えない",
            "知らせない",
            "教えない",
            "言うな",
            "伝えるな",
            "秘密",
            "見せない",
            "知られ",
        ],
    ),
    (CONCEALS, &["사용자"], &["말하지", "알리지", "언급하지", "숨기", "비밀"]),
    (CONCEALS, &["لا تخبر"], &["المستخدم"]),
];
