"""Zip archives of unknown origin, read within bounds, and the XML in them."""

from __future__ import annotations

import io
import posixpath
import zipfile
import zlib

from lxml import etree
from lxml.etree import _Element

from app.errors import Unparsable
from workers.parsing.refusals import refusal

_ENCRYPTED_PACKAGE = "EncryptedPackage".encode("utf-16-le")
_OLE = b"\xd0\xcf\x11\xe0"
_MEMBERS = 20_000
EXHAUSTED = (etree.ErrorTypes.ERR_NO_MEMORY, etree.ErrorTypes.ERR_RESOURCE_LIMIT)
_BROKEN = (zipfile.BadZipFile, zlib.error)


class Archive:
    """An opened archive. The sizes its directory states are upper bounds of what can be read."""

    def __init__(self, data: bytes, *, expanded: int) -> None:
        if data.startswith(_OLE):
            raise refusal("encrypted" if _ENCRYPTED_PACKAGE in data else "unsupported_type")
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(data))
        except (zipfile.BadZipFile, NotImplementedError, ValueError, OSError) as error:
            raise refusal("damaged") from error
        members = self._zip.infolist()
        if sum(member.file_size for member in members) > expanded or len(members) > _MEMBERS:
            raise refusal("bomb")
        if any(member.flag_bits & 1 for member in members):
            raise refusal("encrypted")
        self.names = frozenset(self._zip.namelist())

    def read(self, name: str) -> bytes:
        """Raises `Unparsable` (damaged) if the member is absent or broken."""
        try:
            return self._zip.read(name)
        except (KeyError, NotImplementedError, EOFError, OSError, *_BROKEN) as error:
            raise refusal("damaged") from error

    def xml(self, name: str) -> _Element:
        return xml(self.read(name))

    def relations(self, part: str) -> dict[str, tuple[str, str]]:
        """Relationship id -> (last word of its type, target part) of an Office part."""
        folder, base = posixpath.split(part)
        name = posixpath.join(folder, "_rels", base + ".rels")
        if name not in self.names:
            return {}
        found = {}
        for element in self.xml(name):
            if not isinstance(element.tag, str) or element.get("TargetMode") == "External":
                continue
            target = element.get("Target", "")
            path = target[1:] if target.startswith("/") else posixpath.join(folder, target)
            kind = element.get("Type", "").rpartition("/")[2]
            found[element.get("Id", "")] = (kind, posixpath.normpath(path))
        return found


def xml(data: bytes) -> _Element:
    """Entities stay unresolved, nothing is fetched, depth and size are bounded by libxml2."""
    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False,
        remove_comments=True, remove_pis=True,
    )  # fmt: skip
    try:
        return etree.fromstring(data, parser)
    except etree.XMLSyntaxError as error:
        raise unreadable(error) from error


def unreadable(error: etree.XMLSyntaxError) -> Unparsable:
    """libxml2 reports a failed allocation, and what passes its bounds, as syntax errors."""
    return refusal("too_complex" if getattr(error, "code", None) in EXHAUSTED else "damaged")


def local(element: _Element) -> str:
    """Name of an element without its namespace; "" for entity references."""
    tag = element.tag
    return tag.rpartition("}")[2] if isinstance(tag, str) else ""
