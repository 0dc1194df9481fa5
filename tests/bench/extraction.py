"""How well the built-in extractor and answerer agree with what models and people wrote.

Run `python -m tests.bench.extraction [set ...]`; the data is found by HELIOGRAPH_SHARED.
Names are compared after case, diacritics, determiner and plural: *exact* means equal, *soft* one to
one with a token F1 of at least 0.65. `pairs` is the share of the gold pairs with an edge here.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.domain import Chunk, Context, Extraction, Question, Source
from app.names import key, spans
from app.ports import Embedder
from app.rules.answerer import RuleAnswerer
from app.rules.embedder import LocalEmbedder
from app.rules.extractor import extract
from app.terms import terms

SETS = ("musique-train", "graphrag-bench-medical", "covid-review-lightrag", "christmas-carol")
WALKED = ("2wiki-101", "hotpotqa-train", "musique-train")
ANSWERED = ("popqa", "hotpotqa-train", "musique-train", "lihua-world")
_DATE = re.compile(
    r"^[\d\s,./:%$-]+$|\b(?:1\d{3}|20\d\d)s?$|\b(?:january|february|march|april|may|june|july|august"
    r"|september|october|november|december)\b.*\d|\d.*\b(?:century|years?|days?|million|percent)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Score:
    """Shares in per cent; `speed` in chunks per CPU-second."""

    precision: float
    recall: float
    soft: float
    exact: float
    pairs: float
    found: float
    gold: float
    speed: float

    def __str__(self) -> str:
        return (
            f"P {self.precision:5.1f}  R {self.recall:5.1f}  F soft {self.soft:5.1f}"
            f"  exact {self.exact:5.1f}  pairs {self.pairs:5.1f}"
            f"  entities {self.found:4.1f}/{self.gold:4.1f}  {self.speed:6.1f} chunks/CPU-s"
        )


def shared() -> Path:
    default = Path(__file__).parents[3] / "shared"
    return Path(os.environ.get("HELIOGRAPH_SHARED", default)) / "data"


def rows(name: str, file: str = "corpus") -> list[dict[str, Any]]:
    with gzip.open(shared() / name / f"{file}.jsonl.gz", "rt", encoding="utf-8") as lines:
        found = [json.loads(line) for line in lines]
    if name == "covid-review-lightrag" and file == "corpus":
        for row in found:  # line ends were escaped twice when the set was made
            row["text"] = row["text"].replace("\\n", "\n").replace('\\"', '"')
    return found


def normal(name: str) -> str:
    words = key(name).lstrip("^").split()
    return " ".join(word[:-1] if len(word) > 3 and word.endswith("s") else word for word in words)


def f1(one: str, other: str) -> float:
    a, b = Counter(one.split()), Counter(other.split())
    common = (a & b).total()
    return 2 * common / (a.total() + b.total()) if common else 0.0


def matched(gold: Sequence[str], found: Sequence[str], *, soft: bool) -> dict[str, str]:
    """Gold name to found name, one to one, best first."""
    links = [
        (1.0 if one == other else f1(one, other), one, other)
        for one in gold
        for other in found
        if one == other or (soft and f1(one, other) >= 0.65)
    ]
    taken: dict[str, str] = {}
    used: set[str] = set()
    for _, one, other in sorted(links, key=lambda link: (-link[0], link[1], link[2])):
        if one not in taken and other not in used:
            taken[one] = other
            used.add(other)
    return taken


def measure(passages: Iterable[dict[str, Any]]) -> Score:
    found_n = gold_n = soft_n = exact_n = pair_n = pair_hit = chunks = 0
    cpu = 0.0
    for passage in passages:
        begin = time.process_time()
        extraction = extract(passage.get("title") or "", (), passage["text"])
        cpu += time.process_time() - begin
        chunks += 1
        gold = sorted({normal(n) for n in passage["entities"] if n and not _DATE.search(n)})
        found = sorted({normal(entity.name) for entity in extraction.entities})
        soft = matched(gold, found, soft=True)
        gold_n, found_n, soft_n = gold_n + len(gold), found_n + len(found), soft_n + len(soft)
        exact_n += len(matched(gold, found, soft=False))
        hits, total = _pairs(passage, extraction)
        pair_hit, pair_n = pair_hit + hits, pair_n + total
    precision, recall = soft_n / max(found_n, 1), soft_n / max(gold_n, 1)
    return Score(
        100 * precision, 100 * recall, 200 * soft_n / max(found_n + gold_n, 1),
        200 * exact_n / max(found_n + gold_n, 1), 100 * pair_hit / max(pair_n, 1),
        found_n / max(chunks, 1), gold_n / max(chunks, 1), chunks / max(cpu, 1e-9),
    )  # fmt: skip


def _pairs(passage: dict[str, Any], extraction: Extraction) -> tuple[int, int]:
    triples = [
        t for t in passage["triples"] if len(t) == 3 and not any(_DATE.search(t[n]) for n in (0, 2))
    ]
    gold = {frozenset((normal(t[0]), normal(t[2]))) for t in triples}
    gold = {pair for pair in gold if len(pair) == 2}
    names = sorted({name for pair in gold for name in pair})
    found = sorted({normal(entity.name) for entity in extraction.entities})
    link = {
        name: [other for other in found if name == other or f1(name, other) >= 0.65]
        for name in names
    }
    edges = {frozenset((normal(r.source), normal(r.target))) for r in extraction.relations}
    hits = 0
    for pair in gold:
        one, other = sorted(pair)
        hits += any(frozenset((a, b)) in edges for a in link[one] for b in link[other])
    return hits, len(gold)


# --- retrieval -----------------------------------------------------------------------------------

DAMPING, STEPS = 0.6, 30


def walk_recall(name: str) -> float:
    """Recall@5 of personalised PageRank over the graph of the rules alone: entity-passage edges
    (title 2, else 1), relation edges of 0.3 x strength / 10, seeds by the question's names."""
    passages = [row for row in rows(name) if row.get("subset101", True)]
    graph = _Graph(passages)
    recalls = []
    for question in rows(name, "questions"):
        gold = set(question["gold_passage_ids"])
        if gold:
            best = graph.ranked(question["question"])[:5]
            recalls.append(len(gold & set(best)) / len(gold))
    return 100 * sum(recalls) / len(recalls)


