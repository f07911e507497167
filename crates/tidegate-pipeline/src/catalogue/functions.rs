//! The scalar functions; two lines each.

mod abs;
mod acos;
mod add;
mod and;
mod ascii;
mod asin;
mod atan;
mod atan2;
mod bit_length;
mod btrim;
mod case;
mod cast;
mod cbrt;
mod ceil;
mod character_length;
mod coalesce;
mod compare;
mod concat;
mod contains;
mod cos;
mod custom;
mod date_bin;
mod date_part;
mod date_trunc;
mod degrees;
mod divide;
mod ends_with;
mod exp;
mod floor;
mod greatest;
mod in_list;
mod is_null;
mod isnan;
mod least;
mod left;
mod like;
mod ln;
mod log10;
mod log2;
mod lower;
mod ltrim;
mod modulo;
mod multiply;
mod negate;
mod not;
mod nullif;
mod octet_length;
mod or;
mod power;
mod radians;
mod replace;
mod reverse;
mod right;
mod round;
mod rtrim;
mod signum;
mod sin;
mod split_part;
mod sqrt;
mod starts_with;
mod strpos;
mod substr;
mod subtract;
mod tan;
mod to_timestamp;
mod trunc;
mod upper;

use super::ScalarEntry;

pub(super) static ALL: &[&[ScalarEntry]] = &[
    abs::ENTRIES,
    acos::ENTRIES,
    add::ENTRIES,
    and::ENTRIES,
    ascii::ENTRIES,
    asin::ENTRIES,
    atan::ENTRIES,
    atan2::ENTRIES,
    bit_length::ENTRIES,
    btrim::ENTRIES,
    case::ENTRIES,
    cast::ENTRIES,
    cbrt::ENTRIES,
    ceil::ENTRIES,
    character_length::ENTRIES,
    coalesce::ENTRIES,
    compare::ENTRIES,
    concat::ENTRIES,
    contains::ENTRIES,
    cos::ENTRIES,
    custom::ENTRIES,
    date_bin::ENTRIES,
    date_part::ENTRIES,
    date_trunc::ENTRIES,
    degrees::ENTRIES,
    divide::ENTRIES,
    ends_with::ENTRIES,
    exp::ENTRIES,
    floor::ENTRIES,
    greatest::ENTRIES,
    in_list::ENTRIES,
    is_null::ENTRIES,
    isnan::ENTRIES,
    least::ENTRIES,
    left::ENTRIES,
    like::ENTRIES,
    ln::ENTRIES,
    log10::ENTRIES,
    log2::ENTRIES,
    lower::ENTRIES,
    ltrim::ENTRIES,
    modulo::ENTRIES,
    multiply::ENTRIES,
    negate::ENTRIES,
    not::ENTRIES,
    nullif::ENTRIES,
    octet_length::ENTRIES,
    or::ENTRIES,
    power::ENTRIES,
    radians::ENTRIES,
    replace::ENTRIES,
    reverse::ENTRIES,
    right::ENTRIES,
    round::ENTRIES,
    rtrim::ENTRIES,
    signum::ENTRIES,
    sin::ENTRIES,
    split_part::ENTRIES,
    sqrt::ENTRIES,
    starts_with::ENTRIES,
    strpos::ENTRIES,
    substr::ENTRIES,
    subtract::ENTRIES,
    tan::ENTRIES,
    to_timestamp::ENTRIES,
    trunc::ENTRIES,
    upper::ENTRIES,
];
