-- Names and which entity each of them means. Evidence from before counts again with `rebuild`.

-- The names under which a mention knows its entity, as `app.folding.surfaces_json` writes them.
alter table mentions add column surfaces text not null default '[]';

create table names (
    workspace text not null,
    key text not null,
    tally text not null default '{}',
    mentions integer not null default 0,
    facts text not null default '',        -- all that decisions depend on; '' when gone
    revision integer not null default 0,   -- counts changes of the facts
    settled integer not null default 0,    -- the revision that the decisions are from
    blocks text not null default '[]',     -- under which it was posted then
    primary key (workspace, key)
) without rowid;

create index names_open on names (workspace, key) where settled < revision;

create table blocks (
    workspace text not null,
    block text not null,
    name text not null,
    primary key (workspace, block, name)
) without rowid;

create table pairs (
    workspace text not null,
    one text not null,
    other text not null,
    relation text not null,
    base real not null,
    score real not null,
    veto text not null,
    features text not null,
    leaf text not null,
    decision text not null,  -- merge | ask | apart
    tie text not null default '',  -- has | lacks a passage that names both, where it decides
    primary key (workspace, one, other)
) without rowid;

create index pairs_by_other on pairs (workspace, other, one);
create index pairs_tied on pairs (workspace, tie, one, other) where tie <> '';
create index pairs_by_score on pairs (workspace, decision, score desc, one, other);

create table rulings (
    workspace text not null,
    one text not null,
    other text not null,
    author text not null,  -- user | model
    same integer not null,
    note text not null,
    at real not null,
    primary key (workspace, one, other, author)
) without rowid;

create index rulings_by_other on rulings (workspace, other, one);

create table placements (
    workspace text not null,
    key text not null,
    scope text not null,
    entity text not null,
    name text not null,
    by_hand integer not null,
    primary key (workspace, key, scope)
) without rowid;

create index placements_by_entity on placements (workspace, entity, key) where scope = '';
create index placements_by_hand on placements (workspace, key, scope) where by_hand = 1;
create index placements_by_scope on placements (workspace, scope) where by_hand = 1;

-- Evidence that is to follow placements: mentions that `entity` has under the name, or all of a
-- document. `after` is the last chunk done.
create table moves (
    seq integer primary key autoincrement,
    workspace text not null,
    name text not null,
    entity text not null,
    document_id text not null,
    after text not null default '',
    unique (workspace, document_id, name, entity)
);

create index moves_in_order on moves (workspace, seq);

-- Jobs that moved evidence, until profiles and vectors have followed.
create table moved (
    workspace text not null,
    job_id text not null,
    primary key (workspace, job_id)
) without rowid;

create table settlements (
    workspace text primary key,
    version integer not null
) without rowid;
