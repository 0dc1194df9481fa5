"""The replaying model: what large models said of passages becomes a graph of the whole service."""

from __future__ import annotations

import base64
import json
import struct
from collections import Counter
from pathlib import Path

import httpx
import pytest

from app.llm.reader import read_extraction
from app.rules.embedder import LocalEmbedder
from app.rules.extractor import extract
from tests.bench.extraction import rows
from tests.bench.replay.answers import NotRecorded, Replay
from tests.bench.replay.process import replaying, settings
from tests.bench.replay.recordings import Library, Passage, library
from tests.system.stack import embedded

pytestmark = [pytest.mark.shared, pytest.mark.usefixtures("shared_dir")]

FENCE = "```"
OURS = "# Extract entities and relations from a text"
LIGHTRAG = "You are a Knowledge Graph Specialist. Use <|#|> as delimiter."


def asked(text: str, *, system: str = OURS, title: str = "") -> list[dict[str, str]]:
    place = f"{FENCE}text\nTitle: {title}\n{FENCE}\n" if title else ""
    user = f"{place}---Input Text---\n{FENCE}text\n{text}\n{FENCE}\n"
    return [{"role": "system", "content": system}, {"role": "user", "content": user}]


@pytest.fixture(scope="module")
def replay() -> Replay:
    return Replay(library(["musique-train", "graphrag-bench-medical", "covid-review-lightrag"]))


async def test_all_recorded_triples_can_be_read_but_those_without_an_end(replay: Replay) -> None:
    kept, dropped, ends, triples = 0, Counter[str](), 0, 0
    for row in rows("musique-train"):
        reading = read_extraction(await replay.answer(asked(row["text"])))
        kept, dropped = kept + len(reading.relations), dropped + reading.dropped
        triples += len(row["triples"])
        ends += sum(len(triple) == 2 for triple in row["triples"])
    assert ends == 70  # pairs, as the model wrote them; 115 longer ones are made triples
    assert ends <= dropped["relation end: no name"] <= ends + 10
    # The reader takes no date or number for a thing; what is left are loops and exact repeats.
    assert 1400 < dropped["relation end: date or number"] < 1600
    gone = sum(n for why, n in dropped.items() if why.startswith(("relation", "self loop")))
    assert triples - 40 <= kept + gone <= triples, (kept, triples, dropped)


async def test_both_formats_tell_the_same(replay: Replay) -> None:
    for row in rows("graphrag-bench-medical")[:20]:
        ours = read_extraction(await replay.answer(asked(row["text"])))
        theirs = read_extraction(await replay.answer(asked(row["text"], system=LIGHTRAG)))
        assert {e.name for e in ours.entities} == {e.name for e in theirs.entities}
        assert [(r.source, r.target) for r in ours.relations] == [
            (r.source, r.target) for r in theirs.relations
        ]


async def test_raw_replies_come_as_they_were_written(replay: Replay) -> None:
    replies = {
        row["chunk_id"]: row["response"]
        for row in rows("covid-review-lightrag", "llm_responses")
        if row["kind"] == "extraction"
    }
    for row in rows("covid-review-lightrag"):
        assert await replay.answer(asked(row["text"], system=LIGHTRAG)) == replies[row["id"]]


async def test_a_passage_is_found_with_its_title_above_and_with_its_end_cut_off(
    replay: Replay,
) -> None:
    row = next(row for row in rows("musique-train") if len(row["text"]) > 600)
    whole = await replay.answer(asked(row["text"]))
    assert await replay.answer(asked(f"{row['title']}\n{row['text']}")) == whole
    assert await replay.answer(asked(row["text"][:500])) == whole


async def test_a_passage_without_a_recording_is_read_by_the_built_in_extractor() -> None:
    books = Library()
    books.add(Passage("p1", "Marley", "Marley was the partner of Ebenezer Scrooge in London."))
    replay = Replay(books)
    text = "Marley was the partner of Ebenezer Scrooge in London."
    found = extract("Marley", (), text)
    names = {entity.name for entity in found.entities}
    ours = read_extraction(await replay.answer(asked(text, title="Marley")))
    theirs = read_extraction(await replay.answer(asked(f"Marley\n{text}", system=LIGHTRAG)))
    assert {e.name for e in ours.entities} == {e.name for e in theirs.entities} == names


