//! Checks cards as Microsoft Teams does.

use serde_json::Value;

/// Checks a message with an Adaptive Card by its schema and the limit on its size.
///
/// # Errors
/// What is wrong with it.
pub fn check(body: &[u8]) -> Result<(), String> {
    if body.len() >= 20_000 {
        return Err(format!("{} bytes", body.len()));
    }
    let message: Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let attachments = message["attachments"].as_array().ok_or("no attachments")?;
    let [attachment] = attachments.as_slice() else {
        return Err(format!("{} attachments", attachments.len()));
    };
    let content = &attachment["content"];
    let fixed = [
        (&message["type"], "message"),
        (
            &attachment["contentType"],
            "application/vnd.microsoft.card.adaptive",
        ),
        (
            &content["$schema"],
            "http://adaptivecards.io/schemas/adaptive-card.json",
        ),
        (&content["type"], "AdaptiveCard"),
        (&content["version"], "1.2"),
        (&content["msteams"]["width"], "full"),
    ];
    for (value, expected) in fixed {
        if value != expected {
            return Err(format!("{value} is not {expected}"));
        }
    }
    if attachment.get("contentUrl") != Some(&Value::Null) {
        return Err("contentUrl is not null".to_owned());
    }
    is_text(&content["fallbackText"])?;
    let elements = content["body"].as_array().ok_or("no body")?;
    if elements.is_empty() {
        return Err("an empty body".to_owned());
    }
    elements.iter().try_for_each(element)?;
    for action in content["actions"].as_array().ok_or("no actions")? {
        let url = action["url"].as_str().unwrap_or_default();
        if action["type"] != "Action.OpenUrl" || !url.starts_with("http") {
            return Err(format!("{action} is not an action"));
        }
        is_text(&action["title"])?;
    }
    Ok(())
}

fn element(element: &Value) -> Result<(), String> {
    match element["type"].as_str() {
        Some("TextBlock") => {
            let colors = ["Default", "Good", "Warning", "Attention", "Accent"];
            if let Some(color) = element.get("color")
                && !colors.iter().any(|known| color == known)
            {
                return Err(format!("{color} is not a color"));
            }
            is_text(&element["text"])
        }
        Some("FactSet") => {
            let facts = element["facts"].as_array().ok_or("no facts")?;
            facts.iter().try_for_each(|fact| {
                is_text(&fact["title"])?;
                is_text(&fact["value"])
            })
        }
        other => Err(format!("{other:?} is not an element")),
    }
}

fn is_text(value: &Value) -> Result<(), String> {
    match value.as_str() {
        Some(text) if !text.is_empty() => Ok(()),
        _ => Err(format!("{value} is not a text")),
    }
}
