//! `chlog api`: sends a request for which there is no command.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use changelog_client::{Client, Method};
use changelog_core::limits::MAX_PER_PAGE;
use clap::Args;
use serde_json::{Map, Value, json};
use url::form_urlencoded;

use crate::base::failure::{Exit, Failure, Outcome};
use crate::environment::app::App;
use crate::output::format::Format;

/// Sends a request to the API and prints the response.
#[derive(Debug, Args)]
#[command(after_help = "\
The request goes to the configured server only, with its API key; a full URL is refused. The method \
is GET, or POST with --field, --json-field or --input. `changelog-server openapi` and \
/api/openapi.json on the server describe all paths.

Examples:
  chlog api key
  chlog api changes -f risk_level=high --method GET --jq '.data[].title'
  chlog api changes --paginate --format ndjson
  chlog api changes -f title='Deploy api 2.3' -F tags='[\"deploy\"]'
  chlog api changes/ID --method PATCH -f status=completed
  chlog api services --input service.json")]
#[command(next_help_heading = "Request")]
pub(crate) struct ApiArgs {
    /// Path after the server's URL, with or without /api; may have a query
    #[arg(help_heading = None::<&'static str>)]
    path: String,
    /// HTTP method [default: GET, or POST with a body]
    #[arg(short = 'X', long, value_name = "METHOD")]
    method: Option<String>,
    /// Text field of the body, or parameter of a GET; repeatable
    #[arg(short = 'f', long = "field", value_name = "NAME=VALUE", value_parser = pair)]
    fields: Vec<(String, String)>,
    /// Field of the body whose value is JSON, such as priority=1 or tags=[]; repeatable
    #[arg(short = 'F', long = "json-field", value_name = "NAME=JSON", value_parser = pair)]
    json_fields: Vec<(String, String)>,
    /// File with the JSON body; - is standard input
    #[arg(long, value_name = "FILE|-", conflicts_with_all = ["fields", "json_fields"])]
    input: Option<PathBuf>,
    /// Fetch all pages of a list and print them as one
    #[arg(long)]
    paginate: bool,
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("must be NAME=VALUE".to_owned()),
    }
}

/// Sends the request and prints the response.
pub(crate) async fn run(app: &mut App, args: ApiArgs) -> Outcome {
    if app.output.format() == Format::Csv {
        return Err(Failure::usage(
            "--format csv: a response of the API has no columns; use --jq with @csv",
        ));
    }
    let mut path = path(&args.path)?;
    let body = body(&args)?;
    let method = method(&args, body.is_some())?;
    let body = if method == Method::GET {
        if args.input.is_some() {
            return Err(Failure::usage("--input: a GET request has no body"));
        }
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.extend_pairs(args.fields.iter().chain(&args.json_fields));
        path = with_query(path, &query.finish());
        None
    } else {
        body
    };
    if args.paginate && method != Method::GET {
        return Err(Failure::usage("--paginate: only a GET request has pages"));
    }
    let client = app.client()?;
    let response = if args.paginate {
        all_pages(&client, &path).await?
    } else {
        client.raw(method, &path, body.as_ref()).await?
    };
    app.output.response(&response)
}

/// Returns the path after `/api/`, with its query.
fn path(given: &str) -> Outcome<String> {
    if given.contains("://") || given.starts_with("//") {
        return Err(Failure::usage(
            "PATH must be a path such as changes or /api/changes, not a URL: the API key is sent to \
             the configured server only",
        ));
    }
    let path = given.trim_start_matches('/');
    let path = path.strip_prefix("api/").unwrap_or(path);
    if path.is_empty() || path == "api" {
        return Err(Failure::usage(
            "PATH is empty; for example: chlog api changes",
        ));
    }
    Ok(path.to_owned())
}

fn with_query(path: String, query: &str) -> String {
    match (query.is_empty(), path.contains('?')) {
        (true, _) => path,
        (false, true) => format!("{path}&{query}"),
        (false, false) => format!("{path}?{query}"),
    }
}

fn method(args: &ApiArgs, has_body: bool) -> Outcome<Method> {
    let Some(name) = &args.method else {
        return Ok(if has_body { Method::POST } else { Method::GET });
    };
    Method::from_bytes(name.to_uppercase().as_bytes())
        .map_err(|_| Failure::usage(format!("--method: {name:?} is not an HTTP method")))
}

/// Returns the body of the file or of the fields, if there is one.
fn body(args: &ApiArgs) -> Outcome<Option<Value>> {
    if let Some(path) = &args.input {
        let text = read(path)
            .map_err(|error| Failure::usage(format!("--input: {}: {error}", path.display())))?;
        let body = serde_json::from_slice(&text).map_err(|error| {
            Failure::new(
                Exit::Invalid,
                format!("--input: {} is not JSON: {error}", path.display()),
            )
        })?;
        return Ok(Some(body));
    }
    let mut body = Map::new();
    for (name, value) in &args.fields {
        body.insert(name.clone(), Value::String(value.clone()));
    }
    for (name, value) in &args.json_fields {
        let value = serde_json::from_str(value).map_err(|error| {
            Failure::usage(format!("--json-field: {name} is not JSON: {error}"))
                .hint(format!("-f {name}=… takes a string without quotes"))
        })?;
        body.insert(name.clone(), value);
    }
    Ok((!body.is_empty()).then_some(Value::Object(body)))
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    if path == Path::new("-") {
        let mut text = Vec::new();
        io::stdin().read_to_end(&mut text)?;
        return Ok(text);
    }
    fs::read(path)
}

/// Fetches all pages of a list. A record that moves to the next page meanwhile is there
/// once.
async fn all_pages(client: &Client, path: &str) -> Outcome<Value> {
    let mut path = path.to_owned();
    if !path.contains("per_page=") {
        path = with_query(path, &format!("per_page={MAX_PER_PAGE}"));
    }
    let mut first = client.raw(Method::GET, &path, None).await?;
    let pages = first.get("total_pages").and_then(Value::as_u64);
    let Some((pages, Value::Array(records))) = pages.zip(first.get_mut("data")) else {
        return Ok(first);
    };
    let mut seen: std::collections::HashSet<String> = records.iter().filter_map(id).collect();
    for page in 2..=pages {
        let path = with_query(path.clone(), &format!("page={page}"));
        let mut next = client.raw(Method::GET, &path, None).await?;
        if let Some(Value::Array(more)) = next.get_mut("data") {
            more.retain(|record| id(record).is_none_or(|id| seen.insert(id)));
            records.append(more);
        }
    }
    let count = records.len();
    for (name, value) in [
        ("count", count),
        ("page", 1),
        ("per_page", count),
        ("total_pages", 1),
    ] {
        first[name] = json!(value);
    }
    Ok(first)
}

fn id(record: &Value) -> Option<String> {
    Some(record.get("id")?.as_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_below_the_configured_server() {
        for (given, expected) in [
            ("changes", "changes"),
            ("/changes?page=2", "changes?page=2"),
            ("/api/changes", "changes"),
            ("api/changes", "changes"),
        ] {
            assert_eq!(path(given).unwrap(), expected);
        }
        for given in [
            "https://evil.example.com/api/changes",
            "//evil/api",
            "",
            "/api/",
        ] {
            assert_eq!(path(given).unwrap_err().exit, Exit::Usage, "{given}");
        }
    }

    #[test]
    fn parameters_follow_a_query() {
        assert_eq!(with_query("a".to_owned(), "b=1"), "a?b=1");
        assert_eq!(with_query("a?b=1".to_owned(), "c=2"), "a?b=1&c=2");
        assert_eq!(with_query("a".to_owned(), ""), "a");
    }
}
