//! `chlog mcp`: the tools of the service for agents that speak over standard input and output.
//!
//! Each request is passed on to the service, which has the one list of tools.

use std::io::{self, BufRead, Read, Write};

use changelog_client::Client;
use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use crate::base::failure::{Exit, Failure, Outcome, note};
use crate::environment::app::App;

/// The longest message, in bytes; the service takes less.
const MAX_MESSAGE: u64 = 1024 * 1024;
/// The member of a request that has the revision of the protocol, where there is no handshake.
const VERSION: &str = "/params/_meta/io.modelcontextprotocol~1protocolVersion";
/// The codes of JSON-RPC for a message that is not JSON, and for a failure of the service.
const PARSE_ERROR: i32 = -32_700;
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
    #[arg(long, value_name = "CLIENT")]
    print_config: Option<AgentClient>,
}

/// A client of the protocol, by its configuration.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum AgentClient {
    Claude,
    Cursor,
    Vscode,
    Codex,
}

impl AgentClient {
    /// Returns what starts this command.
    fn config(self) -> String {
        let server = json!({ "command": "chlog", "args": ["mcp"] });
        let pretty = |config: Value| format!("{config:#}");
        match self {
            Self::Claude => "claude mcp add changelog -- chlog mcp".to_owned(),
            Self::Cursor => pretty(json!({ "mcpServers": { "changelog": server } })),
            Self::Vscode => pretty(json!({ "servers": { "changelog": server } })),
            Self::Codex => {
                "[mcp_servers.changelog]\ncommand = \"chlog\"\nargs = [\"mcp\"]".to_owned()
            }
        }
    }
}

/// Passes messages on until standard input ends.
pub(crate) async fn run(app: &mut App, args: McpArgs) -> Outcome {
    if let Some(client) = args.print_config {
        return app.output.text(&client.config());
    }
    let client = app.client()?;
    note("serving the tools of the change log on standard input and output");
    let mut version = None;
    while let Some(line) = next_line().await? {
        let answer = match serde_json::from_str::<Value>(&line) {
            Ok(message) => answer(&client, &message, &mut version).await,
            Err(error) => Some(refusal(&Value::Null, PARSE_ERROR, &error.to_string())),
        };
        if let Some(answer) = answer {
            write(&answer)?;
        }
    }
    Ok(())
}

/// Reads the next message; `None` at the end.
async fn next_line() -> Outcome<Option<String>> {
    let read = || {
        let mut line = String::new();
        let mut input = io::stdin().lock().take(MAX_MESSAGE);
        input.read_line(&mut line).map(|_| line)
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
async fn answer(client: &Client, message: &Value, version: &mut Option<String>) -> Option<Value> {
    let (id, method) = (message.get("id")?, message.get("method")?);
    let is_handshake = method == "initialize";
    let own = message.pointer(VERSION).and_then(Value::as_str);
    let agreed = version.as_deref().filter(|_| !is_handshake);
    match client.mcp(message, own.or(agreed)).await {
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
