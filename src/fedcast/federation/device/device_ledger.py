"""The ledger of a device: what it sent, received, rejected and spent, in an SQLite file that survives a kill.

It is also what protects against replays (the sequence numbers of every head only grow) and against a server that asks
again and again (samples and ε that were given away stay counted over all runs).
"""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedcast.errors import FedcastError
from fedcast.federation.device.envelope import Contents, Envelope, RejectedError
from fedcast.federation.device.valid_names import shortened
from fedcast.sharing import DEFAULT_DELTA, Release, check_budget, total_epsilon

_TABLES = """
CREATE TABLE IF NOT EXISTS sent (sequence INTEGER PRIMARY KEY AUTOINCREMENT, at REAL, run TEXT UNIQUE, kind TEXT,
    count INTEGER, envelope TEXT, header BLOB);
CREATE TABLE IF NOT EXISTS revealed (sample BLOB PRIMARY KEY, sequence INTEGER) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS delivered (envelope TEXT, member TEXT, at REAL, receipt BLOB,
    PRIMARY KEY (envelope, member));
CREATE TABLE IF NOT EXISTS received (envelope TEXT PRIMARY KEY, at REAL, run TEXT, head TEXT, fingerprint TEXT,
    sequence INTEGER, kind TEXT, count INTEGER, UNIQUE (fingerprint, sequence));
CREATE TABLE IF NOT EXISTS spent (what TEXT PRIMARY KEY, at REAL, epsilon REAL, answer TEXT, mu REAL DEFAULT 0);
CREATE TABLE IF NOT EXISTS forgotten (envelope TEXT PRIMARY KEY, at REAL);
CREATE TABLE IF NOT EXISTS events (at REAL, event TEXT, peer TEXT, detail TEXT);
"""
_MOST_EVENTS = 10_000  # whoever reaches a device can cause one
_KEPT = "envelope NOT IN (SELECT envelope FROM forgotten)"


@dataclass(frozen=True)
class Entry:
    """One line of the ledger, for people: time by the clock of this device, what happened, with whom."""

    at: float
    event: str
    peer: str
    detail: str


