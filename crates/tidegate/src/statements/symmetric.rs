//! `x BETWEEN SYMMETRIC a AND b`, with the bounds in either order, as in PostgreSQL.
//!
//! The words become `x BETWEEN SYMMETRIC(a) AND b`, which the parser takes for a call; that becomes `x BETWEEN a AND b OR
//! x BETWEEN b AND a`, which is also what NULL among the bounds means.

use std::ops::ControlFlow;

use sqlparser::ast::{
    BinaryOperator, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, UnaryOperator,
};
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

use super::calls::take;
use super::visits::read_expressions;
use super::words::{is_word, keyword, places};
use crate::error::{Error, ErrorKind};
use crate::functions::forms;

/// The most expressions of one.
const PARTS_MAX: usize = 10_000;

const SYMMETRIC: &str = "symmetric";

/// Puts the lower bound behind SYMMETRIC in parentheses.
pub(super) fn as_calls(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens
        .iter()
        .any(|token| is_word(&token.token, SYMMETRIC) || is_word(&token.token, "asymmetric"))
    {
        return tokens;
    }
    let words = places(&tokens);
    // From the end, so that places before stay.
    for at in (1..words.len()).rev() {
        let between = &tokens[words[at - 1]].token;
        let Some(bound) = words.get(at + 1).map(|place| &tokens[*place].token) else {
            continue;
        };
        if keyword(between) != Keyword::BETWEEN || !begins_bound(bound) {
            continue;
        }
        let here = words[at];
        if is_word(&tokens[here].token, "asymmetric") {
            tokens.remove(here);
        } else if is_word(&tokens[here].token, SYMMETRIC)
            && let Some(and) = end_of_bound(&tokens, here + 1)
        {
            let of = |token: Token, place: usize, tokens: &[TokenWithSpan]| {
                TokenWithSpan::new(token, tokens[place].span)
            };
            let space = Token::Whitespace(Whitespace::Space);
            let close = [of(Token::RParen, and, &tokens), of(space, and, &tokens)];
            let open = of(Token::LParen, here, &tokens);
            tokens.splice(and..and, close);
            tokens.insert(here + 1, open);
        }
    }
    tokens
}

/// Tells whether a bound begins with a token, so that the word before is no column.
fn begins_bound(token: &Token) -> bool {
    match token {
        Token::Word(_) => keyword(token) != Keyword::AND,
        token => {
            matches!(
                token,
                Token::Number(..)
                    | Token::SingleQuotedString(_)
                    | Token::Placeholder(_)
                    | Token::LParen
                    | Token::LBracket
                    | Token::Minus
                    | Token::Plus
            )
        }
    }
}

/// Finds the AND behind a lower bound that begins at a place.
fn end_of_bound(tokens: &[TokenWithSpan], begin: usize) -> Option<usize> {
    let mut open = 0_usize;
    for (place, token) in tokens.iter().enumerate().skip(begin) {
        match &token.token {
            Token::LParen | Token::LBracket | Token::LBrace => open += 1,
            Token::RParen | Token::RBracket | Token::RBrace => open = open.checked_sub(1)?,
            Token::SemiColon => return None,
            token => match keyword(token) {
                Keyword::CASE => open += 1,
                Keyword::END => open = open.checked_sub(1)?,
                Keyword::AND if open == 0 => return Some(place),
                _ => {}
            },
        }
    }
    None
}

/// Writes a symmetric BETWEEN, whose operands are written out already, as two that are not.
///
/// # Errors
/// [`ErrorKind::Sql`] if it is too large: each operand is there twice.
pub(super) fn bind(expr: &mut Expr) -> Result<(), Error> {
    let Expr::Between { low, .. } = &*expr else {
        return Ok(());
    };
    let Some(first) = bound(low) else {
        return Ok(());
    };
    let mut parts = 0;
    let counted = read_expressions(&*expr, |_| {
        parts += 1;
        match parts > PARTS_MAX {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
    if counted.is_break() {
        let message = "BETWEEN SYMMETRIC is too large: compute its operands in a subquery";
        return Err(Error::new(ErrorKind::Sql, message));
    }
    let Expr::Between {
        expr: value,
        negated,
        high,
        ..
    } = expr
    else {
        return Ok(());
    };
    let (value, last, negated) = (take(value), take(high), *negated);
    let between = |low: &Expr, high: &Expr| {
        Box::new(Expr::Between {
            expr: Box::new(value.clone()),
            negated: false,
            low: Box::new(low.clone()),
            high: Box::new(high.clone()),
        })
    };
    let either = Expr::Nested(Box::new(Expr::BinaryOp {
        left: between(&first, &last),
        op: BinaryOperator::Or,
        right: between(&last, &first),
    }));
    *expr = match negated {
        false => either,
        true => Expr::Nested(Box::new(Expr::UnaryOp {
            op: UnaryOperator::Not,
            expr: Box::new(either),
        })),
    };
    Ok(())
}

/// Returns the bound in `SYMMETRIC(bound)`.
fn bound(low: &Expr) -> Option<Expr> {
    let Expr::Function(call) = low else {
        return None;
    };
    if forms::name_of(call).as_deref() != Some(SYMMETRIC) {
        return None;
    }
    let FunctionArguments::List(list) = &call.args else {
        return None;
    };
    match list.args.as_slice() {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(bound))] => {
            Some(Expr::Nested(Box::new(bound.clone())))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use sqlparser::dialect::GenericDialect;
    use sqlparser::parser::Parser;

    use super::{as_calls, bind};
    use crate::statements::tests::tokens;

    #[track_caller]
    fn check(sql: &str, expect: &str) {
        let written = as_calls(tokens(sql));
        let mut parser = Parser::new(&GenericDialect {}).with_tokens_with_locations(written);
        let mut expr = parser.parse_expr().unwrap();
        bind(&mut expr).unwrap();
        assert_eq!(expr.to_string(), expect);
    }

    #[test]
    fn bounds_stand_in_either_order() {
        for (sql, expect) in [
            (
                "a BETWEEN SYMMETRIC b + 1 AND c",
                "(a BETWEEN (b + 1) AND c OR a BETWEEN c AND (b + 1))",
            ),
            (
                "a NOT BETWEEN SYMMETRIC 7 AND -1",
                "(NOT (a BETWEEN (7) AND -1 OR a BETWEEN -1 AND (7)))",
            ),
            (
                "a BETWEEN symmetric CASE WHEN b AND c THEN 1 END AND f(x)",
                "(a BETWEEN (CASE WHEN b AND c THEN 1 END) AND f(x) OR a BETWEEN f(x) AND (CASE WHEN b AND c THEN 1 END))",
            ),
            ("a BETWEEN ASYMMETRIC 1 AND 2", "a BETWEEN 1 AND 2"),
            ("a BETWEEN symmetric AND 2", "a BETWEEN symmetric AND 2"),
            ("a BETWEEN 1 AND 2", "a BETWEEN 1 AND 2"),
        ] {
            check(sql, expect);
        }
    }
}
