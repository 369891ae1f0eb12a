//! Reading any JSON by templates of a source: what changes and alerts have in common.

use std::io::{self, Write};

use changelog_core::Timestamp;
use minijinja::value::{Serde, ValueKind};
use minijinja::{AutoEscape, Environment, UndefinedBehavior};
use serde_json::Value;

use crate::json::{first_line, text, time_of};
use crate::observation::{Observation, Reading, Unreadable};
use crate::proof::{Hash, Proof};
use crate::received::Received;

/// A secret or a signature, as many programs send them.
pub(super) const PROOFS: &[Proof] = &[
    Proof::Secret {
        header: "authorization",
    },
    Proof::Hmac {
        header: "x-signature-256",
        prefix: "sha256=",
        hash: Hash::Sha256,
    },
    Proof::Hmac {
        header: "x-hub-signature-256",
        prefix: "sha256=",
        hash: Hash::Sha256,
    },
];

/// Returns what the headers call a request.
pub(super) fn id_of(received: &Received<'_>) -> Option<String> {
    let names = ["webhook-id", "idempotency-key", "x-request-id"];
    let mut ids = names.iter().filter_map(|name| received.headers.get(name));
    ids.next().map(str::to_owned)
}

/// The work of a template, in instructions. The bytes of strings cost as well, before they are
/// made: 64 of them one instruction, so that a product such as `a * 9999999` is refused.
const FUEL: u64 = 5_000;
/// The bytes that a template may write.
const MAX_BYTES: usize = 64 * 1024;
/// The characters of a title that is looked for.
const MAX_TITLE_CHARS: usize = 200;

/// Reads each element of the list at a JSON pointer, or the whole body. The pointer to the whole
/// body is empty: a body that is a list needs no setting.
pub(super) fn read_each(
    body: &Value,
    each: &str,
    read: impl Fn(&Value, usize) -> Result<Option<Observation>, Unreadable>,
) -> Result<Reading, Unreadable> {
    let each = each.trim();
    let elements = match body.pointer(each) {
        Some(Value::Array(elements)) => elements,
        Some(body) if each.is_empty() => std::slice::from_ref(body),
        _ => return Err(Unreadable(format!("each: there is no list at {each}"))),
    };
    let mut reading = Reading::default();
    for (index, element) in elements.iter().enumerate() {
        let observation = if element.is_object() {
            read(element, index)
        } else {
            Err(Unreadable("expected a JSON object".to_owned()))
        };
        match observation {
            Ok(Some(observation)) => reading.observations.push(observation),
            Ok(None) => reading.ignore("the template for what is ignored is true"),
            Err(error) if elements.len() == 1 => return Err(error),
            Err(Unreadable(reason)) => reading.ignore(reason),
        }
    }
    if elements.is_empty() {
        reading.ignore("the list is empty");
    }
    Ok(reading)
}

/// Reads the time that a template renders to.
pub(super) fn time_in(name: &str, text: &str) -> Result<Timestamp, Unreadable> {
    time_of(text).ok_or_else(|| Unreadable(format!("{name}: {} is no time", first_line(text, 50))))
}

/// Renders templates.
pub(super) struct Renderer {
    environment: Environment<'static>,
}

impl Renderer {
    pub(super) fn new() -> Self {
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Chainable);
        environment.set_auto_escape_callback(|_| AutoEscape::None);
        // As in JSON, not as in Python: what is null is nothing.
        environment.set_formatter(|output, state, value| match value.kind() {
            ValueKind::None => Ok(()),
            ValueKind::Bool => Ok(write!(output, "{}", value.is_true())?),
            _ => minijinja::escape_formatter(output, state, value),
        });
        environment.set_fuel(Some(FUEL));
        Self { environment }
    }

    /// Renders the template of the title. If there are no templates at all, the title is looked
    /// for.
    pub(super) fn title(
        &self,
        template: &str,
        has_templates: bool,
        element: &Value,
    ) -> Result<String, Unreadable> {
        let missing = |reason: &str| Unreadable(reason.to_owned());
        match self.render("title", template, element)? {
            Some(title) => Ok(title),
            None if !has_templates => likely_title(element),
            None if template.is_empty() => {
                Err(missing("set the template of the title, which is required"))
            }
            None => Err(missing("title: the template renders to nothing")),
        }
    }

    /// Renders the template of a field; `None` if nothing is left of it.
    pub(super) fn render(
        &self,
        name: &str,
        template: &str,
        element: &Value,
    ) -> Result<Option<String>, Unreadable> {
        if template.is_empty() {
            return Ok(None);
        }
        let error = |reason: String| Unreadable(format!("{name}: {reason}"));
        let template = self.environment.template_from_str(template);
        let template = template.map_err(|reason| error(reason.to_string()))?;
        let mut text = Text(Vec::new());
        template
            .render_captured_to(Serde(element), &mut text)
            .map_err(|reason| error(reason.to_string()))?;
        let text = String::from_utf8_lossy(&text.0).trim().to_owned();
        Ok(Some(text).filter(|text| !text.is_empty()))
    }
}

/// Returns the title of a source that has no templates yet.
fn likely_title(element: &Value) -> Result<String, Unreadable> {
    let members = ["/title", "/message", "/text", "/summary", "/name"];
    let title = members.iter().find_map(|member| text(element, member));
    let title = title.map(|title| first_line(&title, MAX_TITLE_CHARS));
    title.ok_or_else(|| {
        Unreadable(
            "set the template of the title: there is no title, message, text, summary or name"
                .to_owned(),
        )
    })
}

/// What a template writes, up to a length.
struct Text(Vec<u8>);

impl Write for Text {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MAX_BYTES {
            return Err(io::Error::other("the text is too long"));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
