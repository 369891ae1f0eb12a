//! Lists of names (tags, roles) as one line of text: what people type into a flag
//! or a form.

/// Reads names separated by commas or line feeds. A name that contains a comma is
/// quoted as in CSV; empty names are left out.
pub fn parse(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut name = String::new();
    let mut is_quoted = false;
    // Whether the name has only white space so far. Looking at all of it for each
    // quotation mark would take quadratic time.
    let mut is_blank = true;
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        match c {
            '"' if is_quoted && characters.peek() == Some(&'"') => {
                characters.next();
                name.push('"');
                is_blank = false;
            }
            '"' if is_quoted => is_quoted = false,
            '"' if is_blank => {
                name.clear();
                is_quoted = true;
            }
            ',' | '\n' if !is_quoted => {
                names.push(std::mem::take(&mut name));
                is_blank = true;
            }
            c => {
                is_blank &= c.is_whitespace();
                name.push(c);
            }
        }
    }
    names.push(name);
    let names = names.iter().map(|name| name.trim().to_owned());
    names.filter(|name| !name.is_empty()).collect()
}

/// Writes names so that [`parse`] reads them.
pub fn format(names: &[String]) -> String {
    let quoted = |name: &String| {
        if name.contains([',', '"']) {
            format!("\"{}\"", name.replace('"', "\"\""))
        } else {
            name.clone()
        }
    };
    names.iter().map(quoted).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_separated_by_commas_and_quoted_as_in_csv() {
        for (text, expected) in [
            (" a, b ,, c", &["a", "b", "c"][..]),
            (" , ", &[]),
            ("a\nb", &["a", "b"]),
            ("a,\"b, c\",\"d\"\"e\"", &["a", "b, c", "d\"e"]),
        ] {
            assert_eq!(parse(text), expected, "{text:?}");
        }
    }

    #[test]
    fn lists_are_read_as_they_were_written() {
        for names in [
            &[][..],
            &["one"],
            &["a,b", "c", "d\"e", "f;g", "'h'", "=i", "\"j\""],
        ] {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(parse(&format(&names)), names);
        }
    }
}
