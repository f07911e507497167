//! The writing out of a call.
//!
//! A body that names an argument twice doubles it, and calls nest, so what is written out is measured
//! before it is made: neither a plan's size nor its depth grows beyond a bound. An argument whose
//! value changes from one evaluation to the next (`random()`) is only written where the body has one
//! place for it.

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::{Cast, Expr};

use super::{Definition, SqlFunction};
use crate::error::{Error, ErrorKind};

/// The most nodes of an expression that calls are written out to.
const NODES_MAX: usize = 4096;

/// The most levels of such an expression, for which planning's stack is large enough.
const DEPTH_MAX: usize = 512;

/// An expression with places for arguments.
#[derive(Debug)]
pub(super) struct Template {
    body: Expr,
    size: Size,
    /// By argument: its name, how often the body has it, and what it is where it is left out.
    names: Vec<String>,
    uses: Vec<usize>,
    defaults: Vec<Option<Expr>>,
}

/// How large an expression is.
#[derive(Clone, Copy, Debug)]
struct Size {
    nodes: usize,
    depth: usize,
}

impl Size {
    /// Measures an expression; `None` if it is larger than what calls may be written out to.
    fn of(expr: &Expr) -> Option<Self> {
        let mut size = Self { nodes: 0, depth: 0 };
        size.add(expr, 1).then_some(size)
    }

    fn add(&mut self, expr: &Expr, depth: usize) -> bool {
        self.nodes += 1;
        self.depth = self.depth.max(depth);
        let mut fits = self.fits();
        let walked = expr.apply_children(|child| {
            fits = fits && self.add(child, depth + 1);
            Ok(match fits {
                true => TreeNodeRecursion::Continue,
                false => TreeNodeRecursion::Stop,
            })
        });
        fits && walked.is_ok()
    }

    fn fits(&self) -> bool {
        self.nodes <= NODES_MAX && self.depth <= DEPTH_MAX
    }
}

impl Template {
    /// Makes the template of a function's body of the right type, with the calls in it written out.
    pub(super) fn new(
        definition: &Definition,
        body: Expr,
        defaults: Vec<Option<Expr>>,
    ) -> std::result::Result<Self, Error> {
        let name = &definition.name;
        let mut stays = None;
        let body = body.transform_up(|expr| {
            let Expr::ScalarFunction(call) = &expr else {
                return Ok(Transformed::no(expr));
            };
            let Some(function) = SqlFunction::of(&call.func) else {
                return Ok(Transformed::no(expr));
            };
            let Some(written) = function.template.written_out(&call.args) else {
                stays = Some(call.func.name().to_string());
                return Ok(Transformed::no(expr));
            };
            Ok(Transformed::yes(written))
        })?;
        if let Some(inner) = stays {
            let message = format!(
                "function {name}: its call of {inner} cannot be written out: it would become larger \
                 than {NODES_MAX} nodes or {DEPTH_MAX} levels, or {inner} uses an argument twice \
                 that changes each time"
            );
            return Err(Error::new(ErrorKind::Sql, message));
        }
        let body = body.data;
        let Some(size) = Size::of(&body) else {
            let message = format!(
                "function {name}: its body is larger than {NODES_MAX} nodes or {DEPTH_MAX} levels, \
                 with the functions that it calls written out"
            );
            return Err(Error::new(ErrorKind::Sql, message));
        };
        let arguments = definition.arguments.iter();
        let names: Vec<String> = arguments.map(|argument| argument.name.clone()).collect();
        let mut uses = vec![0; names.len()];
        body.apply(|expr| {
            if let Expr::Column(column) = expr
                && let Some(place) = names.iter().position(|name| *name == column.name)
            {
                uses[place] += 1;
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(Self {
            body,
            size,
            names,
            uses,
            defaults,
        })
    }

    pub(super) fn body(&self) -> &Expr {
        &self.body
    }

    pub(super) fn defaults(&self) -> &[Option<Expr>] {
        &self.defaults
    }

    /// Writes the body out with these arguments, which are of the right types; `None` if that would
    /// mean something else or become too large.
    pub(super) fn written_out(&self, args: &[Expr]) -> Option<Expr> {
        let given = args.iter().map(Some);
        let left_out = self.defaults.iter().skip(args.len()).map(Option::as_ref);
        let args: Vec<&Expr> = given.chain(left_out).collect::<Option<_>>()?;
        let mut size = self.size;
        for (arg, uses) in args.iter().zip(&self.uses) {
            if *uses > 1 && arg.is_volatile() {
                return None;
            }
            let own = Size::of(arg)?;
            size.nodes = size.nodes.saturating_add(uses.saturating_mul(own.nodes));
            size.depth = size.depth.max(self.size.depth + own.depth);
        }
        if !size.fits() {
            return None;
        }
        self.fill(&args).ok()
    }

    fn fill(&self, args: &[&Expr]) -> Result<Expr> {
        let filled = self.body.clone().transform_up(|expr| {
            let Expr::Column(column) = &expr else {
                return Ok(Transformed::no(expr));
            };
            let place = self.names.iter().position(|name| *name == column.name);
            Ok(match place.and_then(|place| args.get(place)) {
                Some(arg) => Transformed::yes(bare((*arg).clone())),
                None => Transformed::no(expr),
            })
        })?;
        Ok(filled.data)
    }
}

/// Drops the names that an argument was given for a result's column.
fn bare(arg: Expr) -> Expr {
    match arg {
        Expr::Alias(alias) => bare(*alias.expr),
        Expr::Cast(cast) => Expr::Cast(Cast {
            expr: Box::new(bare(*cast.expr)),
            ..cast
        }),
        arg => arg,
    }
}
