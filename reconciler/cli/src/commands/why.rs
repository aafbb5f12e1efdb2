//! stub
use crate::exit::Result;
use crate::ui::Ui;
/// What is typed.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}
pub(crate) fn run(_: Args, _: &Ui) -> Result { Ok(crate::exit::Exit::Ok) }
