//! The scalar functions; two lines each.

mod add;
mod and;
mod case;
mod cast;
mod compare;
mod custom;
mod date_part;
mod divide;
mod in_list;
mod is_null;
mod like;
mod modulo;
mod multiply;
mod negate;
mod not;
mod or;
mod substr;
mod subtract;

use super::ScalarEntry;

pub(super) static ALL: &[&[ScalarEntry]] = &[
    add::ENTRIES,
    and::ENTRIES,
    case::ENTRIES,
    cast::ENTRIES,
    compare::ENTRIES,
    custom::ENTRIES,
    date_part::ENTRIES,
    divide::ENTRIES,
    in_list::ENTRIES,
    is_null::ENTRIES,
    like::ENTRIES,
    modulo::ENTRIES,
    multiply::ENTRIES,
    negate::ENTRIES,
    not::ENTRIES,
    or::ENTRIES,
    substr::ENTRIES,
    subtract::ENTRIES,
];
