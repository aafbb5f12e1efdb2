//! The journal: changes since the pages were written, one line of JSON a commit, each line a gzip member of its own, so
//! that appending doesn't compress again what is there.

use std::io::{BufRead, BufReader, Read, Write};

use drydock_plan::{Ledger, LedgerChange};
use flate2::{Compression, read::MultiGzDecoder, write::GzEncoder};

use super::LedgerError;

/// Largest compressed journal, in bytes. It travels whole with every commit, and etcd keeps every version of it for five
/// minutes; the head must stay far below the 1 MiB that a ConfigMap may hold.
pub(super) const JOURNAL_MAX: usize = 384 << 10;

/// The largest ledger that is read, in bytes of JSON: 30,000 nodes with full records are about 100 MB.
pub(super) const LEDGER_MAX: usize = 512 << 20;

/// Compresses.
pub(super) fn pack(bytes: &[u8]) -> Result<Vec<u8>, LedgerError> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    let packed = encoder.write_all(bytes).and_then(|()| encoder.finish());
    packed.map_err(|error| LedgerError::damaged("what is to be written", error))
}

/// Uncompresses at most `max` bytes.
pub(super) fn unpack(bytes: &[u8], max: usize, what: &str) -> Result<Vec<u8>, LedgerError> {
    let mut out = Vec::new();
    let limit = u64::try_from(max).unwrap_or(u64::MAX).saturating_add(1);
    let read = MultiGzDecoder::new(bytes).take(limit).read_to_end(&mut out);
    read.map_err(|error| LedgerError::damaged(what, error))?;
    if out.len() > max {
        return Err(LedgerError::damaged(what, format!("it holds more than {max} bytes")));
    }
    Ok(out)
}

/// The journal with one commit more.
pub(super) fn append(journal: &[u8], changes: &[LedgerChange]) -> Result<Vec<u8>, LedgerError> {
    let mut line =
        serde_json::to_vec(changes).map_err(|e| LedgerError::damaged("a change of the ledger", e))?;
    line.push(b'\n');
    let mut longer = journal.to_vec();
    longer.extend(pack(&line)?);
    Ok(longer)
}

/// Applies a journal.
pub(super) fn replay(ledger: &mut Ledger, journal: &[u8]) -> Result<(), LedgerError> {
    let what = "the journal of the ledger";
    if journal.is_empty() {
        return Ok(());
    }
    let reader = MultiGzDecoder::new(journal).take(u64::try_from(LEDGER_MAX).unwrap_or(u64::MAX));
    for line in BufReader::new(reader).lines() {
        let line = line.map_err(|error| LedgerError::damaged(what, error))?;
        let changes: Vec<LedgerChange> =
            serde_json::from_str(&line).map_err(|error| LedgerError::damaged(what, error))?;
        changes.into_iter().for_each(|change| ledger.apply(change));
    }
    Ok(())
}

/// The whole ledger, compressed.
pub(super) fn snapshot(ledger: &Ledger) -> Result<Vec<u8>, LedgerError> {
    let bytes = serde_json::to_vec(ledger).map_err(|error| LedgerError::damaged("the ledger", error))?;
    if bytes.len() > LEDGER_MAX {
        return Err(LedgerError::TooLarge { what: "the ledger", bytes: bytes.len(), max: LEDGER_MAX });
    }
    pack(&bytes)
}

/// The other way round.
pub(super) fn read_snapshot(bytes: &[u8]) -> Result<Ledger, LedgerError> {
    let what = "the ledger in its pages";
    let bytes = unpack(bytes, LEDGER_MAX, what)?;
    serde_json::from_slice(&bytes).map_err(|error| LedgerError::damaged(what, error))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use drydock_plan::{NodeId, NodeRecord};

    #[test]
    fn a_journal_says_what_was_applied() {
        let change = |n: u32| {
            let record = NodeRecord { incidents: n, ..NodeRecord::default() };
            LedgerChange::Node(NodeId::new(&format!("c/n{n}")), Box::new(record))
        };
        let commits = [
            vec![change(1), change(2)],
            vec![],
            vec![change(3), LedgerChange::ForgetNode(NodeId::new("c/n1"))],
        ];
        let (mut ledger, mut journal) = (Ledger::default(), Vec::new());
        for changes in commits {
            journal = append(&journal, &changes).unwrap();
            changes.into_iter().for_each(|change| ledger.apply(change));
        }
        let mut read = Ledger::default();
        replay(&mut read, &journal).unwrap();
        assert_eq!(read, ledger);
        assert_eq!(read_snapshot(&snapshot(&ledger).unwrap()).unwrap(), ledger);
        // Cut short, it isn't believed as far as it goes.
        assert!(replay(&mut Ledger::default(), &journal[..journal.len() - 9]).is_err());
    }

    #[test]
    fn what_grows_beyond_measure_is_refused() {
        let packed = pack(&vec![b'a'; 100_000]).unwrap();
        assert!(unpack(&packed, 99_999, "it").is_err());
        assert_eq!(unpack(&packed, 100_000, "it").unwrap().len(), 100_000);
    }
}
