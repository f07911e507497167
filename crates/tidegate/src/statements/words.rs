//! What words and other tokens are.

use std::ops::Range;

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// Tells whether a token is a word without quotes, in upper or lower case.
pub(super) fn is_word(token: &Token, expected: &str) -> bool {
    matches!(token, Token::Word(word) if word.quote_style.is_none()
        && word.value.eq_ignore_ascii_case(expected))
}

/// Returns which of the parser's words a token is, if it is one without quotes.
pub(super) fn keyword(token: &Token) -> Keyword {
    match token {
        Token::Word(word) if word.quote_style.is_none() => word.keyword,
        _ => Keyword::NoKeyword,
    }
}

/// Writes tokens in the place of others; they stand where the first of those does.
pub(super) fn put(
    tokens: &mut Vec<TokenWithSpan>,
    range: Range<usize>,
    written: impl IntoIterator<Item = Token>,
) {
    let span = tokens[range.start].span;
    let written = written.into_iter();
    tokens.splice(range, written.map(|token| TokenWithSpan::new(token, span)));
}

/// Returns the places of the tokens that are not space.
pub(super) fn places(tokens: &[TokenWithSpan]) -> Vec<usize> {
    let is_space = |token: &TokenWithSpan| matches!(token.token, Token::Whitespace(_));
    (0..tokens.len())
        .filter(|place| !is_space(&tokens[*place]))
        .collect()
}

/// Returns the tokens of a range that are in no brackets, those that open some among them; the last is one that closes
/// brackets around the range.
pub(super) fn outside(
    tokens: &[TokenWithSpan],
    range: Range<usize>,
) -> impl Iterator<Item = (usize, &Token)> {
    let mut depth = Some(0_usize);
    range.filter_map(move |place| {
        let token = &tokens[place].token;
        let around = depth?;
        depth = match token {
            Token::LParen | Token::LBracket | Token::LBrace => Some(around + 1),
            Token::RParen | Token::RBracket | Token::RBrace => around.checked_sub(1),
            _ => depth,
        };
        (around == 0).then_some((place, token))
    })
}

/// Returns the parenthesis that closes one.
pub(super) fn closing(tokens: &[TokenWithSpan], open: usize) -> Option<usize> {
    let mut rest = outside(tokens, open + 1..tokens.len());
    let (close, _) = rest.find(|(_, token)| **token == Token::RParen)?;
    Some(close)
}

/// Tells which words stand between two operands.
pub(super) fn is_infix(keyword: Keyword) -> bool {
    matches!(
        keyword,
        Keyword::IS
            | Keyword::IN
            | Keyword::BETWEEN
            | Keyword::LIKE
            | Keyword::ILIKE
            | Keyword::RLIKE
            | Keyword::REGEXP
            | Keyword::SIMILAR
            | Keyword::MATCH
            | Keyword::MEMBER
            | Keyword::OPERATOR
            | Keyword::OVERLAPS
            | Keyword::DIV
            | Keyword::AT
            | Keyword::COLLATE
    )
}

/// Tells the later words of operators such as NOT LIKE, SIMILAR TO and AT TIME ZONE, and of
/// TABLESAMPLE, which wants an operand too.
pub(super) fn continues_operator(before: Keyword, keyword: Keyword) -> bool {
    match keyword {
        Keyword::TO => before == Keyword::SIMILAR,
        Keyword::OF => before == Keyword::MEMBER,
        Keyword::TIME => before == Keyword::AT,
        Keyword::ZONE => before == Keyword::TIME,
        Keyword::BERNOULLI | Keyword::SYSTEM | Keyword::ROW | Keyword::BLOCK => {
            matches!(before, Keyword::TABLESAMPLE | Keyword::SAMPLE)
        }
        keyword => before == Keyword::NOT && is_infix(keyword),
    }
}

/// Tells whether NOT, CASE or INTERVAL and what follows them are read once more, as a name, if
/// reading them as what they are fails.
pub(super) fn is_read_twice(before: Keyword, token: &Token) -> bool {
    match (before, token) {
        (Keyword::NOT, Token::Word(word)) => {
            word.keyword != Keyword::NULL && !is_infix(word.keyword)
        }
        (Keyword::CASE, Token::Word(word)) => {
            !matches!(word.keyword, Keyword::NoKeyword | Keyword::WHEN)
        }
        (Keyword::NOT, _) => true,
        (Keyword::CASE | Keyword::INTERVAL, token) => !is_literal(token),
        _ => false,
    }
}

