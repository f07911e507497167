//! The grammars of formats.
//!
//! C: `%[flags][width][.precision]type`, with the flags `-`, `+`, space, `0`, `#`, and `,` or `_` between thousands.
//! fmt: `{[argument][:[[fill]align][sign][#][0][width][group][.precision][type]]}`.

use std::iter::Peekable;
use std::str::Chars;

/// The most characters that a width or a precision asks for.
const WIDTH_MAX: usize = 1_000;

/// How formats are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Grammar {
    /// As of C's `printf`.
    C,
    /// As of the library fmt, and of Python.
    Fmt,
}

impl Grammar {
    /// Returns the name of the function that reads it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::C => "printf",
            Self::Fmt => "format",
        }
    }

    pub(super) fn example(self) -> &'static str {
        match self {
            Self::C => "printf('%d is %s', 1, 'one')",
            Self::Fmt => "format('{} is {}', 1, 'one')",
        }
    }
}

/// A part of a format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    Text(String),
    Place { argument: usize, spec: Spec },
}

/// Where a value stands in a wider field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Align {
    Left,
    Center,
    Right,
}

/// How a value is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Spec {
    pub(super) fill: char,
    /// Numbers stand right, all else left, unless it says so.
    pub(super) align: Option<Align>,
    /// What stands before numbers that are not negative.
    pub(super) plus: Option<char>,
    /// `#`: 0x and its kin, and a point whatever follows.
    pub(super) is_alternate: bool,
    /// Zeros fill between the sign and the digits.
    pub(super) has_zeros: bool,
    pub(super) width: usize,
    /// What stands between thousands.
    pub(super) group: Option<char>,
    pub(super) precision: Option<usize>,
    /// The letter of its type; a space if none is given.
    pub(super) kind: char,
}

impl Default for Spec {
    fn default() -> Self {
        Self {
            fill: ' ',
            align: None,
            plus: None,
            is_alternate: false,
            has_zeros: false,
            width: 0,
            group: None,
            precision: None,
            kind: ' ',
        }
    }
}

/// The letters of types.
const KINDS: &str = "diuxXobeEfFgGcs";

/// Reads a format for so many arguments.
///
/// # Errors
/// What is wrong with it.
pub(super) fn read(grammar: Grammar, format: &str, arguments: usize) -> Result<Vec<Piece>, String> {
    let mut reader = Reader {
        rest: format.chars().peekable(),
        next: 0,
    };
    let mut pieces = Vec::new();
    let mut text = String::new();
    while let Some(c) = reader.rest.next() {
        let opens = match grammar {
            Grammar::C => c == '%',
            Grammar::Fmt => c == '{' || c == '}',
        };
        if !opens || reader.rest.next_if_eq(&c).is_some() {
            text.push(c);
            continue;
        }
        if c == '}' {
            return Err("a } without a {: a } of the text is written }}".into());
        }
        let (argument, spec) = match grammar {
            Grammar::C => reader.of_c()?,
            Grammar::Fmt => reader.of_fmt()?,
        };
        if argument >= arguments {
            return Err(format!(
                "the format has a place for argument {}, and {arguments} are given",
                argument + 1
            ));
        }
        if !text.is_empty() {
            pieces.push(Piece::Text(std::mem::take(&mut text)));
        }
        pieces.push(Piece::Place { argument, spec });
    }
    if !text.is_empty() {
        pieces.push(Piece::Text(text));
    }
    Ok(pieces)
}

struct Reader<'a> {
    rest: Peekable<Chars<'a>>,
    /// The argument of the next place that names none.
    next: usize,
}

