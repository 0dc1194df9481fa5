-- What it takes to bring a document back to its visible revision.

-- 1: the visible revision has the chunk. Other visible ones are seen ahead of their revision, or
-- are what an earlier one left.
alter table chunks add column published integer not null default 0;

-- What a coming revision changed of a published chunk, as JSON, until it is published itself.
alter table chunks add column before text;

-- 1: was visible and is not, but is no tombstone either: what it says was paid for and may be
-- needed again. Its point is to be deleted.
alter table chunks add column ghost integer not null default 0;

drop index chunks_unindexed;
create index chunks_unindexed on chunks (workspace, document_id, id)
    where gone = 1 or ghost = 1 or (live = 1 and indexed = 0);

-- Warnings of the visible revision, while those of a coming one are collected.
alter table documents add column warnings_before text;

update chunks set published = 1 where live = 1 and exists (
    select 1 from documents d
    where d.workspace = chunks.workspace and d.id = chunks.document_id and d.live is not null);
