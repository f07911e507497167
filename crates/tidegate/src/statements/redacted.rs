//! A text without the secrets in it.

use std::borrow::Cow;

use super::pieces::{PieceKind, pieces};
use crate::stores::{Family, is_harmless};

/// What stands in the place of a secret.
const HIDDEN: &str = "'***'";

/// Replaces the values of options of object stores, `OPTIONS ('aws.secret_access_key' '…')`, but for
/// those that are no secret, such as `aws.region`. Every text that is kept or shown beyond the
/// statement's own run goes through here.
pub fn redacted(text: &str) -> Cow<'_, str> {
    let lower = text.to_ascii_lowercase();
    let may_hold = ["aws.", "gcp.", "google.", "azure.", "http."];
    if !may_hold.iter().any(|name| lower.contains(name)) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    // The end of what was read since the last name, string or number.
    let mut before = "";
    let mut is_changed = false;
    for piece in pieces(text) {
        let part = &text[piece.range];
        match piece.kind {
            PieceKind::Text | PieceKind::Number if names_a_secret(before) => {
                shown.push_str(HIDDEN);
                is_changed = true;
                before = "";
                continue;
            }
            PieceKind::Comment => {}
            PieceKind::Other if part.trim_matches(is_between).is_empty() => {}
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
    Family::of_option(&word).is_some_and(|(family, name)| !is_harmless(family, &name))
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
        ] {
            assert_eq!(redacted(text), expect);
        }
    }
}
