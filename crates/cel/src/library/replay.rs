//! Temporary.
use crate::ast::{Expr, Kind};
use crate::cost::*;
use crate::error::Error;
use crate::function::*;
use crate::library::*;
use crate::types::Type;
use crate::value::*;

fn kind_matches(ty: &Type, v: &Val<'_>) -> bool {
    match (ty, v) {
        (Type::Dyn | Type::Param(_), _) => true,
        (Type::List(e), Val::List(l)) => l.get(0).is_none_or(|x| x.is_ok_and(|x| kind_matches(e, &x))),
        (t, v) => t.name() == v.type_name(),
    }
}
fn static_matches(ty: &Type, e: &Expr, v: &Val<'_>) -> bool {
    let _ = e;
    kind_matches(ty, v)
}
struct M {
    functions: Vec<Function>,
    cost: u64,
    est: Range,
    pure_: bool,
}
impl M {
    fn eval(&mut self, e: &Expr, vars: &serde_json::Value) -> Result<Val<'static>, Error> {
        match &e.kind {
            Kind::Literal(v) => Ok(v.clone()),
            Kind::Ident(n) => {
                self.cost += 1;
                let v = &vars[&**n]["value"];
                self.pure_ = false;
                Ok(match (v, vars[&**n]["type"].as_str().unwrap_or("")) {
                    (serde_json::Value::String(s), "string" | "dyn") => Val::string(s.as_str()),
                    (serde_json::Value::Number(x), "int" | "dyn") if x.is_i64() => Val::Int(x.as_i64().unwrap()),
                    _ => return Err(Error::new("SKIP")),
                })
            }
            Kind::List(l) => {
                let v: Vec<_> = l.iter().map(|x| self.eval(&x.value, vars)).collect::<Result<_, _>>()?;
                self.est = self.est + Range::fixed(10);
                if !l.iter().all(|x| constant(&x.value)) {
                    self.pure_ = false;
                }
                Ok(Val::list(v))
            }
            Kind::Map(l) => {
                let v: OwnedMap<'static> = l
                    .iter()
                    .map(|x| Ok((self.eval(&x.key, vars)?, self.eval(&x.value, vars)?)))
                    .collect::<Result<_, Error>>()?;
                self.pure_ = false;
                Ok(v.into())
            }
            Kind::Call(c) => {
                let mut name = c.function.to_string();
                let mut exprs: Vec<&Expr> = c.args.iter().collect();
                if let Some(t) = &c.target {
                    if let Some(q) = t.qualified_name().filter(|q| ["sets", "lists", "strings"].contains(&q.as_str())) {
                        name = format!("{q}.{name}");
                    } else {
                        exprs.insert(0, t);
                    }
                }
                let args: Vec<_> = exprs.iter().map(|x| self.eval(x, vars)).collect::<Result<_, _>>()?;
                if name == "dyn" {
                    self.pure_ = false;
                    return Ok(args[0].clone());
                }
                if let Some(t) = [("double", Type::Double), ("duration", Type::Duration), ("timestamp", Type::Timestamp), ("type", Type::Type(None)), ("bytes", Type::Bytes), ("uint", Type::Uint)]
                    .into_iter()
                    .find(|x| x.0 == name)
                {
                    self.pure_ = false;
                    return crate::ops::convert(&args[0], &t.1);
                }
                let Some(f) = self.functions.iter().find(|f| f.name == name).cloned() else {
                    return Err(Error::new("SKIP"));
                };
                let o: Vec<_> = f
                    .overloads
                    .iter()
                    .filter(|o| {
                        o.parameters.len() == args.len()
                            && o.parameters.iter().zip(&args).zip(&exprs).all(|((t, v), e)| static_matches(t, e, v))
                    })
                    .cloned()
                    .collect();
                let call = match (f.singleton, o.first()) {
                    (Some(s), _) => s,
                    (None, Some(o)) => o.call.unwrap(),
                    (None, None) if !f.guarded => f.overloads.iter().find(|o| o.parameters.len() == args.len()).unwrap().call.unwrap(),
                    _ => {
                        self.pure_ = false;
                        let n: Vec<_> = args.iter().map(Val::type_name).collect();
                        return Err(Error::new(format!("no such overload: {name}({})", n.join(", "))));
                    }
                };
                let compiled = match (&f.pattern, exprs.get(1).map(|e| &e.kind)) {
                    (Some(p), Some(Kind::Literal(Val::Str(t)))) => Some((p.compile)(t).map_err(|e| Error::new(format!("PROGRAM {e}")))?),
                    _ => None,
                };
                let r = match compiled {
                    Some(c) => c(&args),
                    None => call(&args),
                };
                // Costs
                let id = if o.len() == 1 { o[0].id } else { "" };
                let res = r.clone().unwrap_or(Val::Null);
                let ac = ActualCall { function: &name, overload: id, args: &args, result: &res };
                let actual = o.first().and_then(|o| o.cost).and_then(|c| (c.actual)(&ac)).or_else(|| f.cost.and_then(|c| (c.actual)(&ac))).unwrap_or(1);
                self.cost += actual;
                let tys: Vec<Type> = args
                    .iter()
                    .map(|a| match a {
                        Val::List(l) => Type::list(l.get(0).map_or(Type::Dyn, |x| x.unwrap().ty())),
                        o => o.ty(),
                    })
                    .collect();
                let nodes: Vec<Node<'_>> = args
                    .iter()
                    .zip(&tys)
                    .zip(&exprs)
                    .map(|((a, ty), e)| Node {
                        path: vec![],
                        ty,
                        size: matches!(a, Val::Str(_) | Val::List(_) | Val::Bytes(_)).then(|| Range::fixed(a.cost_size())),
                        literal: match &e.kind {
                            Kind::Literal(v) => Some(v),
                            _ => None,
                        },
                    })
                    .collect();
                let (target, rest) = if c.target.is_some() && !name.contains('.') { (nodes.first(), &nodes[1..]) } else { (None, &nodes[..]) };
                let ec = EstimatedCall { function: &name, overload: id, target, args: rest, sizes: &() };
                let e = o.first().and_then(|o| o.cost).and_then(|c| (c.estimate)(&ec)).or_else(|| f.cost.and_then(|c| (c.estimate)(&ec))).map_or(Range::fixed(1), |e| e.cost);
                self.est = self.est + e;
                r
            }
            _ => Err(Error::new("SKIP")),
        }
    }
}
fn constant(e: &Expr) -> bool {
    match &e.kind {
        Kind::Literal(_) => true,
        Kind::List(l) => l.iter().all(|x| constant(&x.value)),
        _ => false,
    }
}
fn typed(v: &Val<'_>) -> serde_json::Value {
    use serde_json::json;
    match v {
        Val::Int(i) => json!({"int": i.to_string()}),
        Val::Uint(i) => json!({"uint": i.to_string()}),
        Val::Bool(b) => json!({"bool": b}),
        Val::Null => json!({"null": true}),
        Val::Str(s) => json!({"string": &**s}),
        Val::Double(d) => json!({"double": if d.is_nan() {"NaN".into()} else if d.is_infinite() {if *d > 0.0 {"Infinity".to_string()} else {"-Infinity".to_string()}} else {go_float(*d)}}),
        Val::List(l) => json!({"list": l.iter().map(|x| typed(&x.unwrap())).collect::<Vec<_>>()}),
        Val::Duration(d) => json!({"duration": d.to_string()}),
        Val::Timestamp(d) => json!({"timestamp": d.text()}),
        Val::Bytes(b) => {
            const A: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
            let mut s = String::new();
            for c in b.chunks(3) {
                let n = u32::from(c[0]) << 16 | u32::from(*c.get(1).unwrap_or(&0)) << 8 | u32::from(*c.get(2).unwrap_or(&0));
                for i in 0..4 {
                    if i > c.len() { s.push('=') } else { s.push(A[(n >> (18 - 6 * i) & 63) as usize] as char) }
                }
            }
            json!({"bytes": s})
        }
        Val::Map(m) => {
            let mut e: Vec<_> = m.entries().into_iter().map(|(k, v)| json!([typed(&k), typed(&v.unwrap())])).collect();
            e.sort_by_key(|e| e[0].to_string());
            json!({"map": e})
        }
        Val::Type(t) => json!({"type": t.name()}),
        _ => json!("?"),
    }
}
#[test]
fn replay() {
    let mut functions: Vec<Function> = vec![];
    for l in [lists::library(), regex::library(), strings::library(), sets::library(), ext_lists::library()] {
        for f in l.functions {
            match functions.iter_mut().find(|o| o.name == f.name) {
                Some(o) => o.merge(f),
                None => functions.push(f),
            }
        }
    }
    let (mut ok, mut skip, mut bad, mut costs, mut badcost) = (0, 0, 0, 0, 0);
    for file in ["strings", "lists", "sets", "regex", "more"] {
        let Ok(text) = std::fs::read_to_string(format!("/tmp/oracle/cases/expr-{file}.jsonl")).or_else(|_| std::fs::read_to_string("/tmp/cellib1-more.jsonl")) else { continue };
        for line in text.lines() {
            let case: serde_json::Value = serde_json::from_str(line).unwrap();
            let want = &case["want"];
            let expr = case["expr"].as_str().unwrap();
            if !want["compileError"].is_null() || !want["programError"].is_null() {
                skip += 1;
                continue;
            }
            let Ok(ast) = crate::parse::parse(expr, crate::parse::Syntax { optional: true, two_variables: true }) else {
                skip += 1;
                continue;
            };
            if let Some(keys) = case["keys"].as_array() {
                let keys: Vec<Val<'static>> = keys.iter().map(|k| Val::Int(k.as_i64().unwrap())).collect();
                let items: Vec<Val<'static>> = keys.iter().enumerate().map(|(i, k)| Val::list(vec![k.clone(), Val::Int(i as i64)])).collect();
                let f = functions.iter().find(|f| f.name == "@sortByAssociatedKeys").unwrap();
                let got = f.singleton.unwrap()(&[Val::list(items), Val::list(keys)]).unwrap();
                if typed(&got) == want["result"] { ok += 1 } else if want["error"].is_null() { bad += 1; println!("BAD sortBy {} ", case["keys"]); } else {skip += 1}
                continue;
            }
            let mut m = M { functions: functions.clone(), cost: 0, est: Range::ZERO, pure_: true };
            let got = m.eval(&ast.root, &case["vars"]);
            match &got {
                Err(e) if e.text() == "SKIP" => {
                    skip += 1;
                    continue;
                }
                _ => {}
            }
            let same = match (&got, want["error"].as_str()) {
                (Ok(v), None) => typed(v) == want["result"],
                (Err(e), Some(w)) => e.text() == w,
                _ => false,
            };
            if same {
                ok += 1;
            } else {
                bad += 1;
                println!("BAD {expr} {} got {} want {}", case["vars"], got.as_ref().map_or_else(|e| e.to_string(), |v| typed(v).to_string()), want);
            }
            if m.pure_ {
                costs += 1;
                let est = serde_json::json!([m.est.min.to_string(), m.est.max.to_string()]);
                if want["cost"] != m.cost.to_string() || want["estimate"] != est {
                    badcost += 1;
                    println!("COST {expr} got {} {est} want {} {}", m.cost, want["cost"], want["estimate"]);
                }
            }
        }
    }
    println!("ok {ok} skip {skip} bad {bad} costs {costs} badcost {badcost}");
}
