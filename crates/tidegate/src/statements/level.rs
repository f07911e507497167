//! Where the depth scan stands.

use sqlparser::keywords::Keyword;

/// What opened a level of nesting.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Opener {
    Statement,
    Bracket,
    Case,
    /// `<` of `ARRAY<...>`.
    Type,
}

/// Where the scan stands in one level of nesting. The tree under way is at most `logical +
/// operators + path` deep: looser operators hold tighter ones.
pub(super) struct Level {
    pub(super) opener: Opener,
    /// AND, OR and XOR since the expression began.
    pub(super) logical: usize,
    /// Other operators since the last of those.
    pub(super) operators: usize,
    /// Field accesses and subscripts since the last operator.
    pub(super) path: usize,
    /// In the list of tables of a FROM clause.
    pub(super) in_from: bool,
    /// A FROM stood where it may also have been a name, so nothing ends its list.
    pub(super) from_unsure: bool,
    /// Words since the last comma, clause, AND or OR that the parser takes for an operator or a
    /// name, whichever gets it further.
    pub(super) retried: usize,
    /// What doubles the work on this level, around and in it.
    pub(super) doubling: usize,
    /// Stands where a table does: a query in it is no subquery of an expression.
    pub(super) is_table: bool,
    /// The brackets of `OPERATOR(...)`, behind which an operand follows.
    pub(super) is_operator: bool,
}

impl Level {
    pub(super) fn new(opener: Opener, doubling: usize) -> Self {
        Self {
            opener,
            logical: 0,
            operators: 0,
            path: 0,
            in_from: false,
            from_unsure: false,
            retried: 0,
            doubling,
            is_table: false,
            is_operator: false,
        }
    }

    pub(super) fn end_expression(&mut self) {
        (self.logical, self.operators, self.path) = (0, 0, 0);
        self.retried = 0;
    }

    pub(super) fn operator(&mut self) {
        self.operators += 1;
        self.path = 0;
    }

    pub(super) fn doubling(&self) -> usize {
        self.doubling + self.retried + self.path
    }
}

/// What may stand at the scan's place.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// An expression, a list or a query begins: a word is a name or opens a query, `*` stands for
    /// all columns.
    Start,
    /// An operator wants its operand: a word is a name.
    Operator,
    /// An operand has ended: a word is an operator, a clause or an alias.
    Operand,
}

/// An earlier token, as far as it decides what a later one means.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    /// A word with a meaning of its own; names are [`Seen::Other`].
    Word(Keyword),
    Parenthesis,
    Closed,
    Period,
    Other,
}
