//! Calls, and what they stand for.

use std::collections::HashSet;

use sqlparser::ast::Expr;
use sqlparser::dialect::GenericDialect;
use sqlparser::parser::Parser;

use super::{FORMS, NAMES, form, forms, names};

fn check(call: &str, expect: Option<&str>) {
    let mut parser = Parser::new(&GenericDialect {}).try_with_sql(call).unwrap();
    let Expr::Function(call) = parser.parse_expr().unwrap() else {
        panic!("{call} is no call");
    };
    let written = form(&call).map(|expr| expr.to_string());
    assert_eq!(written.as_deref(), expect);
}

#[test]
fn calls_become_what_they_stand_for() {
    check("year(a.b)", Some("(date_part('year', (a.b)))"));
    check("MOD(x + 1, b)", Some("((x + 1) % (b))"));
    check("date_add(i, d)", Some("((i) + (d))"));
    check(
        "listagg(a, ',') FILTER (WHERE b)",
        Some("string_agg(a, ',') FILTER (WHERE b)"),
    );
    check(
        "any_value(DISTINCT a ORDER BY b DESC) FILTER (WHERE c)",
        Some("first_value(a ORDER BY b DESC) FILTER (WHERE c) IGNORE NULLS"),
    );
    check("any_value(a)", None);
    check("arbitrary(a)", Some("any_value(a)"));
    check("list_first(l)", Some("(array_element((l), 1))"));
    check("year()", None);
    check("year(a) OVER ()", None);
    check(
        "geomean(a) OVER (ORDER BY b)",
        Some("(exp(avg(ln((a))) OVER (ORDER BY b)))"),
    );
    check(
        "max(a, 2) OVER w",
        Some(
            "(array_slice(array_sort(array_agg((a)) FILTER (WHERE (a) IS NOT NULL) OVER w, 'DESC', 'NULLS LAST'), 1, (2)))",
        ),
    );
    check(
        "max_by(a, b) OVER w",
        Some("(arg_greatest((a), (b)) OVER w)"),
    );
    check("arg_max(a, b, 2) OVER w", None);
    check(
        "arg_max(a, b) FILTER (WHERE c)",
        Some("(first_value((a) ORDER BY (b) DESC NULLS LAST) FILTER (WHERE c) IGNORE NULLS)"),
    );
    check(
        "max(a, 2) FILTER (WHERE c)",
        Some(
            "(array_slice(array_agg((a) ORDER BY (a) DESC) FILTER (WHERE ((a) IS NOT NULL) AND (c)), 1, (2)))",
        ),
    );
    check("\"year\"(a)", None);
    check("s.year(a)", None);
    check("upper(a)", None);
    check(
        "datediff(YEAR, a, b)",
        Some("(CAST(date_part('year', (b)) - date_part('year', (a)) AS BIGINT))"),
    );
    check(
        "struct_pack(a := x, B := y + 1)",
        Some("named_struct('a', x, 'B', y + 1)"),
    );
    check("struct_pack(x)", None);
    check(
        "list_string_agg(l, s)",
        Some("(list_aggregate((l), 'string_agg', (s)))"),
    );
    check("list_string_agg(l, s, 1)", None);
    check(
        "date_diff('decade', a, b)",
        Some(
            "(CAST(FLOOR(date_part('year', (b)) / 10.0) - FLOOR(date_part('year', (a)) / 10.0) AS BIGINT))",
        ),
    );
    check(
        "date_trunc('century', t)",
        Some("(date_trunc('year', (t)) - date_part('year', (t)) % 100 * INTERVAL '12 months')"),
    );
    check("date_trunc('year', t)", None);
    check("date_trunc('mons', t)", Some("(date_trunc('month', t))"));
    check("date_part('weekday', t)", Some("(date_part('dow', t))"));
    check("date_trunc('fortnight', t)", None);
    check(
        "date_diff('yrs', a, b)",
        Some("(CAST(date_part('year', (b)) - date_part('year', (a)) AS BIGINT))"),
    );
    check("date_diff('fortnight', a, b)", None);
    check("date_diff(a, b)", None);
    check(
        "date_part('Decade', d)",
        Some("(CAST(FLOOR(date_part('year', (d)) / 10.0) AS BIGINT))"),
    );
    check("date_part('year', d)", None);
    check(
        "quantile_cont(x, [0.1, 0.9]) FILTER (WHERE b)",
        Some(
            "make_array(quantile_cont(x, 0.1) FILTER (WHERE b), quantile_cont(x, 0.9) FILTER (WHERE b))",
        ),
    );
    check("quantile_cont(x, 0.1)", Some("percentile_cont(x, 0.1)"));
    check("localtimestamp", Some("(CAST(now() AS TIMESTAMP))"));
    check("encode(s)", Some("(arrow_cast((s), 'Binary'))"));
    check("listagg(a)", Some("string_agg(a, ',')"));
    check(
        "string_agg(a ORDER BY b)",
        Some("string_agg(a, ',' ORDER BY b)"),
    );
    check("json_object('a', x)", Some("to_json(named_struct('a', x))"));
    check("strftime('%Y.%f', d)", Some("(to_char((d), ('%Y.%6f')))"));
    check("struct_insert(s, b := 2)", Some("struct_with(s, 'b', 2)"));
    check(
        "json_array(1, json_object('a', 1))",
        Some(
            "concat('[', coalesce(to_json(1), 'null'), ',', coalesce(json_object('a', 1), 'null'), ']')",
        ),
    );
    check("json_array()", Some("concat('[', ']')"));
    check(
        "mode() WITHIN GROUP (ORDER BY x) FILTER (WHERE b)",
        Some("mode(x) FILTER (WHERE b)"),
    );
    check(
        "percentile_disc(0.5) WITHIN GROUP (ORDER BY x DESC)",
        Some(
            "(array_element(array_agg((x) ORDER BY (x) DESC) FILTER (WHERE (x) IS NOT NULL), CAST(greatest(1, CEIL((0.5) * count((x)))) AS BIGINT)))",
        ),
    );
}

#[test]
fn every_row_can_be_read_and_has_a_name_of_its_own() {
    assert_eq!(forms().len(), FORMS.len());
    let forms = FORMS.iter().map(|(call, _)| super::called(call));
    let forms: HashSet<&str> = forms.collect();
    let all: HashSet<&str> = names().collect();
    let renamed = NAMES.iter().map(|(name, _)| *name);
    assert!(renamed.clone().all(|name| !forms.contains(name)));
    assert_eq!(renamed.collect::<HashSet<_>>().len(), NAMES.len());
    assert!(all.contains("date_add") && all.contains("struct_pack"));
}