class _Graph:
    def __init__(self, passages: Sequence[dict[str, Any]]) -> None:
        self.edges: dict[str, dict[str, float]] = {}
        self.names: dict[str, set[str]] = {}
        for passage in passages:
            node = "\t" + passage["id"]
            extraction = extract(passage["title"], (), passage["text"])
            title = key(passage["title"])
            for entity in extraction.entities:
                own = key(entity.name)
                titled = title in {own, *map(key, entity.aliases)}
                self._link(node, own, 2.0 if titled else 1.0)
                for alias in (entity.name, *entity.aliases):
                    self.names.setdefault(key(alias), set()).add(own)
            for relation in extraction.relations:
                one, other = key(relation.source), key(relation.target)
                self._link(one, other, 0.3 * relation.strength / 10)

    def _link(self, one: str, other: str, weight: float) -> None:
        for a, b in ((one, other), (other, one)):
            row = self.edges.setdefault(a, {})
            row[b] = row.get(b, 0.0) + weight

    def ranked(self, question: str) -> list[str]:
        seeds = self._seeds(question)
        mass = dict(seeds)
        for _ in range(STEPS):
            following = {node: (1 - DAMPING) * weight for node, weight in seeds.items()}
            for node, value in mass.items():
                row = self.edges[node]
                share = DAMPING * value / sum(row.values())
                for other, weight in row.items():
                    following[other] = following.get(other, 0.0) + share * weight
            mass = following
        found = [node for node in mass if node.startswith("\t")]
        return [node[1:] for node in sorted(found, key=lambda node: (-mass[node], node))]

    def _seeds(self, question: str) -> dict[str, float]:
        seeds: dict[str, float] = {}
        taken: set[int] = set()
        for span in sorted(spans(question, longest=7), key=lambda s: (-s.words, s.start, -s.end)):
            places = range(span.start, span.end)
            named = self.names.get(span.key, ())
            if not named or taken.intersection(places) or (span.words == 1 and not span.bare):
                continue
            taken.update(places)
            for node in named:
                passages = sum(other.startswith("\t") for other in self.edges[node])
                seeds[node] = seeds.get(node, 0.0) + (span.words / passages) ** 0.5
        whole = sum(seeds.values())
        return {node: weight / whole for node, weight in sorted(seeds.items())}


# --- Chinese -------------------------------------------------------------------------------------

