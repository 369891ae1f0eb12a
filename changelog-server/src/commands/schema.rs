//! `changelog-server schema`

use super::{Failure, print, print_json};
use crate::config::{Common, Schema};
use crate::store::citus_statements;

pub(super) fn run(common: &Common, command: &Schema) -> Result<(), Failure> {
    let Schema::Citus { every_node } = command;
    let statements = citus_statements(*every_node);
    if common.json {
        return print_json(&statements);
    }
    print(&format!("{};", statements.join(";\n")))
}
