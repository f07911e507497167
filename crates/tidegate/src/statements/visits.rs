//! Walks through parsed statements, each with one copy of the parser's code for all who walk.
//!
//! sqlparser's walk through its hundreds of kinds of nodes is generic over the visitor: forty visitors would be forty
//! copies, a fifth of the program. Here it is compiled once for reading and once for changing, and calls the
//! visitor by a table.

use std::ops::ControlFlow;

use sqlparser::ast::{
    Expr, ObjectName, Query, Select, Statement, TableFactor, ValueWithSpan, Visit, VisitMut,
    Visitor, VisitorMut,
};

/// Shows a node, and all within it, to a visitor.
pub(crate) fn read<N: Visit + ?Sized, V: Visitor>(
    node: &N,
    visitor: &mut V,
) -> ControlFlow<V::Break> {
    let mut kept = reading::Kept { visitor, end: None };
    let _ = node.visit(&mut reading::Each(&mut kept));
    kept.end
        .map_or(ControlFlow::Continue(()), ControlFlow::Break)
}

/// Lets a visitor change a node, and all within it.
pub(crate) fn change<N: VisitMut + ?Sized, V: VisitorMut>(
    node: &mut N,
    visitor: &mut V,
) -> ControlFlow<V::Break> {
    let mut kept = changing::Kept { visitor, end: None };
    let _ = node.visit(&mut changing::Each(&mut kept));
    kept.end
        .map_or(ControlFlow::Continue(()), ControlFlow::Break)
}

/// Shows each expression to a function, outer ones first.
pub(crate) fn read_expressions<N: Visit + ?Sized, E>(
    node: &N,
    show: impl FnMut(&Expr) -> ControlFlow<E>,
) -> ControlFlow<E> {
    struct Shown<F>(F);
    impl<E, F: FnMut(&Expr) -> ControlFlow<E>> Visitor for Shown<F> {
        type Break = E;

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<E> {
            self.0(expr)
        }
    }
    read(node, &mut Shown(show))
}

/// Shows each expression outside of subqueries to a function, outer ones first.
pub(crate) fn read_own_expressions<N: Visit + ?Sized, E>(
    node: &N,
    show: impl FnMut(&Expr) -> ControlFlow<E>,
) -> ControlFlow<E> {
    struct Shown<F> {
        /// How many queries are around.
        depth: usize,
        show: F,
    }
    impl<E, F: FnMut(&Expr) -> ControlFlow<E>> Visitor for Shown<F> {
        type Break = E;

        fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<E> {
            self.depth += 1;
            ControlFlow::Continue(())
        }

        fn post_visit_query(&mut self, _: &Query) -> ControlFlow<E> {
            self.depth -= 1;
            ControlFlow::Continue(())
        }

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<E> {
            match self.depth {
                0 => (self.show)(expr),
                _ => ControlFlow::Continue(()),
            }
        }
    }
    read(node, &mut Shown { depth: 0, show })
}

/// Counts the expressions of a node.
pub(crate) fn count_expressions<N: Visit + ?Sized>(node: &N) -> usize {
    let mut count = 0;
    let _ = read_expressions(node, |_| {
        count += 1;
        ControlFlow::<()>::Continue(())
    });
    count
}

/// Lets a function change each expression, inner ones first.
pub(crate) fn change_expressions<N: VisitMut + ?Sized, E>(
    node: &mut N,
    change_one: impl FnMut(&mut Expr) -> ControlFlow<E>,
) -> ControlFlow<E> {
    struct Changed<F>(F);
    impl<E, F: FnMut(&mut Expr) -> ControlFlow<E>> VisitorMut for Changed<F> {
        type Break = E;

        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<E> {
            self.0(expr)
        }
    }
    change(node, &mut Changed(change_one))
}

/// Makes a visitor that calls another by a table, and the table.
macro_rules! visitor_by_table {
    (mod $module:ident for $visitor:ident, $($method:ident: $node:ty,)+) => {
        mod $module {
            use super::{
                $visitor, ControlFlow, Expr, ObjectName, Query, Select, Statement, TableFactor,
                ValueWithSpan,
            };

            pub(super) trait Nodes {
                $(fn $method(&mut self, node: $node) -> ControlFlow<()>;)+
            }

            /// A visitor, and why it stopped.
            pub(super) struct Kept<'a, V: $visitor> {
                pub(super) visitor: &'a mut V,
                pub(super) end: Option<V::Break>,
            }

            impl<V: $visitor> Nodes for Kept<'_, V> {
                $(fn $method(&mut self, node: $node) -> ControlFlow<()> {
                    match self.visitor.$method(node) {
                        ControlFlow::Continue(()) => ControlFlow::Continue(()),
                        ControlFlow::Break(end) => {
                            self.end = Some(end);
                            ControlFlow::Break(())
                        }
                    }
                })+
            }

            pub(super) struct Each<'a>(pub(super) &'a mut dyn Nodes);

            impl $visitor for Each<'_> {
                type Break = ();

                $(fn $method(&mut self, node: $node) -> ControlFlow<()> {
                    self.0.$method(node)
                })+
            }
        }
    };
    ($module:ident, $visitor:ident, $($to:tt)+) => {
        visitor_by_table!(
            mod $module for $visitor,
            pre_visit_query: $($to)+ Query,
            post_visit_query: $($to)+ Query,
            pre_visit_select: $($to)+ Select,
            post_visit_select: $($to)+ Select,
            pre_visit_relation: $($to)+ ObjectName,
            post_visit_relation: $($to)+ ObjectName,
            pre_visit_table_factor: $($to)+ TableFactor,
            post_visit_table_factor: $($to)+ TableFactor,
            pre_visit_expr: $($to)+ Expr,
            post_visit_expr: $($to)+ Expr,
            pre_visit_statement: $($to)+ Statement,
            post_visit_statement: $($to)+ Statement,
            pre_visit_value: $($to)+ ValueWithSpan,
            post_visit_value: $($to)+ ValueWithSpan,
        );
    };
}

visitor_by_table!(reading, Visitor, &);
visitor_by_table!(changing, VisitorMut, &mut);
