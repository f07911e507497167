//! `SET TIME ZONE`.

use sqlparser::ast::{Expr, Ident, ObjectName, Set};

use super::calls::string;
use crate::functions::zones::{DEFAULT_ZONE, ZONE_SETTING};

/// Has `SET TIME ZONE z`, which DataFusion knows only as `SET timezone = z`, set the session's zone.
pub(super) fn set_time_zone(set: &mut Set) {
    let Set::SetTimeZone { value, .. } = set else {
        return;
    };
    let is_default = matches!(value, Expr::Identifier(word) if word.quote_style.is_none()
        && ["default", "local"].contains(&word.value.to_lowercase().as_str()));
    let zone = match is_default {
        true => string(DEFAULT_ZONE),
        false => value.clone(),
    };
    let parts = ZONE_SETTING.split('.').map(Ident::new).collect::<Vec<_>>();
    *set = Set::SingleAssignment {
        scope: None,
        hivevar: false,
        variable: ObjectName::from(parts),
        values: vec![zone],
    };
}
