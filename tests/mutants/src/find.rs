//! What can be changed in a file: comparisons, conditions, predicates, constants, calls, results.

use std::ops::Range;

use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{BinOp, Expr, Lit, ReturnType, Stmt, Type, UnOp};

use crate::source::{Change, Form, Lines};

/// So much of a change's text is told.
const TOLD_MAX: usize = 90;

/// Every change of a file, in the order in which they are met, outer ones first.
///
/// # Errors
/// It isn't Rust.
pub(crate) fn changes(text: &str) -> Result<Vec<Change>, syn::Error> {
    let file = syn::parse_file(text)?;
    let mut finder = Finder { text, lines: Lines::of(text), function: Vec::new(), found: Vec::new() };
    finder.visit_file(&file);
    Ok(finder.found)
}

struct Finder<'a> {
    text: &'a str,
    lines: Lines,
    function: Vec<String>,
    found: Vec<Change>,
}

/// Whether a condition binds names, so that it can't be moved.
fn binds(expression: &Expr) -> bool {
    match expression {
        Expr::Let(_) => true,
        Expr::Binary(b) => matches!(b.op, BinOp::And(_)) && (binds(&b.left) || binds(&b.right)),
        _ => false,
    }
}

/// The parts of a chain of `&&`.
fn parts<'e>(expression: &'e Expr, found: &mut Vec<&'e Expr>) {
    match expression {
        Expr::Binary(b) if matches!(b.op, BinOp::And(_)) => {
            parts(&b.left, found);
            parts(&b.right, found);
        }
        _ => found.push(expression),
    }
}

/// What a comparison becomes.
fn compared(op: &BinOp) -> &'static [&'static str] {
    match op {
        BinOp::Lt(_) => &["<=", ">="],
        BinOp::Le(_) => &["<", ">"],
        BinOp::Gt(_) => &[">=", "<="],
        BinOp::Ge(_) => &[">", "<"],
        BinOp::Eq(_) => &["!="],
        BinOp::Ne(_) => &["=="],
        _ => &[],
    }
}

/// The other one of two methods that are easily taken for each other.
fn twin(method: &str) -> Option<&'static str> {
    Some(match method {
        "any" => "all",
        "all" => "any",
        "min" => "max",
        "max" => "min",
        "min_by_key" => "max_by_key",
        "max_by_key" => "min_by_key",
        "first" => "last",
        "last" => "first",
        "first_key_value" => "last_key_value",
        "last_key_value" => "first_key_value",
        "is_some" => "is_none",
        "is_none" => "is_some",
        "saturating_add" => "saturating_sub",
        "saturating_sub" => "saturating_add",
        _ => return None,
    })
}

/// Methods whose closure says yes or no. `any` and `all` have a twin already.
fn takes_predicate(method: &str) -> bool {
    matches!(
        method,
        "filter"
            | "is_some_and"
            | "is_none_or"
            | "retain"
            | "find"
            | "position"
            | "take_while"
            | "skip_while"
            | "partition"
    )
}

/// What a function of this type says at once.
fn results(output: &ReturnType) -> &'static [&'static str] {
    let ReturnType::Type(_, of) = output else { return &[] };
    let Type::Path(path) = &**of else { return &[] };
    match path.path.segments.last().map(|s| s.ident.to_string()).as_deref() {
        Some("bool") => &["true", "false"],
        Some("Option") => &["None"],
        Some("Vec") => &["Vec::new()"],
        _ => &[],
    }
}

fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|a| {
        a.path().is_ident("test")
            || (a.path().is_ident("cfg") && a.parse_args::<syn::Ident>().is_ok_and(|word| word == "test"))
    })
}