impl Reader<'_> {
    fn next_argument(&mut self) -> usize {
        self.next += 1;
        self.next - 1
    }

    fn number(&mut self) -> Result<Option<usize>, String> {
        let mut digits = String::new();
        while let Some(digit) = self.rest.next_if(char::is_ascii_digit) {
            digits.push(digit);
        }
        if digits.is_empty() {
            return Ok(None);
        }
        match digits.parse() {
            Ok(number) if number <= WIDTH_MAX => Ok(Some(number)),
            _ => Err(format!(
                "{digits} is too wide: {WIDTH_MAX} is the limit; lpad(s, n) has none"
            )),
        }
    }

    fn precision(&mut self) -> Result<Option<usize>, String> {
        match self.rest.next_if_eq(&'.') {
            None => Ok(None),
            Some(_) => Ok(Some(self.number()?.unwrap_or(0))),
        }
    }

    fn kind(&mut self) -> Option<char> {
        self.rest.next_if(|c| KINDS.contains(*c))
    }

    fn of_c(&mut self) -> Result<(usize, Spec), String> {
        let mut spec = Spec {
            align: Some(Align::Right),
            ..Spec::default()
        };
        while let Some(flag) = self.rest.next_if(|c| "-+ 0#,_'".contains(*c)) {
            match flag {
                '-' => spec.align = Some(Align::Left),
                '+' => spec.plus = Some('+'),
                ' ' => spec.plus = spec.plus.or(Some(' ')),
                '0' => spec.has_zeros = true,
                '#' => spec.is_alternate = true,
                '\'' => spec.group = Some(','),
                group => spec.group = Some(group),
            }
        }
        spec.has_zeros &= spec.align == Some(Align::Right);
        spec.width = self.number()?.unwrap_or(0);
        spec.precision = self.precision()?;
        // Lengths of C's types, as in %ld: there is one of each here.
        while self.rest.next_if(|c| "hlLqjzt".contains(*c)).is_some() {}
        match self.kind() {
            Some(kind) => spec.kind = kind,
            None => {
                return Err(match self.rest.peek() {
                    Some('*') => "a width is a number of the format, and not *".into(),
                    Some(other) => {
                        format!("%…{other} is not known: there are d, f, e, g, s, x, o, c and %%")
                    }
                    None => "the format ends in %: a % of the text is written %%".into(),
                });
            }
        }
        Ok((self.next_argument(), spec))
    }

    fn of_fmt(&mut self) -> Result<(usize, Spec), String> {
        let given = self.number()?;
        let argument = given.unwrap_or_else(|| self.next_argument());
        let mut spec = Spec::default();
        if self.rest.next_if_eq(&':').is_some() {
            self.alignment(&mut spec);
            if let Some(sign) = self.rest.next_if(|c| "+- ".contains(*c)) {
                spec.plus = (sign != '-').then_some(sign);
            }
            spec.is_alternate = self.rest.next_if_eq(&'#').is_some();
            spec.has_zeros = self.rest.next_if_eq(&'0').is_some() && spec.align.is_none();
            spec.width = self.number()?.unwrap_or(0);
            spec.group = self.group();
            spec.precision = self.precision()?;
            spec.group = spec.group.or_else(|| self.group());
            spec.kind = self.kind().unwrap_or(' ');
        }
        match self.rest.next() {
            Some('}') => Ok((argument, spec)),
            Some(other) => Err(format!(
                "{{…{other} is not known: a place is such as {{}}, {{:.2f}}, {{:>8}} or {{:,}}"
            )),
            None => Err("a { without a }: a { of the text is written {{".into()),
        }
    }

    /// Reads what stands between thousands: `,`, `_`, `'`, or `t` and any character.
    fn group(&mut self) -> Option<char> {
        match self.rest.next_if(|c| ",_'t".contains(*c))? {
            't' => self.rest.next(),
            group => Some(group),
        }
    }

    fn alignment(&mut self, spec: &mut Spec) {
        let of = |c: Option<char>| match c? {
            '<' => Some(Align::Left),
            '^' => Some(Align::Center),
            '>' => Some(Align::Right),
            _ => None,
        };
        let mut ahead = self.rest.clone();
        let (first, second) = (ahead.next(), ahead.next());
        if let (Some(fill), Some(align)) = (first, of(second)) {
            spec.fill = fill;
            spec.align = Some(align);
            self.rest = ahead;
        } else if let Some(align) = of(first) {
            spec.align = Some(align);
            self.rest.next();
        }
    }
}
