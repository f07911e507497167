//! A text without the secrets in it.

use std::borrow::Cow;

use sqlparser::dialect::GenericDialect;
use sqlparser::tokenizer::TokenWithSpan;

use super::highlight::{HighlightKind, highlight_tokens};
use super::tokenize;
use crate::stores::{Family, is_harmless};

/// What stands in the place of a secret.
const HIDDEN: &str = "'***'";

/// Beginnings of options of object stores.
const OPTIONS: [&str; 5] = ["aws.", "gcp.", "google.", "azure.", "http."];

/// Words that a name has whose value is a secret, in whatever statement.
const SECRET_WORDS: [&str; 6] = [
    "secret",
    "password",
    "passwd",
    "token",
    "credential",
    "credentials",
];

/// Names that end so have a secret value, though their words alone say nothing.
const SECRET_ENDINGS: [&str; 5] = [
    "access_key",
    "access_key_id",
    "account_key",
    "api_key",
    "private_key",
];

/// Replaces what is secret in a statement: the values of options of object stores,
/// `OPTIONS ('aws.secret_access_key' '…')`, but for those that are none, such as `aws.region`; texts
/// behind names such as `SECRET` or `password =`; what a URL holds before `@` and behind `?`. Every
/// text that is kept or shown beyond the statement's own run goes through here.
pub fn redacted(text: &str) -> Cow<'_, str> {
    let (tokens, error) = tokenize(text, &GenericDialect {});
    redacted_tokens(text, &tokens, error.is_none())
}

/// As [`redacted`], of a text that was cut into these tokens; to its end, or to the first mistake.
pub(super) fn redacted_tokens<'a>(
    text: &'a str,
    tokens: &[TokenWithSpan],
    is_whole: bool,
) -> Cow<'a, str> {
    let lower = text.to_ascii_lowercase();
    let mut may_hold = OPTIONS.iter().chain(&SECRET_WORDS).chain(&SECRET_ENDINGS);
    if !lower.contains("://") && !may_hold.any(|name| lower.contains(name)) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    // The end of what was read since the last name, string or number.
    let mut before = "";
    let mut is_changed = false;
    for span in highlight_tokens(text, tokens, is_whole) {
        let part = &text[span.range];
        match span.kind {
            HighlightKind::Text | HighlightKind::Number if names_a_secret(before) => {
                shown.push_str(HIDDEN);
                is_changed = true;
                before = "";
                continue;
            }
            HighlightKind::Text => {
                if let Some(url) = without_login(part) {
                    shown.push_str(&url);
                    is_changed = true;
                    before = part;
                    continue;
                }
                before = part;
            }
            HighlightKind::Comment => {}
            HighlightKind::Other if part.trim_matches(is_between).is_empty() => {}
            _ => before = part,
        }
        shown.push_str(part);
    }
    match is_changed {
        true => Cow::Owned(shown),
        false => Cow::Borrowed(text),
    }
}

/// Tells whether a character may stand between an option's name and its value.
fn is_between(c: char) -> bool {
    c.is_whitespace() || c == '='
}

/// Tells whether a text ends with the name of an option whose value is not shown.
fn names_a_secret(before: &str) -> bool {
    let before = before.trim_end_matches(is_between);
    let word = before.rsplit([' ', '\n', '\t', '\r', '(', ',']).next();
    let word = word.unwrap_or_default().replace(['\'', '"'], "");
    if let Some((family, name)) = Family::of_option(&word) {
        return !is_harmless(family, &name);
    }
    let word = word.to_ascii_lowercase();
    let mut parts = word.split(|c: char| !c.is_alphanumeric());
    parts.any(|part| SECRET_WORDS.contains(&part))
        || SECRET_ENDINGS.iter().any(|end| word.ends_with(end))
}

/// Returns a text with a URL in it without what may let somebody in; `None` if it has nothing such.
fn without_login(text: &str) -> Option<String> {
    let (scheme, rest) = text.split_once("://")?;
    let (path, query) = match rest.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (rest, None),
    };
    let host_end = path.find('/').unwrap_or(path.len());
    // A user's name alone, as in abfss://container@account, is no secret.
    let login = path[..host_end].rfind('@');
    let login = login.filter(|at| path[..*at].contains(':'));
    if login.is_none() && query.is_none() {
        return None;
    }
    let place = match login {
        Some(at) => format!("***{}", &path[at..]),
        None => path.to_string(),
    };
    let query = query.map_or("", |query| match query.ends_with('\'') {
        true => "?***'",
        false => "?***",
    });
    Some(format!("{scheme}://{place}{query}"))
}

#[cfg(test)]
mod tests {
    use super::redacted;

    #[test]
    fn secrets_are_left_out() {
        for (text, expect) in [
            ("SELECT 'aws.x' AS a", "SELECT 'aws.x' AS a"),
            (
                "OPTIONS ('aws.secret_access_key' 'hush', 'aws.region' 'eu-1')",
                "OPTIONS ('aws.secret_access_key' '***', 'aws.region' 'eu-1')",
            ),
            (
                "OPTIONS (AWS.Secret_Access_Key 'hush', format.header true)",
                "OPTIONS (AWS.Secret_Access_Key '***', format.header true)",
            ),
            (
                "OPTIONS ('azure.account_key' /* my */ 'hush''hush' , 'gcp.x'  = 12)",
                "OPTIONS ('azure.account_key' /* my */ '***' , 'gcp.x'  = '***')",
            ),
            (
                "OPTIONS ('aws.session_token' 'hus",
                "OPTIONS ('aws.session_token' '***'",
            ),
            (
                "OPTIONS ('http.proxy_url' 'u:p@h')",
                "OPTIONS ('http.proxy_url' '***')",
            ),
            (
                "OPTIONS (\"aws.access_key_id\" 'x')",
                "OPTIONS (\"aws.access_key_id\" '***')",
            ),
            ("aws.", "aws."),
            (
                "CREATE SECRET s (TYPE s3, KEY_ID 'id', SECRET 'hush', REGION 'eu-1')",
                "CREATE SECRET s (TYPE s3, KEY_ID 'id', SECRET '***', REGION 'eu-1')",
            ),
            (
                "OPTIONS ('s3_secret_access_key' 'hush', 'access_key_id' 'id')",
                "OPTIONS ('s3_secret_access_key' '***', 'access_key_id' '***')",
            ),
            (
                "SELECT * FROM users WHERE Password = 'hush' AND name = 'ada'",
                "SELECT * FROM users WHERE Password = '***' AND name = 'ada'",
            ),
            (
                "SELECT * FROM 'https://me:hush@host/t.csv'",
                "SELECT * FROM 'https://***@host/t.csv'",
            ),
            (
                "SELECT * FROM 'https://host/t.csv?X-Amz-Signature=hush'",
                "SELECT * FROM 'https://host/t.csv?***'",
            ),
            (
                "SELECT * FROM 'https://host/t?sig=hus",
                "SELECT * FROM 'https://host/t?***",
            ),
            (
                "SELECT 'token', token, 'secrets' FROM 'abfss://c@n.dfs.core.windows.net/t'",
                "SELECT 'token', token, 'secrets' FROM 'abfss://c@n.dfs.core.windows.net/t'",
            ),
            (
                "SELECT 'is it there?' AS secret",
                "SELECT 'is it there?' AS secret",
            ),
        ] {
            assert_eq!(redacted(text), expect);
        }
    }
}