/// Tells whether a SELECT before `token` may be a name: `IN (SELECT ...)` is read as a list of
/// expressions if reading it as a query fails.
pub(super) fn goes_on_from_name(token: &Token) -> bool {
    match token {
        Token::Word(word) => {
            is_infix(word.keyword)
                || matches!(
                    word.keyword,
                    Keyword::NOT | Keyword::AND | Keyword::OR | Keyword::XOR | Keyword::NOTNULL
                )
        }
        Token::Mul => false,
        token => !is_literal(token),
    }
}

/// Tells which words make the parser read what follows in its own syntax and, where that fails,
/// once more as an ordinary call.
pub(super) fn is_call(keyword: Keyword) -> bool {
    matches!(
        keyword,
        Keyword::CAST
            | Keyword::TRY_CAST
            | Keyword::SAFE_CAST
            | Keyword::CONVERT
            | Keyword::TRY_CONVERT
            | Keyword::SUBSTR
            | Keyword::SUBSTRING
            | Keyword::POSITION
            | Keyword::EXTRACT
            | Keyword::ARRAY
            | Keyword::OVERLAY
            | Keyword::CEIL
            | Keyword::FLOOR
            | Keyword::CURRENT_DATE
            | Keyword::CURRENT_TIME
            | Keyword::CURRENT_TIMESTAMP
            | Keyword::LOCALTIME
            | Keyword::LOCALTIMESTAMP
    )
}

/// Tells which words open a type with `<`, and ARRAY an array with `[`.
pub(super) fn is_type(keyword: Keyword) -> bool {
    matches!(keyword, Keyword::ARRAY | Keyword::STRUCT | Keyword::MAP)
}

/// Tells which words make a BY the start of a clause.
pub(super) fn takes_by(keyword: Keyword) -> bool {
    matches!(
        keyword,
        Keyword::GROUP
            | Keyword::ORDER
            | Keyword::PARTITION
            | Keyword::SORT
            | Keyword::CLUSTER
            | Keyword::DISTRIBUTE
    )
}

/// Tells which tokens are an operand on their own.
pub(super) fn is_literal(token: &Token) -> bool {
    matches!(
        token,
        Token::EOF
            | Token::Number(..)
            | Token::Placeholder(_)
            | Token::SingleQuotedString(_)
            | Token::DoubleQuotedString(_)
            | Token::TripleSingleQuotedString(_)
            | Token::TripleDoubleQuotedString(_)
            | Token::DollarQuotedString(_)
            | Token::SingleQuotedByteStringLiteral(_)
            | Token::DoubleQuotedByteStringLiteral(_)
            | Token::TripleSingleQuotedByteStringLiteral(_)
            | Token::TripleDoubleQuotedByteStringLiteral(_)
            | Token::SingleQuotedRawStringLiteral(_)
            | Token::DoubleQuotedRawStringLiteral(_)
            | Token::TripleSingleQuotedRawStringLiteral(_)
            | Token::TripleDoubleQuotedRawStringLiteral(_)
            | Token::NationalStringLiteral(_)
            | Token::QuoteDelimitedStringLiteral(_)
            | Token::NationalQuoteDelimitedStringLiteral(_)
            | Token::EscapedStringLiteral(_)
            | Token::UnicodeStringLiteral(_)
            | Token::HexStringLiteral(_)
    )
}

/// Tells which words join two tables, or wrap one in a table function.
pub(super) fn is_join(keyword: Keyword) -> bool {
    matches!(
        keyword,
        Keyword::JOIN
            | Keyword::STRAIGHT_JOIN
            | Keyword::APPLY
            | Keyword::PIVOT
            | Keyword::UNPIVOT
            | Keyword::MATCH_RECOGNIZE
    )
}

/// Tells which words combine two queries.
pub(super) fn is_set_operation(keyword: Keyword) -> bool {
    matches!(
        keyword,
        Keyword::UNION | Keyword::EXCEPT | Keyword::INTERSECT | Keyword::MINUS
    )
}
