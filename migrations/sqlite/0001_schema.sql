-- Every table holds all workspaces; `workspace` leads every key.
-- Evidence rows refer to entities, relations and chunks by integer, which halves their size.

-- --- documents and jobs ------------------------------------------------------------------------

create table documents (
    workspace text not null,
    id text not null,
    version integer not null default 0,
    live text,      -- JSON of the visible revision
    pending text,   -- JSON of the coming one
    job_id text not null,
    chunks integer not null default 0,
    warnings text not null default '[]',
    llm_calls integer not null default 0,
    prompt_tokens integer not null default 0,
    completion_tokens integer not null default 0,
    cost real not null default 0,
    created_at real not null,
    updated_at real not null,
    live_source text generated always as (json_extract(live, '$.source')) virtual,
    live_text text generated always as (json_extract(live, '$.text')) virtual,
    pending_source text generated always as (json_extract(pending, '$.source')) virtual,
    pending_text text generated always as (json_extract(pending, '$.text')) virtual,
    primary key (workspace, id)
) without rowid;

create index documents_by_live_source on documents (live_source);
create index documents_by_live_text on documents (live_text);
create index documents_by_pending_source on documents (pending_source);
create index documents_by_pending_text on documents (pending_text);

-- What filters look at: metadata (one row per element of a list) and the reserved names.
create table fields (
    workspace text not null,
    document_id text not null,
    live integer not null,
    name text not null,
    kind text not null,  -- text | number | bool
    value not null,
    primary key (workspace, document_id, live, name, kind, value)
) without rowid;

create index fields_by_value on fields (workspace, name, kind, value, live, document_id);

create table jobs (
    seq integer primary key autoincrement,
    id text not null unique,
    workspace text not null,
    plan text not null,
    document_id text not null,
    latest integer not null,  -- 1: the document's status is this job's
    state text not null,
    status text not null,
    stage text not null,
    done integer not null default 0,
    total integer not null default 0,
    attempts integer not null default 0,
    error text,
    created_at real not null,
    updated_at real not null
);

create index jobs_by_workspace on jobs (workspace, seq);
create index jobs_by_state on jobs (workspace, state, seq);
create index jobs_by_document on jobs (workspace, document_id, seq);
create index jobs_by_status on jobs (workspace, status, document_id) where latest = 1;

create table steps (
    id text primary key,
    job_id text not null references jobs (id),
    stage text not null,
    shard text not null,
    claims integer not null default 0,  -- all; fences writes of earlier ones
    tries integer not null default 0,   -- those that count against the limit
    leased integer not null default 0,
    ready_at real not null,             -- may be claimed from then on
    overdue_at real not null            -- is to be sent again from then on
) without rowid;

create index steps_by_job on steps (job_id);
create index steps_by_overdue on steps (overdue_at);

-- --- evidence ----------------------------------------------------------------------------------

create table chunks (
    seq integer primary key autoincrement,
    workspace text not null,
    id text not null,
    document_id text not null,
    job_id text not null,  -- of the revision that put it last
    position integer not null,
    span_start integer not null,
    span_end integer not null,
    page integer,
    page_end integer,
    headings text not null,
    text text not null,
    tokens integer not null,
    extraction_key text not null,
    extraction text,
    failed integer not null default 0,   -- the extraction is an error
    live integer not null default 0,     -- visible
    folded integer not null default 0,   -- its evidence is that of this extraction
    gone integer not null default 0,     -- tombstone
    indexed integer not null default 0,
    unique (workspace, id)
);

create index chunks_by_document on chunks (workspace, document_id, position);
create index chunks_by_extraction on chunks (workspace, extraction_key)
    where extraction is not null and failed = 0;
create index chunks_unindexed on chunks (workspace, document_id, id)
    where gone = 1 or (live = 1 and indexed = 0);

