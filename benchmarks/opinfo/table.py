"""What a sweep found, as tables: by family, and what is not whole by reason."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

from benchmarks.opinfo.samples import APART, family

_ORDER = {"none": 0, "whole": 1, "part": 2, "crash": 3, "wrong": 4}


def worst(records: Iterable[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    """The worst record of each (operator, dtype)."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for record in records:
        key = record["op"], record["dtype"]
        if record["verdict"] != "end" and (key not in found or _ORDER[record["verdict"]] > _ORDER[found[key]["verdict"]]):
            found[key] = record
    return found


def by_family(records: list[dict[str, Any]]) -> str:
    """A table with the share of the operators all of whose samples run whole, in float32 and in all dtypes."""
    found = worst(records)
    operators: dict[str, dict[str, str]] = defaultdict(dict)
    for (name, dtype), record in found.items():
        if record["verdict"] != "none":
            operators[name][dtype] = record["verdict"]
    samples = Counter((family(r["op"]), r["verdict"]) for r in records)
    rows = defaultdict(list)
    for name in operators:
        rows[family(name)].append(name)
    lines = ["| family | operators | whole in float32 | whole in all dtypes | samples | whole | in part | crash | wrong |", "|" + " --- |" * 9]

    def row(title: str, names: list[str], families: set[str]) -> str:
        first = [operators[n].get("float32", next(iter(operators[n].values()))) for n in names]
        whole = sum(v == "whole" for v in first), sum(all(v == "whole" for v in operators[n].values()) for n in names)
        counts = {v: sum(samples[f, v] for f in families) for v in _ORDER}
        shares = [f"{w} ({100 * w / max(1, len(names)):.0f}%)" for w in whole]
        total = sum(counts.values()) - counts["none"]
        cells = [title, len(names), *shares, total, counts["whole"], counts["part"], counts["crash"], counts["wrong"]]
        return "| " + " | ".join(map(str, cells)) + " |"

    for title in sorted(rows, key=lambda f: -len(rows[f])):
        lines.append(row(title, rows[title], {title}))
    inside = [n for f, names in rows.items() if f not in APART for n in names]
    lines.append(row(f"all but {', '.join(APART)}", inside, {f for f in rows if f not in APART}))
    lines.append(row("all", list(operators), set(rows)))
    return "\n".join(lines)


def by_reason(records: list[dict[str, Any]], verdict: str) -> str:
    """The (operator, dtype)s with ``verdict``, each with its reason."""
    lines = [f"{name} {dtype}: {r['detail']}" for (name, dtype), r in worst(records).items() if r["verdict"] == verdict]
    return "\n".join(lines)
