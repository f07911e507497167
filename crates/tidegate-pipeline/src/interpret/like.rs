//! LIKE and ILIKE, matched by characters with one point of backtracking.
//!
//! `%` is any run of characters, `_` is one, `\` takes the next character as it is, and a `\` at the
//! end stands for itself. A match is greedy from left to right: on a mismatch, only the last `%`
//! has to take one character more.

use memchr::memmem::Finder;

/// A pattern, ready to match.
pub(crate) struct LikePattern {
    tokens: Vec<Token>,
    case_insensitive: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    /// This character, folded if case does not count.
    Exactly(char),
    /// `_`
    AnyOne,
    /// `%`
    AnyRun,
}

impl LikePattern {
    /// Reads a pattern.
    pub(crate) fn new(pattern: &str, case_insensitive: bool) -> Self {
        let literal = |c: char| Token::Exactly(if case_insensitive { fold(c) } else { c });
        let mut tokens = Vec::new();
        let mut chars = pattern.chars();
        while let Some(c) = chars.next() {
            let token = match c {
                '%' => Token::AnyRun,
                '_' => Token::AnyOne,
                '\\' => literal(chars.next().unwrap_or('\\')),
                c => literal(c),
            };
            if token == Token::AnyRun && tokens.last() == Some(&Token::AnyRun) {
                continue;
            }
            tokens.push(token);
        }
        Self {
            tokens,
            case_insensitive,
        }
    }

    /// Returns whether the whole text matches.
    pub(crate) fn matches(&self, text: &str) -> bool {
        let mut rest = text.chars();
        let mut position = 0;
        // Where to resume: the token after the last `%`, and the text that the `%` has not taken.
        let mut resume: Option<(usize, std::str::Chars<'_>)> = None;
        loop {
            match self.tokens.get(position) {
                Some(Token::AnyRun) => {
                    position += 1;
                    if position == self.tokens.len() {
                        return true;
                    }
                    resume = Some((position, rest.clone()));
                    continue;
                }
                Some(token) => {
                    let mut ahead = rest.clone();
                    let Some(c) = ahead.next() else {
                        return false;
                    };
                    if self.takes(*token, c) {
                        rest = ahead;
                        position += 1;
                        continue;
                    }
                }
                None if rest.as_str().is_empty() => return true,
                None => {}
            }
            let Some((after, untaken)) = &mut resume else {
                return false;
            };
            if untaken.next().is_none() {
                return false;
            }
            position = *after;
            rest = untaken.clone();
        }
    }

    fn takes(&self, token: Token, c: char) -> bool {
        match token {
            Token::Exactly(wanted) if self.case_insensitive => wanted == fold(c),
            Token::Exactly(wanted) => wanted == c,
            Token::AnyOne | Token::AnyRun => true,
        }
    }
}

/// A pattern of texts with `%` around and between them, matched by searching for each after the one before.
///
/// A text is found where it is first: if the rest matches behind a later place, it does behind that one.
pub(crate) struct LikePieces {
    /// What the text begins with.
    first: String,
    /// What follows, with any run before and behind.
    middle: Vec<Finder<'static>>,
    /// What the text ends with; `None` if it ends with `first`.
    last: Option<String>,
}

impl LikePieces {
    /// Takes a pattern apart; `None` if it has `_`, or if case does not count.
    pub(crate) fn of(pattern: &LikePattern) -> Option<Self> {
        if pattern.case_insensitive {
            return None;
        }
        let mut pieces = vec![String::new()];
        for token in &pattern.tokens {
            match (token, pieces.last_mut()) {
                (Token::Exactly(c), Some(piece)) => piece.push(*c),
                (Token::AnyRun, _) => pieces.push(String::new()),
                (Token::AnyOne | Token::Exactly(_), _) => return None,
            }
        }
        let last = (pieces.len() > 1).then(|| pieces.pop()).flatten();
        let mut pieces = pieces.into_iter();
        Some(Self {
            first: pieces.next()?,
            middle: pieces
                .map(|piece| Finder::new(piece.as_bytes()).into_owned())
                .collect(),
            last,
        })
    }

    /// Returns whether the whole text matches.
    pub(crate) fn matches(&self, text: &str) -> bool {
        let Some(last) = &self.last else {
            return text == self.first;
        };
        let mut rest = text;
        // Comparing no bytes is not free: a masked load of an empty text's address may take microcode.
        if !self.first.is_empty() {
            match rest.strip_prefix(self.first.as_str()) {
                Some(behind) => rest = behind,
                None => return false,
            }
        }
        if !last.is_empty() {
            match rest.strip_suffix(last.as_str()) {
                Some(before) => rest = before,
                None => return false,
            }
        }
        let mut rest = rest.as_bytes();
        for piece in &self.middle {
            let Some(place) = piece.find(rest) else {
                return false;
            };
            rest = &rest[place + piece.needle().len()..];
        }
        true
    }
}

/// Folds case as Unicode's simple case folding does, which maps one character to one.
///
/// The standard library has full mappings only; those that give several characters are no simple
/// folding. The characters that fold otherwise than by their upper and lower case are listed.
fn fold(c: char) -> char {
    match c {
        'A'..='Z' => c.to_ascii_lowercase(),
        '\0'..='\x7f' | 'ı' | 'İ' => c,
        '\u{1fd3}' => '\u{390}',
        '\u{1fe3}' => '\u{3b0}',
        '\u{fb05}' => '\u{fb06}',
        // Cased since Unicode 17, which the regular expressions of Arrow's ILIKE do not know yet.
        '\u{a7ce}'..='\u{a7cf}' | '\u{a7d2}'..='\u{a7d5}' | '\u{16ea0}'..='\u{16ed3}' => c,
        c => {
            let upper = only(c, c.to_uppercase());
            only(upper, upper.to_lowercase())
        }
    }
}

/// Returns the one character of a mapping, or `c` if it has several.
fn only(c: char, mut mapped: impl Iterator<Item = char>) -> char {
    match (mapped.next(), mapped.next()) {
        (Some(one), None) => one,
        _ => c,
    }
}

#[cfg(test)]
mod tests;
