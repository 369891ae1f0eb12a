//! `chlog mcp`: the tools of the service for agents that speak over standard input and output.
//!
//! Each request is passed on to the service, which has the one list of tools.

use std::io::{self, BufRead, Read, Write};

use changelog_client::Client;
use changelog_core::input::json_value;
use changelog_core::{Agent, AgentClient, ToolServer};
use clap::Args;
use serde_json::{Value, json};

use crate::base::failure::{Exit, Failure, Outcome, note};
use crate::environment::app::App;
use crate::environment::config::DEFAULT_PROFILE;
use crate::environment::context::agent::Recognized;
use crate::environment::context::{self, agent};
use crate::environment::credentials::KEY_VARIABLE;
use crate::input::flags::agent_client;

/// The longest message, in bytes; the service takes less.
const MAX_MESSAGE: u64 = 1024 * 1024;
/// The member of a request that has the revision of the protocol, where there is no handshake.
const VERSION: &str = "/params/_meta/io.modelcontextprotocol~1protocolVersion";
/// The member of a request that names the client, where there is no handshake.
const CLIENT: &str = "io.modelcontextprotocol/clientInfo";
/// The codes of JSON-RPC for a message that is not JSON, for one that is no request, and for a
/// failure of the service.
const PARSE_ERROR: i32 = -32_700;
const INVALID_REQUEST: i32 = -32_600;
const SERVER_ERROR: i32 = -32_000;

/// Serves the tools of the change log to an agent (Model Context Protocol).
#[derive(Debug, Args)]
#[command(after_help = "\
Editors start this command themselves; it uses the stored key, or CHLOG_API_KEY.

Examples:
  chlog mcp --print-config claude
  chlog mcp --print-config vscode > .vscode/mcp.json")]
pub(crate) struct McpArgs {
    /// Print what to paste into the configuration of a client
    #[arg(long, value_name = "CLIENT", value_parser = agent_client())]
    print_config: Option<AgentClient>,
}

/// Passes messages on until standard input ends.
pub(crate) async fn run(app: &mut App, args: McpArgs) -> Outcome {
    if let Some(client) = args.print_config {
        let options = options(app);
        return app
            .output
            .text(&client.config(ToolServer::Command(&options)));
    }
    let client = app.client()?;
    note("serving the tools of the change log on standard input and output");
    let mut version = None;
    let mut agent = match agent::recognized(context::is_ci()) {
        Some(Recognized::Agent(agent, _)) => Caller::Known(agent),
        Some(Recognized::Off) => Caller::Unnamed,
        None => Caller::Unknown,
    };
    while let Some(line) = next_line().await? {
        let answer = match json_value(&line) {
            Ok(message)
                if message
                    .get("method")
                    .is_none_or(|method| !method.is_string()) =>
            {
                let text = "a message must be an object with a method; there are no batches";
                Some(refusal(
                    message.get("id").unwrap_or(&Value::Null),
                    INVALID_REQUEST,
                    text,
                ))
            }
            Ok(mut message) => {
                agent.meet(&message);
                agent.sign(&mut message);
                answer(&client, &message, agent.named(), &mut version).await
            }
            Err(malformed) => Some(refusal(&Value::Null, PARSE_ERROR, &malformed)),
        };
        if let Some(answer) = answer {
            write(&answer)?;
        }
    }
    Ok(())
}

/// Returns the options with which `chlog` finds the same service wherever it is started.
fn options(app: &App) -> Vec<String> {
    let mut options = Vec::new();
    if app.config.profile != DEFAULT_PROFILE {
        options.extend(["--profile".to_owned(), app.config.profile.clone()]);
    }
    let (Ok(url), Ok(Some(key))) = (app.url(), app.key()) else {
        note("no service and key are configured yet: run `chlog auth login` first");
        return options;
    };
    // What is in a file is found everywhere.
    if ["--url", "CHLOG_URL"].contains(&url.source.as_str()) {
        options.extend(["--url".to_owned(), url.value.clone()]);
    }
    if key.source == KEY_VARIABLE {
        note(
            "the client may not have CHLOG_API_KEY of this terminal: `chlog auth login` stores it",
        );
    }
    options
}

