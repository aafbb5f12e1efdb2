//! `drydock schema`.

use std::path::PathBuf;

use anyhow::Context;
use drydock_api::crd::definitions;
use drydock_spec::{schema::ANY, schemas, yaml};
use serde_json::Value;

use crate::exit::{Exit, Result};
use crate::ui::Ui;

const EXAMPLES: &str = "Examples:
  drydock schema                      the schema that takes a document of any kind
  drydock schema --out schemas        one file for each kind, and one for all; definitions of drydock's own custom
                                      resources below crds/
  drydock schema --crds | kubectl apply -f -
An editor with a YAML language server checks and completes documents when their first line is
  # yaml-language-server: $schema=PATH/drydock.schema.json";

/// What is typed.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Write one file for each kind into this folder.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print the definitions of GpuNode and Rollout, for `kubectl apply -f -`.
    #[arg(long, conflicts_with = "out")]
    crds: bool,
}

/// Writes the schemas.
pub(crate) fn run(args: Args, ui: &Ui) -> Result {
    if args.crds {
        let text = yaml::to_string_all(definitions()).context("writing the definitions as YAML")?;
        ui.print(text.trim_end())?;
        return Ok(Exit::Ok);
    }
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
    let folder_of_crds = folder.join("crds");
    std::fs::create_dir_all(&folder_of_crds)
        .with_context(|| format!("creating {}", folder_of_crds.display()))?;
    let definitions = definitions();
    for definition in &definitions {
        let name = definition.metadata.name.as_deref().unwrap_or_default();
        let path = folder_of_crds.join(format!("{name}.yaml"));
        let text = yaml::to_string(definition).context("writing a definition as YAML")?;
        std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
    }
    let (schemas, crds) = (files.len(), definitions.len());
    ui.note(&format!("wrote {schemas} schemas and {crds} definitions into {}", folder.display()));
    Ok(Exit::Ok)
}
