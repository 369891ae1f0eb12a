//! The programs whose agents use the tools of the change log, and what to paste into each.

use serde_json::{Value, json};

use crate::wire_enum::wire_enum;

/// The name under which clients list the tools.
const NAME: &str = "changelog";
/// The variable that has the key where a configuration must not.
const KEY_VARIABLE: &str = "CHLOG_API_KEY";

wire_enum! {
    /// A program whose agent speaks the Model Context Protocol.
    AgentClient, "a client", example "claude" {
        /// Claude Code.
        Claude = "claude",
        /// Cursor.
        Cursor = "cursor",
        /// Visual Studio Code.
        Vscode = "vscode",
        /// Codex.
        Codex = "codex",
    }
}

/// How a client reaches the tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolServer<'a> {
    /// It starts `chlog mcp`, which has the key, with these global options.
    Command(&'a [String]),
    /// It sends requests to the service.
    Service {
        /// The URL of the service, without `/mcp`.
        url: &'a str,
        /// The API key.
        key: &'a str,
    },
}

impl AgentClient {
    /// Returns the name that people know it by.
    pub fn title(&self) -> &str {
        match self {
            Self::Claude => "Claude Code",
            Self::Cursor => "Cursor",
            Self::Vscode => "Visual Studio Code",
            Self::Codex => "Codex",
            Self::Unknown(word) => word,
        }
    }

    /// Returns where the configuration belongs: the name of a file, or `None` for a command
    /// in a terminal.
    pub fn file(&self) -> Option<&'static str> {
        match self {
            Self::Cursor => Some("~/.cursor/mcp.json"),
            Self::Vscode => Some(".vscode/mcp.json"),
            Self::Codex => Some("~/.codex/config.toml"),
            Self::Claude | Self::Unknown(_) => None,
        }
    }

    /// Returns what to paste: a command, or the text of the file.
    pub fn config(&self, server: ToolServer<'_>) -> String {
        match self {
            Self::Claude => claude(server),
            Self::Codex => codex(server),
            Self::Vscode => vscode(server),
            Self::Cursor | Self::Unknown(_) => {
                pretty(&json!({ "mcpServers": { NAME: entry(server) } }))
            }
        }
    }
}

fn pretty(config: &Value) -> String {
    format!("{config:#}")
}

/// Returns the address of the tools.
fn address(url: &str) -> String {
    format!("{}/mcp", url.trim_end_matches('/'))
}

fn arguments(options: &[String]) -> Vec<&str> {
    let options = options.iter().map(String::as_str);
    ["mcp"].into_iter().chain(options).collect()
}

fn entry(server: ToolServer<'_>) -> Value {
    match server {
        ToolServer::Command(options) => json!({ "command": "chlog", "args": arguments(options) }),
        ToolServer::Service { url, key } => json!({
            "url": address(url),
            "headers": { "Authorization": format!("Bearer {key}") },
        }),
    }
}

/// Its file belongs to a folder that others may get: the program asks for the key once, and
/// keeps it in its own store of secrets.
fn vscode(server: ToolServer<'_>) -> String {
    const INPUT: &str = "changelog-key";
    let ToolServer::Service { url, .. } = server else {
        return pretty(&json!({ "servers": { NAME: entry(server) } }));
    };
    pretty(&json!({
        "inputs": [{
            "type": "promptString",
            "id": INPUT,
            "description": "API key of the change log",
            "password": true,
        }],
        "servers": {
            NAME: {
                "type": "http",
                "url": address(url),
                "headers": { "Authorization": format!("Bearer ${{input:{INPUT}}}") },
            },
        },
    }))
}

fn claude(server: ToolServer<'_>) -> String {
    match server {
        ToolServer::Command(options) => {
            format!(
                "claude mcp add {NAME} -- chlog {}",
                arguments(options).join(" ")
            )
        }
        ToolServer::Service { url, key } => format!(
            "claude mcp add --transport http {NAME} {} --header \"Authorization: Bearer {key}\"",
            address(url)
        ),
    }
}

/// Codex refuses a key in its file.
fn codex(server: ToolServer<'_>) -> String {
    let table = format!("[mcp_servers.{NAME}]");
    match server {
        ToolServer::Command(options) => format!(
            "{table}\ncommand = \"chlog\"\nargs = {}",
            json!(arguments(options))
        ),
        ToolServer::Service { url, key } => format!(
            "# before Codex starts: export {KEY_VARIABLE}={key}\n{table}\nurl = {}\n\
             bearer_token_env_var = \"{KEY_VARIABLE}\"",
            json!(address(url))
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_configuration_names_the_server_and_the_key() {
        let service = ToolServer::Service {
            url: "https://changes.example.com/",
            key: "chlog_key",
        };
        for client in AgentClient::ALL {
            let direct = client.config(service);
            assert!(
                direct.contains("https://changes.example.com/mcp"),
                "{direct}"
            );
            let has_key = !matches!(client, AgentClient::Vscode);
            assert_eq!(direct.contains("chlog_key"), has_key, "{direct}");
            let started = client.config(ToolServer::Command(&[
                "--profile".to_owned(),
                "work".to_owned(),
            ]));
            assert!(
                started.contains("chlog") && started.contains("mcp") && started.contains("work"),
                "{started}"
            );
            let is_json = matches!(client, AgentClient::Cursor | AgentClient::Vscode);
            for text in [direct, started] {
                assert_eq!(
                    serde_json::from_str::<Value>(&text).is_ok(),
                    is_json,
                    "{text}"
                );
            }
        }
        let vscode = AgentClient::Vscode.config(service);
        assert!(vscode.contains("\"type\": \"http\""), "{vscode}");
    }
}
