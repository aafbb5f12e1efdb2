//! stub
use crate::exit::Result;
use crate::ui::Ui;
/// What is typed.
#[derive(Debug, clap::Args)]
pub(crate) struct ApproveArgs {}
/// What is typed.
#[derive(Debug, clap::Args)]
pub(crate) struct RolloutArgs {}
/// What is typed.
#[derive(Debug, clap::Args)]
pub(crate) struct AbortArgs {}
/// What is typed.
#[derive(Debug, clap::Args)]
pub(crate) struct RetryArgs {}
/// What is typed.
#[derive(Debug, clap::Args)]
pub(crate) struct SkipArgs {}
pub(crate) fn approve(_: ApproveArgs, _: &Ui) -> Result { Ok(crate::exit::Exit::Ok) }
pub(crate) fn pause(_: RolloutArgs, _: &Ui) -> Result { Ok(crate::exit::Exit::Ok) }
pub(crate) fn resume(_: RolloutArgs, _: &Ui) -> Result { Ok(crate::exit::Exit::Ok) }
pub(crate) fn abort(_: AbortArgs, _: &Ui) -> Result { Ok(crate::exit::Exit::Ok) }
pub(crate) fn retry(_: RetryArgs, _: &Ui) -> Result { Ok(crate::exit::Exit::Ok) }
pub(crate) fn skip(_: SkipArgs, _: &Ui) -> Result { Ok(crate::exit::Exit::Ok) }