/// Who calls the tools, as changes name it.
enum Caller {
    /// The agent of the environment, or the client that introduced itself.
    Known(Agent),
    /// Nobody has introduced itself yet.
    Unknown,
    /// Changes name none.
    Unnamed,
}

impl Caller {
    /// Notes the name of the client in a handshake: the service sees each request alone.
    fn meet(&mut self, message: &Value) {
        let name = message.pointer("/params/clientInfo/name");
        if let (Self::Unknown, true, Some(Ok(agent))) = (
            &self,
            message["method"] == "initialize",
            name.and_then(Value::as_str).map(Agent::of_name),
        ) {
            *self = Self::Known(agent);
        }
    }

    fn named(&self) -> Option<&Agent> {
        match self {
            Self::Known(agent) => Some(agent),
            Self::Unknown | Self::Unnamed => None,
        }
    }

    /// Names the agent in the request for a new change that names none.
    fn sign(&self, message: &mut Value) {
        let agent = match self {
            Self::Known(agent) => agent,
            Self::Unknown => return,
            Self::Unnamed => {
                if let Some(Value::Object(about)) = message.pointer_mut("/params/_meta") {
                    about.remove(CLIENT);
                }
                return;
            }
        };
        let logs = message["method"] == "tools/call" && message["params"]["name"] == "log_change";
        let arguments = message.pointer_mut("/params/arguments");
        if let (true, Some(Value::Object(arguments))) = (logs, arguments) {
            let given = arguments.entry("agent").or_insert(Value::Null);
            if given.is_null() {
                *given = json!(agent);
            }
        }
    }
}

/// Reads the next message; `None` at the end.
async fn next_line() -> Outcome<Option<Vec<u8>>> {
    let read = || {
        let mut line = Vec::new();
        let mut input = io::stdin().lock().take(MAX_MESSAGE);
        input.read_until(b'\n', &mut line).map(|_| line)
    };
    let line = tokio::task::spawn_blocking(read).await;
    let line = line.map_err(io::Error::other).flatten();
    let line = line.map_err(|error| {
        Failure::new(Exit::Other, format!("cannot read standard input: {error}"))
    })?;
    Ok((!line.is_empty()).then_some(line))
}

fn write(answer: &Value) -> Outcome {
    let mut output = io::stdout().lock();
    let written = writeln!(output, "{answer}").and_then(|()| output.flush());
    // The client has closed it.
    written.map_err(|_| Failure::closed_pipe())
}

/// Returns the answer of the service to a request. Notifications have none, and no effect: the
/// service has no sessions.
async fn answer(
    client: &Client,
    message: &Value,
    agent: Option<&Agent>,
    version: &mut Option<String>,
) -> Option<Value> {
    let (id, method) = (message.get("id")?, message.get("method")?);
    let is_handshake = method == "initialize";
    let own = message.pointer(VERSION).and_then(Value::as_str);
    let agreed = version.as_deref().filter(|_| !is_handshake);
    match client.mcp(message, own.or(agreed), agent).await {
        Ok(answer) => {
            let agreed = answer.pointer("/result/protocolVersion");
            if let Some(agreed) = agreed.and_then(Value::as_str).filter(|_| is_handshake) {
                *version = Some(agreed.to_owned());
            }
            Some(answer)
        }
        Err(error) => {
            let failure = Failure::from(error);
            let (message, advice) = failure.message_and_advice();
            let advice = advice.map_or_else(String::new, |advice| format!("; {advice}"));
            Some(refusal(id, SERVER_ERROR, &format!("{message}{advice}")))
        }
    }
}

fn refusal(id: &Value, code: i32, message: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })
}