impl Finder<'_> {
    fn range(&self, of: &impl Spanned) -> Range<usize> {
        self.lines.range(self.text, of.span())
    }

    fn raw(&self, of: &impl Spanned) -> &str {
        self.text.get(self.range(of)).unwrap_or_default()
    }

    fn add(&mut self, range: Range<usize>, form: Form, text: String, told: &str) {
        let told: Vec<&str> = told.split_whitespace().collect();
        let mut told: String = told.join(" ").replace('`', "'");
        if let Some((cut, _)) = told.char_indices().nth(TOLD_MAX) {
            // Both ends say more than the beginning alone.
            let end = told.char_indices().rev().nth(TOLD_MAX / 3).map_or(cut, |(at, _)| at.max(cut));
            told = format!("{}…{}", told.get(..cut).unwrap_or_default(), told.get(end..).unwrap_or_default());
        }
        let function = self.function.last().cloned().unwrap_or_default();
        self.found.push(Change { range, form, text, function, told });
    }

    fn expression(&mut self, of: &impl Spanned, text: String) {
        let told = format!("{} => {text}", self.raw(of));
        self.add(self.range(of), Form::Expression, text, &told);
    }

    fn condition(&mut self, condition: &Expr, word: &str) {
        let (range, raw) = (self.range(condition), self.raw(condition).to_owned());
        if binds(condition) {
            self.add(range, Form::AndNotChain, String::new(), &format!("{word} {raw} => never"));
            let mut all = Vec::new();
            parts(condition, &mut all);
            for part in all.into_iter().filter(|part| !matches!(part, Expr::Let(_))) {
                let told = format!("{word} … && {} => always", self.raw(part));
                self.add(self.range(part), Form::OrTrue, String::new(), &told);
            }
            return;
        }
        self.add(range.clone(), Form::OrTrue, String::new(), &format!("{word} {raw} => always"));
        self.add(range, Form::AndNot, String::new(), &format!("{word} {raw} => never"));
    }

    fn function(
        &mut self,
        name: String,
        signature: &syn::Signature,
        block: &syn::Block,
        walk: impl FnOnce(&mut Self),
    ) {
        if signature.constness.is_some() {
            return;
        }
        self.function.push(name);
        let inside = self.range(block).start + 1;
        for result in results(&signature.output) {
            let told = format!("returns {result}");
            self.add(inside..inside, Form::First, format!("return {result};"), &told);
        }
        walk(self);
        self.function.pop();
    }

    fn left_out(&mut self, statement: &Stmt) {
        let Stmt::Expr(expression, Some(_)) = statement else { return };
        let plain = match expression {
            Expr::Try(tried) => &*tried.expr,
            other => other,
        };
        let counts = match plain {
            Expr::MethodCall(_) | Expr::Call(_) | Expr::Assign(_) => true,
            Expr::Binary(b) => matches!(
                b.op,
                BinOp::AddAssign(_) | BinOp::SubAssign(_) | BinOp::BitOrAssign(_) | BinOp::BitAndAssign(_)
            ),
            _ => false,
        };
        if counts {
            let told = format!("{} => left out", self.raw(statement));
            self.add(self.range(statement), Form::LeftOut, String::new(), &told);
        }
    }

    /// Integers and named constants beside a comparison: one more, one less.
    fn nearby(&mut self, side: &Expr) {
        match side {
            Expr::Lit(literal) => {
                let Lit::Int(number) = &literal.lit else { return };
                let Ok(value) = number.base10_parse::<u64>() else { return };
                let suffix = number.suffix().to_owned();
                self.expression(side, format!("{}{suffix}", value.saturating_add(1)));
                if value > 0 {
                    self.expression(side, format!("{}{suffix}", value - 1));
                }
            }
            Expr::Path(path) => {
                let name = path.path.segments.last().map(|s| s.ident.to_string()).unwrap_or_default();
                if name.len() > 1 && !name.chars().any(char::is_lowercase) {
                    let raw = self.raw(side).to_owned();
                    self.expression(side, format!("{raw} + 1"));
                    self.expression(side, format!("{raw} - 1"));
                }
            }
            _ => {}
        }
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        match item {
            // Evaluated by the compiler, where nothing can be switched.
            syn::Item::Const(_) | syn::Item::Static(_) | syn::Item::Macro(_) => {}
            syn::Item::Mod(module) if is_test(&module.attrs) => {}
            syn::Item::Fn(function) if is_test(&function.attrs) => {}
            _ => visit::visit_item(self, item),
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.function(item.sig.ident.to_string(), &item.sig, &item.block, |finder| {
            visit::visit_block(finder, &item.block);
        });
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_test(&item.attrs) {
            self.function(item.sig.ident.to_string(), &item.sig, &item.block, |finder| {
                visit::visit_block(finder, &item.block);
            });
        }
    }

    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}
    fn visit_pat(&mut self, _: &'ast syn::Pat) {}
    fn visit_type(&mut self, _: &'ast Type) {}
    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}

    fn visit_stmt(&mut self, statement: &'ast Stmt) {
        self.left_out(statement);
        visit::visit_stmt(self, statement);
    }

    fn visit_expr_if(&mut self, expression: &'ast syn::ExprIf) {
        self.condition(&expression.cond, "if");
        visit::visit_expr_if(self, expression);
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        if let Some((_, guard)) = &arm.guard
            && !binds(guard)
        {
            self.condition(guard, "guard");
        }
        visit::visit_arm(self, arm);
    }

    fn visit_expr_binary(&mut self, expression: &'ast syn::ExprBinary) {
        let (left, right) = (self.raw(&*expression.left).to_owned(), self.raw(&*expression.right).to_owned());
        let other = compared(&expression.op);
        for op in other {
            self.expression(expression, format!("({left}) {op} ({right})"));
        }
        let free = !binds(&expression.left) && !binds(&expression.right);
        match expression.op {
            BinOp::And(_) if free => self.expression(expression, format!("({left}) || ({right})")),
            BinOp::Or(_) => self.expression(expression, format!("({left}) && ({right})")),
            _ => {}
        }
        if !other.is_empty() {
            self.nearby(&expression.left);
            self.nearby(&expression.right);
        }
        visit::visit_expr_binary(self, expression);
    }

    fn visit_expr_unary(&mut self, expression: &'ast syn::ExprUnary) {
        if matches!(expression.op, UnOp::Not(_)) {
            let text = self.raw(&*expression.expr).to_owned();
            self.expression(expression, text);
            // What is under it would be the same change once more.
            if let Expr::Macro(_) = &*expression.expr {
                return;
            }
        }
        visit::visit_expr_unary(self, expression);
    }

    fn visit_expr_macro(&mut self, expression: &'ast syn::ExprMacro) {
        if expression.mac.path.is_ident("matches") {
            let text = format!("!{}", self.raw(expression));
            self.expression(expression, text);
        }
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        let method = call.method.to_string();
        if let Some(other) = twin(&method) {
            let (whole, name) = (self.range(call), self.range(&call.method));
            let before = self.text.get(whole.start..name.start).unwrap_or_default();
            let after = self.text.get(name.end..whole.end).unwrap_or_default();
            let text = format!("{before}{other}{after}");
            let told = format!("{} => .{other}", self.raw(call));
            self.add(whole, Form::Expression, text, &told);
        }
        if takes_predicate(&method)
            && let Some(Expr::Closure(closure)) = call.args.first()
        {
            let body = self.raw(&*closure.body).to_owned();
            let told = format!(".{method}({}) => negated", self.raw(closure));
            self.add(self.range(&*closure.body), Form::Expression, format!("!({body})"), &told);
        }
        visit::visit_expr_method_call(self, call);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn told(text: &str) -> Vec<String> {
        changes(text).unwrap().into_iter().map(|c| c.told).collect()
    }

    #[test]
    fn comparisons_conditions_and_constants_are_found() {
        let found = told("fn f(a: u8) { if a < 3 { g(); } }");
        assert_eq!(
            found,
            [
                "if a < 3 => always",
                "if a < 3 => never",
                "a < 3 => (a) <= (3)",
                "a < 3 => (a) >= (3)",
                "3 => 4",
                "3 => 2",
                "g(); => left out",
            ]
        );
    }

    #[test]
    fn predicates_results_and_twins_are_found() {
        let found = told("fn f() -> bool { x.iter().filter(|n| n.a).any(|n| !n.b) }");
        assert_eq!(
            found,
            [
                "returns true",
                "returns false",
                "x.iter().filter(|n| n.a).any(|n| !n.b) => .all",
                ".filter(|n| n.a) => negated",
                "!n.b => n.b",
            ]
        );
    }

    #[test]
    fn bindings_stay_and_tests_and_constants_are_left_alone() {
        let found = told("fn f() { if let Some(x) = y && x > 0 {} }");
        assert!(found.contains(&"if let Some(x) = y && x > 0 => never".to_owned()));
        assert!(found.contains(&"if … && x > 0 => always".to_owned()));
        assert!(!found.iter().any(|told| told.contains("||")), "{found:?}");
        let none = "const A: bool = 1 < 2; const fn f(a: u8) -> bool { a < 1 } #[cfg(test)] mod t { fn f() { g(); } }";
        assert_eq!(told(none), Vec::<String>::new());
    }
}
