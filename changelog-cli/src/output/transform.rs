//! `--jq` and `--template`: what is printed in place of the JSON.

use std::fmt;

use jaq_core::load::{Arena, File, Loader};
use jaq_core::{Compiler, Ctx, Vars, data};
use jaq_json::{Val, read, write};
use minijinja::Environment;
use minijinja::value::Serde;
use serde_json::Value;

use crate::base::failure::{Exit, Failure, Outcome};

type Filter = jaq_core::Filter<data::JustLut<Val>>;

/// The name of the only template.
const TEMPLATE: &str = "template";

/// A compiled expression or template.
pub(super) enum Transform {
    Jq(Box<Filter>),
    Template(Box<Environment<'static>>),
}

impl fmt::Debug for Transform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Jq(_) => "Jq",
            Self::Template(_) => "Template",
        })
    }
}

impl Transform {
    /// Compiles a jq expression.
    pub(super) fn jq(expression: &str) -> Outcome<Self> {
        let invalid = |why: String| {
            Failure::usage(format!("--jq: {why}"))
                .hint("the syntax is that of jq: https://jqlang.org/manual")
        };
        let definitions = jaq_core::defs()
            .chain(jaq_std::defs())
            .chain(jaq_json::defs());
        // Not the environment: it has the API key, and may not be UTF-8.
        let functions = jaq_core::funs()
            .chain(jaq_std::funs())
            .chain(jaq_json::funs())
            .filter(|(name, ..)| *name != "env");
        let arena = Arena::default();
        let file = File {
            code: expression,
            path: (),
        };
        let modules = Loader::new(definitions).load(&arena, file);
        let modules = modules.map_err(|errors| {
            let place = errors.into_iter().find_map(|(_, error)| place(error));
            invalid(match place {
                Some((expected, "")) => format!("expected {expected} at the end"),
                Some((expected, rest)) => format!("expected {expected} at {rest:?}"),
                None => "is not an expression".to_owned(),
            })
        })?;
        let filter = Compiler::default().with_funs(functions).compile(modules);
        let filter = filter.map_err(|errors| {
            let unknown = errors.into_iter().flat_map(|(_, unknown)| unknown).next();
            invalid(match unknown {
                Some((name, kind)) => format!("unknown {}: {name}", kind.as_str()),
                None => "is not an expression".to_owned(),
            })
        })?;
        Ok(Self::Jq(Box::new(filter)))
    }

    /// Compiles a template.
    pub(super) fn template(source: &str) -> Outcome<Self> {
        let mut environment = Environment::new();
        environment
            .add_template_owned(TEMPLATE, source.to_owned())
            .map_err(|error| {
                Failure::usage(format!("--template: {error}")).hint(
                    "the syntax is that of Jinja: {% for change in data %}{{ change.title }}{% endfor %}",
                )
            })?;
        Ok(Self::Template(Box::new(environment)))
    }

    /// Returns the lines that are printed for a document.
    pub(super) fn apply(&self, document: &Value, pretty: bool) -> Outcome<Vec<Printed>> {
        match self {
            Self::Jq(filter) => run(filter, document, pretty),
            Self::Template(environment) => {
                let text = environment
                    .get_template(TEMPLATE)
                    .and_then(|template| template.render(Serde(document)))
                    .map_err(|error| failed("--template", &error))?;
                Ok(vec![Printed::Text(text)])
            }
        }
    }
}

/// A value that is printed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Printed {
    /// Text as it is.
    Text(String),
    Json(String),
}

/// Returns what a syntax error expected, and the expression from there on.
fn place(error: jaq_core::load::Error<&str>) -> Option<(&str, &str)> {
    use jaq_core::load::Error;
    match error {
        Error::Lex(errors) => {
            let (expected, rest) = errors.into_iter().next()?;
            Some((expected.as_str(), rest))
        }
        Error::Parse(errors) => {
            let (expected, rest) = errors.into_iter().next()?;
            Some((expected.as_str(), rest))
        }
        Error::Io(_) => None,
    }
}

fn run(filter: &Filter, document: &Value, pretty: bool) -> Outcome<Vec<Printed>> {
    let input = serde_json::to_vec(document).map_err(|error| failed("--jq", &error))?;
    let input = read::parse_single(&input).map_err(|error| failed("--jq", &error))?;
    let context = Ctx::<data::JustLut<Val>>::new(&filter.lut, Vars::new([]));
    let style = write::Pp {
        indent: pretty.then(|| "  ".to_owned()),
        sep_space: pretty,
        ..write::Pp::default()
    };
    let mut printed = Vec::new();
    for output in filter.id.run((context, input)) {
        match output {
            Ok(Val::TStr(text)) => {
                printed.push(Printed::Text(String::from_utf8_lossy(&text).into_owned()));
            }
            Ok(value) => {
                let mut json = Vec::new();
                write::write(&mut json, &style, 0, &value)
                    .map_err(|error| failed("--jq", &error))?;
                printed.push(Printed::Json(String::from_utf8_lossy(&json).into_owned()));
            }
            Err(exception) => match exception.get_err() {
                Ok(error) => return Err(failed("--jq", &error)),
                // The expression calls `halt`.
                Err(_) => break,
            },
        }
    }
    Ok(printed)
}

fn failed(flag: &str, error: &dyn fmt::Display) -> Failure {
    Failure::new(Exit::Other, format!("{flag}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn printed(transform: &Transform) -> Vec<Printed> {
        let document = json!({ "data": [
            { "title": "a \"b\"", "tags": ["x"], "service": { "name": "shop" } },
            { "title": "c", "tags": [], "service": null },
        ] });
        transform.apply(&document, false).unwrap()
    }

    #[test]
    fn strings_are_printed_raw_and_other_values_as_json() {
        let jq = Transform::jq(".data[] | .title, .tags, (.tags | length), .service.name").unwrap();
        let text = |text: &str| Printed::Text(text.to_owned());
        let json = |json: &str| Printed::Json(json.to_owned());
        assert_eq!(
            printed(&jq),
            [
                text("a \"b\""),
                json("[\"x\"]"),
                json("1"),
                text("shop"),
                text("c"),
                json("[]"),
                json("0"),
                json("null"),
            ]
        );
        let jq = Transform::jq(r#".data | map(select(.title | test("c"))) | length"#).unwrap();
        assert_eq!(printed(&jq), [json("1")]);
    }

    #[test]
    fn mistakes_are_named_before_anything_is_sent() {
        for (expression, message) in [
            (".data[", "expected"),
            (".data | nope", "unknown filter: nope"),
            ("$x", "unknown variable: $x"),
            ("@@", "expected"),
        ] {
            let failure = Transform::jq(expression).unwrap_err();
            assert!(failure.message().contains(message), "{failure:?}");
            assert_eq!(failure.exit, Exit::Usage);
        }
        let jq = Transform::jq(".data.x").unwrap();
        assert!(jq.apply(&json!({ "data": [] }), false).is_err());
        let failure = Transform::template("{% for x %}").unwrap_err();
        assert_eq!(failure.exit, Exit::Usage);
    }

    #[test]
    fn a_template_has_the_document() {
        let template = "{% for one in data %}{{ one.title }} @{{ one.service.name }}\n{% endfor %}";
        let template = Transform::template(template).unwrap();
        assert_eq!(
            printed(&template),
            [Printed::Text("a \"b\" @shop\nc @\n".to_owned())]
        );
    }
}
