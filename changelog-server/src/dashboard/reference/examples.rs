//! The examples of operations, from the file that the tests run.

/// See the comment at its beginning.
const SOURCE: &str = include_str!("../../../../examples/api/operations.rs");

/// The tools that examples are for, in the order of the file: heading, and class.
const TOOLS: [(&str, &str); 3] = [("curl", "curl"), ("chlog", "chlog"), ("Rust", "rust")];

/// The variable in the file that stands for the address of the service.
const ADDRESS: &str = "$CHLOG_URL";

/// The examples of an operation.
pub(super) struct Examples(Vec<Example>);

/// An example for one tool.
pub(super) struct Example {
    pub(super) tool: &'static str,
    pub(super) class: &'static str,
    /// The command or code, or why there is none.
    pub(super) text: String,
    pub(super) is_missing: bool,
}

impl Examples {
    /// Returns the examples of an operation; `None` if the file has none of it.
    pub(super) fn of(operation: &str) -> Option<Self> {
        let (_, section) = SOURCE.split_once(&format!("\n\n// # {operation}\n"))?;
        let section = section.split("\n\n// # ").next()?;
        let mut examples = Vec::new();
        for (tool, class) in TOOLS {
            let (_, part) = section.split_once(&format!("// ## {tool}\n"))?;
            let part = part.split("// ## ").next()?.trim_end();
            examples.push(Example::new(tool, class, part)?);
        }
        Some(Self(examples))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Example> {
        self.0.iter()
    }
}

impl Example {
    fn new(tool: &'static str, class: &'static str, part: &str) -> Option<Self> {
        let (text, indent) = if part.starts_with("//") {
            (part, "// ")
        } else {
            let (_, body) = part.split_once(" {\n")?;
            (body.strip_suffix("    Ok(())\n}")?, "    ")
        };
        let lines = text.lines();
        let lines = lines.map(|line| line.strip_prefix(indent).unwrap_or(line));
        let text = lines.collect::<Vec<_>>().join("\n");
        let (is_missing, text) = match text.strip_prefix("None: ") {
            Some(reason) => (true, reason.to_owned()),
            None => (false, text),
        };
        Some(Self {
            tool,
            class,
            text,
            is_missing,
        })
    }

    /// Returns the text with the address of the service, if it is known.
    pub(super) fn at(&self, address: Option<&str>) -> String {
        match address {
            Some(address) => self.text.replace(ADDRESS, address),
            None => self.text.clone(),
        }
    }
}