# Persons and places of the first five chapters of Three Kingdoms.
_CHINESE = """
刘备 玄德 刘玄德 关羽 云长 关公 张飞 张翼德 曹操 孟德 董卓 吕布 袁绍 袁术
孙坚 何进 何太后 董太后 张让 段珪 蹇硕 张角 张宝 张梁 卢植 皇甫嵩 朱儁 刘焉
邹靖 程远志 邓茂 龚景 丁原 李儒 李肃 陈宫 吕伯奢 王允 蔡邕 华雄 公孙瓒 陶谦
孔融 马腾 刘岱 张邈 鲍信 鲍忠 韩馥 孔伷 乔瑁 袁遗 张超 张杨 程普 黄盖 韩当
祖茂 胡轸 李典 乐进 夏侯惇 夏侯渊 曹仁 曹洪 曹嵩 卫弘 潘凤 俞涉 穆顺 武安国
何苗 赵忠 封谞 郭胜 丁管 伍孚 唐妃 窦武 陈蕃 曹节 刘恢 张钧 刘陶 陈耽 韩忠
赵弘 孙仲 张世平 苏双 刘虞 许劭 何顒 桥玄 左丰 崔毅 闵贡 潘隐 郑泰 周毖
伍琼 陈留王 弘农王 献帝 洛阳 涿郡 涿县 颍川 广宗 青州 幽州 冀州 渤海 西凉
长沙 汜水关 虎牢关 陈留 南阳 荆州 徐州 北海 上党 河内 安喜县 平原 代州 谯郡
阳城 宛城 曲阳 长社 北邙山 下邳 桃园
"""
CHINESE = frozenset(_CHINESE.split())


def chinese_recall() -> float:
    """Share of the listed names in each chunk of 900 characters that are entities of the chunk."""
    text = (shared() / "texts" / "three-kingdoms-chapters-1-5.txt").read_text(encoding="utf-8")
    hits = total = 0
    for start in range(0, len(text), 900):
        chunk = text[start : start + 900]
        longer = [name for name in CHINESE if name in chunk]
        gold = {
            n
            for n in longer
            if chunk.count(n) > sum(chunk.count(m) for m in longer if n in m and n != m)
        }
        found = {entity.name for entity in extract("", (), chunk).entities}
        hits, total = hits + len(gold & found), total + len(gold)
    return 100 * hits / total


# --- answers -------------------------------------------------------------------------------------


async def answered(name: str, embedder: Embedder) -> tuple[float, float, int]:
    """Share of the questions whose gold string stands in the answer and in its first sentence, on
    gold passages (yes and no left out), and their number."""
    passages = {row["id"]: row for row in rows(name)}
    answerer = RuleAnswerer(embedder)
    hits = first_hits = count = 0
    for question in rows(name, "questions"):
        golds = _golds(question, short=name == "lihua-world")
        ids = question["gold_passage_ids"]
        if not golds or not ids:
            continue
        text = await _reply(answerer, question["question"], [passages[i] for i in ids])
        lines = text.split("\n\n")
        count += 1
        hits += _holds("\n".join(lines[1:]), golds)
        first_hits += _holds(lines[1].split("]")[0] if len(lines) > 1 else "", golds)
    return 100 * hits / max(count, 1), 100 * first_hits / max(count, 1), count


async def _reply(answerer: RuleAnswerer, text: str, found: Sequence[dict[str, Any]]) -> str:
    parts = [p async for p in answerer.answer(Question(text), context_of(found))]
    return "".join(part for part in parts if isinstance(part, str))


def context_of(found: Sequence[dict[str, Any]]) -> Context:
    sources = [
        Source(n, Chunk(p["id"], p["id"], 0, 0, len(p["text"]), p["text"], 0), p["title"], "", 1.0)
        for n, p in enumerate(found, start=1)
    ]
    return Context(sources=tuple(sources))


def _golds(question: dict[str, Any], *, short: bool) -> list[str]:
    answer = question.get("answers") or question.get("answer") or []
    golds = [answer] if isinstance(answer, str) else list(answer)
    golds += question.get("answer_aliases") or []
    golds = [gold for gold in golds if gold and gold.lower() not in ("yes", "no")]
    return [gold for gold in golds if not short or len(gold.split()) <= 4]


def _holds(text: str, golds: Sequence[str]) -> bool:
    plain = f" {' '.join(terms(text))} "
    return any(f" {' '.join(terms(gold))} " in plain for gold in golds)


async def _print_answers(names: Sequence[str]) -> None:
    embedder = LocalEmbedder()
    for name in names:
        whole, first, count = await answered(name, embedder)
        print(f"{name:24} answer {whole:5.1f}  first {first:5.1f}  of {count}", flush=True)


def main(names: Sequence[str]) -> None:
    for name in names or SETS:
        if name in SETS:
            print(f"{name:24} {measure(rows(name))}", flush=True)
    if not names:
        for name in WALKED:
            print(f"{name:24} walk recall@5 {walk_recall(name):5.1f}", flush=True)
        print(f"three-kingdoms           names {chinese_recall():5.1f}")
    asyncio.run(_print_answers([name for name in names or ANSWERED if name in ANSWERED]))


if __name__ == "__main__":
    main(sys.argv[1:])
