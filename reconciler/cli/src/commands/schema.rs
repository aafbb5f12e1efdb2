//! `drydock schema`.

use std::path::PathBuf;

use anyhow::Context;
use drydock_spec::{schema::ANY, schemas};
use serde_json::Value;

use crate::exit::{Exit, Result};
use crate::ui::Ui;

const EXAMPLES: &str = "Examples:
  drydock schema                      the schema that takes a document of any kind
  drydock schema --out schemas        one file for each kind, and one for all
An editor with a YAML language server checks and completes documents when their first line is
  # yaml-language-server: $schema=PATH/drydock.schema.json";

/// What is typed.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Write one file for each kind into this folder.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Writes the schemas.
pub(crate) fn run(args: Args, ui: &Ui) -> Result {
    let files = schemas();
    let Some(folder) = args.out else {
        ui.json(files.get(ANY).unwrap_or(&Value::Null))?;
        return Ok(Exit::Ok);
    };
    std::fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    for (name, schema) in &files {
        let path = folder.join(name);
        let text = serde_json::to_string_pretty(schema).context("writing a schema as JSON")?;
        std::fs::write(&path, text + "\n").with_context(|| format!("writing {}", path.display()))?;
    }
    ui.note(&format!("wrote {} schemas into {}", files.len(), folder.display()));
    Ok(Exit::Ok)
}