class DeviceLedger:
    """The ledger of one device; its methods may be called by several threads."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = threading.RLock()
        try:
            # Handlers of messages run in threads of their own; the lock orders them.
            self._base = sqlite3.connect(self.path, check_same_thread=False, isolation_level=None)
            self._base.executescript(f"PRAGMA synchronous = FULL; BEGIN; {_TABLES} COMMIT;")
            if "mu" not in [row[1] for row in self._base.execute("PRAGMA table_info(spent)")]:  # an older ledger
                self._base.execute("ALTER TABLE spent ADD COLUMN mu REAL DEFAULT 0")
        except sqlite3.DatabaseError as error:
            raise FedcastError(f"{path}: not a readable ledger: {error}") from None

    def close(self) -> None:
        """Close the file."""
        self._base.close()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock, self._readable_errors():
            self._base.execute("BEGIN IMMEDIATE")
            try:
                yield self._base
                self._base.execute("COMMIT")
            except BaseException:
                if self._base.in_transaction:  # a full disk ends it by itself
                    self._base.execute("ROLLBACK")
                raise

    def _rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        with self._lock, self._readable_errors():
            return self._base.execute(query, values).fetchall()

    @contextmanager
    def _readable_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise FedcastError(f"{self.path}: {error}") from None

    # --- what a head sends

    def next_sequence(self) -> int:
        """Return the number of the next envelope, larger than that of any before."""
        ((last,),) = self._rows("SELECT COALESCE(MAX(seq), 0) FROM sqlite_sequence WHERE name = 'sent'")
        return int(last) + 1

    def revealed(self, samples: Iterable[bytes]) -> list[bool]:
        """Return of each sample, by its hash, whether other devices received it in any run."""
        known = {sample for (sample,) in self._rows("SELECT sample FROM revealed")}
        return [sample in known for sample in samples]

    def num_revealed(self) -> int:
        """Return how many different samples other devices received, all runs together."""
        ((count,),) = self._rows("SELECT COUNT(*) FROM revealed")
        return int(count)

    def record_sealed(self, envelope: Envelope, samples: Sequence[bytes]) -> None:
        """Record an envelope before any of it is sent: from now on its samples count as revealed."""
        contents = envelope.contents
        with self._transaction() as base:
            base.execute(
                "INSERT INTO sent VALUES (?, ?, ?, ?, ?, ?, ?)",
                (contents.sequence, time.time(), contents.run, contents.kind, contents.count, envelope.id,
                 envelope.header),
            )  # fmt: skip
            rows = ((sample, contents.sequence) for sample in samples)
            base.executemany("INSERT OR IGNORE INTO revealed VALUES (?, ?)", rows)

    def sealed_header(self, run: str) -> bytes | None:
        """Return the header of the envelope that this device sealed in a run."""
        rows = self._rows("SELECT header FROM sent WHERE run = ?", run)
        return bytes(rows[0][0]) if rows else None

    def record_delivered(self, envelope_id: str, member: str, receipt: bytes) -> None:
        """Record the receipt of a member."""
        with self._transaction() as base:
            row = (envelope_id, member, time.time(), receipt)
            base.execute("INSERT OR IGNORE INTO delivered VALUES (?, ?, ?, ?)", row)

    def delivered(self, envelope_id: str) -> set[str]:
        """Return the members that have an envelope."""
        return {name for (name,) in self._rows("SELECT member FROM delivered WHERE envelope = ?", envelope_id)}

    # --- what a member receives

    def has_received(self, envelope_id: str) -> bool:
        """Return whether all samples of an envelope are stored."""
        return bool(self._rows("SELECT 1 FROM received WHERE envelope = ?", envelope_id))

    def check_sequence(self, contents: Contents) -> None:
        """Reject an envelope that is not newer than all that its head sent before."""
        fingerprint = contents.head_keys.fingerprint
        ((last,),) = self._rows("SELECT COALESCE(MAX(sequence), 0) FROM received WHERE fingerprint = ?", fingerprint)
        if contents.sequence <= last:
            raise RejectedError(f"replay: sequence {contents.sequence} of {contents.head!r} is not above {last}")

    def record_received(self, envelope: Envelope) -> None:
        """Record an envelope all of whose samples are stored."""
        contents = envelope.contents
        with self._transaction() as base:
            self.check_sequence(contents)
            row = (envelope.id, time.time(), contents.run, contents.head, contents.head_keys.fingerprint,
                   contents.sequence, contents.kind, contents.count)  # fmt: skip
            base.execute("INSERT INTO received VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)

    def received_in(self, run: str) -> list[tuple[str, int]]:
        """Return id and number of samples of the envelopes that were received in a run, in a fixed order."""
        query = f"SELECT envelope, count FROM received WHERE run = ? AND {_KEPT} ORDER BY head, sequence"
        return [(str(envelope), int(count)) for envelope, count in self._rows(query, run)]

    def num_received(self, run: str, fingerprint: str) -> int:
        """Return how many samples a head sent in a run, also if they were forgotten since."""
        query = "SELECT COALESCE(SUM(count), 0) FROM received WHERE run = ? AND fingerprint = ?"
        ((count,),) = self._rows(query, run, fingerprint)
        return int(count)

    def runs_with_samples(self) -> dict[str, int]:
        """Return the runs whose received samples are still stored, oldest first, with their number."""
        query = f"SELECT run, SUM(count) FROM received WHERE {_KEPT} GROUP BY run ORDER BY MIN(at)"
        return {str(run): int(count) for run, count in self._rows(query)}

    def record_forgotten(self, run: str) -> None:
        """Record that the samples of a run are deleted here; that they were received stays known, against replays."""
        with self._transaction() as base:
            base.execute(
                f"INSERT INTO forgotten SELECT envelope, ? FROM received WHERE run = ? AND {_KEPT}", (time.time(), run)
            )

    def forgotten(self) -> list[str]:
        """Return the envelopes whose samples were deleted."""
        return [str(envelope) for (envelope,) in self._rows("SELECT envelope FROM forgotten")]

    # --- privacy budget, and events

    def spend(self, release: Release, budget: float | None, delta: float, answer: Any) -> Any:
        """Record an answer with differential privacy and return it; the same question gets the answer it got before.

        Answering anew would let a server average the noise away. Beyond the budget it is an error.
        """
        with self._transaction() as base:
            if rows := base.execute("SELECT answer FROM spent WHERE what = ?", (release.what,)).fetchall():
                return json.loads(rows[0][0])
            try:
                check_budget(self.releases(), release, budget, delta)
            except FedcastError as error:
                raise RejectedError(str(error)) from None
            row = (release.what, time.time(), release.epsilon, json.dumps(answer), release.mu)
            base.execute("INSERT INTO spent (what, at, epsilon, answer, mu) VALUES (?, ?, ?, ?, ?)", row)
            return answer

    def releases(self) -> list[Release]:
        """Return everything with differential privacy that this device ever released."""
        return [
            Release(str(what), mu, epsilon) for what, mu, epsilon in self._rows("SELECT what, mu, epsilon FROM spent")
        ]

    def epsilon_spent(self, delta: float = DEFAULT_DELTA) -> float:
        """Return ε of all releases together at this δ."""
        return total_epsilon(self.releases(), delta)

    def log(self, event: str, peer: str = "", detail: str = "") -> None:
        """Record an event, such as a rejected message; of very many the newest are kept."""
        with self._transaction() as base:
            row = (time.time(), event, shortened(peer), shortened(detail))
            last = base.execute("INSERT INTO events VALUES (?, ?, ?, ?)", row).lastrowid or 0
            base.execute("DELETE FROM events WHERE rowid <= ?", (last - _MOST_EVENTS,))

    def entries(self) -> list[Entry]:
        """Return everything that happened, oldest first."""
        rows = self._rows(
            "SELECT at, 'sealed', '', count || ' samples, run ' || run FROM sent UNION ALL "
            "SELECT delivered.at, 'sent', member, count || ' samples, run ' || run FROM delivered JOIN sent "
            "USING (envelope) UNION ALL "
            "SELECT at, 'received', head, count || ' samples, run ' || run FROM received UNION ALL "
            "SELECT at, 'answered', '', what || ' with epsilon ' || epsilon FROM spent WHERE mu = 0 UNION ALL "
            "SELECT at, 'released', '', what || ' with mu ' || mu FROM spent WHERE mu > 0 UNION ALL "
            "SELECT forgotten.at, 'deleted', head, count || ' samples, run ' || run FROM forgotten JOIN received "
            "USING (envelope) UNION ALL "
            "SELECT at, event, peer, detail FROM events ORDER BY 1"
        )
        return [Entry(*row) for row in rows]
