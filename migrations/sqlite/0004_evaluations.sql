-- Evaluations and what they have measured so far. An evaluation has the id of its job.

create table evaluations (
    id text primary key,
    workspace text not null,
    name text not null,
    request text not null,              -- JSON of what is to be measured
    total integer not null,             -- outcomes that there will be
    result text not null default '',    -- JSON, once all is measured
    created_at real not null
) without rowid;

create index evaluations_by_workspace on evaluations (workspace, created_at, id);

create table outcomes (
    evaluation text not null references evaluations (id) on delete cascade,
    key text not null,
    line text not null,
    primary key (evaluation, key)
) without rowid;
