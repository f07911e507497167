//! The scalar functions; a line each.

use super::ScalarEntry;

macro_rules! register {
    ($($module:ident,)*) => {
        $(mod $module;)*
        pub(super) static ALL: &[&[ScalarEntry]] = &[$($module::ENTRIES,)*];
    };
}

register! {
    add,
    and,
    case,
    cast,
    compare,
    custom,
    date_part,
    divide,
    in_list,
    is_null,
    like,
    modulo,
    multiply,
    negate,
    not,
    or,
    substr,
    subtract,
}
