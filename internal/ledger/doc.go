// Package ledger keeps what is owed and what became of it. It is the sole writer of
// the tables owed, settled, attempts and workers.
//
// A delivery stands in exactly one of two tables: owed, the narrow hot row that claims
// touch, or settled, the append-only past. Every write to an owed row by a worker is a
// compare-and-set on the fence of its claim (id, claimed_by, claimed_at): a worker whose
// claim was lost changes nothing (P5).
//
// The three hot statements (owe, claim, record) work on arrays, one statement a batch.
// Their plans are pinned to index nested loops, see [Pin]: on freshly filled tables the
// planner's estimates are wrong by orders of magnitude and it chooses plans that scan.
package ledger
