"""Licences of all that a service is installed with. `python -m tests.rules.test_licences` writes
`docs/licences.md` anew from the packages installed here; run it after `make lock`."""

from __future__ import annotations

import re
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOCK = ROOT / "requirements.lock"
TABLE = ROOT / "docs" / "licences.md"
HEAD = """# Licences

What a service is installed with (`requirements.lock`) and the licence that each package states.
None is under the GPL or AGPL; a test (`tests/rules/test_licences.py`, which also writes this page)
holds it so. Compiled packages bring the notices of the libraries within them in their own
`*.dist-info/licenses`. Heliograph itself: Apache-2.0.

| package | licence |
| --- | --- |
"""
_COPYLEFT = re.compile(r"(?<![\w-])A?GPL|GNU (?:Affero )?General Public", re.I)
_EXCEPTION = re.compile(r"GPL\S*[ -]with[ -]\S*exception\S*", re.I)  # of compilers' libraries


def locked() -> list[str]:
    """Names, twice where another version of Python gets another version."""
    return sorted(re.findall(r"^([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==", LOCK.read_text(), re.M))


def installed(name: str) -> Distribution | None:
    """None for what only other systems or versions of Python need."""
    try:
        return distribution(name)
    except PackageNotFoundError:
        return None


def licence_of(package: Distribution) -> str:
    """An SPDX expression, else a short free text, else the classifiers, else the first words."""
    stated = package.metadata.get("License-Expression")
    free = (package.metadata.get("License") or "").strip()
    classifiers = [
        one.rpartition(" :: ")[2]
        for one in package.metadata.get_all("Classifier") or ()
        if one.startswith("License :: ")
    ]
    short = free if "\n" not in free and len(free) < 60 else ""
    return stated or short or ", ".join(classifiers) or free.partition("\n")[0]


def refused(licence: str) -> bool:
    """Of licences to choose from, one that is no GPL is enough."""
    choices = re.split(r"\bOR\b", _EXCEPTION.sub("", licence))
    return all(_COPYLEFT.search(choice) for choice in choices)


def listed() -> dict[str, str]:
    return dict(re.findall(r"^\| (\S+) \| (.+) \|$", TABLE.read_text(), re.M)[2:])


@pytest.mark.parametrize(
    ("licence", "expected"),
    [
        ("GPL-3.0-only", True),
        ("AGPL-3.0-or-later", True),
        ("GNU General Public License v3 (GPLv3)", True),
        ("MIT AND GPL-2.0", True),
        ("GPL-2.0 OR AGPL-3.0", True),
        ("MIT OR GPL-2.0", False),
        ("BSD-3-Clause AND GPL-3.0-with-GCC-exception", False),
        ("LGPL-3.0", False),
        ("MPL-2.0 AND (Apache-2.0 OR MIT)", False),
    ],
)
def test_only_what_leaves_no_choice_but_gpl_is_refused(licence: str, expected: bool) -> None:
    assert refused(licence) is expected


def test_no_requirement_is_under_the_gpl_and_each_states_its_licence() -> None:
    found = {name: licence_of(package) for name in locked() if (package := installed(name))}
    assert len(found) > 40
    assert {name: licence for name, licence in found.items() if refused(licence)} == {}
    assert [name for name, licence in found.items() if not licence] == []


def test_the_table_lists_every_requirement_with_its_licence() -> None:
    table, names = listed(), locked()
    assert sorted(table) == sorted(set(names)), "run python -m tests.rules.test_licences"
    for name, licence in table.items():
        assert not refused(licence), name
        if names.count(name) == 1 and (package := installed(name)):
            assert licence == licence_of(package), name


def main() -> None:
    known = listed() if TABLE.exists() else {}
    rows = []
    for name in sorted(set(locked())):
        package = installed(name)
        rows.append(f"| {name} | {licence_of(package) if package else known.get(name, '?')} |\n")
    TABLE.write_text(HEAD + "".join(rows))


if __name__ == "__main__":
    main()
