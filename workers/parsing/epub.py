"""EPUB: the chapters in reading order."""

from __future__ import annotations

import posixpath
from urllib.parse import unquote

from lxml.etree import _Element

from workers.parsing import html
from workers.parsing.archives import Archive, local
from workers.parsing.encodings import decode
from workers.parsing.layout import Builder, Limits, Parsed, is_blank
from workers.parsing.refusals import refusal

_CONTAINER = "META-INF/container.xml"
_ENCRYPTION = "META-INF/encryption.xml"
_FONTS = ("http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC")


def parse_epub(data: bytes, limits: Limits) -> Parsed:
    archive = Archive(data, expanded=limits.expanded_mb << 20)
    _refuse_locked(archive)
    rootfile = archive.xml(_CONTAINER).find(".//{*}rootfile")
    if rootfile is None:
        raise refusal("damaged")
    package_name = rootfile.get("full-path", "")
    package = archive.xml(package_name)
    builder = Builder(limits)
    titles = _contents(archive, package, package_name)
    for name in _chapters(package, package_name):
        if name not in archive.names:
            builder.warn(f"A chapter is missing from the file: {posixpath.basename(name)}.")
            continue
        _write(archive.read(name), titles.get(name, ""), builder)
    return builder.done(package.findtext(".//{http://purl.org/dc/elements/1.1/}title") or "")


def _refuse_locked(archive: Archive) -> None:
    """Obfuscated fonts are no obstacle; encrypted chapters are."""
    if _ENCRYPTION not in archive.names:
        return
    for method in archive.xml(_ENCRYPTION).iter("{*}EncryptionMethod"):
        if method.get("Algorithm", "") not in _FONTS:
            raise refusal("encrypted")


def _chapters(package: _Element, package_name: str) -> list[str]:
    items = {item.get("id", ""): item for item in package.iter("{*}item")}
    names = []
    for reference in package.iter("{*}itemref"):
        item = items.get(reference.get("idref", ""))
        if item is None or "nav" in item.get("properties", "").split():
            continue
        if "html" in item.get("media-type", ""):
            names.append(_path(package_name, item.get("href", "")))
    return names


def _contents(archive: Archive, package: _Element, package_name: str) -> dict[str, str]:
    """Chapter file -> its title in the table of contents (EPUB 3 or 2)."""
    titles: dict[str, str] = {}
    for item in package.iter("{*}item"):
        name = _path(package_name, item.get("href", ""))
        if name not in archive.names:
            continue
        if "nav" in item.get("properties", "").split():
            for link in html.tree(decode(archive.read(name)).text).iter("a"):
                titles.setdefault(
                    _path(name, link.get("href", "")), "".join(map(str, link.itertext()))
                )
        elif item.get("media-type") == "application/x-dtbncx+xml":
            for point in archive.xml(name).iter("{*}navPoint"):
                source = point.find("{*}content")
                if source is not None:
                    label = point.findtext("{*}navLabel/{*}text") or ""
                    titles.setdefault(_path(name, source.get("src", "")), label)
    return titles


def _path(base: str, href: str) -> str:
    path = unquote(href.partition("#")[0])
    return posixpath.normpath(posixpath.join(posixpath.dirname(base), path))


def _write(data: bytes, title: str, builder: Builder) -> None:
    text = decode(data).text
    if is_blank(text):
        return
    root = html.tree(text)
    body = root.find(".//body")
    body = root if body is None else body
    if title and not any(local(element) in ("h1", "h2", "h3") for element in body.iter()):
        builder.heading(title, 1)
    html.write(body, builder)