async def test_sub_questions_come_from_the_set_and_answers_only_with_their_passage(
    replay: Replay,
) -> None:
    row = rows("musique-train", "questions")[0]
    system = "# Turn a question into search queries\nWrite #1 for the first answer."
    reply = await replay.answer(
        [{"role": "system", "content": system}, {"role": "user", "content": row["question"]}]
    )
    first, second = json.loads(reply)["queries"]
    assert "#1" in second
    system = "# Find a short answer in passages"
    for passages, answer in (("Nothing.", ""), (row["decomposition"][0]["answer"], None)):
        user = f"{passages}\n\nQuestion:\n{FENCE}text\n{first}\n{FENCE}"
        reply = await replay.answer(
            [{"role": "system", "content": system}, {"role": "user", "content": user}]
        )
        wanted = row["decomposition"][0]["answer"] if answer is None else answer
        assert json.loads(reply)["answer"] == wanted


async def test_what_no_model_said_is_not_made_up(replay: Replay) -> None:
    system = "# Write passages that could answer a question"
    with pytest.raises(NotRecorded):
        await replay.answer(
            [{"role": "system", "content": system}, {"role": "user", "content": "Why?"}]
        )


def test_the_service_builds_the_recorded_graph_with_vectors_over_the_wire(tmp_path: Path) -> None:
    some = rows("musique-train")[:24]
    with replaying(["musique-train"]) as url:
        told = settings(url, embeddings=True)
        with embedded(tmp_path, told) as service:
            service.add(*({"id": r["id"], "name": r["title"], "text": r["text"]} for r in some))
            assert service.wait_idle()["ready"] == len(some)
            names = {name.casefold() for name in service.entities()}
            reply = service.query(
                rows("musique-train", "questions")[0]["question"], only_context=True
            )
        stats = httpx.get(f"{url}/stats").json()
        with httpx.Client(base_url=url) as client:
            streamed = client.post(
                "/v1/chat/completions",
                json={"model": "replay", "stream": True, "messages": asked(some[0]["text"])},
            )
            refused = client.post(
                "/v1/chat/completions",
                json={"model": "replay", "messages": [{"role": "user", "content": "Hello"}]},
            )
    assert stats["found"] == {"exact": len(some)}
    recorded = {name.casefold() for row in some for name in row["entities"]}
    assert len(recorded & names) > 0.8 * len(recorded)
    found = [chunk["document_id"] for chunk in reply["context"]["chunks"]]
    assert {"m0006", "m0010"} <= set(found[:8])
    pieces = [json.loads(line[6:]) for line in streamed.text.splitlines() if line[6:7] == "{"]
    content = "".join(p["choices"][0]["delta"].get("content", "") for p in pieces if p["choices"])
    assert len(read_extraction(content).entities) >= len(some[0]["entities"]) - 2
    assert refused.status_code == 404
    assert refused.json()["error"]["code"] == "not_recorded"


async def test_vectors_are_those_of_the_built_in_encoder() -> None:
    text = "Marley was dead: to begin with."
    embedder = LocalEmbedder()
    [own] = (await embedder.embed([text], purpose="document")).vectors
    await embedder.close()
    with replaying([]) as url:
        async with httpx.AsyncClient(base_url=url) as client:
            for form in ("float", "base64"):
                body = {"model": "any", "input": text, "encoding_format": form}
                reply = await client.post("/v1/embeddings", json=body)
                vector = reply.json()["data"][0]["embedding"]
                if form == "base64":
                    vector = struct.unpack(f"<{len(own)}f", base64.b64decode(vector))
                assert list(vector) == pytest.approx(list(own), abs=1e-6)