create table entities (
    seq integer primary key autoincrement,
    workspace text not null,
    key text not null,
    name text not null default '',
    kind text not null default '',
    aliases text not null default '[]',   -- shown ones
    words text not null default '',       -- case-folded name and aliases, for search
    names_tally text not null default '{}',
    kinds_tally text not null default '{}',
    aliases_tally text not null default '{}',
    mentions integer not null default 0,
    described integer not null default 0, -- mentions with a description
    abouts integer not null default 0,    -- chunks about it
    degree integer not null default 0,
    profile text not null default '',
    covered integer not null default 0,
    revision integer not null default 0,
    evidenced integer not null default 0, -- revision that last changed its evidence
    shrunk integer not null default 0,    -- revision that last lost evidence
    profiled integer not null default 0,
    indexed integer not null default 0,
    digest text not null default '',
    unique (workspace, key)
);

create index entities_by_mentions on entities (workspace, mentions desc, key, words)
    where mentions > 0;
create index entities_unprofiled on entities (workspace, key)
    where mentions > 0 and profiled < revision;
create index entities_unindexed on entities (workspace, key)
    where mentions = 0 or indexed < profiled;

create table relations (
    seq integer primary key autoincrement,
    workspace text not null,
    key text not null,
    source integer not null,  -- entities.seq, in the order of their keys
    target integer not null,
    renamed integer not null default 0,   -- revision that last changed the name of an end
    keywords text not null default '[]',
    keywords_tally text not null default '{}',
    weight integer not null default 0,    -- thousandths, so that sums leave no dust
    mentions integer not null default 0,
    described integer not null default 0,
    profile text not null default '',
    covered integer not null default 0,
    revision integer not null default 0,
    evidenced integer not null default 0,
    shrunk integer not null default 0,
    profiled integer not null default 0,
    indexed integer not null default 0,
    digest text not null default '',
    unique (workspace, key)
);

create index relations_by_source on relations (source, weight desc, key) where mentions > 0;
create index relations_by_target on relations (target, weight desc, key) where mentions > 0;
create index relations_unprofiled on relations (workspace, key)
    where mentions > 0 and profiled < revision;
create index relations_unindexed on relations (workspace, key)
    where mentions = 0 or indexed < profiled;
create index relations_renamed_by_source on relations (source)
    where mentions > 0 and indexed < renamed;
create index relations_renamed_by_target on relations (target)
    where mentions > 0 and indexed < renamed;

create table mentions (
    entity integer not null,
    chunk_id text not null,
    chunk integer not null,
    document_id text not null,
    name text not null,
    kind text not null,
    description text not null,
    aliases text not null,
    alias_keys text not null,
    about integer not null,
    primary key (entity, chunk_id)
) without rowid;

create index mentions_by_chunk on mentions (chunk, entity);
create index mentions_described on mentions (entity, chunk_id) where description <> '';
create index mentions_about on mentions (entity, chunk_id) where about = 1;

create table assertions (
    relation integer not null,
    chunk_id text not null,
    chunk integer not null,
    document_id text not null,
    source text not null,  -- entity keys as directed
    target text not null,
    description text not null,
    keywords text not null,
    strength integer not null,  -- thousandths
    primary key (relation, chunk_id)
) without rowid;

create index assertions_by_chunk on assertions (chunk, relation);
create index assertions_described on assertions (relation, chunk_id) where description <> '';

create table aliases (
    workspace text not null,
    key text not null,
    entity integer not null,
    count integer not null,
    primary key (workspace, key, entity)
) without rowid;

-- What `stats` answers, kept by the fold, since counting rows would grow with what is stored.
create table totals (
    workspace text primary key,
    documents integer not null default 0,
    chunks integer not null default 0,
    entities integer not null default 0,
    relations integer not null default 0
) without rowid;

-- --- API keys ----------------------------------------------------------------------------------

create table keys (
    id text primary key,
    digest text not null unique,
    scope text not null,
    workspaces text not null,
    label text not null,
    created_at real not null
) without rowid;
